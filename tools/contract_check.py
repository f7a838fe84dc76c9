"""Looks for literals of contracts outside of them: shims/contract, and the messages of other processes.

    python tools/contract_check.py [FOLDER]    one line each, exit status 1 if there is one (make lint)

Of the messages of the replay worker, NVRTC's process and a program that is sanitized: their fields, as below,
in each file that imports them, and names of the worker's operations where one is asked for. Words of the
manifest are left out.

C++ makes its keys of the .def files by type; what is looked for there is a literal in their place, and a
word. In Python: keys and options as a key of a dict display, in a subscript or as the first argument of get,
pop and setdefault; words in a comparison, as a value that is returned, and as a value of a dict display.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from contract import ROOT, Contract

CPP = ("shims/common", "shims/cuda", "shims/hip")
HOOK = "shims/triton/kerncap_triton"
READERS = (
    *(f"kerncap/capture/{name}.py" for name in (
        "annotation", "answers", "armed", "collect", "listed", "options", "payloads", "process_log",
        "reasons", "session_file", "session_folder", "session_socket",
    )),
    "kerncap/api/arm.py",
    "kerncap/api/capture.py",
)  # fmt: skip
# Another language than the session's: values and source graphs of FORMAT.md, what --where knows by name, and
# what kerncap.capture.languages.cute_dsl reads.
OTHER = {
    "cute_dsl.py",
    "contract.py",
    "tma.py",
    "encoded_values.py",
    "source_graph.py",
    "source_nodes.py",
    "source_text.py",
    "source_values.py",
}
_WHERE = "a name that --where knows"
_TRITON = "Triton's or torch's own word"
_RESOURCES = "a name among the session's resources"
ALLOWED = {
    "shims/common/where_names.cpp": {_WHERE: ("device", "name", "range", "rank")},
    "shims/hip/load.cpp": {"rocprofiler-register's name of ROCr": ("hsa",)},
    f"{HOOK}/annotate.py": {_TRITON: ("constexpr",)},
    f"{HOOK}/call.py": {_TRITON: ("constexpr",), "a Value's key": ("kind",)},
    f"{HOOK}/compiled_facts.py": {_RESOURCES: ("code",), "a Value's keys": ("kind", "value")},
    f"{HOOK}/torch_device.py": {"a key of __cuda_array_interface__": ("shape", "version")},
    f"{HOOK}/triton_generations.py": {_TRITON: ("triton",)},
    f"{HOOK}/inductor.py": {_TRITON: ("stream", "signature", "configs", "device")},
    f"{HOOK}/kernels.py": {_TRITON: ("constexpr",)},
    f"{HOOK}/run_hook.py": {_TRITON: ("grid",)},
    f"{HOOK}/reachable_memory.py": {"a torch device's type": ("cpu", "cuda")},
    f"{HOOK}/torch_allocator.py": {"a key of torch's memory snapshot": ("address", "size")},
    f"{HOOK}/nvtx_ranges.py": {_WHERE: ("range",)},
    f"{HOOK}/selection.py": {"what became of a capture": ("failed",)},
    f"{HOOK}/session.py": {_RESOURCES: ("last", "clock")},
    f"{HOOK}/listing_times.py": {_RESOURCES: ("clock",)},
    f"{HOOK}/chosen_launch.py": {_RESOURCES: ("last",), "what became of a capture": ("failed",)},
    f"{HOOK}/where.py": {_WHERE: ("device",), _TRITON: ("constexpr",)},
    f"{HOOK}/where_names.py": {_WHERE: ("device", "range", "rank")},
    "kerncap/api/capture.py": {"a key of context.json": ("time_ns",)},
    "kerncap/capture/reasons.py": {"a package": ("triton",)},
}
_LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_KEY_CALL = re.compile(r'\b(?:field|key|null_field|find|text_or_null)\((?:json, )?"(\w+)"')


class Scan(ast.NodeVisitor):
    """Of one Python file: line and text of each literal that the contract has."""

    def __init__(self, keys: set[str], words: set[str]) -> None:
        self.keys = keys
        self.words = words
        self.found: list[tuple[int, str]] = []

    def _take(self, node: ast.expr | None, known: set[str]) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
            self.found.append((node.lineno, node.value))

    def visit_Dict(self, node: ast.Dict) -> None:
        for key in node.keys:
            self._take(key, self.keys)
        for value in node.values:
            self._take(value, self.words)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._take(node.slice, self.keys)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in ("get", "pop", "setdefault")
            and node.args
        ):
            self._take(node.args[0], self.keys)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for side in (node.left, *node.comparators):
            for one in side.elts if isinstance(side, (ast.Tuple, ast.Set, ast.List)) else (side,):
                self._take(one, self.words)
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        self._take(node.value, self.words)
        self.generic_visit(node)


def _is_allowed(file: str, text: str) -> bool:
    return any(text in texts for texts in ALLOWED.get(file, {}).values())


def literals(root: Path, contract: Contract) -> Iterator[tuple[str, int, str]]:
    """File, line and text of each."""
    keys = {*contract.keys, *(one.name for one in contract.options)}
    words = {text for group in contract.words.values() for _, text, _ in group}
    for folder in CPP:
        for path in sorted((root / folder).glob("*.[ch]*")):
            name = str(path.relative_to(root))
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                code = line.split("//")[0]
                found = {
                    *_KEY_CALL.findall(code),
                    *(text for text in _LITERAL.findall(code) if text in words),
                }
                yield from ((name, number, text) for text in sorted(found) if not _is_allowed(name, text))
    hook = [path for path in sorted((root / HOOK).glob("*.py")) if path.name not in OTHER]
    for path in (*hook, *(root / name for name in READERS if (root / name).exists())):
        scan = Scan(keys, words)
        scan.visit(ast.parse(path.read_text(encoding="utf-8")))
        name = str(path.relative_to(root))
        yield from ((name, line, text) for line, text in scan.found if not _is_allowed(name, text))


# --- messages between processes ------------------------------------------------------------------------

PROTOCOL = "replay/worker/protocol.py"
NVRTC = "replay/candidates/nvrtc_process.py"
LIVE = f"{HOOK}/sanitize/messages.py"
_WORKERS = ("replay", "kerncap/api")
SPEAKERS = {  # what is imported, and where that is looked for
    PROTOCOL: (("protocol", "typed_json"), _WORKERS),
    "replay/worker/probe_messages.py": (("probe_messages",), _WORKERS),
    "replay/worker/compile_messages.py": (("compile_messages",), _WORKERS),
    NVRTC: (("nvrtc_process",), ("replay",)),
    LIVE: (("messages", "hook_messages"), (f"{HOOK}/sanitize", "sanitizer", "kerncap/api/sanitize")),
}
_ASK = ("call", "call_within", "request")
_TALLIES = "its own tallies, by the same names"
_FILE = "a key of a file of ceilings"
MESSAGES_ALLOWED = {
    f"{HOOK}/sanitize/hooks.py": {"a stage": ("ttir",)},
    "replay/choose_engine.py": {"a package": ("numpy", "torch", "triton")},
    "replay/candidates/compilers.py": {"a group of a pattern": ("column",)},
    "replay/memory_comparison.py": {"a language": ("triton",)},
    "replay/worker/common/error_statistics.py": {
        _TALLIES: (
            "different", "elements", "finite", "inf_expected", "inf_found", "nan", "nan_expected",
            "nan_found", "negative", "outside", "positive", "scale", "special_differs", "worst",
        )
    },
    "replay/worker/limits/measure.py": {
        _FILE: ("arch", "clock_khz", "driver", "memory_clock_khz", "seconds", "sm_count")
    },
    "replay/tuning/check.py": {"a kind of memory": ("cuda",)},
    "replay/worker/torch_backend/launchers/binary.py": {
        "Triton's metadata": ("num_stages", "num_warps"), "a stage": ("metadata",),
    },
    "replay/worker/native/triton_kernels.py": {"Triton's metadata": ("num_stages",)},
    "replay/worker/torch_backend/launchers/places.py": {"a group of a pattern": ("column",)},
    "kerncap/api/replay.py": {
        "a key of the document": ("different", "driver", "notes", "relocated", "runs", "triton", "warm_ms")
    },
    "kerncap/api/verify/compute_sanitizer.py": {"a group of a pattern": ("error",)},
}  # fmt: skip


def _fields(path: Path) -> dict[str, set[str]]:
    """The fields of each class of a module."""
    classes = [
        node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)
    ]
    return {
        each.name: {
            field.target.id
            for field in each.body
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        }
        for each in classes
    }


def _speaks(tree: ast.Module, names: tuple[str, ...]) -> bool:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return any(
        (node.module or "").rpartition(".")[2] in names or any(each.name in names for each in node.names)
        for node in imports
    )


def _asked(tree: ast.Module, operations: set[str]) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ASK:
            for given in node.args:
                if isinstance(given, ast.Constant) and given.value in operations:
                    yield given.lineno, str(given.value)


def message_literals(root: Path) -> Iterator[tuple[str, int, str]]:
    """File, line and text of each literal of messages between processes."""
    tree = ast.parse((root / PROTOCOL).read_text(encoding="utf-8"))
    backend = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Backend")
    operations = {node.name for node in backend.body if isinstance(node, ast.FunctionDef)}
    manifest = set().union(*_fields(root / "kerncap/format/schema.py").values(), {"kind"})
    for messages, (imported, folders) in SPEAKERS.items():
        keys = set().union(*_fields(root / messages).values()) - manifest
        for path in sorted(path for folder in folders for path in (root / folder).rglob("*.py")):
            tree, name = ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(root))
            scan = Scan(keys, set())
            if _speaks(tree, imported) and name != messages and not path.is_symlink():
                scan.visit(tree)
            asked = _asked(tree, operations) if messages == PROTOCOL else ()
            allowed = {text for texts in MESSAGES_ALLOWED.get(name, {}).values() for text in texts}
            yield from ((name, line, text) for line, text in (*scan.found, *asked) if text not in allowed)


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    count = 0
    for name, line, text in (*literals(root, Contract.read()), *message_literals(root)):
        count += 1
        print(f"{name}:{line}: {text!r} is the contract's; use its name")
    print(f"{count} literals of the contract outside of it", file=sys.stderr)
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
