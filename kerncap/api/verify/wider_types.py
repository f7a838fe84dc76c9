"""The same Triton source in wider types: the reference of the numerics stage, if one can be derived.

Floating-point tensors become float64, and so do the types that the source names. What a source does with the
bits or the width of a type can't follow: it is named, and there is no reference.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec

from kerncap.api.verify.derived_launch import NotDerivable, derive
from kerncap.format import Reproducer, schema
from kerncap.replay.write_set_units import extent

_NARROW = frozenset({"float16", "bfloat16", "float32"})
WIDE = dict.fromkeys(_NARROW, ("float64", 8))
_SHORT = {"fp16": "fp64", "bf16": "fp64", "fp32": "fp64"}
# What means another thing in another width, with why.
_BOUND = {
    "bitcast": "it looks at the bits of a number",
    "inline_asm_elementwise": "it has inline assembly",
    "dot_scaled": "it multiplies scaled 8-bit floats",
    "libdevice": "it calls libdevice, whose functions are of one width",
    "rand": "it draws random numbers", "randn": "it draws random numbers",
    "rand4x": "it draws random numbers", "randn4x": "it draws random numbers",
    "sqrt_rn": "it calls sqrt_rn, which is float32's", "div_rn": "it calls div_rn, which is float32's",
    "fp_downcast_rounding": "it chooses how to round to a narrower type",
    "primitive_bitwidth": "it depends on the width of a type",
    "atomic_cas": "it exchanges bits atomically",
}  # fmt: skip
_SUMS = frozenset({
    "sum", "dot", "reduce", "cumsum", "cumprod", "associative_scan", "atomic_add", "softmax",
})  # fmt: skip


def derive_wide(reproducer: Reproducer, parent: Path) -> Path:
    """The derived launch. Raises NotDerivable with the reason."""
    text = reproducer.source_text()
    manifest = reproducer.manifest
    if text is None or manifest.kernel.language != "triton" or manifest.source is None:
        raise NotDerivable("there is no Triton source to run in wider types")
    dtypes = {view.dtype for view in manifest.views}
    if not dtypes & _NARROW:
        raise NotDerivable("no tensor is of float16, bfloat16 or float32")
    if eights := sorted(dtype for dtype in dtypes if dtype.startswith("float8")):
        raise NotDerivable(f"{eights[0]} tensors have no wider form that the source would take")
    for view in manifest.views:
        if view.dtype in _NARROW and any(
            other is not view and other.region == view.region and _overlap(other, view)
            for other in manifest.views
        ):
            raise NotDerivable(f"{view.name} shares its memory with another tensor")
    if any(isinstance(argument.value, schema.DescriptorValue) for argument in manifest.arguments):
        raise NotDerivable("a tensor descriptor is bound to its type")
    return derive(reproducer, parent, source=widened(text), convert=WIDE, arguments=_argument)


def widened(text: str) -> str:
    """A source with float64 where it names a narrower type. Raises NotDerivable."""
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise NotDerivable(f"the source can't be read: {error}") from error
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    edits: list[tuple[int, int, str]] = []
    for node in ast.walk(tree):
        for name in _names(node):
            if name in _BOUND:
                raise NotDerivable(f"line {getattr(node, 'lineno', '?')}: {_BOUND[name]}")
        if isinstance(node, ast.Attribute) and node.attr in _NARROW and node.end_col_offset is not None:
            end = starts[(node.end_lineno or node.lineno) - 1] + node.end_col_offset
            edits.append((end - len(node.attr), end, "float64"))
        if isinstance(node, ast.ImportFrom) and any(alias.name in _NARROW for alias in node.names):
            raise NotDerivable(f"line {node.lineno}: a type is imported by name")
    data = text.encode()
    for start, end, new in sorted(edits, reverse=True):
        data = data[:start] + new.encode() + data[end:]
    return data.decode()


def reduces(text: str) -> bool:
    """Whether a source adds anything up: by a reduction, an atomic, or `+=` in a loop."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _SUMS & set(_names(node.func)):
            return True
        if isinstance(node, ast.For | ast.While) and any(
            isinstance(inner, ast.AugAssign | ast.BinOp) for inner in ast.walk(node)
        ):
            return True
    return False


def multiplies_in_tf32(text: str) -> bool:
    """Whether a `dot` of float32 may round its inputs to TF32, which is what Triton does unless told."""
    return bool(re.search(r"\bdot\s*\(", text)) and "ieee" not in text


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Attribute):
        return [node.attr]
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.keyword):
        return [node.arg or ""]
    return []


def _argument(argument: schema.Argument) -> schema.Argument:
    """A type that is an argument, widened; a tensor is no float32 pointer any more."""
    value = argument.value
    if isinstance(value, schema.DtypeValue):
        for narrow in _NARROW:
            if value.name.endswith(narrow):
                name = value.name[: -len(narrow)] + "float64"
                return msgspec.structs.replace(argument, value=msgspec.structs.replace(value, name=name))
        if value.name in _SHORT:
            wide = msgspec.structs.replace(value, name=_SHORT[value.name])
            return msgspec.structs.replace(argument, value=wide)
    if isinstance(value, schema.TensorValue):
        if value.wrapped_dtype:
            raise NotDerivable(f"{argument.name} is reinterpreted as {value.wrapped_dtype}")
        return msgspec.structs.replace(argument, signature=None)
    return argument


def _overlap(a: schema.View, b: schema.View) -> bool:
    (start, stop), (first, last) = extent(a), extent(b)
    return start < last and first < stop
