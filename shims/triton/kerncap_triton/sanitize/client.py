"""The target's end of a sanitized run: launches go to kerncap's process, which asks for what it needs.

One connection per process. A message is its length (4 bytes, big endian) and JSON. The target says
`{"launch": …}`, `{"missed": …}`, `{"host_read": …}` or `{"note": …}`; for a launch kerncap then asks, as
often as it likes, `{"read": storage, "runs": [[start, end], …]}` (the bytes come through a memfd that was
handed over at the start), `{"backed": storage}` (the runs of its bytes that memory backs) or
`{"write": […]}` (kerncap carried the launch out; the bytes are in the memfd), until it says `{"done": …}`.
"""

from __future__ import annotations

import array
import hashlib
import json
import os
import socket
import struct
import threading
from typing import Any, Dict, Optional

from .. import generations
from ..wire import OwnDescriptor
from .contents import Reader
from .description import Description
from .hooks import Watcher, warn_not_carried_out

LENGTH = struct.Struct(">I")
_TEXTS = ("ttir",)  # long, and the same for many launches: said once, then by digest
_AT_ONCE = 1 << 30


class LiveWatcher(Watcher):
    """Says every launch of this process. ``options``: sanitize.json."""

    def __init__(self, options: Dict[str, Any]) -> None:
        super().__init__(options.get("target"), bool(options.get("every_configuration", True)))
        self._address = str(options["socket"])
        self._token = str(options["token"])
        if options.get("allocations"):
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
            self._connection = None  # in the middle of something: the next launch begins anew
            done = {"carried": False, "reason": f"kerncap's process did not answer ({error!r})"}
        except BaseException:  # a Ctrl-C is the target's
            self._connection = None
            raise
        if carry_out and not done.get("carried"):
            kernel = description.record["kernel"]
            warn_not_carried_out(kernel, str(done.get("reason")))

    def missed(self, kernel: str, reason: str) -> None:
        self._tell({"missed": {"kernel": kernel, "reason": reason[:4000]}})

    def host_read(self, record: Dict[str, Any]) -> None:
        self._tell({"host_read": record})

    def note(self, text: str) -> None:
        self._tell({"note": text[:4000]})

    def _tell(self, message: Dict[str, Any]) -> None:
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
        hello = json.dumps({"token": token, "pid": os.getpid(), "notes": generations.notes()}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [self._memory]))]
        sent = self._socket.sendmsg([LENGTH.pack(len(hello)) + hello], rights)
        self._socket.sendall((LENGTH.pack(len(hello)) + hello)[sent:])
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

    def launch(self, description: Description, carry_out: bool) -> Dict[str, Any]:
        reader = Reader(description.places)
        patterns = [reader.pattern(storage) for storage in range(len(description.places))]
        self.tell(
            {
                "launch": self._shortened(description.record),
                "carry_out": carry_out,
                "fresh": [None if pattern is None else pattern.hex() for pattern in patterns],
            }
        )
        while True:
            asked = self._hear()
            if "read" in asked:
                self.tell({"size": self._pass_on(reader, int(asked["read"]), asked["runs"])})
            elif "backed" in asked:
                self.tell({"runs": reader.backed(int(asked["backed"]))})
            elif "write" in asked:
                self._take_over(reader, asked["write"])
                self.tell({"written": True})
            else:
                return asked

    def tell(self, message: Dict[str, Any]) -> None:
        body = json.dumps(message, separators=(",", ":")).encode()
        self._socket.sendall(LENGTH.pack(len(body)) + body)

    def _hear(self) -> Dict[str, Any]:
        (length,) = LENGTH.unpack(self._receive(LENGTH.size))
        message: Dict[str, Any] = json.loads(self._receive(length))
        return message

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("the connection ended")
            data += part
        return data

    def _shortened(self, record: Dict[str, Any]) -> Dict[str, Any]:
        """Texts that were said before are their digests: ``{"sha": …}`` (with ``"text"`` the first time)."""
        short = dict(record)
        for name in _TEXTS:
            short[name] = self._text(record[name])
        short["sources"] = {name: self._text(text) for name, text in record["sources"].items()}
        return short

    def _text(self, text: str) -> Dict[str, str]:
        known = self._said.get(text)
        if known is not None:
            return {"sha": known}
        digest = self._said[text] = hashlib.sha256(text.encode()).hexdigest()
        return {"sha": digest, "text": text}

    def _pass_on(self, reader: Reader, storage: int, runs: Any) -> Optional[int]:
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

    def _take_over(self, reader: Reader, changes: Any) -> None:
        """``[storage, offset, bytes, offset in the memfd]`` each."""
        for storage, offset, size, at in changes:
            target = memoryview(reader.target(int(storage), int(offset), int(size))).cast("B")
            done = 0
            while done < size:
                got = os.preadv(self._memory, [target[done : done + _AT_ONCE]], at + done)
                if not got:
                    raise ValueError("the memfd is shorter than what was announced")
                done += got
