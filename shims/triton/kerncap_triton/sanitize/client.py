"""The target's end of a sanitized run: launches go to kerncap's process, which asks for what it needs.

One connection per process, over which go `messages`.
"""

from __future__ import annotations

import array
import hashlib
import os
import socket
import threading
from typing import Dict, List, Optional

from .. import triton_generations
from ..record_writer import OwnDescriptor
from . import messages
from .hooks import Watcher, warn_not_carried_out
from .launch_description import Description
from .storage_contents import Reader

_AT_ONCE = 1 << 30


class LiveWatcher(Watcher):
    """Says every launch of this process."""

    def __init__(self, session: messages.Session) -> None:
        super().__init__(session.target, session.every_configuration)
        self._address = session.socket
        self._token = session.token
        if session.allocations:
            from . import allocations

            self.allocations = allocations.block_of
        self._start_afresh()
        os.register_at_fork(after_in_child=self._start_afresh)

    def _start_afresh(self) -> None:
        """A forked child has a connection of its own; its copies of the parent's descriptors just close."""
        self._lock = threading.RLock()
        self._connection: Optional[_Connection] = None

    def launched(self, description: Description, carry_out: bool) -> None:
        try:
            with self._lock:
                done = self._connected().launch(description, carry_out)
        except Exception as error:
            self._connection = None  # in the middle of something: the next launch connects again
            done = messages.Done(False, f"kerncap's process did not answer ({error!r})")
        except BaseException:  # a Ctrl-C is the target's
            self._connection = None
            raise
        if carry_out and not done.carried:
            warn_not_carried_out(description.facts.kernel, done.reason)

    def missed(self, kernel: str, reason: str) -> None:
        self._tell(messages.Missed(kernel, reason[:4000]))

    def host_read(self, read: messages.HostRead) -> None:
        self._tell(read)

    def note(self, text: str) -> None:
        self._tell(messages.Note(text[:4000]))

    def _tell(self, message: messages.Said) -> None:
        try:
            with self._lock:
                self._connected().tell(message)
        except Exception:
            self._connection = None

    def _connected(self) -> "_Connection":
        if self._connection is None or not self._connection.is_ours:
            self._connection = _Connection(self._address, self._token)
        return self._connection


class _Connection:
    def __init__(self, address: str, token: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._socket.connect(address)
        self._memory = os.memfd_create("kerncap-sanitize", os.MFD_CLOEXEC)
        self._owned = OwnDescriptor(self._socket.fileno()), OwnDescriptor(self._memory)
        self._received = b""
        hello = messages.line(messages.Hello(token, os.getpid(), triton_generations.notes()))
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._memory]))]
        sent = self._socket.sendmsg([hello], rights)
        self._socket.sendall(hello[sent:])
        self._said: Dict[str, str] = {}  # texts and their digests

    @property
    def is_ours(self) -> bool:
        """Whether the descriptors still are: a program may close all that it has."""
        return all(owned.is_ours for owned in self._owned)

    def __del__(self) -> None:
        try:
            if self._owned[1].is_ours:
                os.close(self._memory)
            if self._owned[0].is_ours:
                self._socket.close()
            else:
                self._socket.detach()
        except Exception:
            pass

    def launch(self, description: Description, carry_out: bool) -> messages.Done:
        reader = Reader(description.places)
        patterns = [reader.pattern(storage) for storage in range(len(description.places))]
        ttir = self._text(description.ttir)
        sources = {name: self._text(text) for name, text in description.sources.items()}
        fresh = [None if pattern is None else pattern.hex() for pattern in patterns]
        self.tell(messages.Launch(description.facts, ttir, sources, carry_out, fresh))
        while True:
            asked = self._hear()
            if isinstance(asked, messages.Read):
                self.tell(messages.Size(self._pass_on(reader, asked.storage, asked.runs)))
            elif isinstance(asked, messages.Backed):
                self.tell(messages.Runs(reader.backed(asked.storage)))
            elif isinstance(asked, messages.Write):
                self._take_over(reader, asked.changes)
                self.tell(messages.Written())
            else:
                return asked

    def tell(self, message: messages.Said) -> None:
        self._socket.sendall(messages.line(message))

    def _hear(self) -> messages.Asked:
        while b"\n" not in self._received:
            part = self._socket.recv(1 << 20)
            if not part:
                raise ConnectionError("the connection ended")
            self._received += part
        text, _, self._received = self._received.partition(b"\n")
        kind, fields = messages.split(text)
        asked: messages.Asked = kind(**fields)
        return asked

    def _text(self, text: str) -> messages.Text:
        """Texts are long, and the same for many launches: said once, then by digest."""
        known = self._said.get(text)
        if known is not None:
            return messages.Text(known)
        digest = self._said[text] = hashlib.sha256(text.encode()).hexdigest()
        return messages.Text(digest, text)

    def _pass_on(self, reader: Reader, storage: int, runs: List[messages.Run]) -> Optional[int]:
        """Runs of a storage's bytes into the memfd, one behind the other; a hole for what nothing backs."""
        os.ftruncate(self._memory, 0)
        os.ftruncate(self._memory, sum(end - start for start, end in runs))
        at = 0
        for start, end in runs or ((0, 0),):
            for low, _, window in reader.windows(storage, start, end):
                if window is None:
                    return None
                view = memoryview(window).cast("B")
                done = 0
                while done < len(view):
                    done += os.pwrite(self._memory, view[done : done + _AT_ONCE], at + low - start + done)
            at += end - start
        return at

    def _take_over(self, reader: Reader, changes: List[messages.Change]) -> None:
        for storage, offset, size, at in changes:
            target = memoryview(reader.target(storage, offset, size)).cast("B")
            done = 0
            while done < size:
                got = os.preadv(self._memory, [target[done : done + _AT_ONCE]], at + done)
                if not got:
                    raise ValueError("the memfd is shorter than what was announced")
                done += got
