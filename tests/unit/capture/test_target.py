"""Starting a target: its streams, its status, its signals."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap.capture.target import Target, TargetResult

# `kerncap` is started as its own process in these: signals are a matter of whole processes.
RUN = """
import os, sys
from kerncap.capture.target import Target
started = Target.start(sys.argv[1:], os.environ)
result = started.wait()
print(f"{result.status} {result.signal} {result.forwarded}", flush=True)
"""


def start(*command: str) -> Target:
    started = Target.start(command, os.environ)
    assert isinstance(started, Target)
    return started


def run_aside(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal: what arrives was sent by kill()
    )


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_the_status_is_passed_on(status: int) -> None:
    assert start("sh", "-c", f"exit {status}").wait().status == status


def test_death_by_a_signal_is_128_and_its_number() -> None:
    target = start("sh", "-c", "kill -SEGV $$")
    result = target.wait()
    assert (result.status, result.signal, result.pid) == (139, 11, target.pid)


def test_a_command_that_is_not_there() -> None:
    result = Target.start(["no-such-command-here"], os.environ)
    assert isinstance(result, TargetResult)
    assert result.status == 127 and result.pid is None and "not found" in (result.error or "")


def test_a_command_that_can_not_be_executed(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("not executable")
    result = Target.start([str(plain)], os.environ)
    assert isinstance(result, TargetResult) and result.status == 126


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_reaches_the_target_and_not_kerncap(number: signal.Signals) -> None:
    handler = f"""
import os, signal, sys
def on(number, frame):
    os.write(1, b"got %d\\n" % number)  # it may interrupt the print below
    sys.exit(40)
signal.signal({int(number)}, on)
came, told = os.pipe()
os.set_blocking(told, False)
signal.set_wakeup_fd(told)  # one that comes just before the wait ends it too
print("ready", flush=True)
os.read(came, 1)
"""
    with run_aside(sys.executable, "-c", handler) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        rest, _ = process.communicate(timeout=300)
        assert rest == f"got {int(number)}\n40 None {int(number)}\n"
        assert process.returncode == 0


def test_a_target_that_ignores_the_signal_goes_on() -> None:
    text = "trap '' TERM; echo ready; read line; exit 5"
    with run_aside("sh", "-c", text) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate("done\n", timeout=300)
        assert output.split()[:2] == ["5", "None"]


def test_the_target_inherits_the_plain_dispositions_and_mask(tmp_path: Path) -> None:
    """Python ignores SIGPIPE and kerncap blocks what it forwards: neither is the target's business."""
    status = Path("/proc/self/status").read_text()
    target = start("sh", "-c", f"exec cat /proc/self/status > {shlex.quote(str(tmp_path / 'status'))}")
    assert target.wait().status == 0
    seen = (tmp_path / "status").read_text()

    def field(text: str, name: str) -> int:
        return int(next(line for line in text.splitlines() if line.startswith(name)).split()[1], 16)

    assert field(seen, "SigBlk:") == field(status, "SigBlk:")
    assert not field(seen, "SigIgn:") & (1 << (signal.SIGPIPE - 1))


def test_afterwards_the_mask_and_the_handlers_are_as_before() -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    start("true").wait()
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == mask
    assert {number: signal.getsignal(number) for number in handlers} == handlers


def test_stdout_goes_to_stderr_when_asked() -> None:
    text = f"""
import os
import pty
from kerncap.capture.target import Target
Target.start(["sh", "-c", "echo to-stdout; echo to-stderr >&2"], os.environ, stdout_to_stderr=True).wait()
print({json.dumps("own")})
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout == "own\n" and done.stderr == "to-stdout\nto-stderr\n"


def test_ctrl_c_at_a_terminal_arrives_once() -> None:
    """The terminal sends SIGINT to both; forwarding it as well would interrupt the target twice."""
    count = """
import os, signal
seen = []
reader, writer = os.pipe()
# No print in the handler: "ready" is read while it is still being printed, and print can't be entered twice.
signal.signal(signal.SIGINT, lambda *_: seen.append(os.write(writer, b"1")))
print("ready", flush=True)
os.read(reader, 1)
print("interrupted", flush=True)
input()
print("count", len(seen), flush=True)
"""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", RUN, sys.executable, "-c", count])
    output = b""

    def read_until(word: bytes) -> None:
        nonlocal output
        while word not in output:
            output += os.read(terminal, 4096)

    read_until(b"ready")
    os.write(terminal, b"\x03")
    read_until(b"interrupted")
    os.write(terminal, b"go\n")
    read_until(b"0 None 2")  # status, signal, and that kerncap saw SIGINT as well
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"count 1" in output
