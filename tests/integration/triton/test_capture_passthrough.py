"""The target under capture is the target: streams, status, environment, ways to start it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

TARGETS = Path(__file__).parent / "targets"
ADD = TARGETS / "capture_add.py"
ENDS = TARGETS / "capture_ends.py"

TALK = """
import sys
data = sys.stdin.buffer.read()
sys.stdout.buffer.write(data[::-1] + bytes(range(256)) + b"no newline at the end")
sys.stderr.buffer.write(b"\\xff\\x00 raw \\r\\n")
import capture_add
capture_add.main([64])
raise SystemExit(7)
"""


def test_streams_and_status_are_the_targets_byte_for_byte(kerncap: CommandLine) -> None:
    script = kerncap.folder / "talk.py"
    script.write_text(TALK)
    env = kerncap.environment({"PYTHONPATH": str(TARGETS)})
    command = [sys.executable, str(script)]
    stdin = b"\x00\xfeinput\n" * 5000
    plain = subprocess.run(command, input=stdin, capture_output=True, env=env, cwd=kerncap.folder)
    captured = subprocess.run(
        [sys.executable, "-m", "kerncap", "capture", "--no-self-check", "--", *command],
        input=stdin,
        capture_output=True,
        env=env,
        cwd=kerncap.folder,
    )
    assert plain.returncode == captured.returncode == 7
    assert captured.stdout == plain.stdout
    assert captured.stderr.startswith(plain.stderr)
    rest = captured.stderr[len(plain.stderr) :].decode().splitlines()
    assert rest and all(line.startswith("kerncap: ") for line in rest)
    assert sum("captured " in line for line in rest) == 2, rest


def test_json_is_the_only_thing_on_stdout(kerncap: CommandLine) -> None:
    done = kerncap("capture", "--json", "-k", "^add$", "--no-self-check", "--", sys.executable, ADD)
    [path] = done.document["captured"]
    assert done.document["target_status"] == 0 and done.document["reason"] is None
    assert [kernel["launches"] for kernel in done.document["kernels"] if kernel["name"] == "add"] == [3]
    assert "sum 999000.0" in done.stderr, "the target's own output went there"
    with Reproducer.open(kerncap.folder / path) as reproducer:
        assert reproducer.manifest.command == (sys.executable, str(ADD))
        assert reproducer.manifest.environment["TRITON_INTERPRET"] == "1"


@pytest.mark.long
def test_pythonpath_and_another_sitecustomize_are_kept(kerncap: CommandLine) -> None:
    extra = kerncap.folder / "extra"
    extra.mkdir()
    (extra / "sitecustomize.py").write_text("import os\nos.environ['SITE_RAN'] = 'yes'\n")
    (extra / "their_module.py").write_text("VALUE = 5\n")
    target = kerncap.folder / "target.py"
    target.write_text(
        "import os, sys, their_module\n"
        "print(os.environ['SITE_RAN'], their_module.VALUE, os.environ['PYTHONPATH'].split(os.pathsep)[1:])\n"
        "print([p for p in sys.path if 'shims' in p], 'kerncap' in sys.modules)\n"
        "import capture_add; capture_add.main([64])\n"
    )
    path = f"{extra}{os.pathsep}{TARGETS}"
    done = kerncap("capture", "--no-self-check", "--", sys.executable, target, env={"PYTHONPATH": path})
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines()[:2] == [f"yes 5 ['{extra}', '{TARGETS}']", "[] False"]
    assert "captured add" in done.stderr


@pytest.mark.long
def test_the_target_needs_no_kerncap_and_hardly_an_environment(kerncap: CommandLine) -> None:
    """As for a target whose own environment has no kerncap: importing it there fails."""
    target = kerncap.folder / "target.py"
    target.write_text(
        "import sys\n"
        "for name in ('kerncap', 'msgspec', 'zstandard', 'click'):\n"
        "    sys.modules[name] = None\n"
        f"sys.path.insert(0, {str(TARGETS)!r})\n"
        "import capture_add; capture_add.main([64])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "kerncap", "capture", "--no-self-check", "--", sys.executable, str(target)],
        env={"PATH": os.defpath, "TRITON_INTERPRET": "1"},
        cwd=kerncap.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "captured add" in done.stderr and "captured scale" in done.stderr


@pytest.mark.long
def test_a_module_and_a_console_script(kerncap: CommandLine) -> None:
    module = kerncap(
        "capture", "-k", "add", "--no-self-check", "--", sys.executable, "-m", "capture_add", "64",
        env={"PYTHONPATH": str(TARGETS)},
    )  # fmt: skip
    assert "captured add" in module.stderr and module.stdout == "sum 4032.0\n"
    folder = kerncap.folder / "bin"
    folder.mkdir()
    script = folder / "add-things"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(TARGETS)!r})\n"
        "from capture_add import main\nmain([int(sys.argv[1])])\n"
    )
    script.chmod(0o755)
    console = kerncap(
        "capture", "-k", "add", "--no-self-check", "--", "add-things", "64",
        env={"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert "captured add" in console.stderr and console.stdout == "sum 4032.0\n"


def test_a_signal_is_the_targets_and_what_was_complete_is_sealed(kerncap: CommandLine) -> None:
    command = ["capture", "--json", "--launch", "0:9", "--no-self-check", "--", sys.executable, ENDS]
    with subprocess.Popen(
        [sys.executable, "-m", "kerncap", *map(str, command), "signal", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=kerncap.folder,
        env=kerncap.environment(),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        while process.stderr.readline() != "ready\n":
            pass
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=300)
    assert stderr.startswith(f"signal {int(signal.SIGTERM)}\n")
    assert process.returncode == 41 and json.loads(stdout)["target_status"] == 41
    assert len(json.loads(stdout)["captured"]) == 2


@pytest.mark.long
def test_stop_ends_the_target_and_is_no_failure(kerncap: CommandLine) -> None:
    done = kerncap(
        "capture",
        "--json",
        "--stop",
        "-k",
        "add",
        "--no-self-check",
        "--",
        sys.executable,
        ENDS,
        "wait",
        "50",
    )
    assert done.status == 0 and len(done.document["captured"]) == 1
    assert done.document["target_signal"] == "SIGTERM"
    assert "launched 50" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["-k", "("], 2, "-k '('"),
        (["--launch", "x"], 2, "--launch 'x'"),
        (["--where", "f(x)"], 2, "column 1"),
        (["--max-size", "many"], 2, "size 'many'"),
        (["--when", "never"], 2, "--when"),
        (["-o", "/dev/null/x"], 2, "output folder"),
    ],
)
def test_a_wrong_request_starts_nothing(
    kerncap: CommandLine, arguments: list[str], status: int, words: str
) -> None:
    done = kerncap("capture", *arguments, "--", "sh", "-c", "echo started")
    assert done.status == status and "started" not in done.stdout
    assert words in done.stderr and "Traceback" not in done.stderr


def test_a_command_that_is_not_there(kerncap: CommandLine) -> None:
    done = kerncap("capture", "--", "no-such-command-here")
    assert (done.status, done.stdout) == (127, "")
    assert done.stderr == "kerncap: no-such-command-here: command not found\n"
    assert os.listdir(kerncap.folder) == []
