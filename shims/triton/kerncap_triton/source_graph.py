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
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Dict, List, Set, Tuple

from .source_text import chains, free_names, position, source_text
from .source_values import (
    import_of,
    is_library,
    is_triton,
    jit_kind,
    jit_options,
    opaque,
    plain_value,
    raw_function,
    unwrap,
)

MAX_NODES = 2000
MAX_FILE_BYTES = 4 << 20
MAX_FILES_BYTES = 32 << 20
MAX_DEPTH = 16  # of values in values
MAX_VALUES = 20_000  # a table of that size is data, not source

Ref = Dict[str, Any]  # see docs/session.md
Node = Dict[str, Any]
Scopes = Sequence[Tuple[str, Dict[str, Any]]]
Chains = Sequence[Tuple[str, ...]]
Scan = Callable[[Node], None]


def collect(fn: Any, extra: Iterable[Any] = ()) -> dict[str, Any]:
    """The source graph of ``fn`` and of the jit functions ``extra`` that it is passed; never raises."""
    graph = _Graph()
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


class _Graph:
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
        function = jit_kind(obj) or isinstance(obj, (type, types.FunctionType, types.BuiltinFunctionType))
        if kind.__name__ == "_lru_cache_wrapper":
            function = True
        if not function and unwrap(obj) is not obj and jit_kind(unwrap(obj)):
            obj, function = unwrap(obj), True
        if function:
            home = None if entry else import_of(obj, name)
            return {"import": home} if home else self._node(obj, name)
        if isinstance(obj, tuple) and isinstance(getattr(kind, "_fields", None), tuple):
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
        made = _class_node(obj, self) if isinstance(obj, type) else _function_node(obj, name, self)
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
        hanging = chains(tree)
        for name in sorted(set(free_names(tree)) | set(soft), key=position(tree)):
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


# --- nodes ------------------------------------------------------------------------------------------


def _function_node(obj: Any, name: str, graph: _Graph) -> tuple[Node, Scan] | None:
    kind = jit_kind(obj) or "function"
    raw = raw_function(obj)
    if raw is None:
        return _detached_node(obj, name, graph) if kind == "jit" else None
    text, line, reason = source_text(obj, raw)
    shown = raw.__name__ if raw.__name__ != "<lambda>" else name.rpartition(".")[2]
    if reason:
        graph.lost(shown, reason)
    if text is None:
        return None
    if raw.__name__ == "<lambda>":
        text = "%s = %s" % (shown, text)
    path = raw.__code__.co_filename
    graph.keep_file(path)
    node = {
        "type": kind, "name": shown, "module": str(raw.__module__), "file": path, "line": line,
        "source": text, "decorator": jit_options(obj), "bindings": {}, "freevars": {}, "defaults": {},
        "future": bool(raw.__code__.co_flags & 0x1000000),  # from __future__ import annotations
    }  # fmt: skip

    def scan(node: Node) -> None:
        tree = ast.parse(text)
        cells = {}
        for variable, cell in zip(raw.__code__.co_freevars, raw.__closure__ or ()):
            try:
                cells[variable] = cell.cell_contents
            except ValueError:  # an empty cell: the enclosing function has not assigned it yet
                continue
        scopes = (("freevars", cells), ("bindings", raw.__globals__))
        done = getattr(type(obj), "rewritten_fn", None)  # by the interpreter, at the first launch
        late = isinstance(done, dict) and raw not in done
        evaluated = done.get(raw, raw) if isinstance(done, dict) else raw
        _scan_function(node, tree, scopes, evaluated, kind == "function", graph, late)

    return node, scan


def _scan_function(
    node: Node, tree: ast.Module, scopes: Scopes, raw: Any, decorated: bool, graph: _Graph, late: bool = False
) -> None:
    definition = tree.body[0]
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        graph.bind(node, tree, scopes)
        return
    if not decorated:
        definition.decorator_list = []
    arguments = definition.args
    every = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    every += [one for one in (arguments.vararg, arguments.kwarg) if one]
    soft: Set[str] = set()
    for holder, field in [(one, "annotation") for one in every] + [(definition, "returns")]:
        annotation = getattr(holder, field)
        if annotation is not None:
            soft.update(each.id for each in ast.walk(annotation) if isinstance(each, ast.Name))
            setattr(holder, field, None)
    given = {}
    if raw is not None:
        values = raw.__defaults__ or ()
        positional = [one.arg for one in arguments.posonlyargs + arguments.args]
        given = dict(zip(positional[len(positional) - len(values) :], values))
        given.update(raw.__kwdefaults__ or {})
        _bind_defaults(node, arguments, scopes, given, late, graph)
    for index in range(len(arguments.defaults)):
        arguments.defaults[index] = ast.copy_location(ast.Constant(0), arguments.defaults[index])
    arguments.kw_defaults = [one and ast.copy_location(ast.Constant(0), one) for one in arguments.kw_defaults]
    graph.bind(node, tree, scopes, soft)


def _bind_defaults(
    node: Node, arguments: ast.arguments, scopes: Scopes, given: dict[str, Any], late: bool, graph: _Graph
) -> None:
    """A default was evaluated long ago: its text is kept where it still means the same, else the value.

    ``late``: Triton's interpreter will evaluate it (again) at the first launch, with the names of that time.
    """
    positional = arguments.posonlyargs + arguments.args
    positional = positional[len(positional) - len(arguments.defaults) :]
    pairs = list(zip(positional, arguments.defaults)) + list(zip(arguments.kwonlyargs, arguments.kw_defaults))
    for argument, expression in pairs:
        if expression is None or argument.arg not in given:
            continue
        value = given[argument.arg]
        names = [each.id for each in ast.walk(expression) if isinstance(each, ast.Name)]
        found = {}
        for name in names:
            for kind, scope in scopes:
                if name in scope:
                    found[name] = (kind, scope[name])
                    break
        known = all(name in found or hasattr(builtins, name) for name in names)
        fixed = all(isinstance(held, types.ModuleType) and is_library(held) for _, held in found.values())
        same = isinstance(expression, ast.Name) and known and found.get(names[0], (0, given))[1] is value
        if same or (known and (fixed or late)):
            for name, (kind, held) in found.items():
                graph.bind_one(node[kind], name, held, chains(expression).get(name, ()), False)
        else:
            reference = graph.reference(value, argument.arg)
            if "opaque" in reference:
                graph.lost(argument.arg, "a default value of type %s" % reference["type"])
            node["defaults"][argument.arg] = reference


def _detached_node(obj: Any, name: str, graph: _Graph) -> tuple[Node, Scan] | None:
    """A jit function that Inductor stripped of its Python function to send it between processes."""
    text = getattr(obj, "src", None)
    path = getattr(obj, "file_name", None) or ""
    if not isinstance(text, str):
        return None
    shown = str(getattr(obj, "__name__", name))
    node: Node = {
        "type": "jit", "name": shown, "module": str(getattr(obj, "__module__", "")), "file": path,
        "line": int(getattr(obj, "starting_line_number", 0) or 0), "source": textwrap.dedent(text),
        "decorator": jit_options(obj), "bindings": {}, "freevars": {}, "defaults": {}, "future": False,
    }  # fmt: skip

    def scan(node: Node) -> None:
        graph.keep_file(path)
        scope = getattr(obj, "__globals__", None) or _imported_by(graph.files.get(path, _INDUCTOR_IMPORTS))
        _scan_function(node, ast.parse(node["source"]), (("bindings", scope),), None, False, graph)

    return node, scan


# what every kernel that Inductor generates begins with; resolved through sys.modules, never imported
_INDUCTOR_IMPORTS = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
"""


def _imported_by(text: str) -> dict[str, Any]:
    """What the import statements of a module's text bind, as far as it is loaded already."""
    scope = {}
    for statement in ast.walk(ast.parse(text)):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                module = sys.modules.get(alias.name if alias.asname else alias.name.partition(".")[0])
                if module is not None:
                    scope[alias.asname or alias.name.partition(".")[0]] = module
        elif isinstance(statement, ast.ImportFrom) and not statement.level:
            module = sys.modules.get(statement.module or "")
            for alias in statement.names:
                found = getattr(module, alias.name, sys.modules.get("%s.%s" % (statement.module, alias.name)))
                if found is not None:
                    scope[alias.asname or alias.name] = found
    return scope


def _class_node(cls: type, graph: _Graph) -> tuple[Node, Scan] | None:
    path, line = "", 0
    try:
        path = inspect.getsourcefile(cls) or ""
        lines, line = inspect.getsourcelines(cls)
        text = textwrap.dedent("".join(lines))
        ast.parse(text)
    except (OSError, TypeError, SyntaxError, IndentationError):
        fields = getattr(cls, "_fields", None)
        if not (issubclass(cls, tuple) and isinstance(fields, tuple)):
            graph.lost(cls.__name__, "the class has no source text")
            return None
        path, line = "", 0
        text = "%s = collections.namedtuple(%r, %r)" % (cls.__name__, cls.__name__, list(fields))
    graph.keep_file(path)
    node = {
        "type": "class", "name": cls.__name__, "module": str(cls.__module__), "file": path, "line": line,
        "source": text, "decorator": "", "bindings": {}, "freevars": {}, "defaults": {}, "future": False,
    }  # fmt: skip

    def scan(node: Node) -> None:
        scope = dict(vars(sys.modules[cls.__module__])) if cls.__module__ in sys.modules else {}
        if text.startswith("%s = collections." % cls.__name__):
            scope = {"collections": sys.modules["collections"]}
        future = scope.get("annotations")
        node["future"] = type(future).__name__ == "_Feature"
        graph.bind(node, ast.parse(text), (("bindings", scope),))

    return node, scan
