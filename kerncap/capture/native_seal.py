"""What sealing adds for a launch that a native shim captured: its image and its arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from kerncap import env, log
from kerncap.capture import images, languages, native_arguments
from kerncap.capture.images import amdgpu
from kerncap.capture.kernel_spellings import short_name
from kerncap.capture.payloads import LaunchRecord
from kerncap.capture.process_log import ProcessLog
from kerncap.capture.source.wanted_source import SourceRequest
from kerncap.errors import CaptureError
from kerncap.format import device_calls, schema
from kerncap.format.code_object import CodeObject, KernelMetadata
from kerncap.format.elf import Elf, ElfProblem

MAX_IMAGE_READ = 2 << 30
MAX_FATBIN_STORED = 64 << 20  # a library's may have hundreds of MB for every architecture there is
MAX_PTX_STORED = 64 << 20
_STAGES = {"elf": "cubin", "ptx": "ptx", "fatbin": "fatbin"}
_HIP_STAGES = {"elf": "hsaco"}


@dataclass(frozen=True)
class Image:
    """A launch's image taken apart: ``stages`` as they go into the reproducer, facts, what to note."""

    stages: tuple[tuple[str, bytes], ...] = ()
    cubin: bytes | None = None
    ptx: bytes | None = None
    hsaco: bytes | None = None
    metadata: KernelMetadata | None = None  # of the kernel in it
    facts: dict[str, schema.Value] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def with_short_name(launch: LaunchRecord) -> LaunchRecord:
    """The launch under the name that its folder gets: the last component, without template arguments."""
    kernel = launch.kernel
    mangled = kernel.mangled or kernel.name
    name = short_name(mangled, kernel.qualified_name)
    return msgspec.structs.replace(launch, kernel=msgspec.structs.replace(kernel, name=name, mangled=mangled))


def with_arguments(
    launch: LaunchRecord, image: Image, declared: Sequence[languages.Parameter]
) -> LaunchRecord:
    """The launch with arguments and views; the layout out of the image if the driver could not give it.

    ``declared`` is how the source has them.
    """
    parameters = launch.parameters
    if parameters is not None and parameters.layout is None and image.metadata is not None:
        return _with_metadata(launch, parameters, image.metadata, declared)
    if parameters is not None and parameters.layout is None and image.cubin is not None:
        layout = _layout_in(image.cubin, launch)
        if layout is not None:
            parameters = msgspec.structs.replace(parameters, layout=layout)
            launch = msgspec.structs.replace(launch, parameters=parameters)
    arguments, views = native_arguments.describe(launch, declared=declared)
    return msgspec.structs.replace(launch, arguments=arguments, views=views)


def read_image(process: ProcessLog, launch: LaunchRecord) -> Image:
    """The launch's image out of the session; what can't be read is a note, not a lost launch."""
    record = launch.image
    if launch.closure.not_held:
        return Image()  # nothing runs it, and a communication library's is large
    if record is None or record.file is None:
        return Image(notes=("The kernel's image is not in here: kerncap did not see it being loaded.",))
    facts: dict[str, schema.Value] = {"image_kind": schema.StrValue(value=record.kind)}
    if record.origin:
        facts["image_origin"] = schema.StrValue(value=env.hide_home(record.origin))
    if record.mapped_from:
        facts["image_mapped_from"] = schema.StrValue(value=env.hide_home(record.mapped_from))
    try:
        data = process.read_file(record.file, MAX_IMAGE_READ)
    except CaptureError as error:
        return Image(facts=facts, notes=(log.one_line(f"The kernel's image is not in here: {error}"),))
    notes: list[str] = []
    stages = {}
    if record.kind not in ("elf", "ptx") and len(data) <= MAX_FATBIN_STORED:
        stages[_STAGES.get(record.kind, "image")] = data
    try:
        chosen = images.choose(data, launch.device.arch, launch.kernel.mangled)
    except images.ImageProblem as error:
        chosen = images.Chosen()
        notes.append(log.one_line(f"The kernel's image could not be parsed: {error}"))
        if len(data) <= MAX_FATBIN_STORED:
            known = _HIP_STAGES if launch.device.kind == "hip" else _STAGES
            stages[known.get(record.kind, "image")] = data
    if chosen.cubin is not None:
        stages["cubin"] = chosen.cubin
        facts["cubin_arch"] = schema.StrValue(value=chosen.cubin_arch or "")
    metadata = None
    if chosen.hsaco is not None:
        stages["hsaco"] = chosen.hsaco
        metadata = _metadata(chosen.hsaco, launch, facts, notes)
    if chosen.ptx is not None and len(chosen.ptx) <= MAX_PTX_STORED:
        stages["ptx"] = chosen.ptx
    if len(data) > MAX_FATBIN_STORED and not notes:
        notes.append(f"Of an image of {log.size(len(data))} only what this device runs is in here.")
    return Image(tuple(stages.items()), chosen.cubin, chosen.ptx, chosen.hsaco, metadata, facts, tuple(notes))


def uses_heap(image: Image) -> bool:
    """Whether the module calls the device's malloc, so that a launch may reach what no closure has."""
    try:
        if image.cubin is not None:
            return device_calls.of_elf(Elf(image.cubin)).heap
    except ElfProblem:
        return False
    text = (image.ptx or b"").decode(errors="replace")
    return device_calls.of_ptx(device_calls.without_comments(text)).heap


def source_request(
    launch: LaunchRecord, image: Image, process: ProcessLog, source_dirs: tuple[Path, ...]
) -> SourceRequest:
    """What the languages are asked for the launch's source."""
    record = launch.image
    ran = process.process
    return SourceRequest(
        mangled=launch.kernel.mangled or launch.kernel.name,
        demangled=launch.kernel.qualified_name,
        kind=record.kind if record is not None else "unknown",
        origin=record.origin if record is not None else "",
        mapped_from=record.mapped_from if record is not None else None,
        cubin=image.cubin,
        ptx=image.ptx.decode("utf-8", "replace") if image.ptx is not None else None,
        hsaco=image.hsaco,
        program=process.folder / launch.program if launch.program is not None else None,
        session=process.folder.parent,
        python_stack=launch.python_stack,
        cwd=Path(ran.cwd) if ran is not None and ran.cwd else None,
        argv=ran.argv if ran is not None else (),
        executable=ran.executable if ran is not None else None,
        source_dirs=source_dirs,
        arch=launch.device.arch,
    )


def _with_metadata(
    launch: LaunchRecord,
    parameters: schema.Parameters,
    kernel: KernelMetadata,
    declared: Sequence[languages.Parameter],
) -> LaunchRecord:
    """The launch on an AMD GPU with its arguments, as the code object's metadata tells them apart."""
    layout = amdgpu.layout(kernel)
    if layout and sum(layout[-1]) > len(parameters.bytes) // 2:
        return launch  # not what this launch passed
    parameters = msgspec.structs.replace(parameters, layout=layout)
    launch = msgspec.structs.replace(launch, parameters=parameters)
    arguments, views = native_arguments.describe(launch, amdgpu.parameters(kernel), declared)
    return msgspec.structs.replace(launch, arguments=arguments, views=views)


def _metadata(
    hsaco: bytes, launch: LaunchRecord, facts: dict[str, schema.Value], notes: list[str]
) -> KernelMetadata | None:
    """The kernel's metadata; what a code object lacks is a note."""
    try:
        found: CodeObject = amdgpu.read(hsaco)
    except images.ImageProblem as error:
        notes.append(log.one_line(f"The code object could not be read: {error}"))
        return None
    kernel = found.kernel(launch.kernel.mangled or launch.kernel.name)
    facts.update(amdgpu.facts(found, kernel))
    if kernel is None:
        notes.append(
            "The code object's metadata has no kernel of this name: its arguments can't be separated."
        )
    return kernel


def _layout_in(cubin: bytes, launch: LaunchRecord) -> tuple[tuple[int, int], ...] | None:
    try:
        layout = images.Cubin(cubin).layout(launch.kernel.mangled or launch.kernel.name)
    except images.ImageProblem:
        return None
    end, size = 0, len(launch.parameters.bytes) // 2 if launch.parameters is not None else 0
    for offset, length in layout or ():
        if offset < end or offset + length > size:
            return None  # not what this launch passed
        end = offset + length
    return layout
