"""`replay --edit` and `--watch` on the interpreter: on a terminal, in a pipe, by a program."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.api.edit import EditOptions, EditResult, EditSession, apply
from kerncap.api.replay import ReplayOptions
from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine
from tests.integration.triton.tmux_pane import Pane
from tests.integration.watching import Watching

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")

SAMPLE = Path(__file__).parents[3] / "samples" / "vector_add" / "run.py"


@pytest.fixture(scope="module")
def reproducer(kerncap_of_module: CommandLine) -> Path:
    out = kerncap_of_module.folder / "out"
    done = kerncap_of_module(
        "capture", "--no-self-check", "-o", out, "-k", "add_kernel", "--launch", "0",
        "--", sys.executable, SAMPLE,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    [path] = out.iterdir()
    return path


@pytest.fixture
def environment(kerncap_of_module: CommandLine) -> dict[str, str]:
    found = kerncap_of_module.environment({"TERM": "xterm-256color"})
    return {
        name: value for name, value in found.items() if name not in ("TMUX", "VISUAL", "EDITOR", "NO_COLOR")
    }


@pytest.fixture
def panes(tmp_path: Path) -> Iterator[list[Pane]]:
    opened: list[Pane] = []
    yield opened
    for pane in opened:
        pane.close()


def replay(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "kerncap", "replay", *map(str, arguments)]


def contents(reproducer: Path) -> dict[str, bytes]:
    """What was sealed; the write set and the checks may be found out later."""
    with Reproducer.open(reproducer) as opened:
        opened.verify()
    return {
        str(path.relative_to(reproducer)): path.read_bytes()
        for path in reproducer.rglob("*")
        if path.is_file() and path.name != "checks.json" and not path.name.startswith("write_set")
    }


@needs_tmux
def test_every_save_is_judged(
    reproducer: Path, environment: dict[str, str], panes: list[Pane], tmp_path: Path
) -> None:
    sealed, application = contents(reproducer), SAMPLE.read_bytes()
    pane = Pane(tmp_path, environment, replay(reproducer, "--watch", "-n", "3"))
    panes.append(pane)
    first = pane.verdict()
    assert "save 1 PASS" in first and "not edited yet" in first
    file = tmp_path / "add_kernel-edit" / "kernel.py"
    text = file.read_text()
    assert "x + y" in text

    file.write_text(text.replace("x + y", "y + x"))
    right = pane.verdict()
    assert "save 2 PASS" in right and "bytes identical" in right
    assert re.search(r"time .*\d\.\d\dx \(\d\.\d\d to \d\.\d\d\)", right), right
    assert "registers" not in right and "occupancy" not in right, "the interpreter has none"

    wrong = text.replace("x + y", "tl.where(offsets == 4321, 0.0, x + y)")
    beside = file.with_suffix(".new")
    beside.write_text(wrong)
    beside.replace(file)  # as editors do that are afraid of a crash
    at = pane.verdict()
    assert "save 3 FAIL" in at and "z_ptr[4321]" in at and "1 of 10,000 elements" in at, at
    assert "best so far: save 2" in at

    lines = text.split("\n")
    number = next(n for n, line in enumerate(lines, 1) if "x + y" in line)
    file.write_text(text.replace("x + y", "x + + * y"))
    broken = pane.verdict()
    assert "save 4 FAIL" in broken and f"kernel.py:{number}:" in broken and "SyntaxError" in broken, broken
    assert "x + + * y" in broken and re.search(r"\| +\^", broken)

    pane.press("o")
    assert "original, run 5 PASS" in pane.verdict()
    pane.press("o")
    assert "save 6 FAIL" in pane.verdict()
    pane.press("d")
    assert "@@" in pane.until(r"\n-[^\n]*x \+ y[^\n]*\n\+[^\n]*x \+ \+ \* y")
    file.write_text(text.replace("x + y", "y + x"))
    assert "save 7 PASS" in pane.verdict()
    pane.press("a")
    pane.until("patch for .*run.py")
    assert "+    tl.store(z_ptr + offsets, y + x" in (file.parent / "kernel.patch").read_text()
    pane.press("q")
    assert pane.status() == 0, "the last judgement passed"
    assert contents(reproducer) == sealed and SAMPLE.read_bytes() == application, "the originals are intact"
    assert (file.parent / ".kerncap" / "kept" / "0002" / "kernel.py").read_text() == text.replace(
        "x + y", "y + x"
    )


@pytest.mark.long
@needs_tmux
def test_an_editor_has_the_terminal_and_gives_it_back(
    reproducer: Path, environment: dict[str, str], panes: list[Pane], tmp_path: Path
) -> None:
    """Outside of tmux (as the program sees it): what was saved meanwhile is shown when the editor ends."""
    editor = tmp_path / "my editor.py"
    editor.write_text(
        "import sys, pathlib\n"
        "assert sys.stdin.isatty() and sys.stdout.isatty()\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "path.write_text(path.read_text().replace('x + y', 'x - y'))\n"
    )
    environment["EDITOR"] = shlex.join([sys.executable, str(editor)])
    command = ["env", "-u", "TMUX", *replay(reproducer, "--edit", "-n", "0")]
    pane = Pane(tmp_path, environment, command)
    panes.append(pane)
    text = pane.verdict()
    if "FAIL" not in text:  # it was judged before the editor came to it
        text = pane.verdict()
    assert "z_ptr[0]" in text and "10,000 of 10,000" in text
    verdict = tmp_path / "add_kernel-edit" / "verdict.txt"
    assert "FAIL" in verdict.read_text().splitlines()[0]
    pane.press("q")
    assert pane.status() == 1, "the last judgement failed"


@pytest.mark.long
def test_whatever_a_candidate_does_the_next_is_judged(
    reproducer: Path, kerncap_of_module: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", kerncap_of_module.environment()["XDG_CONFIG_HOME"])
    monkeypatch.chdir(tmp_path)
    replay_as = ReplayOptions(device="cpu", engine="interpreter", timed_runs=0, timeout_s=1.5)
    with EditSession(reproducer, EditOptions(replay=replay_as)) as session:
        text = session.working_copy.read_text()
        generation = session.engine.generation

        def save(old: str, new: str) -> EditResult:
            assert old in text
            session.working_copy.write_text(text.replace(old, new))
            return session.judge(saved=True)

        right = save("x + y", "y + x")
        assert right.passed and right.stage == "compare" and right.kept is not None

        hangs = save("    x = tl.load", "    while True: pass\n    x = tl.load")
        assert not hangs.passed and "did not end within 1.5 s" in hangs.verdict.summary
        dies = save("import triton\n", "import triton, os\nos.abort()\n")
        assert not dies.passed and "SIGABRT" in dies.verdict.summary
        leaves = save("import triton\n", "import triton\nraise SystemExit(0)\n")
        assert not leaves.passed and leaves.stage == "build"
        raises = save("x = tl.load(", "x = tl.lode(")
        [place] = raises.diagnostics
        line = 1 + text[: text.index("    x = tl.load")].count("\n")
        assert (place.file, place.line) == ("add_kernel-edit/kernel.py", line) and "lode" in place.message
        nameless = save("def add_kernel(", "def add(")
        assert nameless.stage == "build" and "no kernel add_kernel" in nameless.verdict.summary
        session.working_copy.unlink()
        assert not session.judge().passed

        tail = save("x + y, mask=mask", "x + y, mask=offsets < n - 1")
        first = tail.first_wrong
        assert first is not None and (first.buffer, first.index) == ("z_ptr", (9999,)), tail.verdict.reasons
        as_asked = "# kerncap: BLOCK=2048 grid=5\n@triton.jit"
        configured = save("@triton.jit", as_asked)
        assert configured.passed and configured.launch_changes["grid"] == ((10, 1, 1), (5, 1, 1))
        odd = save("@triton.jit", "# kerncap: num_warps=many\n@triton.jit")
        assert odd.diagnostics[0].line == 1 + text[: text.index("@triton.jit")].count("\n")

        again = save("x + y", "y + x")
        assert again.passed and again.kept == right.kept, "the same text is kept once"
        assert session.engine.generation == generation, "one worker for all of it"
        assert json.loads(json.dumps(again.as_dict()))["result"] == "pass"


@pytest.mark.long
def test_the_edits_go_back_to_the_application(reproducer: Path, tmp_path: Path) -> None:
    options = EditOptions(folder=tmp_path / "copy")
    assert apply(reproducer, options).text == ""
    file, before = tmp_path / "copy" / "kernel.py", SAMPLE.read_text()
    text = file.read_text().replace("x + y, mask=mask", "y + x, mask=mask")
    file.write_text(text.replace("    y = tl.load", "    tl.device_assert(n > 0)\n    y = tl.load"))
    patch = apply(reproducer, options)
    assert patch.files == (str(SAMPLE),) and not patch.unmapped and not patch.notes
    place = tmp_path / "mirror" / SAMPLE.relative_to(patch.root)
    place.parent.mkdir(parents=True)
    place.write_text(before)
    command = ["git", "apply", "-"]
    done = subprocess.run(
        command, cwd=tmp_path / "mirror", input=patch.text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + patch.text
    expected = before.replace("x + y, mask=mask", "y + x, mask=mask")
    expected = expected.replace("    y = tl.load", "    tl.device_assert(n > 0)\n    y = tl.load")
    assert place.read_text() == expected and SAMPLE.read_text() == before


@pytest.mark.long
def test_in_a_pipe_each_save_is_a_line_of_json(
    reproducer: Path, kerncap_of_module: CommandLine, tmp_path: Path
) -> None:
    """And a signal ends it in order, with the last verdict as its status."""
    mine = tmp_path / "mine.py"
    text = (reproducer / "source" / "kernel.py").read_text()
    mine.write_text(text)
    with Watching(kerncap_of_module, reproducer, mine, "-n", "0") as watching:
        assert (watching.first["result"], watching.first["edited"]) == ("pass", False)
        second = watching.save(text.replace("x + y", "x - y"))
        assert second["result"] == "fail" and second["first_wrong"]["buffer"] == "z_ptr"
        status, said = watching.end()
        assert status == 1 and "Traceback" not in said
    assert (reproducer / "source" / "kernel.py").read_text() == text


@pytest.mark.long
def test_once_is_a_status(reproducer: Path, kerncap_of_module: CommandLine) -> None:
    nothing = kerncap_of_module("replay", reproducer, "--apply", "--copy", "once")
    assert nothing.status == 1 and nothing.stdout == "" and "nothing to apply" in nothing.stderr
    file = kerncap_of_module.folder / "once" / "kernel.py"
    file.write_text(file.read_text().replace("x + y", "x +"))
    done = kerncap_of_module("replay", "--watch", reproducer, "--once", "--copy", "once")
    assert done.status == 1 and done.stdout.startswith("save 1 FAIL"), done.stderr
    assert "once/kernel.py:" in done.stdout and "SyntaxError" in done.stdout
    patch = kerncap_of_module("replay", reproducer, "--apply", "--copy", "once")
    assert patch.status == 0 and "+    tl.store(z_ptr + offsets, x +, mask=mask)\n" in patch.stdout


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        ("--stage", "ptx"), ("--copy", "x"), ("--edit", "--limits"), ("--watch", "--until-fail", "3"),
        ("--watch", "none.py", "--once"), ("--once", "--candidate", SAMPLE),
        ("--apply", "--compare", "captured"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_said_in_a_line(
    reproducer: Path, kerncap_of_module: CommandLine, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str], options: tuple[str | Path, ...],
) -> None:  # fmt: skip
    from kerncap.cli import main

    monkeypatch.setenv("XDG_CONFIG_HOME", kerncap_of_module.environment()["XDG_CONFIG_HOME"])
    assert main(["replay", str(reproducer), "--engine", "interpreter", *map(str, options)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
