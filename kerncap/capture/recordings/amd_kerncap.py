"""The folder of AMD's kerncap (intellikit): a HIP dispatch with all memory, or a Triton launch's tensors.

Source: intellikit, kerncap/src/replay.cpp, kerncap.hip and kerncap/triton_capture.py, 2026-05.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from kerncap.capture import native_arguments
from kerncap.capture.images import amdgpu
from kerncap.capture.images.problem import ImageProblem
from kerncap.capture.kernel_spellings import short_name
from kerncap.capture.payloads import KernelName, LaunchRecord
from kerncap.capture.recordings.recorded import (
    MAX_JSON_BYTES,
    Bytes,
    Folder,
    Lacking,
    Recorded,
    check_total,
    grid_of,
    number,
    numbers,
)
from kerncap.capture.recordings.tritonparse import constexprs
from kerncap.capture.source import python_source
from kerncap.format import schema
from kerncap.format.size_limits import MAX_FILE_BYTES
from kerncap.log import one_line
from kerncap.regular_file import read_regular

TOOL = "AMD's kerncap"
MAX_KERNARG_BYTES = 65_536
MAX_SOURCE_BYTES = 4 << 20
_NUMPY = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2,
          "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e4m3fnuz": 1, "float8_e5m2": 1,
          "float8_e5m2fnuz": 1}  # fmt: skip


def folder_of(path: Path) -> Path | None:
    """The captured data, which is in ``capture`` of a project; None if it is something else."""
    for each in (path, path / "capture"):
        if (each / "dispatch.json").is_file():
            return each
        facts = each / "metadata.json"
        if facts.is_file() and b'"triton"' in read_regular(facts, MAX_JSON_BYTES):
            return each
    return None


def read(path: Path, found: Path, max_bytes: int | None) -> Recorded:
    """The launch. Raises Lacking, UsageError."""
    folder = Folder(found)
    if folder.has("dispatch.json"):
        return _dispatch(folder, max_bytes)
    return _triton(folder, Folder(path), max_bytes)


# --- a dispatch of HIP -----------------------------------------------------------------------------------


def _dispatch(folder: Folder, max_bytes: int | None) -> Recorded:
    given = folder.document("dispatch.json")
    mangled = str(given.get("mangled_name", "")).removesuffix(".kd")
    if not folder.has("kernel.hsaco"):
        raise Lacking("it has no kernel.hsaco: the tool did not see the code object being loaded")
    if not folder.has("memory_regions.json"):
        raise Lacking("it has no memory_regions.json: capture again without KERNCAP_DISABLE_SNAPSHOT")
    image = folder.read("kernel.hsaco", MAX_FILE_BYTES)
    try:
        code = amdgpu.read(image)
    except ImageProblem as error:
        raise Lacking(f"kernel.hsaco: {error}") from error
    kernel = code.kernel(mangled)
    if kernel is None:
        raise Lacking(f"kernel.hsaco has no kernel {one_line(mangled)[:200]}")
    kernarg = folder.read("kernarg.bin", MAX_KERNARG_BYTES)[: kernel.kernarg_segment_size]
    items, block = grid_of(given.get("grid")), grid_of(given.get("block"))
    regions, memory = _regions(folder, max_bytes)
    variables, contents = _variables(folder)
    layout = amdgpu.layout(kernel)
    length = max((offset + size for offset, size in layout), default=0)
    if length > len(kernarg):
        raise Lacking(f"kernarg.bin has {len(kernarg)} bytes of {length}")
    target = str(given.get("isa_name") or code.target or "").rpartition("--")[2] or code.target or ""
    agent = str(given.get("agent_name", ""))[:4096]
    launch = LaunchRecord(
        launch=0, mode="native", ordinal=number(given.get("dispatch_index", 0), "its number", (1 << 31) - 1),
        grid=tuple(-(-count // size) for count, size in zip(items, block, strict=True)),  # type: ignore[arg-type]
        block=block, shared_bytes=0,
        dispatch=schema.Dispatch(
            work_items=items,
            group_bytes=number(given.get("group_segment_size", 0), "its LDS", (1 << 32) - 1),
            private_bytes=number(given.get("private_segment_size", 0), "its scratch", (1 << 32) - 1),
        ),
        kernel=KernelName(
            name=short_name(mangled, str(given.get("demangled_name") or mangled)),
            qualified_name=str(given.get("demangled_name") or mangled)[: 256 * 1024], mangled=mangled,
        ),
        device=schema.Device(kind="hip", name=agent or "unknown", arch=target[:64]),
        parameters=schema.Parameters(bytes=kernarg[:length].hex(), layout=layout),
        regions=(*regions, *variables),
        closure=schema.Closure(
            mode="all", consistency="cooperative",
            included_bytes=sum(each.size for each in (*regions, *variables)),
        ),
    )  # fmt: skip
    arguments, views = native_arguments.describe(launch, hints=amdgpu.parameters(kernel))
    launch = msgspec.structs.replace(launch, arguments=arguments, views=views)
    return Recorded(
        launch, [*memory, *contents], TOOL, {"hsaco": image}, compiled=amdgpu.facts(code, kernel),
        notes=("static variables of the code object that it does not export are as the image has them",),
    )  # fmt: skip


def _regions(folder: Folder, max_bytes: int | None) -> tuple[list[schema.Region], list[Path]]:
    rows = folder.document("memory_regions.json").get("regions")
    if (
        not isinstance(rows, list)
        or len(rows) > schema.MAX_LIST
        or not all(isinstance(each, dict) for each in rows)
    ):
        raise Lacking("memory_regions.json has no list of regions")
    regions: list[schema.Region] = []
    memory = []
    for row in sorted(rows, key=lambda each: str(each.get("base")).zfill(20)):
        base = number(row.get("base"), "an address")
        size = number(row.get("size"), "a size", 1 << 48)
        name = f"memory/region_{base:x}.bin"
        if not size:
            continue
        if not folder.has(name):
            raise Lacking(f"{name} is missing: the tool could not copy that memory")
        found = folder.path(name)
        if found.stat().st_size != size:
            raise Lacking(f"{name} has {found.stat().st_size:,} bytes, not {size:,}")
        if regions and regions[-1].base + regions[-1].size > base:
            raise Lacking(f"the regions at {regions[-1].base:#x} and {base:#x} overlap")
        regions.append(
            schema.Region(base=base, size=size, kind="device", reason="all device memory was captured")
        )
        memory.append(found)
    check_total([each.size for each in regions], max_bytes)
    return regions, memory


def _variables(folder: Folder) -> tuple[list[schema.Region], list[Bytes]]:
    """Variables of the code object: their contents, and an address if it was recorded."""
    if not folder.has("module_variables.json"):
        return [], []
    rows = folder.document("module_variables.json").get("variables")
    if not isinstance(rows, list) or len(rows) > schema.MAX_MAP:
        raise Lacking("module_variables.json has no list of variables")
    regions, contents = [], []
    for row in rows:
        name, blob = (str(row.get(key, "")) if isinstance(row, dict) else "" for key in ("name", "blob"))
        if not name or not blob:
            continue
        data = np.frombuffer(folder.read(blob, MAX_FILE_BYTES), np.uint8)
        base = number(row.get("address", row.get("addr")), f"the address of {one_line(name)[:100]}")
        regions.append(
            schema.Region(
                base=base, size=len(data), kind="global", name=name[:4096], reason="a variable of the module"
            )
        )
        contents.append(data)
    return regions, contents


# --- a launch of Triton ----------------------------------------------------------------------------------


def _triton(folder: Folder, project: Folder, max_bytes: int | None) -> Recorded:
    given = folder.document("metadata.json")
    name = str(given.get("kernel_name", ""))
    if given.get("language") != "triton" or not isinstance(given.get("args"), list):
        raise Lacking("metadata.json is not of a Triton launch")
    source, entry, original = _source(project, name)
    grid = given.get("grid")
    axes = [grid.get(axis) for axis in "xyz"] if isinstance(grid, dict) else None
    regions: list[schema.Region] = []
    memory: list[Bytes] = []
    after: dict[int, Bytes] = {}
    views: list[schema.View] = []
    arguments: list[schema.Argument] = []
    pinned = given.get("autotune_config") if isinstance(given.get("autotune_config"), dict) else {}
    for row in given["args"][:4096]:
        argument = str(row.get("name", "")) if isinstance(row, dict) else ""
        if not argument:
            raise Lacking("an argument has no name")
        is_constexpr = bool(row.get("is_autotune_config")) or argument in constexprs(source, entry)
        if row.get("is_pointer"):
            value = _tensor(folder, row, argument, max_bytes, regions, memory, after, views)
        else:
            chosen = pinned.get("kwargs", {}) if isinstance(pinned, dict) else {}
            value = _scalar(argument, chosen.get(argument, row.get("value")), row.get("type"))
        arguments.append(
            schema.Argument(
                name=argument[:4096], role="constexpr" if is_constexpr else "runtime", value=value
            )
        )
    check_total([each.size for each in regions], max_bytes)
    options: dict[str, schema.Value] = {
        option: schema.IntValue(value=str(pinned[option]))
        for option in ("num_warps", "num_stages", "num_ctas")
        if isinstance(pinned, dict) and isinstance(pinned.get(option), int)
    }
    launch = LaunchRecord(
        launch=0, mode="jit", ordinal=0, grid=grid_of(axes),
        kernel=KernelName(name=name, qualified_name=name, file=original),
        device=schema.Device(kind="hip", name="unknown"),
        regions=tuple(regions), views=tuple(views), arguments=tuple(arguments), options=options,
        closure=schema.Closure(
            mode="args", consistency="cooperative", included_bytes=sum(each.size for each in regions)
        ),
    )  # fmt: skip
    notes = ("addresses were not recorded: tensors have new ones, and none shares memory with another",)
    return Recorded(launch, memory, TOOL, source=source, original_file=original, expected=after, notes=notes)


def _source(project: Folder, name: str) -> tuple[str, str, str | None]:
    files = [each for each in sorted(project.root.glob("*.py")) if each.name != "reproducer.py"]
    for file in files[:256]:
        text = project.read(file.name, MAX_SOURCE_BYTES).decode("utf-8", "replace")
        found = python_source.only(text, name)
        if found is not None:
            made = python_source.standalone(found, file.name)
            if isinstance(made, str):
                raise Lacking(made)
            return made.text, made.entry, file.name
    raise Lacking(
        f"no .py file next to the captured data defines {one_line(name)[:100]}; give the project that "
        "`kerncap extract` made, or capture it with --source-dir"
    )


def _tensor(
    folder: Folder, row: dict[str, Any], name: str, max_bytes: int | None,
    regions: list[schema.Region], memory: list[Bytes], after: dict[int, Bytes], views: list[schema.View],
) -> schema.Value:  # fmt: skip
    dtype = str(row.get("torch_dtype", "")).removeprefix("torch.")
    itemsize = _NUMPY.get(dtype, 0)
    shape, strides = (
        numbers(row.get("shape"), f"{name}'s shape"),
        numbers(row.get("strides"), f"{name}'s strides"),
    )
    offset = number(row.get("storage_offset", 0), f"{name}'s offset", 1 << 48)
    if not itemsize or len(shape) != len(strides):
        raise Lacking(f"{name} is of {one_line(dtype)[:40]}, or its strides do not fit its shape")
    storage = np.frombuffer(folder.read(str(row.get("file")), max_bytes or 1 << 40), np.uint8)
    last = 0 if 0 in shape else offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    if last * itemsize > len(storage):
        raise Lacking(f"{name} reaches past its {len(storage):,} bytes")
    base = (regions[-1].base + regions[-1].size + 0x1000 if regions else 0x7000_0000_0000) // 0x1000 * 0x1000
    number_ = len(regions)
    regions.append(
        schema.Region(base=base, size=len(storage), kind="device", reason=f"argument {name}"[:4096])
    )
    memory.append(storage)
    reference = str(row.get("ref_output_file", ""))
    if reference and 0 not in shape and folder.has(reference):
        result = np.frombuffer(folder.read(reference, max_bytes or 1 << 40), np.uint8)
        if len(result) != int(np.prod(shape)) * itemsize:
            raise Lacking(f"{reference} has {len(result):,} bytes, which is not {name}'s size")
        changed = storage.copy()
        bytes_ = (*(stride * itemsize for stride in strides), 1)
        place = np.lib.stride_tricks.as_strided(changed[offset * itemsize :], (*shape, itemsize), bytes_)
        place[...] = result.reshape(*shape, itemsize)
        after[number_] = changed
    views.append(
        schema.View(
            region=number_, offset=offset * itemsize, dtype=dtype, itemsize=itemsize, shape=shape,
            strides=strides, name=name[:4096],
        )
    )  # fmt: skip
    return schema.TensorValue(view=len(views) - 1)


def _scalar(name: str, value: object, kind: object) -> schema.Value:
    if value is None or isinstance(value, int | float) or (isinstance(value, str) and kind == "str"):
        return schema.scalar_value(value)
    if isinstance(value, str) and kind == "dtype" and re.fullmatch(r"[a-z0-9]{1,32}", value):
        return schema.DtypeValue(name=value, library="triton")
    raise Lacking(
        f"argument {one_line(name)[:100]} is a {one_line(str(kind))[:100]}, which the folder only names"
    )
