"""A program of the shims' common part, run in a session, and the records that it left."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from kerncap.capture.session_socket import SessionServer
from kerncap.format import records
from kerncap.format.records import RecordKind
from tests.contract import check_keys
from tests.session_options import session_json

TOKEN = "0123456789abcdef"


def run(program: Path, case: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [program, case],
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1 die_after_fork=0", **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


class Run:
    """A session folder, a server that answers for the command line, and what the program left there."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder = folder
        self.program = program
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, dict[str, Any]] = {}
        self.memfds: dict[int, bytes] = {}
        self.ranges: dict[str, bool] = {}
        self.told = ""  # session.json
        self.told_bytes: int | None = None  # as much of it is there; None for all

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(question)
        if question["ask"] == "globals":
            assert (self.folder / question["process"] / question["image"]).read_bytes() == b".version 6.4"
            return {"globals": []}
        if question["ask"] == "range":
            return {"match": self.ranges.get(question["range"], False)}
        return self.answers.get(question["demangled"], {"match": True})

    def __call__(self, conf: dict[str, object], case: str = "capture_scenario", **environment: object) -> str:
        server = SessionServer(self.folder, TOKEN, self.answer)
        try:
            told = session_json(**{"token": TOKEN, "socket": server.path, "backend": "cuda", **conf})
            self.told = json.dumps(told)[: self.told_bytes]
            (self.folder / "session.json").write_text(self.told)
            session = {"KERNCAP_SESSION": str(self.folder / "session.json")}
            out = run(self.program, case, {**session, **{k: str(v) for k, v in environment.items()}})
            for number in range(4):
                for process in self.processes():
                    descriptor = server.descriptor(process.name, number)
                    if descriptor is not None:
                        self.memfds[number] = os.pread(descriptor, 1 << 24, 0)
            return out
        finally:
            server.close()

    def processes(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob("*/records"))

    def records(self, process: int = 0) -> list[records.Record]:
        data = (self.processes()[process] / "records").read_bytes()
        found = list(records.decode(data))
        for record in found:
            check_keys(record.kind, record.payload)
        assert found and found[-1].end_offset == len(data)
        return found

    def of(self, kind: RecordKind, process: int = 0) -> list[dict[str, Any]]:
        return [record.payload for record in self.records(process) if record.kind is kind]

    def counts(self, name: str = "scale(float*, int)") -> dict[str, Any]:
        counted: dict[str, Any] = self.of(RecordKind.COUNTS)[-1]["kernels"][name]
        return counted

    def files(self) -> set[str]:
        return {path.name for path in self.processes()[0].iterdir()} - {"records", "lock", "code"}


def floats(data: bytes, count: int = 1000) -> set[float]:
    return set(memoryview(data[: count * 4]).cast("f"))
