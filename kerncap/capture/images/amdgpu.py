"""What sealing and the shim's questions want to know of an AMDGPU code object."""

from __future__ import annotations

import re
from typing import Any

from kerncap.capture.images.amdgpu_instructions import has_images
from kerncap.capture.images.problem import ImageProblem
from kerncap.format import schema
from kerncap.format.code_object import CodeObject, CodeObjectProblem, KernelMetadata

MAX_HIDDEN_TEXT = 4096
IMAGES = (
    "its code reads or writes images (textures, surfaces), whose memory can't be captured on AMD GPUs; "
    "a variant that loads from ordinary memory can be"
)


def read(data: bytes | memoryview) -> CodeObject:
    """Raises ImageProblem for what is no whole code object."""
    try:
        return CodeObject(data)
    except CodeObjectProblem as error:
        raise ImageProblem(str(error)) from error


def globals_answer(data: bytes | memoryview, kernel: str | None) -> dict[str, Any]:
    """The shim's question after a kernel's state: which variables, which bytes of the kernarg segment.

    GCN code reaches its variables by offsets from its own address, which nothing tells from other numbers: so
    all variables of the object are named.
    """
    found = read(data)
    try:
        answer: dict[str, Any] = {
            "globals": [symbol.name for symbol in found.variables()],
            "statics": [[each.name, each.value, each.size] for each in found.static_variables()],
        }
    except CodeObjectProblem as error:
        raise ImageProblem(str(error)) from error
    metadata = found.kernel(kernel) if kernel else None
    if metadata is not None:
        answer["parameters"] = [[each.offset, each.size] for each in metadata.explicit]
        if has_images(found, metadata):
            answer["refusal"] = IMAGES
    return answer


def layout(kernel: KernelMetadata) -> tuple[tuple[int, int], ...]:
    """(offset, size) of each parameter of the kernel, hidden arguments left out."""
    return tuple((each.offset, each.size) for each in kernel.explicit)


def parameters(kernel: KernelMetadata) -> list[tuple[str | None, str | None]]:
    """The parameters' names (``x``, for what clang calls ``x.coerce``) and types (OpenCL's, and Triton's own)
    if the metadata has them."""
    found: dict[str, str | None] = {}
    for number, argument in enumerate(kernel.explicit):
        plain = argument.name.removesuffix(".coerce")
        known = re.fullmatch(r"[A-Za-z_]\w{0,255}", plain) is not None and plain not in found
        found[plain if known else f"{number}"] = argument.type_name[:4096] or None
    return [(None if name.isdigit() else name, type_) for name, type_ in found.items()]


def facts(found: CodeObject, kernel: KernelMetadata | None) -> dict[str, schema.Value]:
    """What the code object says of the kernel, for the manifest's ``compiled``."""
    made: dict[str, schema.Value] = {}
    if found.target:
        made["target"] = schema.StrValue(value=found.target[:4096])
    if kernel is None:
        return made
    numbers = {
        "vgprs": kernel.vgpr_count,
        "agprs": kernel.agpr_count,
        "sgprs": kernel.sgpr_count,
        "vgpr_spills": kernel.vgpr_spill_count,
        "sgpr_spills": kernel.sgpr_spill_count,
        "lds_bytes": kernel.group_segment_fixed_size,
        "scratch_bytes": kernel.private_segment_fixed_size,
        "wavefront_size": kernel.wavefront_size,
        "kernarg_bytes": kernel.kernarg_segment_size,
        "max_workgroup_size": kernel.max_flat_workgroup_size,
    }
    made.update({name: schema.IntValue(value=str(number)) for name, number in numbers.items()})
    hidden = ", ".join(f"{each.value_kind} at {each.offset} ({each.size} bytes)" for each in kernel.hidden)
    if hidden:
        made["hidden_arguments"] = schema.StrValue(value=hidden[:MAX_HIDDEN_TEXT])
    return made
