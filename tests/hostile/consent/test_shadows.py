"""What lies in the current folder or in a reproducer never runs, be it named as a module, a tool or a driver.

Each command is run where every module that its processes could import lies as a file that leaves a mark,
with search paths that lead there. `kerncap` is started as its script is: by a path, and in another folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.consent.planting import Marks, early, library
from tests.unit.replay.build import add

LONG = pytest.mark.long
SCRIPT = """import sys
from kerncap.__main__ import main
if __name__ == "__main__":
    sys.exit(main())
"""
# name -> words and the exit status. {0} and {1}: reproducers, {2}: a stranger's, {out}: for what is written.
LIGHT: dict[str, tuple[str, int]] = {
    "inspect": ("inspect {0}", 0),
    "diff": ("diff {0} {1}", 1),
    "pack": ("pack {0} -o {out}/packed.zip", 0),
    "export": ("export {0} --as script -o {out}/alone.py", 0),
    "report": ("report {0} -o {out}/page.html", 0),
    "schema": ("schema inspect", 0),
    "replay-untrusted": ("replay {2}", 2),
    "profile": ("profile {0}", 4),
}
HEAVY: dict[str, tuple[str, int]] = {
    "replay": ("replay {0}", 0),
    "replay-limits": ("replay --limits {0}", 0),
    "verify": ("verify {0}", 0),
    "tune": ("tune {0} --space {space} --trials 2", 0),
    "tune-workers": ("tune {0} --space {space} --trials 2 --workers 2", 0),
    "minimize": ("minimize {0} -o {out}/small", 0),
    "keep-failing": ("minimize {0} -o {out}/small --keep-failing false", 0),
    "prove": ("prove {0} {0}", 0),
    "sanitize": ("sanitize {0}", 0),
    "doctor": ("doctor", 0),
    "doctor-self-test": ("doctor --self-test", 0),
}
SLICE = ("inspect", "replay")  # of `make test`: what reads, and what runs
COMMANDS = [
    pytest.param(words, status, id=name, marks=[] if name in SLICE else LONG)
    for name, (words, status) in {**LIGHT, **HEAVY}.items()
]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path | None]:
    """The folder of marks, and the library that leaves one."""
    folder = tmp_path_factory.mktemp("marks")
    (folder / "left").mkdir()
    compiler = shutil.which("cc") or shutil.which("gcc")
    return folder / "left", library(folder, folder / "left", compiler) if compiler else None


@pytest.fixture
def marks(compiled: tuple[Path, Path | None]) -> Marks:
    found = Marks(*compiled)
    for name in found.left():
        (found.folder / name).unlink()
    return found


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """What an installation makes of the entry point in pyproject.toml."""
    path = tmp_path / "bin" / "kerncap"
    path.parent.mkdir()
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def reproducers(tmp_path: Path) -> list[str]:
    """Two of this user's own, and a stranger's."""
    stranger = add(300)
    stranger.stranger = True
    made = [add(), add(500), stranger]
    for number, launch in enumerate(made):
        (tmp_path / "repros" / str(number)).mkdir(parents=True)
        made[number] = launch.seal(tmp_path / "repros" / str(number))
    return [str(path) for path in made]


def hostile(**more: str) -> dict[str, str]:
    """An environment whose search paths mean the current folder in every way that they can."""
    given = {**os.environ, "TRITON_INTERPRET": "1", "PATH": f":.:./:{os.environ['PATH']}:"}
    return {**given, "LD_LIBRARY_PATH": ":.:", **more}


def space(folder: Path) -> Path:
    """What `tune` tries."""
    path = folder / "space.json"
    path.write_text('{"parameters": {"BLOCK": [128, 256]}}')
    return path


def run(script: Path, words: str, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, str(script), *words.split()], cwd=folder, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_the_script_is_the_one_of_an_installation() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert 'kerncap = "kerncap.__main__:main"' in text


def test_a_planted_file_leaves_its_mark(marks: Marks, tmp_path: Path) -> None:
    marks.plant(tmp_path / "here")
    subprocess.run([sys.executable, "-c", "import json"], cwd=tmp_path / "here")
    subprocess.run(["./nvcc"], cwd=tmp_path / "here")
    if marks.library is not None:
        text = "import ctypes; ctypes.CDLL('libcuda.so.1')"
        given = {**os.environ, "LD_LIBRARY_PATH": ":"}
        subprocess.run([sys.executable, "-P", "-c", text] if sys.version_info >= (3, 11) else
                       [sys.executable, "-I", "-c", text], cwd=tmp_path / "here", env=given)  # fmt: skip
        assert "a library" in marks.left()
    assert {"json", "tool nvcc"} <= set(marks.left())


@pytest.mark.parametrize(("words", "status"), COMMANDS)
def test_the_current_folder(
    words: str, status: int, marks: Marks, script: Path, reproducers: list[str], tmp_path: Path
) -> None:
    marks.plant(tmp_path / "here")
    given = words.format(*reproducers, out=tmp_path, space=space(tmp_path))
    found, said = run(script, given, tmp_path / "here", hostile())
    assert (marks.left(), found) == ([], status), said


@pytest.mark.parametrize(
    "words",
    [
        "inspect {0}",
        *(
            pytest.param(words, marks=LONG)
            for words in ("diff {0} {1}", "pack {0}", "replay {0}", "replay {0} --limits")
        ),
    ],
)
def test_inside_of_a_reproducer(
    words: str, marks: Marks, script: Path, reproducers: list[str], tmp_path: Path
) -> None:
    """Readers may refuse it for its names, or not: nothing runs."""
    marks.plant(Path(reproducers[0]))
    environment = hostile(PATH=f"{reproducers[0]}:{os.environ['PATH']}", LD_LIBRARY_PATH=reproducers[0])
    _, said = run(script, words.format(".", reproducers[1], out=tmp_path), Path(reproducers[0]), environment)
    assert marks.left() == [], said


@LONG
@pytest.mark.parametrize(("words", "status"), COMMANDS)
def test_search_paths_into_another_reproducer(
    words: str, status: int, marks: Marks, script: Path, reproducers: list[str], tmp_path: Path
) -> None:
    """Absolute ones; the reproducer that is asked about is whole."""
    inside = Path(reproducers[2]) / "code"
    marks.plant(inside, leave_out=early())
    environment = hostile(
        PATH=f"{inside}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(inside), PYTHONPATH=str(inside)
    )
    given = words.format(*reproducers, out=tmp_path, space=space(tmp_path))
    found, said = run(script, given, tmp_path, environment)
    assert marks.left() == [], said
    assert found in (status, 3), said


@pytest.mark.parametrize(
    ("words", "status"), [COMMANDS[0].values, pytest.param("replay {0}", 0, marks=LONG),
                          pytest.param("verify {0}", 0, marks=LONG)]
)  # fmt: skip
@pytest.mark.parametrize(
    "entry", ["late", pytest.param("./late", marks=LONG), pytest.param("../here/late", marks=LONG)]
)
def test_a_relative_pythonpath(
    entry: str, words: str, status: int, marks: Marks, script: Path, reproducers: list[str], tmp_path: Path
) -> None:
    """All but what Python itself imports before kerncap runs."""
    marks.plant(tmp_path / "here" / "late", leave_out=early())
    environment = hostile(PYTHONPATH=f"{entry}:/nowhere")
    given = words.format(*reproducers, out=tmp_path, space=space(tmp_path))
    found, said = run(script, given, tmp_path / "here", environment)
    assert (marks.left(), found) == ([], status), said


@pytest.mark.long
def test_the_users_own_pythonpath_is_kept(
    script: Path, reproducers: list[str], tmp_path: Path, marks: Marks
) -> None:
    """An absolute entry is the user's word, for kerncap and for its children."""
    marks.plant(tmp_path / "own", only="torch")
    run(script, f"replay {reproducers[0]}", tmp_path, {**os.environ, "PYTHONPATH": str(tmp_path / "own")})
    assert marks.left() == [] or marks.left() == ["torch"]
    assert marks.left() == ["torch"]


# --- mcp ---------------------------------------------------------------------------------------------


def ask(
    script: Path, root: Path, calls: list[tuple[str, dict[str, Any]]], *options: str,
    environment: Mapping[str, str] | None = None, before: Callable[[], None] | None = None,
) -> list[Any]:  # fmt: skip
    """The answers of an MCP server for ``root`` that is started in it; ``before`` its exec."""
    requests: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"},
        }},
        {"method": "notifications/initialized"},
        *(
            {"id": number, "method": "tools/call", "params": {"name": name, "arguments": given}}
            for number, (name, given) in enumerate(calls, 1)
        ),
    ]  # fmt: skip
    server = subprocess.Popen(
        [sys.executable, str(script), "mcp", "--root", ".", *options], cwd=root, env=environment or hostile(),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=before,
    )  # fmt: skip
    assert server.stdin is not None and server.stdout is not None
    answers = {}
    with server:
        for request in requests:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **request}) + "\n")
            server.stdin.flush()
        for line in server.stdout:
            reply = json.loads(line)
            if "id" in reply:
                answers[reply["id"]] = reply
            if len(answers) == len(calls) + 1:
                break
        server.stdin.close()
    return [answers[number]["result"] for number in range(1, len(calls) + 1)]


@pytest.mark.parametrize(
    "name", ["inspect", pytest.param("sanitize", marks=LONG), pytest.param("doctor", marks=LONG)]
)
def test_the_root_of_mcp(name: str, marks: Marks, script: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    root = tmp_path / "root"
    marks.plant(root)
    made = add().seal(root)
    given = {} if name == "doctor" else {"repro": made.name}
    [answer] = ask(script, root, [(name, given)], "--read-only")
    assert marks.left() == [], answer
    assert not answer.get("isError"), answer


@LONG
def test_mcp_that_runs_replays(marks: Marks, script: Path, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    root = tmp_path / "root"
    marks.plant(root)
    made = add().seal(root)
    [answer] = ask(script, root, [("replay", {"repro": made.name})])
    assert marks.left() == [], answer
    assert not answer.get("isError"), answer


# --- with a program of the user's --------------------------------------------------------------------

PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

x = torch.ones(64)
double[(1,)](x, 64, BLOCK=64)
assert x.sum() == 128
"""


@LONG
@pytest.mark.parametrize("words", ["capture -o {out}/out", "list", "sanitize"])
def test_a_program_under_kerncap(words: str, marks: Marks, script: Path, tmp_path: Path) -> None:
    """The program itself runs as it would alone: the search paths are left as they are for it."""
    marks.plant(tmp_path / "here")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    given = f"{words.format(out=tmp_path)} -- {sys.executable} {program}"
    status, said = run(script, given, tmp_path / "here", environment)
    assert (marks.left(), status) == ([], 0), said


@LONG
def test_the_pytest_plugin(marks: Marks, reproducers: list[str], tmp_path: Path) -> None:
    marks.plant(tmp_path / "here")
    pytest_script = tmp_path / "pytest-script"
    pytest_script.write_text("import sys, pytest\nsys.exit(pytest.console_main())\n")
    words = f"--kerncap {reproducers[0]} -p no:cacheprovider"
    status, said = run(pytest_script, words, tmp_path / "here", hostile())
    assert (marks.left(), status) == ([], 0), said
