"""A session of native launches, and what sealing makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kerncap.capture import native_arguments, payloads
from kerncap.capture.collect import Collector
from kerncap.capture.target import TargetResult
from kerncap.format import Reproducer, schema
from tests.unit.capture.built_images import cubin
from tests.unit.capture.recorded import MANGLED, RecordedProcess, bare_session, native_payload, sealer

CUBIN = cubin(90, {MANGLED: [(0, 8), (8, 8), (16, 4), (24, 8), (32, 16)]})


class Run:
    def __init__(self, folder: Path, **options: Any) -> None:
        self.session = bare_session(folder / "session")
        self.output = folder / "out"
        self.output.mkdir()
        self.collector = Collector(self.session.folder, sealer(self.session, self.output), **options)

    def process(self, pid: int = 4242, forks: int = 0, shim: str = "cuda") -> RecordedProcess:
        return RecordedProcess(self.session.folder, pid, forks, shim)

    def finish(self, *processes: RecordedProcess, target: TargetResult | None = None) -> None:
        for process in processes:
            process.end()
        self.collector.finish(target or TargetResult(0, 4242))

    def seal(self, code: bytes | None, **record: Any) -> None:
        """The session of one launch, which completes."""
        process = self.process()
        process.native(0, code, **record)
        process.complete(0)
        self.finish(process)

    def sealed(self, code: bytes | None, **record: Any) -> schema.Manifest:
        self.seal(code, **record)
        return self.only()

    def only(self) -> schema.Manifest:
        assert self.collector.failed == []
        [sealed] = self.collector.sealed
        with Reproducer.open(sealed.path) as reproducer:
            reproducer.verify()
            return reproducer.manifest


def values(
    types: str, raw: bytes, layout: list[list[int]], regions: list[dict[str, Any]] | None = None
) -> list[Any]:
    payload = native_payload(0, parameters={"layout": layout, "bytes": raw.hex()})
    payload["kernel"] = {"name": "k", "qualified_name": f"k({types})" if types else "k", "mangled": "k"}
    if regions is not None:
        payload["regions"] = regions
    arguments, _ = native_arguments.describe(payloads.convert(payload, payloads.LaunchRecord, "launch"))
    return [argument.value for argument in arguments]
