"""Follows a kernel's names through the running target and writes down what they are: facts only.

Runs in the target, so: the standard library alone, and of it only what Triton itself has imported;
no attribute access that could run the user's code beyond `__dict__`; nothing is raised, a name that
cannot be followed becomes an entry of ``missing``. `kerncap.capture.source` makes a module of the graph
(docs/session.md, "Source graph").
"""

from __future__ import annotations

import ast
import builtins
import enum
import linecache
import sys
import types
from collections.abc import Iterable
from typing import Any, Dict, List, Tuple

from .source_nodes import Chains, Node, Ref, Scan, Scopes, class_node, function_node
from .source_text import chains, free_names, parts, position
from .source_values import import_of, is_library, is_triton, jit_kind, opaque, plain_value, unwrap

MAX_NODES = 2000
MAX_FILE_BYTES = 4 << 20
MAX_FILES_BYTES = 32 << 20
MAX_DEPTH = 16  # of values in values
MAX_VALUES = 20_000  # a table of that size is data, not source


def collect(fn: Any, extra: Iterable[Any] = ()) -> dict[str, Any]:
    """The source graph of ``fn`` and of the jit functions ``extra`` that it is passed; never raises."""
    graph = Graph()
    try:
        entry = graph.reference(unwrap(fn), "kernel", entry=True)
        out: Dict[str, Any] = {"entry": entry.get("node", ""), "extra": []}
        for each in extra:
            found = graph.reference(unwrap(each), "extra", entry=True)
            if "node" in found:
                out["extra"].append(found["node"])
        graph.drain()
    except Exception as error:  # a target's objects may do anything when touched
        graph.lost("kernel", "%s: %s" % (type(error).__name__, error))
        out = {"entry": "n0" if "n0" in graph.nodes else "", "extra": []}
    out.update(python=sys.version.split()[0], nodes=graph.nodes, files=graph.files, missing=graph.missing)
    return out


def _is_function(obj: Any) -> bool:
    """Whether it is a class or a function, in any of the forms that have a name to find it by."""
    if isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType)) or jit_kind(obj) is not None:
        return True
    return type(obj).__name__ == "_lru_cache_wrapper"


class Graph:
    def __init__(self) -> None:
        self.nodes: Dict[str, Node] = {}
        self.files: Dict[str, str] = {}
        self.missing: List[List[str]] = []
        self._ids: Dict[int, str] = {}  # id(object) -> node; the objects are kept alive by _kept
        self._kept: List[Any] = []
        self._queue: List[Tuple[Node, Scan]] = []
        self._file_bytes = 0
        self._values = 0

    def lost(self, name: str, reason: str) -> None:
        if [name, reason] not in self.missing and len(self.missing) < 1000:
            self.missing.append([str(name)[:200], str(reason)[:500]])

    def drain(self) -> None:
        while self._queue:
            node, scan = self._queue.pop(0)
            try:
                scan(node)
            except Exception as error:
                self.lost(node["name"], "could not be followed: %s: %s" % (type(error).__name__, error))

    # --- what an object is ---------------------------------------------------------------------

    def reference(self, obj: Any, name: str, depth: int = 0, entry: bool = False) -> Ref:
        """The REF of ``obj``, bound to ``name`` where it was found."""
        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_VALUES:
            return opaque(obj)
        if is_triton(obj, "constexpr", "triton.language.core"):
            return dict(self.reference(obj.value, name, depth + 1), constexpr=True)
        plain = plain_value(obj)
        if plain is not None:
            return {"value": plain, "constexpr": False}
        again = lambda item: self.reference(item, name, depth + 1)  # noqa: E731
        kind = type(obj)
        if isinstance(obj, types.ModuleType):
            return {"module": obj.__name__}
        if isinstance(obj, enum.Enum):
            member = obj.__dict__.get("_name_")
            return {"attribute": [again(kind), member]} if isinstance(member, str) else opaque(obj)
        function = _is_function(obj)
        if not function and unwrap(obj) is not obj and jit_kind(unwrap(obj)):
            obj, function = unwrap(obj), True
        if function:
            home = None if entry else import_of(obj, name)
            return {"import": home} if home else self._node(obj, name)
        if issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
            return {"call": again(kind), "arguments": [again(item) for item in tuple.__iter__(obj)]}
        if kind in (tuple, list) or kind.__name__ == "Size":
            shape = "list" if kind is list else "tuple"
            return {"sequence": [again(item) for item in obj], "type": shape}
        if kind is dict:
            return {"mapping": [[again(key), again(value)] for key, value in obj.items()]}
        fields = getattr(kind, "__dataclass_fields__", None)
        if isinstance(fields, dict) and all(field in vars(obj) for field in fields):
            named = {field: again(vars(obj)[field]) for field, of in fields.items() if of.init}
            return {"call": again(kind), "keywords": named}
        if is_triton(obj, "pointer_type", "triton.language.core"):
            return {
                "call": {"import": ["triton.language", "pointer_type"]},
                "arguments": [again(obj.element_ty)],
            }
        return opaque(obj)

    def _node(self, obj: Any, name: str) -> Ref:
        known = self._ids.get(id(obj))
        if known:
            return {"node": known}
        if len(self.nodes) >= MAX_NODES:
            self.lost(name, "more than %d functions" % MAX_NODES)
            return opaque(obj)
        if isinstance(obj, types.BuiltinFunctionType):
            self.lost(name, "a compiled function of %s" % getattr(obj, "__module__", None))
            return opaque(obj)
        made = class_node(obj, self) if isinstance(obj, type) else function_node(obj, name, self)
        if made is None:
            return opaque(obj)
        key = "n%d" % len(self.nodes)
        self._ids[id(obj)] = key
        self._kept.append(obj)
        self.nodes[key] = made[0]
        self._queue.append(made)
        return {"node": key}

    def keep_file(self, path: str) -> None:
        if not path or path in self.files:
            return
        text = "".join(linecache.getlines(path))
        size = len(text.encode("utf-8", "replace"))
        if text and size <= MAX_FILE_BYTES and self._file_bytes + size <= MAX_FILES_BYTES:
            self.files[path] = text
            self._file_bytes += size

    # --- names -----------------------------------------------------------------------------------

    def bind(self, node: Node, tree: ast.Module, scopes: Scopes, soft: Iterable[str] = ()) -> None:
        """Fill the bindings of ``node`` with what the free names of ``tree`` are in ``scopes``.

        ``scopes`` are (kind, dict) from the inside out; names of ``soft`` may stay unresolved (annotations).
        """
        nodes = parts(tree)
        hanging = chains(nodes)
        for name in sorted(free_names(tree, nodes) | set(soft), key=position(nodes)):
            for kind, scope in scopes:
                if name in scope:
                    self.bind_one(node[kind], name, scope[name], hanging.get(name, ()), name in soft)
                    break
            else:
                if not hasattr(builtins, name) and name not in soft:
                    self.lost(name, "not defined in %s" % node["module"])

    def bind_one(self, into: dict[str, Ref], name: str, value: Any, found_chains: Chains, soft: bool) -> None:
        if isinstance(value, types.ModuleType):
            self._bind_module(into, name, value, found_chains)
            return
        found = self.reference(value, name)
        if soft and ("node" in found or "opaque" in found):
            return  # an annotation that Triton never reads: not worth a class
        if "opaque" in found:
            members = vars(value) if hasattr(value, "__dict__") else {}
            inner = {chain[0]: members[chain[0]] for chain in found_chains if chain and chain[0] in members}
            parts = {key: self.reference(item, key) for key, item in inner.items()}
            if parts and not any("opaque" in part for part in parts.values()):
                into.update({"%s.%s" % (name, key): part for key, part in parts.items()})
                return
            self.lost(name, "a value of type %s" % found["type"])
        into[name] = found

    def _bind_module(
        self, into: dict[str, Ref], name: str, module: types.ModuleType, found_chains: Chains
    ) -> None:
        """Libraries are imported; of the user's own modules only what is used is taken, by dotted name."""
        library = is_library(module)
        if library or not found_chains:
            into[name] = {"module": module.__name__}
            if not library:
                self.lost(name, "the module %s is imported, not copied" % module.__name__)
        for chain in sorted(set(found_chains)):
            path = [name]
            here: Any = module
            for attribute in chain:
                following = vars(here).get(attribute, here) if isinstance(here, types.ModuleType) else here
                if following is here:
                    break
                here = following
                path.append(attribute)
                if isinstance(here, types.ModuleType) and not library and is_library(here):
                    break
            if library:
                self._bind_library(into, name, here, path)
            elif len(path) == 1:
                self.lost(".".join((name,) + chain), "no such attribute of module %s" % module.__name__)
            elif isinstance(here, types.ModuleType) and not is_library(here):
                self.lost(".".join(path), "the module %s is imported, not copied" % here.__name__)
                into[".".join(path)] = {"module": here.__name__}
            else:
                self.bind_one(into, ".".join(path), here, (), False)

    def _bind_library(self, into: dict[str, Ref], name: str, found: Any, path: list[str]) -> None:
        deepest = found.__name__ if isinstance(found, types.ModuleType) else None
        if deepest and len(path) > 1:
            needs = into[name].setdefault("with", [])
            if deepest not in needs and sys.modules.get(deepest) is found:
                needs.append(deepest)
        elif jit_kind(found) and not import_of(found, path[-1]):
            into[".".join(path)] = self.reference(found, path[-1])  # the user's, put into a library's module
