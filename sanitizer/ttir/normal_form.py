"""One spelling for what the custom and the generic form of an operation say differently.

Enumerations are words (the generic form has their numbers), and optional operands are known by name.
Source: the definitions of Triton's and MLIR's dialects (TritonAttrDefs.td, ArithBase.td).
"""

from __future__ import annotations

import re

from kerncap.sanitizer.ttir.ir import Attribute, Operation, TensorType

_INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_FLOAT_PREDICATES = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip
_RMW = (None, "and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch")
_SEMANTICS = (None, "relaxed", "acquire", "release", "acq_rel")
_SCOPES = (None, "gpu", "cta", "sys")
_CACHES = (None, "none", "ca", "cg", "wb", "cs", "wt", "cv")
_EVICTIONS = (None, "evict_normal", "evict_first", "evict_last")
_PADDINGS = (None, "zero", "nan")
_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
_AXES = {"x": 0, "y": 1, "z": 2}
_POLICY = re.compile(r"(cache_modifier|eviction_policy)\s*=\s*(\w+)")
_POLICY_NAMES = {"cache_modifier": "cache", "eviction_policy": "evict"}
_ATOMIC_SEGMENTS = {
    "tt.atomic_rmw": ("ptr", "value", "mask"),
    "tt.atomic_cas": ("ptr", "cmp", "value"),
    "tt.atomic_load": ("ptr", "mask"),
    "tt.atomic_store": ("ptr", "value", "mask"),
    "tt.atomic_poll": ("ptr", "expected"),
}
_RENAMED = {"cacheModifier": "cache", "evictionPolicy": "evict"}


def _word(attributes: dict[str, Attribute], name: str, words: tuple[str | None, ...]) -> None:
    value = attributes.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(words) and words[value]:
        attributes[name] = words[value]


def _compare(operation: Operation) -> None:
    words = _INTEGER_PREDICATES if operation.name == "arith.cmpi" else _FLOAT_PREDICATES
    _word(operation.attributes, "predicate", words)


def _program(operation: Operation) -> None:
    axis = operation.attributes.get("axis")
    if isinstance(axis, str):
        operation.attributes["axis"] = _AXES.get(axis, axis)


def _overflow(operation: Operation) -> None:
    flags = operation.attributes.pop("overflowFlags", None)
    if isinstance(flags, str) and "<" in flags:  # #arith.overflow<nsw>
        operation.attributes["overflow"] = tuple(
            f.strip() for f in flags[flags.index("<") + 1 : -1].split(",")
        )


def _segments(operation: Operation, names: tuple[str, ...]) -> None:
    sizes = operation.attributes.get("operandSegmentSizes")
    segments: dict[str, int] = {}
    if isinstance(sizes, tuple) and all(isinstance(size, int) for size in sizes):
        position = 0
        for name, size in zip(names, sizes, strict=False):
            if size == 1:
                segments[name] = position
            position += size
    else:
        segments = {name: position for position, name in enumerate(names[: len(operation.operands)])}
    operation.attributes["operand_segments"] = {
        n: p for n, p in segments.items() if p < len(operation.operands)
    }


def _access(operation: Operation) -> None:
    attributes = operation.attributes
    for old, new in _RENAMED.items():
        if old in attributes:
            attributes[new] = attributes.pop(old)
    policy = attributes.get("cachePolicy")  # from 3.8 on: #tt.cache_policy<cache_modifier = cg, …>
    if isinstance(policy, str):
        for key, word in _POLICY.findall(policy):
            attributes[_POLICY_NAMES[key]] = word
    _word(attributes, "cache", _CACHES)
    _word(attributes, "evict", _EVICTIONS)
    _word(attributes, "padding", _PADDINGS)
    _segments(
        operation, ("ptr", "mask", "other") if operation.name == "tt.load" else ("ptr", "value", "mask")
    )


def _copy(operation: Operation) -> None:
    """``%ptr, %memory mask %mask other %other``; a mask and what is put in its place may be absent."""
    words = operation.attributes.get("words", ())
    if "operandSegmentSizes" in operation.attributes:
        return _segments(operation, ("ptr", "memory", "mask", "other"))
    names = ["ptr", "memory", *(word for word in ("mask", "other") if word in words)]
    operation.attributes["operand_segments"] = {name: position for position, name in enumerate(names)}


def _atomic(operation: Operation) -> None:
    attributes = operation.attributes
    if "atomic_rmw_op" in attributes:
        attributes["rmw_op"] = attributes.pop("atomic_rmw_op")
    _word(attributes, "rmw_op", _RMW)
    _word(attributes, "sem", _SEMANTICS)
    _word(attributes, "scope", _SCOPES)
    _segments(operation, _ATOMIC_SEGMENTS[operation.name])


def _dot(operation: Operation) -> None:
    operation.attributes.setdefault("inputPrecision", "ieee")
    _word(operation.attributes, "inputPrecision", _PRECISIONS)


def _dot_scaled(operation: Operation) -> None:
    """Segments "a", "b", "c" and, if they are present, "a_scale" and "b_scale"."""
    if "operandSegmentSizes" in operation.attributes:
        _segments(operation, ("a", "b", "c", "a_scale", "b_scale"))


def _descriptor_store(operation: Operation) -> None:
    """The generic form has the tile before the indices; the custom form's order is the documented one."""
    desc, *rest = operation.operands or (None,)
    if desc is not None and rest and isinstance(rest[0].type, TensorType) and len(rest) > 1:
        operation.operands = (desc, *rest[1:], rest[0])


def _reduce_kind(operation: Operation) -> None:
    _descriptor_store(operation)
    _word(operation.attributes, "kind", (None, "add", "min", "max", "inc", "dec", "and", "or", "xor"))


def _conditional(operation: Operation) -> None:
    # An absent else is a region without blocks in the generic form.
    while operation.regions and not operation.regions[-1].blocks:
        operation.regions = operation.regions[:-1]


_FORMS = {
    "arith.cmpi": _compare,
    "arith.cmpf": _compare,
    "arith.addi": _overflow,
    "arith.subi": _overflow,
    "arith.muli": _overflow,
    "arith.shli": _overflow,
    "arith.trunci": _overflow,
    "tt.get_program_id": _program,
    "tt.get_num_programs": _program,
    "tt.load": _access,
    "tt.store": _access,
    "ttg.async_copy_global_to_local": _copy,
    "tt.atomic_rmw": _atomic,
    "tt.atomic_cas": _atomic,
    "tt.atomic_load": _atomic,
    "tt.atomic_store": _atomic,
    "tt.atomic_poll": _atomic,
    "tt.dot": _dot,
    "tt.dot_scaled": _dot_scaled,
    "tt.descriptor_store": _descriptor_store,
    "tt.descriptor_reduce": _reduce_kind,
    "scf.if": _conditional,
}


def normalise(operation: Operation) -> None:
    """Bring one operation's attributes to the names that `ir.Operation` documents."""
    form = _FORMS.get(operation.name)
    if form is not None:
        form(operation)
