"""The product starts processes, and looks for tools, by `kerncap/child.py` alone."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

import pytest

from tests.unit.test_project import ROOT, listed

_FORMS = ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
# Calls that start a process, or look for a program or a library as a shell or a loader would.
STARTS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {
        "system", "popen", "fork", "forkpty", "startfile", "posix_spawn", "posix_spawnp",
        *(f"{kind}{form}" for kind in ("exec", "spawn") for form in _FORMS),
    },
    "shutil": {"which"},
    "pty": {"spawn", "fork"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "anyio": {"open_process", "run_process"},
    "runpy": {"run_module", "run_path"},
    "ctypes.util": {"find_library"},
    "platform": {"processor", "uname"},  # which runs uname(1)
    "webbrowser": {"open"},
    "distributed": {"LocalCluster"},
    "multiprocessing": {"Process", "Pool", "Manager", "get_context"},
    "concurrent.futures": {"ProcessPoolExecutor"},
    "click": {"edit", "launch", "echo_via_pager"},
    "venv": {"create"},
}  # fmt: skip
_CALLS = set().union(*STARTS.values())

# (file, call) -> why it may.
ALLOWED = {
    ("kerncap/child.py", "shutil.which"): "the one lookup, in what is left of PATH",
    ("kerncap/child.py", "subprocess.Popen"): "an editor, as the user named it",
    ("kerncap/capture/target.py", "os.posix_spawnp"): "the user's program runs exactly as given",
    ("kerncap/capture/reasons.py", "shutil.which"): "where the target is that was started; only read",
    ("kerncap/mcp/child.py", "anyio.open_process"): "kerncap by its path, and tied; its streams are anyio's",
    ("kerncap/streams.py", "os.execve"): "kerncap itself in UTF-8 mode, by its path",
    ("kerncap/cli/browser.py", "webbrowser.open"): "inside of child.protected; a browser outlives kerncap",
    ("kerncap/testing/on_failure/watch.py", "python -c or -m"): "the user's pytest, in the user's folder",
    ("kerncap/capture/answer_process.py", "os.fork"): "it starts no program",
    ("kerncap/format/packing_processes.py", "os.fork"): "it starts no program",
    ("replay/worker/nursery.py", "os.fork"): "it starts no program",
    ("replay/worker/torch_backend/isolation.py", "os.fork"): "it starts no program",
    ("replay/worker/torch_backend/launch_process.py", "os.fork"): "it starts no program",
    ("replay/worker/torch_backend/compile_ahead.py", "os.fork"): "it starts no program",
    ("replay/worker/torch_backend/launchers/later_stages.py", "os.fork"): "it starts no program",
    ("replay/worker/torch_backend/confine.py", "runpy.run_path"): "our own script by its path, confined",
    ("replay/worker/torch_backend/confine.py", "os.execv"): "a compiler, by the path that its parent gave",
}  # fmt: skip
PRODUCT = ("kerncap/*.py", "replay/*.py", "sanitizer/*.py", "shims/triton/*.py")


def starts(text: str) -> Iterator[str]:
    """The calls of `STARTS` that a module names, however it imports them, and words that search for code."""
    words = set(re.findall(r"\w+", text))
    named = any(module.split(".")[0] in text and calls & words for module, calls in STARTS.items())
    if not named and not re.search("""["']-[cm]["']""", text):
        return  # parsing takes seconds for all files
    nodes = list(ast.walk(ast.parse(text)))
    modules: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for name in node.names:
                modules[name.asname or name.name] = name.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for name in node.names:
                if name.name in STARTS.get(node.module, ()):
                    yield f"{node.module}.{name.name}"
                modules[name.asname or name.name] = f"{node.module}.{name.name}"
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    types = {
        id(node.value) for node in nodes if isinstance(node, ast.Subscript) and id(node) not in called
    }  # as in `Popen[bytes]`
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in _CALLS and id(node) not in types:
            owner = ast.unparse(node.value)
            module = modules.get(owner, owner)
            module = module.rpartition("._")[2] if module.startswith("self.") else module
            if node.attr in STARTS.get(module, ()):
                yield f"{module}.{node.attr}"
        elif isinstance(node, ast.List | ast.Tuple):
            words = [item.value for item in node.elts if isinstance(item, ast.Constant)]
            if {"-c", "-m"} & set(words) and re.search("python|executable", ast.unparse(node)):
                yield "python -c or -m"


def deriving(text: str) -> Iterator[str]:
    """Classes of `subprocess.Popen`."""
    for node in ast.walk(ast.parse(text if "Popen" in text else "")):
        if isinstance(node, ast.ClassDef) and any("Popen" in ast.unparse(base) for base in node.bases):
            yield node.name


def test_nothing_else_starts_a_process_or_looks_for_a_tool() -> None:
    found = {(file, call) for file in listed(*PRODUCT) for call in starts((ROOT / file).read_text())}
    assert found - set(ALLOWED) == set(), "use kerncap/child.py"
    assert set(ALLOWED) - found == set(), "allowed, and no longer there"


def test_one_class_is_a_process() -> None:
    found = {(file, name) for file in listed(*PRODUCT) for name in deriving((ROOT / file).read_text())}
    assert found == {("kerncap/child.py", "_Tied")}


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess\nsubprocess.run(['x'])",
        "import subprocess as s\ns.Popen(['x'])",
        "from subprocess import check_output\ncheck_output(['x'])",
        "import os\nos.execvp('x', ['x'])",
        "from os import system",
        "import shutil\nfind = shutil.which",
        "from ctypes import util\nutil.find_library('cuda')",
        "import ctypes.util\nctypes.util.find_library('cuda')",
        "import asyncio\nasyncio.create_subprocess_exec('x')",
        "import sys\nwords = [sys.executable, '-m', 'kerncap']",
        "def f(python): return (python, '-c', 'text')",
        "class A:\n    def f(self): self._distributed.LocalCluster()",
    ],
)
def test_each_way_is_seen(text: str) -> None:
    assert list(starts(text))


@pytest.mark.parametrize("folder", ["kerncap", "replay/worker", "shims/triton"])
def test_no_module_beside_a_script_hides_one_of_the_library(folder: str) -> None:
    """What Python looks at before the script's first statement has taken that folder out of `sys.path`."""
    names = {path.stem for path in (ROOT / folder).iterdir()}
    assert names & sys.stdlib_module_names <= {"sitecustomize"}
