"""Sessions written by hand: what a hook would leave, without one."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from kerncap.capture.seal import Sealer
from kerncap.capture.session_folder import Session
from kerncap.format import records
from kerncap.format.records import RecordKind
from kerncap.format.schema import CHUNK_BYTES

ELEMENTS = 1024
BYTES = ELEMENTS * 4


class RecordedProcess:
    """One process's folder of a session; holds its lock like a living process until `end`."""

    def __init__(self, session: Path, pid: int = 4242, forks: int = 0, shim: str = "triton") -> None:
        self.pid = pid
        self.folder = session / f"{pid}-{forks}"
        (self.folder / "code").mkdir(parents=True)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.say(
            RecordKind.PROCESS,
            {
                "pid": pid,
                "argv": ["python"],
                "python": "3.12.1",
                "packages": {"torch": "2.9", "triton": "3.5"},
            }
            if shim == "triton"
            else {"pid": pid, "argv": ["./app"], "executable": "/app", "shim": shim, "packages": {}},
        )

    def say(self, kind: RecordKind, payload: dict[str, Any]) -> None:
        self.raw(records.encode(kind, payload))

    def raw(self, data: bytes) -> None:
        with open(self.folder / "records", "ab") as file:
            file.write(data)

    def launch(self, number: int, kernel: str = "scale", **changes: Any) -> dict[str, Any]:
        """LAUNCH with its pre-state on file; gives the payload."""
        payload = launch_payload(number, kernel, **changes)
        if payload["pre"] == {"file": f"{number}.pre"}:
            (self.folder / f"{number}.pre").write_bytes(pre_bytes(number))
        self.say(RecordKind.LAUNCH, payload)
        return payload

    def native(self, number: int, code: bytes | None = None, **changes: Any) -> dict[str, Any]:
        """LAUNCH as the CUDA shim writes it, with its pre-state and image on file; gives the payload."""
        payload = native_payload(number, **changes)
        if payload["pre"] == {"file": f"{number}.pre"}:
            (self.folder / f"{number}.pre").write_bytes(pre_bytes(number))
        if code is not None:
            (self.folder / payload["image"]["file"]).write_bytes(code)
        self.say(RecordKind.LAUNCH, payload)
        return payload

    def complete(self, number: int, **changes: Any) -> None:
        """COMPLETE with its post-state on file: every byte one higher than before."""
        payload = complete_payload(number, **changes)
        if payload["post"] == {"file": f"{number}.post"}:
            (self.folder / f"{number}.post").write_bytes(post_bytes(number))
        self.say(RecordKind.COMPLETE, payload)

    def counts(self, kernels: dict[str, dict[str, Any]], overhead_ns: int = 1000) -> None:
        total = sum(counts["launches"] for counts in kernels.values())
        self.say(RecordKind.COUNTS, {"kernels": kernels, "overhead_ns": overhead_ns, "launches": total})

    def end(self) -> None:
        os.close(self._lock)


def pre_bytes(number: int) -> bytes:
    return bytes((number + position) % 251 for position in range(BYTES))


def post_bytes(number: int) -> bytes:
    return bytes(value + 1 for value in pre_bytes(number))


def launch_payload(number: int, kernel: str = "scale", **changes: Any) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "launch": number,
        "mode": "interpreter",
        "kernel": {
            "name": kernel,
            "qualified_name": f"app.{kernel}",
            "module": "app",
            "file": "/a.py",
            "line": 3,
        },
        "ordinal": number,
        "grid": [4, 1, 1],
        "grid_source": None,
        "device": {"kind": "cpu", "name": "a CPU", "ordinal": 0},
        "arguments": [
            {"name": "x", "role": "runtime", "value": {"kind": "tensor", "view": 0}},
            {"name": "n", "role": "runtime", "value": {"kind": "int", "value": str(ELEMENTS)}},
            {"name": "BLOCK", "role": "constexpr", "value": {"kind": "int", "value": "256"}},
        ],
        "options": {"num_warps": {"kind": "int", "value": "4"}},
        "regions": [{"base": 0x10000, "size": BYTES, "kind": "host", "device": -1, "reason": "argument x"}],
        "views": [
            {
                "region": 0,
                "offset": 0,
                "dtype": "float32",
                "itemsize": 4,
                "shape": [ELEMENTS],
                "strides": [1],
                "name": "x",
            }
        ],
        "pre": {"file": f"{number}.pre"},
        "pre_offsets": [0],
        "closure": {"mode": "args", "consistency": "cooperative", "included_bytes": BYTES},
        "autotune": None,
        "source": None,
        "python_stack": [["/a.py", 9, "<module>"]],
        "time_ns": 1_700_000_000_000_000_000,
        "condition": None,
    }
    return {**payload, **changes}


BASE = 0x7F0000000000
MANGLED = "_ZN2ns5scaleIfEEvPT_PKS1_id4Pair"
DEMANGLED = "void ns::scale<float>(float*, float const*, int, double, Pair)"
LAYOUT = [[0, 8], [8, 8], [16, 4], [24, 8], [32, 16]]
PARAMETERS = (
    (BASE + 256).to_bytes(8, "little")
    + (0xDEAD000).to_bytes(8, "little")
    + (-3).to_bytes(4, "little", signed=True)
    + bytes(4)
    + bytes.fromhex("000000000000f83f")  # 1.5
    + b"\x01" * 16
)


def native_payload(number: int, **changes: Any) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "launch": number,
        "mode": "native",
        "kernel": {"name": "ns::scale<float>", "qualified_name": DEMANGLED, "mangled": MANGLED},
        "ordinal": number,
        "grid": [4, 1, 1],
        "block": [256, 1, 1],
        "cluster": None,
        "shared_bytes": 1024,
        "cooperative": False,
        "launch_attributes": [{"id": 4, "value": "01" * 64}],
        "stream": "0x0",
        "route": "cuLaunchKernel",
        "parameters": {"layout": LAYOUT, "bytes": PARAMETERS.hex()},
        "device": {"kind": "cuda", "name": "a GPU", "arch": "sm_90", "ordinal": 0},
        "regions": [{"base": BASE, "size": BYTES, "kind": "device", "device": 0, "reason": "argument at 0"}],
        "views": [],
        "pre": {"file": f"{number}.pre"},
        "pre_offsets": [0],
        "closure": {"mode": "reachable", "consistency": "gated", "included_bytes": BYTES},
        "image": {"file": "code/elf-00112233", "kind": "elf", "origin": "", "mapped_from": None},
        "source": None,
        "annotation": None,
        "time_ns": 1_700_000_000_000_000_000,
        "condition": None,
    }
    return {**payload, **changes}


def complete_payload(number: int, **changes: Any) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "launch": number,
        "status": "complete",
        "error": None,
        "duration_ns": 1000,
        "post": {"file": f"{number}.post"},
        "chunks": [[0, 0]],
        "code": [],
        "compiled": {},
        "signature": {"x": "*fp32", "n": "i32"},
        "divisibility": {"x": 16},
        "oracle": "trusted",
        "condition": None,
        "detail": None,
        "keep": True,
    }
    return {**payload, **changes}


def counts_payload(launches: int, **changes: Any) -> dict[str, Any]:
    payload = {
        "launches": launches,
        "matched": 0,
        "captured": 0,
        "filtered": {},
        "configs": 1,
        "time_ns": 0,
        "bytes": 0,
    }
    return {**payload, **changes}


def bare_session(folder: Path) -> Session:
    """A session folder without a socket, as one left behind."""
    folder.mkdir(parents=True)
    (folder / "session.json").write_text(json.dumps({"version": 1, "chunk_bytes": CHUNK_BYTES}))
    return Session.reopen(folder)


def sealer(session: Session, output: Path) -> Sealer:
    return Sealer(session, output, ["python", "app.py"], {"TRITON_INTERPRET": "1"})
