"""Integer and boolean arithmetic, bit-exact: iN values by their signed value, i1 as truth."""

from __future__ import annotations

from collections.abc import Callable

from kerncap.sanitizer.symbolic.expr import (
    FALSE,
    TRUE,
    Expr,
    bit_and,
    bit_or,
    bit_xor,
    boolean,
    const,
    div_trunc,
    eq,
    ge,
    gt,
    interval,
    ite,
    le,
    lor,
    lt,
    maximum,
    minimum,
    ne,
    rem_trunc,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
    unknown,
    unsigned,
    wrap,
)
from kerncap.sanitizer.ttir.ir import DIVISIONS, SHIFTS, Dense, FloatType, IntType, Operation, PointerType
from kerncap.sanitizer.walk.access import Target
from kerncap.sanitizer.walk.values import Pointers, Tile, choose, lane_expressions
from kerncap.sanitizer.walk.walker import Handler, Walker, element_of, shape_of, width_of

Binary = Callable[[Expr, Expr, int], Expr]


def _ceil_div(a: Expr, b: Expr, w: int) -> Expr:
    return wrap(-(-a // b), w)


_INTEGER: dict[str, Binary] = {
    "arith.addi": lambda a, b, w: wrap(a + b, w),
    "arith.subi": lambda a, b, w: wrap(a - b, w),
    "arith.muli": lambda a, b, w: wrap(a * b, w),
    "arith.divsi": lambda a, b, w: wrap(div_trunc(a, b), w),
    "arith.remsi": lambda a, b, w: rem_trunc(a, b),
    "arith.divui": lambda a, b, w: wrap(unsigned(a, w) // unsigned(b, w), w),
    "arith.remui": lambda a, b, w: wrap(unsigned(a, w) % unsigned(b, w), w),
    "arith.floordivsi": lambda a, b, w: wrap(a // b, w),
    "arith.ceildivsi": _ceil_div,
    "arith.ceildivui": lambda a, b, w: _ceil_div(unsigned(a, w), unsigned(b, w), w),
    "arith.minsi": lambda a, b, w: minimum(a, b),
    "arith.maxsi": lambda a, b, w: maximum(a, b),
    "arith.minui": lambda a, b, w: ite(unsigned(a, w) < unsigned(b, w), a, b),
    "arith.maxui": lambda a, b, w: ite(unsigned(a, w) < unsigned(b, w), b, a),
    "arith.andi": bit_and,
    "arith.ori": bit_or,
    "arith.xori": bit_xor,
    "arith.shli": shift_left,
    "arith.shrsi": shift_right_arithmetic,
    "arith.shrui": shift_right_logical,
}
# i1, where one bit wraps around: addition is exclusive or.
_BOOLEAN: dict[str, Callable[[Expr, Expr], Expr]] = {
    "arith.addi": ne,
    "arith.subi": ne,
    "arith.xori": ne,
    "arith.muli": lambda a, b: a & b,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.minui": lambda a, b: a & b,
    "arith.maxui": lambda a, b: a | b,
    "arith.minsi": lambda a, b: a | b,  # true is -1
    "arith.maxsi": lambda a, b: a & b,
}
_SIGNED: dict[str, Callable[[Expr, Expr], Expr]] = {
    "slt": lt, "sle": le, "sgt": gt, "sge": ge, "ult": lt, "ule": le, "ugt": gt, "uge": ge,
    "eq": eq, "ne": ne,
}  # fmt: skip


def _binary(walker: Walker, operation: Operation) -> None:
    a, b = walker.tile(operation.operands[0]), walker.tile(operation.operands[1])
    bits = width_of(operation.results[0].type)
    if bits == 1:
        simple = _BOOLEAN.get(operation.name)
        if simple is None:
            return walker.unknown_operation(operation, "on single bits has no meaning here")
        undefined = _undefined_boolean(operation.name, a, b)
        return walker.define(operation, Tile(a.shape, simple(a.expr, b.expr), undefined))
    expression = _INTEGER[operation.name](a.expr, b.expr, bits)
    undefined = lor(a.undefined, b.undefined, _without_value(operation.name, a.expr, b.expr, bits))
    walker.define(operation, Tile(a.shape, expression, undefined))


def _without_value(name: str, a: Expr, b: Expr, bits: int) -> Expr:
    """Where LLVM and PTX give an operation of defined operands no value.

    Source: LLVM's language reference (sdiv, udiv, srem, urem, shl, lshr, ashr).
    """
    if name in SHIFTS:
        return (b < 0) | (b >= bits)
    if name not in DIVISIONS:
        return FALSE
    by_zero = eq(b, 0)
    if name.endswith("ui"):
        return by_zero
    return by_zero | (eq(b, -1) & eq(a, -(1 << (bits - 1))))


def _undefined_boolean(name: str, a: Tile, b: Tile) -> Expr:
    """A false operand settles `and`, a true one `or`, whatever the other is."""
    if a.undefined is FALSE and b.undefined is FALSE:
        return FALSE
    if name in ("arith.andi", "arith.muli", "arith.minui"):
        return (a.undefined & (b.undefined | b.expr)) | (b.undefined & (a.undefined | a.expr))
    if name in ("arith.ori", "arith.maxui"):
        return (a.undefined & (b.undefined | ~b.expr)) | (b.undefined & (a.undefined | ~a.expr))
    return a.undefined | b.undefined


def _compare(walker: Walker, operation: Operation) -> None:
    a, b = walker.tile(operation.operands[0]), walker.tile(operation.operands[1])
    predicate = str(operation.attributes["predicate"])
    left, right = a.expr, b.expr
    bits = width_of(operation.operands[0].type)
    if bits == 1 and predicate not in ("eq", "ne"):
        true = 1 if predicate.startswith("u") else -1
        left, right = (ite(e, const(true), const(0)) for e in (left, right))
    elif predicate.startswith("u"):
        left, right = unsigned(left, bits), unsigned(right, bits)
    expression = _SIGNED[predicate](left, right)
    walker.define(operation, Tile(a.shape, expression, a.undefined | b.undefined))


def _select(walker: Walker, operation: Operation) -> None:
    condition = walker.tile(operation.operands[0])
    then, otherwise = walker[operation.operands[1]], walker[operation.operands[2]]
    chosen = choose(condition.expr, then, otherwise)
    if condition.undefined is not FALSE:
        from kerncap.sanitizer.walk.walker import with_undefined

        chosen = with_undefined(chosen, chosen.undefined | condition.undefined)
    walker.define(operation, chosen)


def _constant(walker: Walker, operation: Operation) -> None:
    kind = operation.results[0].type
    shape, element = shape_of(kind), element_of(kind)
    value = operation.attributes["value"]
    if isinstance(value, Dense):
        if len(value.values) != 1:
            return walker.define(operation, Tile(shape, _table(value, shape, element)))
        value = value.values[0]
    walker.define(operation, Tile(shape, literal(value, element)))


def zero(element: object) -> Expr:
    """The number of a type whose bytes are all 0."""
    return literal(0.0 if isinstance(element, FloatType) else 0, element)


def literal(value: object, element: object) -> Expr:
    if isinstance(element, IntType):
        if element.width == 1:
            return boolean(bool(value))
        return wrap(const(int(value)), element.width)  # type: ignore[call-overload]
    return unknown("a float", ("float", repr(value)), ())


def _table(value: Dense, shape: tuple[int, ...], element: object) -> Expr:
    """A constant with several elements; only its range is kept if it is long."""
    literals = [literal(one, element) for one in value.values]
    if all(one is literals[0] for one in literals):
        return literals[0]
    lanes = lane_expressions(shape)
    position = const(0)
    for lane, extent in zip(lanes, shape, strict=True):
        position = position * extent + lane
    if len(literals) <= 64:
        result = literals[-1]
        for index in range(len(literals) - 2, -1, -1):
            result = ite(eq(position, index), literals[index], result)
        return result
    key = ("table", value.values)
    if not isinstance(element, IntType) or element.width == 1:
        sort = "bool" if isinstance(element, IntType) else "int"
        return unknown("a table of constants", key, (position,), sort=sort)  # type: ignore[arg-type]
    numbers = [int(one) for one in value.values]
    return unknown("a table of constants", key, (position,), min(numbers), max(numbers))


def _extend_signed(walker: Walker, operation: Operation) -> None:
    source = walker.tile(operation.operands[0])
    expression = source.expr
    if width_of(operation.operands[0].type) == 1:
        expression = ite(expression, const(-1), const(0))
    walker.define(operation, Tile(source.shape, expression, source.undefined))


def _extend_unsigned(walker: Walker, operation: Operation) -> None:
    source = walker.tile(operation.operands[0])
    bits = width_of(operation.operands[0].type)
    expression = ite(source.expr, const(1), const(0)) if bits == 1 else unsigned(source.expr, bits)
    walker.define(operation, Tile(source.shape, expression, source.undefined))


def _truncate(walker: Walker, operation: Operation) -> None:
    source = walker.tile(operation.operands[0])
    bits = width_of(operation.results[0].type)
    if bits == 1:
        expression = ne(source.expr % 2, 0)
    else:
        expression = wrap(source.expr, bits)
    walker.define(operation, Tile(source.shape, expression, source.undefined))


def _index_cast(walker: Walker, operation: Operation) -> None:
    source, result = (width_of(v.type) for v in (operation.operands[0], operation.results[0]))
    if result < source:
        _truncate(walker, operation)
    elif operation.name.endswith("ui"):
        _extend_unsigned(walker, operation)
    else:
        _extend_signed(walker, operation)


def _absolute(walker: Walker, operation: Operation) -> None:
    source = walker.tile(operation.operands[0])
    bits = width_of(operation.results[0].type)
    expression = wrap(ite(source.expr < 0, -source.expr, source.expr), bits)
    walker.define(operation, Tile(source.shape, expression, source.undefined))


def _bitcast(walker: Walker, operation: Operation) -> None:
    source, result = operation.operands[0], operation.results[0]
    element = element_of(result.type)
    if isinstance(element, PointerType) or (
        isinstance(element, IntType) and isinstance(element_of(source.type), IntType)
    ):
        return walker.define(operation, walker[source])
    uninterpreted(walker, operation)


def uninterpreted(walker: Walker, operation: Operation) -> None:
    """A function of its operands and nothing else: equal operands give equal results.

    Floats are never computed here. An integer made of one (fptosi) has its type's range.
    """
    operands = [walker.tile(operand) for operand in operation.operands]
    arguments = tuple(operand.expr for operand in operands)
    undefined = walker.undefined_of(*operands)
    attributes = tuple(sorted((k, repr(v)) for k, v in operation.attributes.items()))
    for position, result in enumerate(operation.results):
        key = (operation.name, position, attributes, str(element_of(result.type)))
        reason = f"{operation.name} works on floats"
        shape, element = shape_of(result.type), element_of(result.type)
        if isinstance(element, IntType):
            if element.width == 1:
                expression = unknown(reason, key, arguments, sort="bool")
            else:
                low, high = -(1 << (element.width - 1)), (1 << (element.width - 1)) - 1
                expression = unknown(reason, key, arguments, low, high)
            walker.environment[result] = Tile(shape, expression, undefined)
        elif isinstance(element, FloatType):
            walker.environment[result] = Tile(shape, unknown(reason, key, arguments), undefined)
        else:
            address = unknown(reason, key, arguments, 0, 2**63 - 1)
            walker.environment[result] = Pointers(shape, (Target(TRUE, None, address),), undefined)


def _multiply_high(walker: Walker, operation: Operation) -> None:
    a, b = (walker.tile(operand) for operand in operation.operands[:2])
    bits = width_of(operation.results[0].type)
    product = unsigned(a.expr, bits) * unsigned(b.expr, bits)
    low, high = interval(product)
    if low is not None and high is not None and high < (1 << bits):
        expression: Expr = const(0)
    else:
        expression = wrap(product // (1 << bits), bits)
    walker.define(operation, Tile(a.shape, expression, a.undefined | b.undefined))


def _poison(walker: Walker, operation: Operation) -> None:
    result = operation.results[0]
    walker.define(operation, walker.fresh(operation, result, "it is undefined", undefined=TRUE))


_FLOAT = [
    "arith.addf",
    "arith.subf",
    "arith.mulf",
    "arith.divf",
    "arith.remf",
    "arith.negf",
    "arith.maxnumf",
    "arith.minnumf",
    "arith.maximumf",
    "arith.minimumf",
    "arith.cmpf",
    "arith.extf",
    "arith.truncf",
    "arith.sitofp",
    "arith.uitofp",
    "arith.fptosi",
    "arith.fptoui",
    "arith.bitcast",
    "math.absf",
    "math.ceil",
    "math.cos",
    "math.erf",
    "math.exp",
    "math.exp2",
    "math.floor",
    "math.fma",
    "math.log",
    "math.log2",
    "math.rsqrt",
    "math.sin",
    "math.sqrt",
    "math.tanh",
    "math.powf",
    "math.log1p",
    "math.expm1",
    "math.round",
    "math.roundeven",
    "math.trunc",
    "math.ctpop",
    "math.ctlz",
    "math.cttz",
    "tt.fp_to_fp",
    "tt.clampf",
    "tt.precise_sqrt",
    "tt.precise_divf",
    "tt.extern_elementwise",
    "tt.umulhi",
    "arith.addui_extended",
    "arith.mului_extended",
    "arith.mulsi_extended",
]

OPERATIONS: dict[str, Handler] = {
    **dict.fromkeys(_INTEGER, _binary),
    **dict.fromkeys(_FLOAT, uninterpreted),
    "arith.cmpi": _compare,
    "arith.select": _select,
    "arith.constant": _constant,
    "arith.extsi": _extend_signed,
    "arith.extui": _extend_unsigned,
    "arith.trunci": _truncate,
    "arith.index_cast": _index_cast,
    "arith.index_castui": _index_cast,
    "math.absi": _absolute,
    "tt.bitcast": _bitcast,
    "tt.mulhiui": _multiply_high,
    "ub.poison": _poison,
}
