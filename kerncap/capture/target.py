"""Starts the target, forwards signals to it, and says how it ended."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kerncap.exit_status import NotStarted

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
POLL_S = 0.25  # for signals that another thread takes: one of numpy's, or of an embedding program


@dataclass(frozen=True)
class TargetResult:
    """How the target ended. ``status`` is what kerncap passes on: 128 + n for signal n."""

    status: int
    pid: int | None = None  # None: it could not be started
    signal: int | None = None
    forwarded: int | None = None  # the last signal that kerncap passed to it
    error: str | None = None


class Target:
    """A started target. Signals are blocked from `start` to the end of `wait`."""

    def __init__(self, pid: int, old_mask: set[signal.Signals] | set[int]) -> None:
        self.pid = pid
        self._old_mask = old_mask
        self._forwarded: int | None = None

    @classmethod
    def start(
        cls, command: Sequence[str], environment: Mapping[str, str], stdout_to_stderr: bool = False
    ) -> Target | TargetResult:
        """Start ``command`` with inherited descriptors; a TargetResult if that fails.

        The four forwarded signals stay blocked in kerncap, so none is lost between the start and
        `wait`; the target itself gets the mask and the dispositions that kerncap was started with.
        """
        blocked = {*FORWARDED, signal.SIGCHLD}
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        actions = [(os.POSIX_SPAWN_DUP2, 2, 1)] if stdout_to_stderr else []
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # None: kerncap was started with it closed
                stream.flush()
        try:
            pid = os.posix_spawnp(
                command[0],
                list(command),
                dict(environment),
                file_actions=actions,
                setsigmask=old_mask,
                # Python ignores these two at start; a child must not inherit that.
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
        except (OSError, ValueError) as error:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
            return _not_started(command[0], error)
        return cls(pid, old_mask)

    def wait(self) -> TargetResult:
        """Forward signals until the target ends; afterwards they reach kerncap again."""
        waited_for = {*FORWARDED, signal.SIGCHLD}
        old_handlers = self._install_handlers()
        try:
            while True:
                try:
                    pid, status = os.waitpid(self.pid, os.WNOHANG)
                except ChildProcessError:  # SIGCHLD is ignored here: the kernel keeps no status
                    return TargetResult(0, self.pid, error="the target's exit status is unknown")
                if pid:
                    break
                info = signal.sigtimedwait(waited_for, POLL_S)
                if info is not None and info.si_signo in FORWARDED:
                    self._on_blocked_signal(info)
        finally:
            # A Ctrl-C that ended the target was meant for it: it must not also end the sealing.
            while signal.sigtimedwait(waited_for, 0) is not None:
                pass
            for number, handler in old_handlers.items():
                signal.signal(number, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._old_mask)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return TargetResult(128 - code, self.pid, signal=-code, forwarded=self._forwarded)
        return TargetResult(code, self.pid, forwarded=self._forwarded)

    def _install_handlers(self) -> dict[signal.Signals, Any]:
        """For a signal that a thread of a library takes in the moments between two waits."""
        if threading.current_thread() is not threading.main_thread():
            return {}
        return {
            number: signal.signal(number, lambda received, _frame: self._forward(received))
            for number in FORWARDED
            if signal.getsignal(number) is not signal.SIG_IGN
        }

    def _on_blocked_signal(self, info: signal.struct_siginfo) -> None:
        """Pass a signal on, unless the terminal has sent it to the target as well."""
        from_terminal = info.si_code > 0  # SI_KERNEL; a kill() has 0 or less
        try:
            together = os.getpgid(self.pid) == os.getpgrp()
        except ProcessLookupError:
            return
        if from_terminal and together:
            self._forwarded = info.si_signo
        else:
            self._forward(info.si_signo)

    def _forward(self, number: int) -> None:
        self._forwarded = number
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass


def block_signals_in_this_thread() -> None:
    """For kerncap's own threads: the forwarded signals are the main thread's."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {*FORWARDED, signal.SIGCHLD})


def _not_started(program: str, error: OSError | ValueError) -> TargetResult:
    if isinstance(error, FileNotFoundError):
        return TargetResult(NotStarted.NOT_FOUND, error=f"{program}: command not found")
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.ENOEXEC):
        why = f"can't be executed: {error.strerror}"
        return TargetResult(NotStarted.NOT_EXECUTABLE, error=f"{program}: {why}")
    return TargetResult(NotStarted.NOT_EXECUTABLE, error=f"{program}: {error}")


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 64`` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
