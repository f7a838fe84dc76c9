"""The custom assembly of all other operations, by one reader.

TTIR's operations share a shape: words and flags, operands (some in brackets), an attribute
dictionary, and behind the colon their types. What the words mean is in `_WORDS`; how results follow
from the types that are spelled out is in `_RESULTS`. An operation that neither knows reads the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kerncap.sanitizer.ttir.attributes import element_of, symbol
from kerncap.sanitizer.ttir.ir import (
    DescriptorType,
    IntType,
    OpaqueType,
    Operation,
    PointerType,
    TensorType,
    Type,
    Value,
)
from kerncap.sanitizer.ttir.tokens import unquoted
from kerncap.sanitizer.ttir.type_text import with_element

if TYPE_CHECKING:
    from kerncap.sanitizer.ttir.attributes import Stream
    from kerncap.sanitizer.ttir.cursor import Cursor

_CONTINUES = frozenset((",", "(", "[", "*", ":"))  # what stands before an operand, never before a result
_TERMINATORS = ("return", "yield", "condition", "terminator")

# What the words before the operands are, in their order.
_WORDS: dict[str, tuple[str, ...]] = {
    "arith.cmpi": ("predicate",),
    "arith.cmpf": ("predicate",),
    "tt.get_program_id": ("axis",),
    "tt.get_num_programs": ("axis",),
    "tt.atomic_rmw": ("rmw_op", "sem", "scope"),
    "tt.atomic_cas": ("sem", "scope"),
    "tt.atomic_load": ("sem", "scope"),
    "tt.atomic_store": ("sem", "scope"),
    "tt.atomic_poll": ("sem", "scope"),
    "tt.descriptor_reduce": ("kind",),
    "tt.experimental_descriptor_reduce": ("kind",),
}


def read(reader: Cursor, operation: Operation, count: int) -> list[Type]:
    """Fill in operands, attributes and regions; gives the types of ``count`` results."""
    name = operation.name
    if name == "arith.constant":
        return _constant(reader, operation)
    stream = reader.stream
    attributes = operation.attributes
    operands: list[Value] = []
    words: list[str] = []
    inputs: list[Type] = []
    outputs: list[Type] | None = None
    scales: list[int] = []
    tokens = stream.all
    while True:
        token = tokens[stream.at]
        first = token[:1]
        if first == "%":
            if tokens[stream.at - 1] not in _CONTINUES and _begins_result(tokens, stream.at):
                break
            stream.at += 1
            operands.append(reader.use(token))
        elif token == "," or token == "[" or token == "]" or token == "(" or token == ")" or token == "*":
            stream.at += 1
        elif token == ":":
            stream.at += 1
            if tokens[stream.at][:1] == "%":  # tt.print names its operands behind a colon
                continue
            outputs = _types(stream, inputs)
        elif token == "->":  # types without a colon
            outputs = _types(stream, inputs)
        elif token == "{":
            if _is_dictionary(tokens, stream.at):
                attributes.update(stream.dictionary())
            else:
                operation.regions = (*operation.regions, reader.region())
                operation.regions[-1].parent = operation
        elif first.isalpha() or first == "_":
            if token.startswith("loc") and (len(token) == 3 or token[3] == "("):
                break
            if "." in token and "<" not in token and tokens[stream.at + 1] != "=":
                break  # the next operation, where the text has no locations
            if token == "scale":
                scales.append(len(operands))
            _word(stream, token, words, attributes)
        elif first == '"':
            if tokens[stream.at + 1] == "(" and (inputs or not operands and words):
                break  # the next operation in generic form
            stream.at += 1
            attributes.setdefault("string", unquoted(token))
        elif first == "@":
            stream.at += 1
            attributes.setdefault("callee", symbol(token))
        elif first == "^":
            if _begins_block(tokens, stream.at):
                break
            stream.at += 1
            operation.successors = (*operation.successors, (reader.block(token), ()))
        elif token == "<":
            if tokens[stream.at + 1] == "{":
                stream.at += 1
                attributes.update(stream.dictionary())
                stream.expect(">")
            else:
                stream.angles()
        elif token == "}" or not token:
            break
        else:
            stream.at += 1
            words.append(token)
    operation.operands = tuple(operands)
    if name == "tt.dot_scaled":
        attributes["operand_segments"] = _scaled_segments(scales)
        words = []
    names = _WORDS.get(name, ())
    attributes.update(zip(names, words, strict=False))
    if len(words) > len(names):
        attributes.setdefault("words", tuple(words[len(names) :]))
    return _results(name, inputs, outputs, count)


def _word(stream: Stream, token: str, words: list[str], attributes: dict[str, object]) -> None:
    stream.at += 1
    if stream.accept("="):
        value = stream.peek()
        if value == "[" and stream.all[stream.at + 1][:1] == "%":  # more operands, under a name
            attributes[token] = None
        elif value[:1].isalpha() and "<" not in value and value not in ("true", "false", "dense"):
            stream.at += 1
            attributes[token] = value
        else:
            attributes[token] = stream.attribute()
    elif token.endswith(">"):  # overflow<nsw, nuw>, fastmath<fast>
        head, _, body = token[:-1].partition("<")
        attributes[head] = tuple(flag.strip() for flag in body.split(","))
    else:
        words.append(token)


def _scaled_segments(scales: list[int]) -> dict[str, int]:
    """``%a scale %as, %b scale %bs, %c``, where either scale may be missing: whose is whose."""
    segments = {"a": 0}
    after = 1
    if 1 in scales:
        segments["a_scale"] = after
        after += 1
    segments["b"] = after
    after += 1
    if after in scales:
        segments["b_scale"] = after
        after += 1
    segments["c"] = after
    return segments


def _begins_result(tokens: list[str], at: int) -> bool:
    """Whether ``%x`` begins the next operation: ``%x =``, ``%x:2 =`` or ``%x, %y =``."""
    following = tokens[at + 1]
    if following == "=":
        return True
    if following == ":":
        return tokens[at + 2].isdecimal() and tokens[at + 3] in ("=", ",")
    while following == "," and tokens[at + 2][:1] == "%" and at < len(tokens) - 6:
        at += 2
        following = tokens[at + 1]
        if following == "=":
            return True
    return False


def _begins_block(tokens: list[str], at: int) -> bool:
    if tokens[at + 1] == ":":
        return True
    return tokens[at + 1] == "(" and tokens[at + 2][:1] == "%" and tokens[at + 3] == ":"


def _is_dictionary(tokens: list[str], at: int) -> bool:
    token, following = tokens[at + 1], tokens[at + 2]
    if token == "}":
        return True
    if token[:1] == '"':
        return following in ("=", ",", "}")
    if not (token[:1].isalpha() or token[:1] == "_"):
        return False
    return following in ("=", ",") or following == "}" and not token.endswith(_TERMINATORS)


def _types(stream: Stream, inputs: list[Type]) -> list[Type] | None:
    """The types behind the colon; gives those behind the arrow, None if there is no arrow.

    ``A, B``, ``A * B -> C``, ``(A, B) -> C``, ``A to B``; whatever else stands there is passed over.
    """
    outputs: list[Type] | None = None
    while True:
        token = stream.all[stream.at]
        found = stream.maybe_type()
        if found is not None:
            (inputs if outputs is None else outputs).append(found)
        elif token == "->" or token == "to":
            stream.at += 1
            outputs = []
        elif token == "," or token == "*" or token == "(" or token == ")":
            stream.at += 1
        else:
            return outputs


def _constant(reader: Cursor, operation: Operation) -> list[Type]:
    stream = reader.stream
    if stream.peek() == "{":
        operation.attributes.update(stream.dictionary())
    start = stream.at
    value = operation.attributes["value"] = stream.attribute()
    if isinstance(value, bool) and stream.all[stream.at - 1] in ("true", "false"):
        return [IntType(1)]
    # The attribute has read its type already; it stands in front of what is next.
    end = stream.at
    stream.at = end - 1
    while stream.at > start and stream.all[stream.at] != ":":
        stream.at -= 1
    stream.at += 1
    type_ = stream.maybe_type() if stream.at > start + 1 else None
    stream.at = end
    return [type_ if type_ is not None else OpaqueType("?")]


# --- results ---------------------------------------------------------------------------------------


def _loaded(inputs: list[Type]) -> Type:
    """What a load from a pointer, a tile of pointers or a block pointer gives."""
    type_ = inputs[0]
    if isinstance(type_, PointerType):
        return type_.pointee
    element = element_of(type_)
    return with_element(type_, element.pointee) if isinstance(element, PointerType) else type_


def _descriptor(inputs: list[Type]) -> Type:
    """``: <f16>, <64x32xf16>``: the short form of the descriptor reads as a pointer to its block."""
    type_ = inputs[-1]
    if isinstance(type_, PointerType) and isinstance(type_.pointee, TensorType):
        return DescriptorType(type_.pointee)
    return type_


def _flags(inputs: list[Type]) -> Type:
    return with_element(inputs[0], IntType(1))


def _first(inputs: list[Type]) -> Type:
    return inputs[0]


def _last(inputs: list[Type]) -> Type:
    return inputs[-1]


_RESULTS: dict[str, Callable[[list[Type]], Type]] = {
    "ttg.async_copy_global_to_local": lambda inputs: OpaqueType("!ttg.async.token"),
    "tt.load": _loaded,
    "tt.make_tensor_descriptor": _descriptor,
    "tt.experimental_make_tensor_descriptor": _descriptor,
    "tt.make_tensor_ptr": _last,
    "tt.unsplat": lambda inputs: element_of(inputs[0]),
    "tt.addptr": _first,
    "tt.advance": _first,
    "arith.cmpi": _flags,
    "arith.cmpf": _flags,
    "arith.select": _last,
    "math.fpowi": _first,
    "math.isfinite": _flags,
    "math.isinf": _flags,
    "math.isnan": _flags,
    "math.isnormal": _flags,
}


def _results(name: str, inputs: list[Type], outputs: list[Type] | None, count: int) -> list[Type]:
    if count == 0:
        return []
    if outputs:
        # tt.split spells out the one type that both of its results have.
        return outputs if len(outputs) != 1 else outputs * count
    rule = _RESULTS.get(name)
    if rule is not None and inputs:
        return [rule(inputs)]
    if len(inputs) == 1:
        return inputs * count
    if len(inputs) == count:  # arith.addui_extended: the sum's type, the carry's
        return inputs
    return [OpaqueType("?")] * count
