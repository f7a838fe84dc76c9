"""When kerncap is killed, what it has started ends with it: workers, what they have started, and tools.

Each of these holds the writing end of a FIFO and says that it is there; the test kills kerncap, and reads on
until nobody holds that end any more.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerncap import child
from tests.unit.replay.build import ADD, add

LONG = pytest.mark.long
# At the top of a kernel's module: says so with the process's number, has a child of its own, and hangs.
HANGS = """
import os, subprocess, time
fd = os.open(os.environ["KERNCAP_TEST_FIFO"], os.O_WRONLY)
held = subprocess.Popen(["sleep", "1000"], pass_fds=[fd])
os.write(fd, b"%d\\n" % os.getppid())
while True:
    time.sleep(1000)
"""
# Once it is tied, it says so, and hangs. Source: proc_pid_fdinfo(5); O_ASYNC is 020000.
TOOL = """#!/bin/sh
until grep -qs '^flags:.*[2367][0-7][0-7][0-7][0-7]$' /proc/$$/fdinfo/*; do :; done
{ sleep 1000 & echo $PPID; wait; } > "$KERNCAP_TEST_FIFO"
"""


def tool_at(path: Path) -> Path:
    path.write_text(TOOL)
    path.chmod(0o755)
    return path


@dataclass(frozen=True)
class Fifo:
    """Where those who hang say that they do."""

    path: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "TRITON_INTERPRET": "1", "KERNCAP_TEST_FIFO": str(self.path)}

    @contextmanager
    def hanging(self, words: list[str], environment: dict[str, str]) -> Iterator[tuple[int, int]]:
        """The process of ``words`` once it hangs, and the number that was said; it is killed after that."""
        log = self.path.with_name("log")
        with log.open("wb") as output:
            started = subprocess.Popen(
                words, env=environment, cwd=self.path.parent, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output, start_new_session=True,
            )  # fmt: skip
        reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        ended = os.pidfd_open(started.pid)
        try:
            ready, _, _ = select.select([reader, ended], [], [])
            assert reader in ready, f"it ended: {log.read_text()}"
            said = int(os.read(reader, 100).split()[0])
            yield started.pid, said
            started.kill()
            started.wait()
            os.set_blocking(reader, True)
            while os.read(reader, 100):
                pass  # until nobody holds it
        finally:
            started.kill()
            started.wait()
            os.close(reader)
            os.close(ended)


@pytest.fixture
def fifo(tmp_path: Path) -> Fifo:
    os.mkfifo(tmp_path / "fifo")
    return Fifo(tmp_path / "fifo")


@pytest.fixture
def reproducer(tmp_path: Path) -> Path:
    return add(source=HANGS + ADD).seal(tmp_path)


def kerncap(*words: object) -> list[str]:
    return child.kerncap("kerncap.cli", *map(str, words))


@pytest.mark.parametrize(
    "words",
    [
        "replay {0}",
        pytest.param("replay {0} --compare captured,rebuilt", marks=LONG),
        pytest.param("verify {0}", marks=LONG),
        pytest.param("minimize {0} -o small", marks=LONG),
        pytest.param("tune {0} --space space.json --trials 2", marks=LONG),
        pytest.param("tune {0} --space space.json --trials 2 --workers 1", marks=LONG),
    ],
)
def test_the_worker_and_what_it_started(words: str, fifo: Fifo, reproducer: Path) -> None:
    fifo.path.with_name("space.json").write_text('{"parameters": {"BLOCK": [128, 256]}}')
    with fifo.hanging(kerncap(*words.format(reproducer).split()), fifo.environment) as (_, worker):
        there = os.pidfd_open(worker)
    select.select([there], [], [])  # readable when the process is gone
    os.close(there)


def test_a_tool_and_what_it_started(fifo: Fifo, tmp_path: Path) -> None:
    """Any program: it is the kernel that ends it."""
    tool = tool_at(tmp_path / "tool")
    text = f"from kerncap import child; child.run([{str(tool)!r}], timeout=1000)"
    with fifo.hanging([sys.executable, "-c", text], fifo.environment) as (parent, said):
        assert said == parent


def test_a_tool_that_a_thread_started_outlives_the_thread(fifo: Fifo, tmp_path: Path) -> None:
    """As PR_SET_PDEATHSIG would not let it."""
    program = """
import sys, threading
from kerncap import child
started = []
thread = threading.Thread(target=lambda: started.append(child.Child([sys.argv[1]])))
thread.start()
thread.join()
sys.exit(started[0].wait())
"""
    tool = tool_at(tmp_path / "tool")
    with fifo.hanging([sys.executable, "-c", program, str(tool)], fifo.environment) as (parent, said):
        assert said == parent


@LONG
def test_the_command_of_keep_failing(fifo: Fifo, tmp_path: Path) -> None:
    judge = tool_at(tmp_path / "judge")
    path = add().seal(tmp_path)
    words = kerncap("minimize", path, "-o", "small", "--keep-failing", judge)
    with fifo.hanging(words, fifo.environment) as (parent, said):
        assert said == parent


@LONG
def test_a_python_that_is_asked_what_it_has(fifo: Fifo, tmp_path: Path) -> None:
    python = tool_at(tmp_path / "python")
    path = add().seal(tmp_path)
    with fifo.hanging(kerncap("replay", path, "--python", python), fifo.environment) as (parent, said):
        assert said == parent


@LONG
def test_what_compiles_for_the_sanitizer(fifo: Fifo, tmp_path: Path) -> None:
    """The Python of its process hangs: a reproducer's own code is confined there, and opens no FIFO."""
    python = tmp_path / "python"
    shell, _, hangs = TOOL.partition("\n")
    python.write_text(
        f'{shell}\ncase "$*" in *" confined "*) ;; *) exec {sys.executable} "$@" ;; esac\n{hangs}'
    )
    python.chmod(0o755)
    words = kerncap("sanitize", add().seal(tmp_path), "--trust", "--python", python)
    with fifo.hanging(words, fifo.environment) as (parent, said):
        assert said == parent


@LONG
def test_a_server_and_the_kerncap_that_it_started(fifo: Fifo, reproducer: Path) -> None:
    pytest.importorskip("mcp")
    program = f"""
import anyio
from pathlib import Path
from kerncap.mcp import child

async def nobody(line): pass
anyio.run(child.run, ["replay", {reproducer.name!r}], Path({str(reproducer.parent)!r}), 1000.0, nobody)
"""
    with fifo.hanging([sys.executable, "-c", program], fifo.environment) as (_, worker):
        there = os.pidfd_open(worker)
    select.select([there], [], [])
    os.close(there)


PROGRAM = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)

double[(1,)](torch.ones(64), 64, BLOCK=64)
"""
# In the user's own PYTHONPATH: hangs where the process that forks workers starts.
CUSTOMIZE = """
import os, sys, time
if "nursery" in sys.orig_argv:
    fd = os.open(os.environ["KERNCAP_TEST_FIFO"], os.O_WRONLY)
    os.write(fd, b"%d\\n" % os.getpid())
    time.sleep(1000)
"""


@LONG
def test_the_self_check_of_a_capture(fifo: Fifo, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    words = kerncap("capture", "-o", "out", "--", sys.executable, program)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text(CUSTOMIZE)
    given = {"KERNCAP_SELF_CHECK_TIMEOUT": "1000", "PYTHONPATH": str(tmp_path / "own")}
    with fifo.hanging(words, {**fifo.environment, **given}) as (_, worker):
        there = os.pidfd_open(worker)
    select.select([there], [], [])
    os.close(there)


def test_the_program_under_capture_lives_on(fifo: Fifo, tmp_path: Path) -> None:
    """It is the user's, not ours."""
    program = tmp_path / "program"
    read_fd, write_fd = os.pipe()
    program.write_text(f"#!/bin/sh\necho $$ > '{fifo.path}'\nread line < /proc/{os.getpid()}/fd/{read_fd}\n"
                       "echo \"$line\" > came\n")  # fmt: skip
    program.chmod(0o755)
    words = kerncap("capture", "-o", "out", "--", program)
    with fifo.hanging(words, fifo.environment) as (_, target):
        there = os.pidfd_open(target)
    os.write(write_fd, b"on\n")
    select.select([there], [], [])
    assert (tmp_path / "came").read_text() == "on\n"
    for fd in (there, read_fd, write_fd):
        os.close(fd)


def test_the_tie_is_of_this_linux(tmp_path: Path) -> None:
    """F_SETSIG with SIGKILL to a group, when the last writing end closes."""
    read_fd, write_fd = os.pipe()
    started = child.Child(["/bin/sh", "-c", "sleep 1000 & sleep 1000"], pass_fds=(write_fd,))
    os.close(write_fd)
    started._tie.cut()
    assert started.wait(60) == -signal.SIGKILL
    assert os.read(read_fd, 1) == b""
    os.close(read_fd)
