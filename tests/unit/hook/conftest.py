"""Runs small programs with the hook in them and reads what they recorded."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kerncap.format.records import RecordKind, decode
from tests.contract import check_keys
from tests.integration import forked_commands
from tests.session_options import session_json

HOOK = Path(__file__).resolve().parents[3] / "shims" / "triton"
CHUNK = 262144

ADD = """
import torch, triton, triton.language as tl

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)
"""


def options(**changes: Any) -> dict[str, Any]:
    """A session.json; keyword arguments replace entries of any part of it."""
    session = session_json(**{"chunk_bytes": CHUNK, **changes})
    selectors = ("kernel", "launch", "per_config", "where", "range", "last")
    session["by_default"] = changes.get(
        "by_default", not any(session["selection"][name] for name in selectors)
    )
    return session


@dataclass
class Process:
    """One process folder of a session."""

    folder: Path
    records: list[tuple[RecordKind, dict[str, Any]]]
    memfds: dict[int, int] = field(default_factory=dict)

    def all(self, kind: RecordKind) -> list[dict[str, Any]]:
        return [payload for found, payload in self.records if found is kind]

    @property
    def launches(self) -> list[dict[str, Any]]:
        return self.all(RecordKind.LAUNCH)

    @property
    def completes(self) -> list[dict[str, Any]]:
        return self.all(RecordKind.COMPLETE)

    @property
    def failures(self) -> list[str]:
        return [payload["reason"] for payload in self.all(RecordKind.FAILED)]

    def counts(self, kernel: str) -> dict[str, Any]:
        kernels: dict[str, Any] = self.all(RecordKind.COUNTS)[-1]["kernels"]
        return dict(kernels[kernel])

    def pre(self, launch: int, view: str) -> bytes:
        """The bytes of a view's whole region before the launch."""
        record = next(r for r in self.launches if r["launch"] == launch)
        number = next(v["region"] for v in record["views"] if v["name"] == view)
        size, offset = record["regions"][number]["size"], record["pre_offsets"][number]
        if "memfd" in record["pre"]:
            return os.pread(self.memfds[record["pre"]["memfd"]], size, offset)
        data: bytes = (self.folder / record["pre"]["file"]).read_bytes()
        assert len(data) >= offset + size
        return data[offset : offset + size]

    def post(self, launch: int, view: str) -> bytes:
        """The same after it: the pre-state with the changed chunks put over it."""
        record = next(r for r in self.launches if r["launch"] == launch)
        done = next(r for r in self.completes if r["launch"] == launch)
        number = next(v["region"] for v in record["views"] if v["name"] == view)
        data = bytearray(self.pre(launch, view))
        stored = (self.folder / done["post"]["file"]).read_bytes()
        for position, (region, chunk) in enumerate(done["chunks"]):
            if region == number:
                length = min(CHUNK, len(data) - chunk * CHUNK)
                data[chunk * CHUNK : chunk * CHUNK + length] = stored[position * CHUNK :][:length]
        return bytes(data)

    def argument(self, name: str, launch: int = 0) -> dict[str, Any]:
        record = next(r for r in self.launches if r["launch"] == launch)
        return next(a for a in record["arguments"] if a["name"] == name)


@dataclass
class Outcome:
    status: int
    stdout: str
    stderr: str
    processes: list[Process]

    @property
    def only(self) -> Process:
        assert len(self.processes) == 1, f"{len(self.processes)} processes; {self.stderr}"
        return self.processes[0]


class MemfdKeeper:
    """The command line's side of the hand-over."""

    def __init__(self, path: Path) -> None:
        self.kept: dict[tuple[str, int], int] = {}
        self.messages: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(path))
        self._socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                data, descriptors, _, _ = socket.recv_fds(connection, 4096, 4)
                message = json.loads(data)
                self.messages.append(message)
                self.kept[message["process"], message["memfd"]] = descriptors[0]
                connection.sendall(b"k")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for descriptor in self.kept.values():
            os.close(descriptor)


Run = Callable[..., Outcome]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """``run(script, **options)``: the program's outcome with the hook in it.

    ``fresh`` starts a Python of its own for it instead of a fork of one that has torch; ``arguments`` (which
    imply that) replace ``[script]`` on its command line, ``environment`` adds to the environment,
    ``keep_memfds`` serves a socket.
    """
    pytest.importorskip("triton")
    keepers: list[MemfdKeeper] = []

    def start(
        script: str,
        arguments: list[str] | None = None,
        environment: dict[str, str] | None = None,
        keep_memfds: bool = False,
        hooked: bool = True,
        fresh: bool = False,
        **changes: Any,
    ) -> Outcome:
        session = tmp_path / "session"
        shutil.rmtree(session, ignore_errors=True)  # of a run before
        session.mkdir(exist_ok=True)
        if keep_memfds:
            keepers.append(MemfdKeeper(session / "socket"))
            changes["socket"] = str(session / "socket")
        (session / "session.json").write_text(json.dumps(options(**changes)))
        (tmp_path / "target.py").write_text(script)
        env = {**os.environ, "TRITON_INTERPRET": "1", **(environment or {})}
        if hooked:
            env["KERNCAP_SESSION"] = str(session / "session.json")
            env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HOOK), env.get("PYTHONPATH")]))
        if fresh or arguments:
            command = [sys.executable, *(arguments or ["target.py"])]
            done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
            status, stdout, stderr = done.returncode, done.stdout, done.stderr
        else:
            words = [sys.executable, "target.py"]
            status, stdout, stderr = forked_commands.program(words, tmp_path, env, timeout_s=300)
        kept = keepers[-1].kept if keepers else {}
        processes = []
        for file in sorted(session.glob("*/records")):
            name = file.parent.name
            memfds = {number: fd for (process, number), fd in kept.items() if process == name}
            records = [(record.kind, record.payload) for record in decode(file.read_bytes())]
            for kind, payload in records:
                check_keys(kind, payload)
            processes.append(Process(file.parent, records, memfds))
        return Outcome(status, stdout, stderr, processes)

    yield start
    for keeper in keepers:
        keeper.close()


@pytest.fixture
def package() -> Iterator[Any]:
    """The hook's package, loaded anew as the target loads it: by its path.

    Triton may have the hooks of one that was loaded before: it is back afterwards, whole.
    """
    before = _without_hook()
    folder = HOOK / "kerncap_triton"
    spec = importlib.util.spec_from_file_location(
        "kerncap_triton", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kerncap_triton"] = module
    spec.loader.exec_module(module)
    yield module
    _without_hook()
    sys.modules.update(before)


def _without_hook() -> dict[str, Any]:
    """Forget the hook's modules; returns them."""
    names = [name for name in sys.modules if name.split(".")[0] == "kerncap_triton"]
    return {name: sys.modules.pop(name) for name in names}
