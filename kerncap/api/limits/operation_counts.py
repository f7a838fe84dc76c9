"""What one execution of a TTIR operation computes, by kind: the operations of the source, not of the machine.

The compiler may do fewer (a product and a sum become one instruction, constants are folded) and does more
(an exponential is several instructions); lanes that a mask switches off compute all the same.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping

from kerncap.sanitizer.concrete.values import element_of, shape_of
from kerncap.sanitizer.ttir.ir import Block, FloatType, Operation, Value, walk

Amounts = Iterator[tuple[str, int]]

_FLOPS = {"addf": 1, "subf": 1, "mulf": 1}
_COMPARISONS = frozenset(
    f"arith.{name}"
    for name in ("cmpf", "cmpi", "maxnumf", "minnumf", "maximumf", "minimumf", "negf", "select")
) | {"math.absf", "math.copysign", "tt.clampf", "math.isnan", "math.isinf", "math.isfinite"}
_ROUNDING = frozenset(f"math.{name}" for name in ("floor", "ceil", "trunc", "round", "roundeven"))
_CONVERSIONS = frozenset(
    (
        "arith.extf",
        "arith.truncf",
        "arith.sitofp",
        "arith.uitofp",
        "arith.fptosi",
        "arith.fptoui",
        "tt.fp_to_fp",
    )
)
_SPECIAL = frozenset(("arith.divf", "arith.remf", "tt.precise_divf", "tt.precise_sqrt"))
_SPECIAL_SYMBOLS = (
    "exp", "log", "sin", "cos", "tan", "sqrt", "cbrt", "pow", "erf", "div", "rcp", "gamma", "hypot", "norm",
    "fmod",
)  # fmt: skip
# How many products of which kind one of ``inputPrecision`` is made of, for operands of float32.
_PRECISIONS = {"tf32": ("tf32", 1), "tf32x3": ("tf32", 3), "bf16x3": ("bf16", 3), "bf16x6": ("bf16", 6)}
_SCALED = {"e2m1": "fp4", "e4m3": "fp8", "e5m2": "fp8", "bf16": "bf16", "fp16": "fp16"}


def of_launch(executions: Mapping[Block, int]) -> dict[str, int]:
    """The operations of all programs, from how often each block ran."""
    total: Counter[str] = Counter()
    for block, times in executions.items():
        if times and not _in_an_operation(block):
            for operation in block.operations:
                for kind, amount in amounts(operation):
                    total[kind] += amount * times
    return {kind: total[kind] for kind in sorted(total) if total[kind]}


def _in_an_operation(block: Block) -> bool:
    """Whether the block says how elements are combined: it is counted with its operation."""
    parent = block.parent.parent if block.parent is not None else None
    return isinstance(parent, Operation) and parent.name in ("tt.reduce", "tt.scan", "tt.map_elementwise")


def amounts(operation: Operation) -> Amounts:
    """(kind, number) of one execution by one program; nothing for what only moves or names values."""
    name = operation.name
    if name == "tt.dot":
        yield _dot(operation)
    elif name == "tt.dot_scaled":
        yield _dot_scaled(operation)
    elif name in ("tt.reduce", "tt.scan"):
        times = _combined(operation)
        yield from _inner(operation, times)
    elif name == "tt.map_elementwise":
        # One run of the region takes as many elements as it has arguments for each operand.
        pack = max(1, len(operation.regions[0].entry.arguments) // max(1, len(operation.operands)))
        yield from _inner(operation, _elements(operation.operands[0]) // pack)
    elif operation.results:
        kind, each = _elementwise(operation)
        if each:
            yield kind, each * _elements(operation.results[0])


def _inner(operation: Operation, times: int) -> Amounts:
    for region in operation.regions:
        for one in walk(region):
            for kind, amount in amounts(one):
                yield kind, amount * times


def _combined(operation: Operation) -> int:
    """How often a reduction or a scan combines two elements."""
    shape, axis = shape_of(operation.operands[0].type), int(operation.attributes.get("axis", 0))
    whole = math.prod(shape)
    return whole - whole // shape[axis] if shape and shape[axis] else 0


def _elements(value: Value) -> int:
    return math.prod(shape_of(value.type))


def _elementwise(operation: Operation) -> tuple[str, int]:
    name = operation.name
    element = element_of(operation.results[0].type)
    dialect, _, short = name.partition(".")
    if name in _CONVERSIONS:
        return "conversion", 1
    if name in _COMPARISONS or name in _ROUNDING:
        return "comparison", 1
    if isinstance(element, FloatType):
        if short in _FLOPS and dialect == "arith":
            return vector_kind(element), 1
        if name == "math.fma":
            return vector_kind(element), 2
        if name in _SPECIAL or dialect == "math":
            return "special", 1
        if name == "tt.extern_elementwise":
            symbol = str(operation.attributes.get("symbol", ""))
            special = any(word in symbol for word in _SPECIAL_SYMBOLS)
            return ("special", 1) if special else (vector_kind(element), 2 if "fma" in symbol else 1)
    elif (
        (dialect == "arith" and short != "constant")
        or dialect == "math"
        or name in ("tt.addptr", "tt.mulhiui")
    ):
        return "integer", 1
    return "", 0


def vector_kind(element: FloatType) -> str:
    """The kind of an addition or multiplication outside of the tensor cores."""
    return {"f64": "fp64", "f16": "fp16", "bf16": "bf16"}.get(element.name, "fp32")


def _dot(operation: Operation) -> tuple[str, int]:
    left, right = operation.operands[0].type, operation.operands[1].type
    a, b = shape_of(left), shape_of(right)
    flops = 2 * math.prod(a) * (b[-1] if b else 1)
    element = element_of(left)
    if not isinstance(element, FloatType):
        return "tensor int8", flops
    if element.name == "f32":
        precision = str(operation.attributes.get("inputPrecision", "ieee")).lower()
        kind, times = _PRECISIONS.get(precision, ("", 1))
        return (f"tensor {kind}", flops * times) if kind else ("fp32", flops)
    kind = {"f16": "fp16", "bf16": "bf16", "f64": "fp64"}.get(element.name, "fp8")
    return f"tensor {kind}", flops


def _dot_scaled(operation: Operation) -> tuple[str, int]:
    attributes = operation.attributes
    kinds = [
        _SCALED.get(str(attributes.get(word, attributes.get(name, ""))), "bf16")
        for word, name in (("lhs", "a_elem_type"), ("rhs", "b_elem_type"))
    ]
    result, left = shape_of(operation.results[0].type), shape_of(operation.operands[0].type)
    packed = kinds[0] == "fp4" and bool(attributes.get("lhs_k_pack", True))  # two to a byte along the depth
    depth = left[-1] * (2 if packed else 1)
    # The wider of the two decides which unit can multiply them.
    order = ("fp16", "bf16", "fp8", "fp4")
    kind = min(kinds, key=order.index)
    return f"tensor {kind}", 2 * math.prod(result) * depth
