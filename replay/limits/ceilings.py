"""What a device can do: as it was measured, kept per device in the user's cache folder."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from kerncap import child, user_folders, whole_files
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.regular_file import read_regular_text
from kerncap.replay.worker import typed_json
from kerncap.replay.worker.probe_messages import Device
from kerncap.replay.worker.protocol import Failure

_BOOTSTRAP = Path(__file__).parents[1] / "worker" / "bootstrap.py"
_TIMEOUT_S = 120.0  # some seconds at the most; a driver that assembles PTX on a loaded machine takes longer
_MAX_FILE_BYTES = 1 << 20


class Ceilings(Struct, frozen=True, rename={"rates": "ceilings"}):
    """Rates of one device: ``rates`` by name, in bytes or operations per second, ``launch_us`` and
    ``event_us`` in microseconds. ``missing``: what could not be measured, and why.

    The clocks are the highest that the driver names, in kHz; ``memory_bus_bits`` wide.
    """

    device: str
    arch: str
    driver: str
    sm_count: int
    clock_khz: int
    memory_clock_khz: int
    memory_bus_bits: int
    l2_bytes: int
    rates: Mapping[str, float]
    how: Mapping[str, str] = {}
    missing: Mapping[str, str] = {}
    measured_at: str = ""
    version: Literal[1] = 1
    origin: Literal["measured", "published"] = "measured"
    path: str = ""  # where it is kept

    def rate(self, name: str) -> float | None:
        found = self.rates.get(name)
        return found if found and found > 0 else None

    def dram(self, read_bytes: int, written_bytes: int) -> float | None:
        """Bytes per second of traffic of this mixture: between reading, copying and writing."""
        read, write = self.rate("dram_read_bytes_per_s"), self.rate("dram_write_bytes_per_s")
        copy = self.rate("dram_copy_bytes_per_s")
        total = read_bytes + written_bytes
        if read is None or write is None or copy is None or not total:
            return copy or read or write
        share = written_bytes / total
        if share <= 0.5:
            return read + (copy - read) * 2 * share
        return copy + (write - copy) * (2 * share - 1)

    def as_dict(self) -> dict[str, Any]:
        """The document that is kept; `from_dict` takes it."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        del found["path"]
        return found


def from_dict(document: Any, path: str = "") -> Ceilings:
    """Raises msgspec.ValidationError for what is not such a document."""
    found = msgspec.convert(document, Ceilings)
    if "version" not in document:
        raise msgspec.ValidationError("it says no version")
    return msgspec.structs.replace(found, path=path)


# --- the cache ---------------------------------------------------------------------------------------


def folder() -> Path:
    """Where ceilings are kept."""
    return user_folders.cache("ceilings")


def _file(of: Device) -> Path:
    words = map(str, (of.device, of.driver, of.sm_count, of.clock_khz, of.memory_clock_khz))
    return folder() / (re.sub(r"[^A-Za-z0-9.]+", "-", "-".join(words)) + ".json")


def read(path: Path) -> Ceilings:
    """Ceilings from a file. Raises UsageError for one that is not such a file."""
    try:
        return from_dict(json.loads(read_regular_text(path, _MAX_FILE_BYTES)), str(path))
    except (ValueError, msgspec.ValidationError) as error:
        raise UsageError(f"{path}: no ceilings that this version reads ({error!r})") from error


def kept() -> list[Ceilings]:
    """Of each device that was measured here."""
    found = []
    for path in sorted(folder().glob("*.json")):
        with contextlib.suppress(UsageError):
            found.append(read(path))
    return found


def of_device(python: str, ordinal: int, again: bool = False) -> Ceilings:
    """Of CUDA device ``ordinal``: the kept ceilings, or (with ``again``, or if there are none) measured.

    ``python`` needs numpy. Raises BackendUnavailable if the device can't be measured.
    """
    device: Device = _ask(python, "device", ordinal, Device)
    path = _file(device)
    if not again and path.is_file():
        with contextlib.suppress(UsageError):  # of another version, or damaged: measured again
            return read(path)
    document: dict[str, Any] = _ask(python, "measure", ordinal, dict[str, Any])
    document["measured_at"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    try:
        measured = from_dict(document, str(path))
    except msgspec.ValidationError as error:
        raise BackendUnavailable("the device's ceilings", f"the measurement answered {document!r}") from error
    with contextlib.suppress(OSError, UsageError):  # a cache that can't be written: it is measured again
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        whole_files.write(path, json.dumps(document, indent=2), durable=False)
    return measured


def _ask(python: str, question: str, ordinal: int, kind: Any) -> Any:
    """What a child prints, as ``kind``. Raises BackendUnavailable."""
    what = "the device's ceilings"
    try:
        done = child.run(child.python(python, _BOOTSTRAP, question, str(ordinal)), timeout=_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendUnavailable(what, str(error)) from error
    try:
        found = typed_json.fit(Failure | kind, typed_json.parse(done.stdout))
    except typed_json.Unreadable as error:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise BackendUnavailable(what, f"the measurement ended with {done.returncode}: {said[0]}") from error
    if isinstance(found, Failure):
        raise BackendUnavailable(what, found.message)
    return found
