"""Follows a kernel's names through the running target and writes down what they are: facts only.

Runs in the target, so: the standard library alone, and of it only what Triton itself has imported;
no attribute access that could run the user's code beyond `__dict__`; nothing is raised, a name that
cannot be followed becomes an entry of ``missing``. `kerncap.capture.source` makes a module of the graph
(docs/session.md, "Source graph").
"""

import ast
import builtins
import dis
import enum
import inspect
import linecache
import os
import sys
import textwrap
import types

MAX_NODES = 2000
MAX_FILE_BYTES = 4 << 20
MAX_FILES_BYTES = 32 << 20
MAX_DEPTH = 16
MAX_TEXT = 1 << 20

LIBRARIES = ("triton", "torch", "numpy")  # what a replay has anyway; all else is inlined
JIT_OPTIONS = ("version", "do_not_specialize", "do_not_specialize_on_alignment", "debug", "noinline")
_STDLIB = os.path.dirname(os.path.abspath(os.__file__))


def collect(fn, extra=()):
    """The source graph of the jit function ``fn`` and of the functions ``extra`` that it is passed; never raises."""
    graph = _Graph()
    try:
        entry = graph.reference(unwrap(fn), "kernel", entry=True)
        out = {"entry": entry.get("node", ""), "extra": []}
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


def unwrap(fn):
    """The jit function inside of autotuners, heuristics and Inductor's wrappers."""
    for _ in range(MAX_DEPTH):
        inner = getattr(fn, "fn", None)
        if jit_kind(fn) or inner is None:
            return fn
        fn = inner
    return fn


def jit_kind(obj):
    """``jit``, ``constexpr_function``, or None for anything else."""
    for base in type(obj).__mro__:
        if base.__module__.partition(".")[0] == "triton":
            if base.__name__ in ("JITFunction", "InterpretedFunction", "GluonJITFunction"):
                return "jit"
            if base.__name__ == "ConstexprFunction":
                return "constexpr_function"
    return None


class _Graph:
    def __init__(self):
        self.nodes = {}
        self.files = {}
        self.missing = []
        self._ids = {}  # id(object) -> node; the objects are kept alive by _kept
        self._kept = []
        self._queue = []
        self._file_bytes = 0

    def lost(self, name, reason):
        if [name, reason] not in self.missing and len(self.missing) < 1000:
            self.missing.append([str(name)[:200], str(reason)[:500]])

    def drain(self):
        while self._queue:
            node, scan = self._queue.pop(0)
            try:
                scan(node)
            except Exception as error:
                self.lost(node["name"], "could not be followed: %s: %s" % (type(error).__name__, error))

    # --- what an object is ---------------------------------------------------------------------

    def reference(self, obj, name, depth=0, entry=False):
        """The REF of ``obj``, bound to ``name`` where it was found."""
        if depth > MAX_DEPTH:
            return _opaque(obj)
        if _is_triton(obj, "constexpr", "triton.language.core"):
            return dict(self.reference(obj.value, name, depth + 1), constexpr=True)
        plain = _plain_value(obj)
        if plain is not None:
            return {"value": plain, "constexpr": False}
        again = lambda item: self.reference(item, name, depth + 1)  # noqa: E731
        kind = type(obj)
        if isinstance(obj, types.ModuleType):
            return {"module": obj.__name__}
        if isinstance(obj, enum.Enum):
            member = obj.__dict__.get("_name_")
            return {"attribute": [again(kind), member]} if isinstance(member, str) else _opaque(obj)
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
        if _is_triton(obj, "pointer_type", "triton.language.core"):
            home = {"import": ["triton.language", "pointer_type"]}
            return {"call": home, "arguments": [again(obj.element_ty)]}
        return _opaque(obj)

    def _node(self, obj, name):
        known = self._ids.get(id(obj))
        if known:
            return {"node": known}
        if len(self.nodes) >= MAX_NODES:
            self.lost(name, "more than %d functions" % MAX_NODES)
            return _opaque(obj)
        if isinstance(obj, types.BuiltinFunctionType):
            self.lost(name, "a compiled function of %s" % getattr(obj, "__module__", None))
            return _opaque(obj)
        node = _class_node(obj, name, self) if isinstance(obj, type) else _function_node(obj, name, self)
        if node is None:
            return _opaque(obj)
        key = "n%d" % len(self.nodes)
        self._ids[id(obj)] = key
        self._kept.append(obj)
        node, scan = node
        self.nodes[key] = node
        self._queue.append((node, scan))
        return {"node": key}

    def keep_file(self, path):
        if not path or path in self.files:
            return
        text = "".join(linecache.getlines(path))
        size = len(text.encode("utf-8", "replace"))
        if text and size <= MAX_FILE_BYTES and self._file_bytes + size <= MAX_FILES_BYTES:
            self.files[path] = text
            self._file_bytes += size

    # --- names -----------------------------------------------------------------------------------

    def bind(self, node, tree, scopes, soft=()):
        """Fill the bindings of ``node`` with what the free names of ``tree`` are in ``scopes``.

        ``scopes`` are (kind, dict) from the inside out; names of ``soft`` may stay unresolved (annotations).
        """
        chains = _chains(tree)
        for name in sorted(set(free_names(tree)) | set(soft), key=_position(tree)):
            for kind, scope in scopes:
                if name in scope:
                    self._bind_one(node[kind], name, scope[name], chains.get(name, ()), name in soft)
                    break
            else:
                if not hasattr(builtins, name) and name not in soft:
                    self.lost(name, "not defined in %s" % node["module"])

    def _bind_one(self, into, name, value, chains, soft):
        if isinstance(value, types.ModuleType):
            self._bind_module(into, name, value, chains)
            return
        found = self.reference(value, name)
        if soft and ("node" in found or "opaque" in found):
            return  # an annotation that Triton never reads: not worth a class
        if "opaque" in found:
            members = vars(value) if hasattr(value, "__dict__") else {}
            inner = {chain[0]: members[chain[0]] for chain in chains if chain and chain[0] in members}
            parts = {key: self.reference(item, key) for key, item in inner.items()}
            if parts and not any("opaque" in part for part in parts.values()):
                into.update({"%s.%s" % (name, key): part for key, part in parts.items()})
                return
            self.lost(name, "a value of type %s" % found["type"])
        into[name] = found

    def _bind_module(self, into, name, module, chains):
        """Libraries are imported; of the user's own modules only what is used is taken, by dotted name."""
        library = is_library(module)
        if library or not chains:
            into[name] = {"module": module.__name__}
            if not library:
                self.lost(name, "the module %s is imported, not copied" % module.__name__)
        for chain in sorted(set(chains)):
            here, path = module, [name]
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
                self._bind_one(into, ".".join(path), here, (), False)

    def _bind_library(self, into, name, found, path):
        deepest = found.__name__ if isinstance(found, types.ModuleType) else None
        if deepest and len(path) > 1:
            needs = into[name].setdefault("with", [])
            if deepest not in needs and sys.modules.get(deepest) is found:
                needs.append(deepest)
        elif jit_kind(found) and not import_of(found, path[-1]):
            into[".".join(path)] = self.reference(found, path[-1])  # the user's, put into a library's module


# --- nodes ------------------------------------------------------------------------------------------


def _function_node(obj, name, graph):
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
        "type": kind, "name": shown, "module": str(raw.__module__), "file": path, "line": line, "source": text,
        "decorator": _jit_options(obj), "bindings": {}, "freevars": {}, "defaults": {},
        "future": bool(raw.__code__.co_flags & 0x1000000),  # from __future__ import annotations
    }  # fmt: skip

    def scan(node):
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


def _scan_function(node, tree, scopes, raw, decorated, graph, late=False):
    definition = tree.body[0]
    if not isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)):
        graph.bind(node, tree, scopes)
        return
    if not decorated:
        definition.decorator_list = []
    arguments = definition.args
    every = arguments.posonlyargs + arguments.args + arguments.kwonlyargs
    every += [one for one in (arguments.vararg, arguments.kwarg) if one]
    soft = set()
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


def _bind_defaults(node, arguments, scopes, given, late, graph):
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
                graph._bind_one(node[kind], name, held, _chains(expression).get(name, ()), False)
        else:
            reference = graph.reference(value, argument.arg)
            if "opaque" in reference:
                graph.lost(argument.arg, "a default value of type %s" % reference["type"])
            node["defaults"][argument.arg] = reference


def _detached_node(obj, name, graph):
    """A jit function that Inductor stripped of its Python function to send it between processes."""
    text = getattr(obj, "src", None)
    path = getattr(obj, "file_name", None) or ""
    if not isinstance(text, str):
        return None
    shown = str(getattr(obj, "__name__", name))
    node = {
        "type": "jit", "name": shown, "module": str(getattr(obj, "__module__", "")), "file": path,
        "line": int(getattr(obj, "starting_line_number", 0) or 0), "source": textwrap.dedent(text),
        "decorator": _jit_options(obj), "bindings": {}, "freevars": {}, "defaults": {}, "future": False,
    }  # fmt: skip

    def scan(node):
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


def _imported_by(text):
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


def _class_node(cls, name, graph):
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

    def scan(node):
        scope = dict(vars(sys.modules[cls.__module__])) if cls.__module__ in sys.modules else {}
        if text.startswith("%s = collections." % cls.__name__):
            scope = {"collections": sys.modules["collections"]}
        future = scope.get("annotations")
        node["future"] = type(future).__name__ == "_Feature"
        graph.bind(node, ast.parse(text), (("bindings", scope),))

    return node, scan


# --- text -------------------------------------------------------------------------------------------


def raw_function(obj):
    """The Python function inside of a jit function, a cache wrapper or `functools.wraps`."""
    for _ in range(MAX_DEPTH):
        if isinstance(obj, types.FunctionType):
            inner = obj.__dict__.get("__wrapped__")
            if inner is None:
                return obj
            obj = inner
        elif isinstance(obj, types.MethodType):
            obj = obj.__func__
        else:
            obj = getattr(obj, "fn", None) or getattr(obj, "__wrapped__", None)
    return None


def source_text(obj, raw):
    """(text, first line, doubt) of a function; the text is None where there is none."""
    if raw.__name__ == "<lambda>":
        return _lambda_text(raw)
    live = getattr(obj, "src", None) if jit_kind(obj) else None  # the user may have replaced it
    doubt = "no source text"
    first = None
    for text, line in _texts(obj, raw):
        text = textwrap.dedent(text)
        if len(text) > MAX_TEXT:
            return None, 0, "more than %d characters" % MAX_TEXT
        if isinstance(live, str) and live.strip() not in text:
            continue
        if _same_code(raw.__code__, text):
            return text, line, None
        first = first or (text, line)
    if isinstance(live, str):
        same = first is not None
        return live, getattr(obj, "starting_line_number", 0), None if same else "its text was replaced at run time"
    if first:
        return first[0], first[1], "its file changed since it was imported: the text may not be what ran"
    return None, 0, doubt


def _texts(obj, raw):
    """Texts that may be the function's, the likeliest first: as of import, as cached, as on disk now."""
    lines = getattr(obj, "raw_src", None)
    if isinstance(lines, (list, tuple)):
        yield "".join(lines), obj.starting_line_number
    code = raw.__code__
    for refresh in (False, True):
        if refresh:
            linecache.checkcache(code.co_filename)
        lines = linecache.getlines(code.co_filename, raw.__globals__)
        if 0 < code.co_firstlineno <= len(lines):
            yield "".join(inspect.getblock(lines[code.co_firstlineno - 1 :])), code.co_firstlineno
    try:
        definitions = [each for each in ast.walk(ast.parse("".join(lines))) if isinstance(each, ast.FunctionDef)]
    except SyntaxError:
        return
    for each in definitions:  # moved by an edit above it
        if each.name == raw.__name__:
            start = min([each.lineno] + [one.lineno for one in each.decorator_list])
            yield "".join(lines[start - 1 : each.end_lineno]), start


def _lambda_text(raw):
    try:
        lines, line = inspect.getsourcelines(raw)
        text = textwrap.dedent("".join(lines))
        tree = _parse_leniently(text)
    except (OSError, TypeError, SyntaxError):
        return None, 0, "a lambda without source text"
    for each in ast.walk(tree):
        if isinstance(each, ast.Lambda):
            part = ast.get_source_segment(text, each)
            if part and _same_code(raw.__code__, part):
                return part if "\n" not in part else "(%s)" % part, line, None
    return None, 0, "a lambda that its source lines do not show"


def _parse_leniently(text):
    """A lambda's lines may be the middle of a call: drop what stands before it until it parses."""
    for start in [0] + [at for at in range(len(text)) if text.startswith("lambda", at)]:
        for end in [len(text)] + [at for at in range(len(text) - 1, start, -1) if text[at] in ",)]}\n"]:
            try:
                return ast.parse(text[start:end])
            except SyntaxError:
                continue
    raise SyntaxError("no lambda")


def _same_code(code, text):
    """Whether ``text`` compiles to ``code``, as far as names and constants tell."""
    try:
        module = compile(text, "<text>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return any(_gist(code) == _gist(each) for each in _codes(module) if each.co_name == code.co_name)


def _gist(code):
    constants = [repr(each) for each in code.co_consts if not isinstance(each, types.CodeType)]
    names = sorted(set(code.co_names) | set(code.co_freevars))
    return names, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], constants


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for each in _codes(constant):
                yield each


def free_names(tree):
    """The global names that a module of this tree loads: Python's own scoping decides, nothing runs."""
    found = {}
    for code in _codes(compile(ast.fix_missing_locations(tree), "<names>", "exec", dont_inherit=True)):
        instructions = list(dis.get_instructions(code))
        stored = {each.argval for each in instructions if each.opname == "STORE_NAME"}
        for each in instructions:
            if each.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                if each.opname == "LOAD_GLOBAL" or each.argval not in stored:
                    found[each.argval] = True
    return [name for name in found if not (name.startswith("__") and name.endswith("__"))]


def _chains(tree):
    """Root name -> the attribute chains that the text hangs on it, longest form."""
    inner = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    chains = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.Attribute) and id(each) not in inner:
            path = []
            while isinstance(each, ast.Attribute):
                path.append(each.attr)
                each = each.value
            if isinstance(each, ast.Name):
                chains.setdefault(each.id, []).append(tuple(reversed(path)))
    return chains


def _position(tree):
    first = {}
    for each in ast.walk(tree):
        if isinstance(each, ast.Name):
            at = (each.lineno, each.col_offset)
            first[each.id] = min(first.get(each.id, at), at)
    return lambda name: (first.get(name, (1 << 30, 0)), name)


# --- libraries and values ----------------------------------------------------------------------------


def is_library(module):
    """Whether a replay can import this module: triton, torch, numpy, the standard library."""
    name = getattr(module, "__name__", "") or ""
    if sys.modules.get(name) is not module:
        return False
    root = name.partition(".")[0]
    path = getattr(module, "__file__", None)
    if root in LIBRARIES:
        # Inductor files its generated kernels under torch's name: where the file lies decides
        package = getattr(sys.modules.get(root), "__file__", None)
        return bool(package) and (path is None or path.startswith(os.path.dirname(package) + os.sep))
    if root not in getattr(sys, "stdlib_module_names", ()) or root == "__main__":
        return False
    inside = path is not None and os.path.abspath(path).startswith(_STDLIB + os.sep)
    return path is None or (inside and "site-packages" not in path and "dist-packages" not in path)


def import_of(obj, name):
    """[module, attribute] from which a replay gets the very same object, or None."""
    raw = obj if isinstance(obj, (type, types.BuiltinFunctionType)) else (raw_function(obj) or obj)
    last = name.rpartition(".")[2]
    own = (getattr(raw, "__module__", None), getattr(raw, "__qualname__", None) or getattr(raw, "__name__", None))
    places = [own, (own[0], last)]
    if isinstance(own[0], str) and own[0].partition(".")[0] == "triton":
        places += [("triton.language", last), ("triton.language", own[1])]
    for place, attribute in places:
        module = sys.modules.get(place) if isinstance(place, str) else None
        if module is None or not is_library(module) or not isinstance(attribute, str) or "." in attribute:
            continue
        found = vars(module).get(attribute)
        original = (getattr(found, "__kwdefaults__", None) or {}).get("member")  # the interpreter's patch over it
        if found is obj or original is obj:
            return [place, attribute]
    return None


def _is_triton(obj, name, module):
    return type(obj).__name__ == name and type(obj).__module__ == module


def _opaque(obj):
    try:
        text = repr(obj)[:200]
    except Exception:
        text = "?"
    return {"opaque": text, "type": "%s.%s" % (type(obj).__module__, type(obj).__qualname__)}


def _plain_value(obj):
    """The encoded Value of a scalar, a string, a dtype; None for all else."""
    kind = type(obj)
    if obj is None:
        return {"kind": "none"}
    if kind is bool:
        return {"kind": "bool", "value": obj}
    if kind is int and abs(obj) < 10**40:
        return {"kind": "int", "value": str(obj)}
    if kind is float:
        special = obj != obj or obj in (float("inf"), float("-inf"))
        return {"kind": "float", "value": repr(obj) if special else obj.hex()}
    if kind is str and len(obj) <= MAX_TEXT:
        return {"kind": "str", "value": obj}
    if kind.__module__ == "numpy" and hasattr(obj, "item") and getattr(obj, "shape", None) == ():
        return _plain_value(obj.item())
    if kind.__module__ == "torch" and kind.__name__ == "dtype":
        return {"kind": "dtype", "name": str(obj).rpartition(".")[2], "library": "torch"}
    if _is_triton(obj, "dtype", "triton.language.core"):
        for name, value in vars(sys.modules["triton.language"]).items():
            if type(value) is kind and value.name == obj.name:
                return {"kind": "dtype", "name": name, "library": "triton"}
    return None


def _jit_options(obj):
    """The arguments of `@triton.jit` that a literal can say; repr and launch_metadata name things only."""
    options = getattr(obj, "kwargs", None)
    parts = []
    for name in JIT_OPTIONS:
        value = options.get(name) if isinstance(options, dict) else getattr(obj, name, None)
        if value is not None and value != [] and value is not False:
            if isinstance(value, (list, tuple)):
                value = [each for each in value if isinstance(each, (int, str))]
            if isinstance(value, (bool, int, str, list)):
                parts.append("%s=%r" % (name, value))
    return ", ".join(parts)
