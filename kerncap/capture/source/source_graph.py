"""The source graph as checked, immutable data: a target can write anything into its file.

Every name that later stands in generated text is an identifier here, every module a dotted
identifier, every literal is rebuilt from its value; nothing is evaluated or imported.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from kerncap.errors import CaptureError

MAX_NAME = 1000  # Inductor joins the names of all fused operators
MAX_NODES = 4096
MAX_BINDINGS = 4096
MAX_TEXT = 4 << 20
MAX_FILES_BYTES = 64 << 20
MAX_DEPTH = 40
MAX_ITEMS = 65536

_INT = re.compile(r"-?[0-9]{1,40}")
_FLOAT = re.compile(r"-?(inf|nan|0x[01]\.?[0-9a-f]{0,40}p[+-][0-9]{1,5})")


@dataclass(frozen=True)
class NodeRef:
    key: str


@dataclass(frozen=True)
class ModuleRef:
    name: str


@dataclass(frozen=True)
class ImportRef:
    module: str
    attribute: str


@dataclass(frozen=True)
class ValueRef:
    """A literal as Python text, or a dtype's name in ``library`` (``triton`` or ``torch``)."""

    text: str
    library: str = ""


@dataclass(frozen=True)
class AttributeRef:
    of: Ref
    name: str


@dataclass(frozen=True)
class CallRef:
    of: Ref
    arguments: tuple[Ref, ...] = ()
    keywords: tuple[tuple[str, Ref], ...] = ()


@dataclass(frozen=True)
class SequenceRef:
    items: tuple[Ref, ...]
    type: str


@dataclass(frozen=True)
class MappingRef:
    items: tuple[tuple[Ref, Ref], ...]


@dataclass(frozen=True)
class ConstexprRef:
    value: Ref


@dataclass(frozen=True)
class OpaqueRef:
    type: str
    text: str


Ref = (
    NodeRef | ModuleRef | ImportRef | ValueRef | AttributeRef | CallRef | SequenceRef | MappingRef
    | ConstexprRef | OpaqueRef
)  # fmt: skip


@dataclass(frozen=True)
class Node:
    """One function or class: its text, and what the names in it are. Keys of bindings may be dotted."""

    key: str
    type: str
    name: str
    module: str
    file: str
    line: int
    source: str
    options: str
    bindings: dict[str, Ref]
    defaults: dict[str, Ref]
    future: bool


@dataclass(frozen=True)
class SourceGraph:
    entry: str
    extra: tuple[str, ...]
    nodes: dict[str, Node]
    files: dict[str, str]
    missing: tuple[str, ...]
    modules: tuple[str, ...]  # to be imported besides those that a name stands for


_Text = Annotated[str, Meta(max_length=4096)]
_Bindings = Annotated[dict[str, Any], Meta(max_length=MAX_BINDINGS)]  # by name, what `_Parser.ref` reads


class _Node(Struct):
    """As the hook writes it."""

    type: Literal["jit", "gluon", "constexpr_function", "function", "class"]
    name: str
    source: Annotated[str, Meta(max_length=MAX_TEXT)]
    line: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    module: _Text = ""
    file: _Text = ""
    decorator: _Text = ""
    bindings: _Bindings = {}
    freevars: _Bindings = {}
    defaults: _Bindings = {}
    future: bool = False


class _Graph(Struct):
    nodes: Annotated[dict[str, _Node], Meta(max_length=MAX_NODES)]
    entry: str = ""
    files: Annotated[dict[_Text, str], Meta(max_length=MAX_ITEMS)] = {}
    missing: Annotated[list[list[_Text]], Meta(max_length=MAX_ITEMS)] = []
    extra: Annotated[list[str], Meta(max_length=MAX_ITEMS)] = []


def inside(ref: Ref) -> Iterator[Ref]:
    """``ref`` and everything that its expression mentions."""
    yield ref
    parts: tuple[Ref, ...] = ()
    if isinstance(ref, ConstexprRef):
        parts = (ref.value,)
    elif isinstance(ref, AttributeRef):
        parts = (ref.of,)
    elif isinstance(ref, CallRef):
        parts = (ref.of, *ref.arguments, *(each for _, each in ref.keywords))
    elif isinstance(ref, SequenceRef):
        parts = ref.items
    elif isinstance(ref, MappingRef):
        parts = tuple(each for pair in ref.items for each in pair)
    for part in parts:
        yield from inside(part)


def parse_graph(graph: object) -> SourceGraph:
    """Check a source graph. Raises CaptureError, naming the first thing that is wrong."""
    try:
        return _Parser().graph(msgspec.convert(graph, _Graph))
    except msgspec.ValidationError as error:
        raise CaptureError(f"source graph: {error}") from error


def identifier(value: object, what: str) -> str:
    if isinstance(value, str) and len(value) > MAX_NAME:
        raise CaptureError(f"source graph: {what} has {len(value)} characters, more than {MAX_NAME}")
    if isinstance(value, str) and value.isidentifier() and not keyword.iskeyword(value):
        return value
    raise CaptureError(f"source graph: {what} is not an identifier: {_short(value)}")


def dotted(value: object, what: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1000:
        raise CaptureError(f"source graph: {what} is not a dotted name: {_short(value)}")
    for part in value.split("."):
        identifier(part, what)
    return value


def _short(value: object) -> str:
    return repr(value[:80] if isinstance(value, str) else type(value).__name__)


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if (
        not isinstance(value, dict)
        or len(value) > MAX_ITEMS
        or not all(isinstance(key, str) for key in value)
    ):
        raise CaptureError(f"source graph: {what} is not an object of at most {MAX_ITEMS} entries")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise CaptureError(f"source graph: {what} is not a list of at most {MAX_ITEMS} items")
    return value


def _text(value: object, what: str, limit: int = 4096) -> str:
    if not isinstance(value, str) or len(value) > limit:
        raise CaptureError(f"source graph: {what} is not text of at most {limit} characters")
    return value


class _Parser:
    def __init__(self) -> None:
        self.known: frozenset[str] = frozenset()
        self.modules: dict[str, None] = {}
        self.items = 0

    def graph(self, graph: _Graph) -> SourceGraph:
        self.known = frozenset(graph.nodes)
        nodes = {key: self.node(key, node) for key, node in graph.nodes.items()}
        if sum(len(node.source) for node in nodes.values()) > MAX_TEXT:
            raise CaptureError(f"source graph: more than {MAX_TEXT} characters of source")
        if sum(map(len, graph.files.values())) > MAX_FILES_BYTES:
            raise CaptureError(f"source graph: more than {MAX_FILES_BYTES} characters of files")
        missing = tuple(": ".join(parts[:2]) for parts in graph.missing)
        if graph.entry not in nodes:
            reason = missing[0] if missing else "the graph has no entry"
            raise CaptureError(f"the kernel's source was not found: {reason}")
        extra = tuple(key for key in graph.extra if key in nodes)
        return SourceGraph(graph.entry, extra, nodes, graph.files, missing, tuple(self.modules))

    def node(self, key: str, raw: _Node) -> Node:
        bindings = {
            dotted(name, "a bound name"): self.ref(value, 0)
            for names in (raw.bindings, raw.freevars)
            for name, value in names.items()
        }
        defaults = {
            identifier(name, "a parameter"): self.ref(value, 0) for name, value in raw.defaults.items()
        }
        return Node(
            key=key, type=raw.type, name=identifier(raw.name, "a function's name"), module=raw.module,
            file=raw.file, line=raw.line, source=raw.source, options=raw.decorator, bindings=bindings,
            defaults=defaults, future=raw.future,
        )  # fmt: skip

    def ref(self, value: object, depth: int) -> Ref:
        self.items += 1
        if depth > MAX_DEPTH or self.items > MAX_ITEMS:
            raise CaptureError("source graph: values nested too deeply, or too many")
        raw = _mapping(value, "a reference")
        found = self._bare(raw, depth + 1)
        return ConstexprRef(found) if raw.get("constexpr") is True else found

    def _bare(self, raw: Mapping[str, Any], depth: int) -> Ref:
        if "node" in raw:
            if not isinstance(raw["node"], str) or raw["node"] not in self.known:
                raise CaptureError(f"source graph: a reference to an unknown node {_short(raw['node'])}")
            return NodeRef(raw["node"])
        if "module" in raw:
            for name in _list(raw.get("with", []), "with"):
                self.modules[dotted(name, "a module")] = None
            return ModuleRef(dotted(raw["module"], "a module"))
        if "import" in raw:
            parts = _list(raw["import"], "an import")
            if len(parts) != 2:
                raise CaptureError("source graph: an import is not a pair")
            return ImportRef(dotted(parts[0], "a module"), identifier(parts[1], "an imported name"))
        if "value" in raw:
            return _value(raw["value"], depth)
        if "attribute" in raw:
            parts = _list(raw["attribute"], "an attribute")
            if len(parts) != 2:
                raise CaptureError("source graph: an attribute is not a pair")
            return AttributeRef(self.ref(parts[0], depth), identifier(parts[1], "an attribute"))
        if "call" in raw:
            keywords = _mapping(raw.get("keywords", {}), "keywords")
            return CallRef(
                self.ref(raw["call"], depth),
                tuple(self.ref(each, depth) for each in _list(raw.get("arguments", []), "arguments")),
                tuple(
                    (identifier(name, "a keyword"), self.ref(each, depth)) for name, each in keywords.items()
                ),
            )
        if "sequence" in raw:
            items = tuple(self.ref(each, depth) for each in _list(raw["sequence"], "a sequence"))
            return SequenceRef(items, "list" if raw.get("type") == "list" else "tuple")
        if "mapping" in raw:
            pairs = [_list(pair, "a pair") for pair in _list(raw["mapping"], "a mapping")]
            if any(len(pair) != 2 for pair in pairs):
                raise CaptureError("source graph: a mapping's item is not a pair")
            return MappingRef(tuple((self.ref(key, depth), self.ref(each, depth)) for key, each in pairs))
        if "opaque" in raw:
            return OpaqueRef(_text(raw.get("type", ""), "a type"), _text(raw["opaque"], "a repr"))
        raise CaptureError("source graph: a reference of unknown kind")


def _value(value: object, depth: int) -> Ref:
    """A Value of the manifest as literal text."""
    raw = _mapping(value, "a value")
    if depth > MAX_DEPTH:
        raise CaptureError("source graph: values nested too deeply")
    kind, held = raw.get("kind"), raw.get("value")
    if kind == "none":
        return ValueRef("None")
    if kind == "bool" and isinstance(held, bool):
        return ValueRef(repr(held))
    if kind == "int" and isinstance(held, str) and _INT.fullmatch(held):
        return ValueRef(str(int(held)))
    if kind == "float" and isinstance(held, str) and _FLOAT.fullmatch(held):
        if held.lstrip("-") in ("inf", "nan"):
            return ValueRef(f'float("{held}")')
        try:
            return ValueRef(repr(float.fromhex(held)))
        except OverflowError:
            raise CaptureError(f"source graph: a float out of range: {_short(held)}") from None
    if kind == "str":
        return ValueRef(ascii(_text(held, "a string", MAX_TEXT)))
    if kind == "dtype" and raw.get("library") in ("triton", "torch"):
        return ValueRef(identifier(raw.get("name"), "a dtype"), raw["library"])
    if kind == "sequence":
        items = tuple(_value(each, depth + 1) for each in _list(raw.get("items"), "a sequence"))
        return SequenceRef(items, "list" if raw.get("type") == "list" else "tuple")
    raise CaptureError(f"source graph: a value of unknown kind {_short(kind)}")
