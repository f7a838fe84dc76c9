"""One run of the command line: its lines as they come, a time limit, and an end with all that it started."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from anyio.abc import ByteReceiveStream, Process

from kerncap import child
from kerncap.child import Tie
from kerncap.printable import printable

MOST_STDOUT = 256 << 20  # bytes of a document that are taken in
_MOST_LINES = 400
_LINE = 2000
_GRACE_S = ((signal.SIGINT, 5.0), (signal.SIGTERM, 2.0))  # kerncap ends its workers at the first


@dataclass(frozen=True)
class Ran:
    """How it ended; ``status`` is None if the time was up. ``lines`` are the last of stderr."""

    status: int | None
    stdout: str
    lines: tuple[str, ...]


async def run(
    words: Sequence[str], folder: Path, timeout_s: float, told: Callable[[str], Awaitable[None]]
) -> Ran:
    """``kerncap WORDS`` in ``folder``; ``told`` gets each line of stderr. Cancelling ends all of it."""
    tie = Tie()
    try:
        process = await anyio.open_process(
            child.kerncap("kerncap.cli", *words),
            stdin=subprocess.DEVNULL,
            cwd=folder,  # where relative paths begin; nothing of it is searched
            env=child.for_kerncap(),
            start_new_session=True,
            pass_fds=(tie.held,),
        )
        tie.bind(process.pid)
    except BaseException:
        tie.cut()
        raise
    out = bytearray()
    lines: list[str] = []
    try:
        with anyio.move_on_after(timeout_s) as limit:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_collect, process.stdout, out)
                tasks.start_soon(_lines, process.stderr, lines, told)
                await process.wait()
                # What the program left running may hold the pipes: its output is not waited for.
                tasks.cancel_scope.deadline = anyio.current_time() + 1
    finally:
        with anyio.CancelScope(shield=True):
            await end(process)
            tie.cut()
            await process.aclose()
    status = None if limit.cancelled_caught else process.returncode
    return Ran(status, out.decode("utf-8", "replace"), tuple(lines[-_MOST_LINES:]))


async def end(process: Process) -> None:
    """End the process, its group, and descendants with their own groups (replay's workers)."""
    started = _descendants(process.pid) if process.returncode is None else {}
    for number, grace_s in _GRACE_S:
        if process.returncode is not None:
            break
        _signal_group(process.pid, number)
        with anyio.move_on_after(grace_s):
            await process.wait()
    _signal_group(process.pid, signal.SIGKILL)
    for pid, birth in started.items():
        if _birth(pid) == birth:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    await process.wait()


async def _collect(stream: ByteReceiveStream | None, into: bytearray) -> None:
    assert stream is not None
    async for block in stream:
        into += block[: max(0, MOST_STDOUT - len(into))]


async def _lines(
    stream: ByteReceiveStream | None, into: list[str], told: Callable[[str], Awaitable[None]]
) -> None:
    assert stream is not None
    rest = b""
    async for block in stream:
        *whole, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
        rest = rest[:_LINE]
        for line in whole:
            await _one(line, into, told)
    if rest:
        await _one(rest, into, told)


async def _one(line: bytes, into: list[str], told: Callable[[str], Awaitable[None]]) -> None:
    text = printable(line[:_LINE].decode("utf-8", "replace").expandtabs())
    if not text.strip():
        return
    into.append(text.rstrip())
    del into[:-_MOST_LINES]
    await told(text.rstrip())


def _signal_group(pid: int, number: int) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        pass


def _descendants(pid: int) -> dict[int, str]:
    """Processes below ``pid`` with their start time, which shows a reused number."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (fields := _stat(int(entry))):
            parents.setdefault(int(fields[1]), []).append(int(entry))
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        for each in parents.get(waiting.pop(), []):
            if each not in found and (birth := _birth(each)) is not None:
                found[each] = birth
                waiting.append(each)
    return found


def _birth(pid: int) -> str | None:
    fields = _stat(pid)
    return fields[19] if fields else None


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat behind the name, which may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()
