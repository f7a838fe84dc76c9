"""Makes one standalone module of a source graph: imports, constants, helpers, the kernel last.

The text of every function stays as its author wrote it. Only what cannot stay is edited: decorators
other than the JIT's, names that two modules use for two things, chains through modules that are not
there any more, defaults whose value came from an enclosing function.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from kerncap.capture.source.lines import Lines, checked_options, comment_text, import_line, named_originals
from kerncap.capture.source.source_graph import (
    AttributeRef,
    CallRef,
    ConstexprRef,
    ImportRef,
    MappingRef,
    ModuleRef,
    Node,
    NodeRef,
    OpaqueRef,
    Ref,
    SequenceRef,
    SourceGraph,
    ValueRef,
    inside,
    parse_graph,
)
from kerncap.capture.source.source_text import (
    FunctionText,
    annotations_of,
    attribute_parents,
    chain_at,
    global_names,
    identifiers,
)
from kerncap.errors import CaptureError
from kerncap.format.schema import SourceOrigin

MAX_MODULE = 4 << 20  # characters: the manifest's readers show it
_BUILTIN = OpaqueRef("builtin", "")
_GLUON = ModuleRef("triton.experimental.gluon")
_JIT = ("jit", "gluon")


@dataclass(frozen=True)
class AssembledSource:
    """The module's text; ``originals`` are untouched files by the name that they get under source/original/.

    ``extras`` are the module's names of the functions that the kernel was passed, in the order of the graph.
    """

    text: str
    entry: str
    origins: tuple[SourceOrigin, ...]
    originals: dict[str, bytes]
    missing: tuple[str, ...]
    extras: tuple[str, ...] = ()


def assemble(graph: object) -> AssembledSource:
    """One editable module of a source graph (docs/session.md). Runs and imports nothing of it.

    Deterministic. Raises CaptureError for a graph that is malformed or has no kernel with text.
    """
    try:
        return _Module(parse_graph(graph)).build()
    except RecursionError as error:
        raise CaptureError("source graph: text or values nested too deeply") from error


class _Module:
    def __init__(self, graph: SourceGraph) -> None:
        self.graph = graph
        self.missing = list(graph.missing)
        self.texts = {key: FunctionText(node.source, node.name) for key, node in graph.nodes.items()}
        self.used = frozenset(name for text in self.texts.values() for name in identifiers(text.definition))
        self.names: dict[str, Ref] = {}  # what the module binds, in the order of allocation
        self.primary: dict[Ref, str] = {}
        self.renamed: dict[str, dict[str, str]] = {}  # node -> name in its text -> name in the module

    # --- names -----------------------------------------------------------------------------------

    def build(self) -> AssembledSource:
        nodes = self._reachable()
        for node in nodes:
            self._reserve_builtins(node)
        self._allocate("triton", ModuleRef("triton"))
        self._allocate("tl", ModuleRef("triton.language"))
        if any(node.type == "gluon" for node in nodes):
            self._allocate("gluon", _GLUON)
        for key in (self.graph.entry, *self.graph.extra):
            self._primary_name(NodeRef(key))
        for node in nodes:
            self._name_bindings(node)
        for node in nodes:
            self._edit(node)
        return self._render(nodes)

    def _reachable(self) -> list[Node]:
        todo = [self.graph.entry, *self.graph.extra]
        seen: dict[str, None] = {}
        while todo:
            key = todo.pop(0)
            if key not in seen:
                seen[key] = None
                node = self.graph.nodes[key]
                for ref in (*node.bindings.values(), *node.defaults.values()):
                    todo += [each.key for each in inside(ref) if isinstance(each, NodeRef)]
        return [self.graph.nodes[key] for key in seen]

    def _reserve_builtins(self, node: Node) -> None:
        """A name that one text takes from Python must not be given to another's helper."""
        self.names.setdefault("float", _BUILTIN)
        roots = {name.partition(".")[0] for name in node.bindings}
        text = self.texts[node.key]
        for each in global_names(text.definition, self._unread(node)):
            if each.id not in roots and each.id != node.name:
                self.names.setdefault(each.id, _BUILTIN)

    def _allocate(self, wanted: str, ref: Ref, hidden: frozenset[str] = frozenset()) -> str:
        """A name of the module for ``ref``: the one that is wanted, or one like it that nobody uses.

        ``hidden`` are the names of the text that will say it: a local of that text would hide it.
        """
        if wanted not in hidden and self.names.setdefault(wanted, ref) == ref:
            self.primary.setdefault(ref, wanted)
            return wanted
        known = None if isinstance(ref, (ValueRef, ConstexprRef)) else self.primary.get(ref)
        if known is not None and known != wanted and known not in hidden:
            return known
        number = 2
        while (name := f"{wanted}_{number}") in self.used or self.names.get(name, ref) != ref:
            number += 1
        self.names[name] = ref
        self.primary.setdefault(ref, name)
        return name

    def _primary_name(self, ref: NodeRef) -> str:
        if ref not in self.primary:
            self._allocate(self.graph.nodes[ref.key].name, ref)
        return self.primary[ref]

    def _name_bindings(self, node: Node) -> None:
        renamed = self.renamed.setdefault(node.key, {})
        here = frozenset(identifiers(self.texts[node.key].definition))
        for ref in (*node.bindings.values(), *node.defaults.values()):
            for inner in inside(ref):
                if inner is not ref or isinstance(ref, (NodeRef, ValueRef)) or ref in node.defaults.values():
                    self._name_parts(inner)
        for name, ref in node.bindings.items():
            if "." not in name:
                given = self._allocate(name, ref)
                if given != name and given in here:
                    given = self._allocate(f"{name}_{node.key}", ref, here)
            else:
                wanted = self.primary[ref] if isinstance(ref, NodeRef) else name.rpartition(".")[2]
                bound = {each for each in here if node.bindings.get(each) == ref}
                given = self._allocate(wanted, ref, here - bound)
            if given != name:
                renamed[name] = given

    def _name_parts(self, ref: Ref) -> None:
        """Names for what an expression needs: the parts of tuples, calls, members, dtypes."""
        if isinstance(ref, NodeRef):
            self._primary_name(ref)
        elif isinstance(ref, ImportRef):
            if ref not in self.primary:
                self._allocate(ref.attribute, ref)
        elif isinstance(ref, ModuleRef):
            if ref not in self.primary:
                self._allocate(ref.name.rpartition(".")[2], ref)
        elif isinstance(ref, ValueRef) and ref.library == "torch":
            self._name_parts(ModuleRef("torch"))

    # --- text ------------------------------------------------------------------------------------

    def _unread(self, node: Node) -> frozenset[int]:
        """Parts of the text that are replaced, so that names in them do not count: by id of their tree."""
        definition = self.texts[node.key].definition
        if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return frozenset()
        skip = {id(each) for each in definition.decorator_list} if node.type != "function" else set()
        skip |= {id(each) for _, each in self._overridden(node, definition)}
        skip |= {id(each) for each in self._unresolved_annotations(node, definition)}
        skip |= {id(each) for each in self._odd_constexprs(node, definition)} if node.type in _JIT else set()
        return frozenset(skip)

    def _overridden(
        self, node: Node, definition: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[tuple[Ref, ast.expr]]:
        arguments = definition.args
        every = [*arguments.posonlyargs, *arguments.args]
        pairs: list[tuple[ast.arg, ast.expr | None]] = list(
            zip(every[len(every) - len(arguments.defaults) :], arguments.defaults, strict=True)
        )
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for argument, default in pairs:
            if default is not None and argument.arg in node.defaults:
                yield node.defaults[argument.arg], default

    def _unresolved_annotations(
        self, node: Node, definition: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[ast.expr]:
        roots = {name.partition(".")[0] for name in node.bindings}
        for annotation in annotations_of(definition):
            if isinstance(annotation, ast.Constant):
                continue
            names = {each.id for each in ast.walk(annotation) if isinstance(each, ast.Name)}
            simple = isinstance(annotation, (ast.Name, ast.Attribute))
            if (node.future and not simple) or any(
                name not in roots and not hasattr(builtins, name) for name in names
            ):
                yield annotation

    def _odd_constexprs(
        self, node: Node, definition: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> Iterator[ast.expr]:
        """Annotations that are `tl.constexpr` in other words: the interpreter goes by their text."""
        language = (ModuleRef("triton.language"), ModuleRef("triton.language.core"))
        for each in annotations_of(definition):
            if isinstance(each, ast.Constant):
                odd = each.value in ("constexpr", "tl.constexpr", "triton.language.constexpr")
            elif isinstance(each, ast.Name) and each.id != "constexpr":
                ref = node.bindings.get(each.id)
                odd = ref in [ImportRef(module.name, "constexpr") for module in language]
            elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
                known = node.bindings.get(each.value.id) in language
                odd = known and each.attr == "constexpr" and each.value.id != "tl"
            else:
                continue
            if odd:
                yield each

    def _edit(self, node: Node) -> None:
        text = self.texts[node.key]
        definition = text.definition
        if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for ref, default in self._overridden(node, definition):
                text.replace(default, None, self._expression(ref))
            for annotation in self._unresolved_annotations(node, definition):
                text.replace(annotation, None, ascii(" ".join(text.segment(annotation).split())))
            if node.type in _JIT:
                for annotation in self._odd_constexprs(node, definition):
                    text.replace(annotation, None, f"{self.primary[ModuleRef('triton.language')]}.constexpr")
            if node.type != "function":
                options = checked_options(node.options) if node.type in _JIT else ""
                text.replace_decorators(self._decorator(node) + (f"({options})" if options else ""))
        self._rename(node, text)
        own = self.primary[NodeRef(node.key)]
        if own != node.name:
            text.rename_definition(own)

    def _decorator(self, node: Node) -> str:
        if node.type == "gluon":  # another language, of which `@triton.jit` compiles nothing
            return f"@{self.primary[_GLUON]}.jit"
        return f"@{self.primary[ModuleRef('triton')]}.{node.type}"

    def _rename(self, node: Node, text: FunctionText) -> None:
        renamed = dict(self.renamed.get(node.key, {}))
        own = self.primary[NodeRef(node.key)]
        if own != node.name and node.name not in node.bindings:
            renamed.setdefault(node.name, own)
        if not renamed:
            return
        parents = attribute_parents(text.definition)
        for name in global_names(text.definition, self._unread(node)):
            if isinstance(text.definition, ast.Assign) and name is text.definition.targets[0]:
                continue
            target: ast.expr = name
            path = found = name.id
            for attribute in chain_at(name, parents):
                path = f"{path}.{attribute.attr}"
                if path in renamed:
                    target, found = attribute, path
            if found in renamed:
                text.replace(target, found, renamed[found])

    # --- expressions -----------------------------------------------------------------------------

    def _expression(self, ref: Ref) -> str:
        if isinstance(ref, ConstexprRef):
            return f"{self.primary[ModuleRef('triton.language')]}.constexpr({self._expression(ref.value)})"
        if isinstance(ref, ValueRef):
            if not ref.library:
                return ref.text
            module = "torch" if ref.library == "torch" else "triton.language"
            return f"{self.primary[ModuleRef(module)]}.{ref.text}"
        if isinstance(ref, (NodeRef, ModuleRef, ImportRef)):
            return self.primary[ref]
        if isinstance(ref, AttributeRef):
            return f"{self._expression(ref.of)}.{ref.name}"
        if isinstance(ref, CallRef):
            parts = [self._expression(each) for each in ref.arguments]
            parts += [f"{name}={self._expression(each)}" for name, each in ref.keywords]
            return f"{self._expression(ref.of)}({', '.join(parts)})"
        if isinstance(ref, SequenceRef):
            inner = ", ".join(self._expression(each) for each in ref.items)
            if ref.type == "list":
                return f"[{inner}]"
            return f"({inner},)" if len(ref.items) == 1 else f"({inner})"
        if isinstance(ref, MappingRef):
            pairs = [f"{self._expression(key)}: {self._expression(each)}" for key, each in ref.items]
            return "{" + ", ".join(pairs) + "}"
        return "None"  # opaque inside a tuple: its place is kept, `missing` names it

    # --- the whole -------------------------------------------------------------------------------

    def _render(self, nodes: list[Node]) -> AssembledSource:
        entry = self.graph.nodes[self.graph.entry]
        out = Lines()
        out.add(
            f"# {comment_text(entry.name)}: {comment_text(entry.file)}:{entry.line}\n"
            "# One Triton kernel with everything that it needs, as the application had it at the launch.\n"
            "# Edit it, then: kerncap replay REPRODUCER --candidate THIS_FILE\n"
        )
        out.add(self._imports())
        done: set[str] = set()
        constants = []
        for name, ref in self.names.items():
            if not any(isinstance(each, NodeRef) for each in inside(ref)):
                constants.append(self._constant(name, ref))
                done.add(name)
        out.add("\n" + "".join(constants) if any(constants) else "")
        order: list[str] = []
        for key in (*self.graph.extra, self.graph.entry):
            self._visit(key, order, {self.graph.entry} - {key})
        order.sort(key=lambda key: key == self.graph.entry)
        for key in order:
            self._write_node(self.graph.nodes[key], out, done)
        for name in self.names:  # aliases of functions that a cycle kept waiting
            self._write_alias(name, out, done, frozenset(order))
        text = out.text()
        if len(text) > MAX_MODULE:
            raise CaptureError(f"the kernel's source has {len(text)} characters, more than {MAX_MODULE}")
        problems = [problem for node in nodes for problem in self.texts[node.key].problems]
        return AssembledSource(
            text=text,
            entry=self.primary[NodeRef(self.graph.entry)],
            origins=tuple(out.origins),
            originals=named_originals(self.graph.files),
            missing=tuple(dict.fromkeys([*self.missing, *problems])),
            extras=tuple(self.primary[NodeRef(key)] for key in self.graph.extra),
        )

    def _visit(self, key: str, order: list[str], busy: set[str]) -> None:
        """Helpers before their users; what is needed already while a module loads, before anything else."""
        if key in order or key in busy:
            return
        node = self.graph.nodes[key]
        for ref in (*node.defaults.values(), *node.bindings.values()):
            for each in inside(ref):
                if isinstance(each, NodeRef):
                    self._visit(each.key, order, busy | {key})
        if key not in order:
            order.append(key)

    def _imports(self) -> str:
        first = [
            import_line(self.primary[ModuleRef(name)], ModuleRef(name))
            for name in ("triton", "triton.language")
        ]
        lines = {f"import {name}" for name in self.graph.modules}
        for name, ref in self.names.items():
            if isinstance(ref, (ModuleRef, ImportRef)):
                lines.add(import_line(name, ref))
        return "\n".join(sorted(lines - set(first)) + first) + "\n"

    def _constant(self, name: str, ref: Ref) -> str:
        if isinstance(ref, OpaqueRef):
            if ref is _BUILTIN:
                return ""
            text, kind = comment_text(ref.text), comment_text(ref.type)
            return f"# {name} = {text} (a {kind}, which a file cannot hold)\n"
        return "" if isinstance(ref, (ModuleRef, ImportRef)) else f"{name} = {self._expression(ref)}\n"

    def _write_node(self, node: Node, out: Lines, done: set[str]) -> None:
        ready = frozenset(key for key in self.graph.nodes if self.primary.get(NodeRef(key)) in done)
        for name in self._wanted_by(node):
            self._write_alias(name, out, done, ready)
        own = self.primary[NodeRef(node.key)]
        text = self.texts[node.key].result()
        out.add("\n\n")
        if node.file:
            out.add(f"# {comment_text(node.file)}:{node.line}\n")
        out.add_function(own, text, node, self.texts[node.key].definition.lineno - 1)
        done.add(own)

    def _wanted_by(self, node: Node) -> Iterator[str]:
        renamed = self.renamed.get(node.key, {})
        for name in node.bindings:
            yield renamed.get(name, name)

    def _write_alias(self, name: str, out: Lines, done: set[str], ready: frozenset[str]) -> None:
        ref = self.names.get(name)
        if name in done or ref is None:
            return
        needed = {each.key for each in inside(ref) if isinstance(each, NodeRef)}
        is_definition = isinstance(ref, NodeRef) and self.primary[ref] == name
        if needed <= ready and not is_definition:
            out.add(f"\n{name} = {self._expression(ref)}\n")
            done.add(name)
