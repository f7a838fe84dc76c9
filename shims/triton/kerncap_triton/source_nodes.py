"""One node of a source graph: a function's or a class's text, and the scan that binds its names.

Runs in the target, under the rules of `source_graph`.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Dict, Protocol, Set, Tuple

from .source_text import chains, parts, source_text
from .source_values import is_library, jit_kind, jit_options, raw_function

Ref = Dict[str, Any]  # see docs/session.md
Node = Dict[str, Any]
Scopes = Sequence[Tuple[str, Dict[str, Any]]]
Chains = Sequence[Tuple[str, ...]]
Scan = Callable[[Node], None]


class Graph(Protocol):
    """What a node asks of the graph that it is in: `source_graph.Graph`."""

    files: Dict[str, str]

    def lost(self, name: str, reason: str) -> None: ...

    def reference(self, obj: Any, name: str) -> Ref: ...

    def keep_file(self, path: str) -> None: ...

    def bind(self, node: Node, tree: ast.Module, scopes: Scopes, soft: Iterable[str] = ()) -> None: ...

    def bind_one(
        self, into: Dict[str, Ref], name: str, value: Any, found_chains: Chains, soft: bool
    ) -> None: ...


def function_node(obj: Any, name: str, graph: Graph) -> tuple[Node, Scan] | None:
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
    node: Node, tree: ast.Module, scopes: Scopes, raw: Any, decorated: bool, graph: Graph, late: bool = False
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
    node: Node, arguments: ast.arguments, scopes: Scopes, given: dict[str, Any], late: bool, graph: Graph
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
                graph.bind_one(node[kind], name, held, chains(parts(expression)).get(name, ()), False)
        else:
            reference = graph.reference(value, argument.arg)
            if "opaque" in reference:
                graph.lost(argument.arg, "a default value of type %s" % reference["type"])
            node["defaults"][argument.arg] = reference


def _detached_node(obj: Any, name: str, graph: Graph) -> tuple[Node, Scan] | None:
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


def class_node(cls: type, graph: Graph) -> tuple[Node, Scan] | None:
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
