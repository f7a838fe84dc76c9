"""kerncap's end of a sanitized run: a Unix socket, one thread per process of the target.

The messages are those of `hook_messages`. A process that dies in the middle of a launch loses that
launch's contents and nothing else; a stranger without the token is not heard.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from kerncap.sanitizer.live.carried_out import CarryOutError
from kerncap.sanitizer.live.judged_once import Judge
from kerncap.sanitizer.paged_bytes import Bytes, NotReadable, Run
from kerncap.sanitizer.sources import hook_messages as messages
from kerncap.sanitizer.sources.described_launch import host_read_of
from kerncap.sanitizer.sources.fetched_contents import FetchedContents

T = TypeVar("T")
MAX_MESSAGE_BYTES = 256 << 20
_MAX_HELLO_BYTES = 4096
HELLO_TIMEOUT_S = 5.0
LAST_TIMEOUT_S = 60.0  # for each answer, once the program itself has ended
_PART_BYTES = 1 << 20
_AT_ONCE = 8 << 20  # bytes of one message, which is what the memfd takes
_RUNS_AT_ONCE = 1 << 12


class LiveServer:
    """Listens at ``folder/socket`` until `finish`. ``in_thread`` is called at the start of each thread."""

    def __init__(
        self, folder: Path, token: str, judge: Judge, in_thread: Callable[[], None] = lambda: None
    ) -> None:
        self.path = str(folder / "socket")
        self.processes: set[int] = set()
        self.notes: list[
            str
        ] = []  # for people: what the hook says of its Triton, what could not be carried out
        self._token = token
        self._judge = judge
        self._in_thread = in_thread
        self._lock = threading.Lock()
        self._open: dict[threading.Thread, _Process] = {}
        self._closing = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.bind(self.path)
        os.chmod(self.path, 0o600)
        self._socket.listen(64)
        self._thread = threading.Thread(target=self._accept, name="kerncap-sanitize", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """No new process is heard, a launch in the middle is brought to its end. May be called twice."""
        with self._lock:
            self._closing = True
            waiting = dict(self._open)
            for process in waiting.values():
                process.close_when_idle()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join()
        for thread in waiting:
            thread.join()
        with contextlib.suppress(OSError):
            os.unlink(self.path)

    def _accept(self) -> None:
        self._in_thread()
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._lock:
                if self._closing:
                    connection.close()
                    return
                self._open[thread] = _Process(connection, self._judge)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        self._in_thread()
        thread = threading.current_thread()
        process = self._open[thread]
        try:
            pid = process.greet(self._token)
            with self._lock:
                self.processes.add(pid)
            while process.serve_one():
                pass
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass  # it died, or it is no hook of ours
        finally:
            process.close()
            with self._lock:
                self.notes.extend(process.notes)
                self._open.pop(thread, None)


def _parts(runs: Sequence[Run]) -> Iterator[list[Run]]:
    """In requests that go through a memfd of some size; one for no runs."""
    part: list[Run] = []
    room = _AT_ONCE
    for start, end in runs:
        while start < end:
            if not room or len(part) == _RUNS_AT_ONCE:
                yield part
                part, room = [], _AT_ONCE
            step = min(room, end - start)
            part.append((start, start + step))
            start, room = start + step, room - step
    yield part


class _Process:
    """The conversation with one process of the target."""

    def __init__(self, connection: socket.socket, judge: Judge) -> None:
        self._connection = connection
        self._judge = judge
        self._memory = -1
        self._received = bytearray()
        self._texts: dict[str, str] = {}
        self._lock = threading.Lock()
        self._busy = False
        self._last = False
        self.notes: list[str] = []

    def greet(self, token: str) -> int:
        """The process's id. Raises ValueError for a stranger."""
        self._connection.settimeout(HELLO_TIMEOUT_S)
        part, descriptors, _flags, _address = socket.recv_fds(self._connection, _MAX_HELLO_BYTES, 1)
        self._received += part
        for descriptor in descriptors:
            self._memory = descriptor
            os.set_inheritable(descriptor, False)
        hello = self._hear(messages.Hello, _MAX_HELLO_BYTES)
        if not hmac.compare_digest(hello.token.encode(), token.encode()) or self._memory < 0:
            raise ValueError("a stranger")
        self._connection.settimeout(None)
        self.notes += hello.notes
        return hello.pid

    def close_when_idle(self) -> None:
        with self._lock:
            self._last = True
            if not self._busy:
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)
            else:
                self._connection.settimeout(LAST_TIMEOUT_S)  # a process that was stopped would never answer

    def _is_over(self) -> bool:
        """Whether the target has ended, and this process with it: it may have been stopped in a launch."""
        if not self._last:
            return False
        waiting = select.poll()
        waiting.register(self._connection, 0)
        return any(event & select.POLLHUP for _, event in waiting.poll(0))

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            if self._memory >= 0:
                os.close(self._memory)
                self._memory = -1

    def serve_one(self) -> bool:
        """One launch, from its description to its end; False if there is no more to come."""
        if not self._received and not self._receive():
            return False
        with self._lock:
            self._busy = True
        try:
            message = self._next()
            if isinstance(message, messages.Missed):
                self._judge.missed(message.kernel, message.reason)
            elif isinstance(message, messages.HostRead):
                self._judge.host_read(host_read_of(message))
            elif isinstance(message, messages.Note):
                self.notes.append(message.text)
            elif isinstance(message, messages.Launch):
                self._launch(message)
            else:
                raise ValueError(f"a {type(message).__name__} that answers nothing")
        finally:
            with self._lock:
                self._busy = False
        return not self._last

    def _launch(self, message: messages.Launch) -> None:
        ttir = self._text(message.ttir)
        sources = {name: self._text(text) for name, text in message.sources.items()}
        contents = FetchedContents(
            self._fetch,
            [one.size for one in message.facts.storages],
            [None if pattern is None else bytes.fromhex(pattern) for pattern in message.fresh],
            self._backed,
        )
        report, launch = self._judge.judge(message.facts, ttir, sources, contents)
        done = messages.Done(False)
        if message.carry_out:
            try:
                self._write_back(self._judge.carry_out(report, launch, self._is_over))
                done = messages.Done(True)
            except CarryOutError as error:
                done = messages.Done(False, str(error))
                self.notes.append(f"{report.kernel} was checked, but could not be carried out: {error}")
        self._tell(done)

    def _write_back(self, changes: dict[int, list[tuple[int, Bytes]]]) -> None:
        listed: list[messages.Change] = []
        taken = 0
        for storage, stretches in changes.items():
            for offset, data in stretches:
                for low in range(0, data.size, _AT_ONCE):
                    piece = data[low : low + _AT_ONCE]
                    if taken + piece.size > _AT_ONCE or len(listed) == _RUNS_AT_ONCE:
                        self._tell_changes(listed)
                        listed, taken = [], 0
                    done = 0
                    while done < piece.size:
                        done += os.pwrite(self._memory, piece[done:].data, taken + done)
                    listed.append((storage, offset + low, int(piece.size), taken))
                    taken += int(piece.size)
        self._tell_changes(listed)

    def _tell_changes(self, listed: list[messages.Change]) -> None:
        if listed:
            self._tell(messages.Write(listed))
            self._hear(messages.Written)

    def _fetch(self, storage: int, runs: Sequence[Run], data: Bytes) -> bool:
        """Runs of a storage's bytes; False where the target can't read it, or is gone."""
        try:
            for part in _parts(runs):
                self._tell(messages.Read(storage, part))
                size = self._hear(messages.Size).size
                if size is None or size != sum(end - start for start, end in part):
                    return False
                if os.fstat(self._memory).st_size < size:
                    return False  # a read would end early, and a hole is no zero that was said
                taken = 0
                for start, end in part:
                    while start < end:
                        got = os.preadv(self._memory, [data.data[start:end]], taken)
                        if not got:
                            return False
                        start, taken = start + got, taken + got
            return True
        except (OSError, ValueError):
            return False

    def _backed(self, storage: int) -> list[Run]:
        """The runs of a storage's bytes that memory backs in the target. Raises NotReadable."""
        try:
            self._tell(messages.Backed(storage))
            return self._hear(messages.Runs).runs
        except (OSError, ValueError):
            raise NotReadable("the program does not say what of its memory is backed") from None

    def _text(self, said: messages.Text) -> str:
        """Texts that were said before, by their digests."""
        if said.text is not None:
            self._texts[said.sha] = said.text
        return self._texts[said.sha]

    def _tell(self, message: messages.Asked) -> None:
        self._connection.sendall(messages.line(message))

    def _hear(self, kind: type[T], most_bytes: int = MAX_MESSAGE_BYTES) -> T:
        """A message of that kind. Raises ValueError for another, ConnectionError if there is no more."""
        message = self._next(most_bytes)
        if not isinstance(message, kind):
            raise ValueError(f"expected {kind.__name__}, found {type(message).__name__}")
        return message

    def _next(self, most_bytes: int = MAX_MESSAGE_BYTES) -> messages.Said:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            if searched > most_bytes:
                raise ValueError(f"a message of more than {most_bytes} bytes")
            if not self._receive():
                raise ConnectionError("the connection ended")
        kind, fields = messages.split(bytes(self._received[:end]))
        del self._received[: end + 1]
        try:
            message: messages.Said = msgspec.convert(fields, kind)
        except msgspec.ValidationError as error:
            raise ValueError(f"{kind.__name__}: {error}") from None
        return message

    def _receive(self) -> bool:
        part = self._connection.recv(_PART_BYTES)
        self._received += part
        return bool(part)
