"""What a capture is asked to do: checked at birth, written to session.json for the hook."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kerncap.capture import session_conf
from kerncap.errors import UsageError
from kerncap.format.schema import CHUNK_BYTES

DEFAULT_OUTPUT = Path("kerncap-out")
DEFAULT_KERNELS = 10  # with no selector: at most this many kernels ...
DEFAULT_BYTES = 4 << 30  # ... and this many bytes
DEFAULT_MAX_SIZE = 8 << 30
BACKENDS = ("auto", "cuda", "hip", "triton")
DRAIN_TIMEOUT_S = 5.0
MEMORIES = ("reachable", "args", "all")
CONDITIONS = ("nonfinite", "differs")

_SIZE = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)(b?)\s*$", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """``8GiB``, ``512M``, ``1.5g``, ``4096`` in bytes; units are powers of 1024, of 1000 for ``8GB``."""
    match = _SIZE.match(text)
    if match is None:
        raise UsageError(f"size {text!r}: expected a number with a unit, such as 512MiB or 8GiB")
    number, unit, binary, byte = match.groups()
    base = 1000 if unit and byte and not binary else 1024
    size = float(number) * base ** _POWERS[unit.lower()]  # infinite, where the digits are many
    if not 1 <= size < 2**48:
        raise UsageError(f"size {text!r}: must be above 0 and below 256 TiB")
    return int(size)


def parse_launch(text: str) -> tuple[int, int]:
    """``N`` or ``N:M`` (half open) as first and last-exclusive ordinal, 0-based."""
    match = re.fullmatch(r"([0-9]{1,12})(?::([0-9]{1,12}))?", text.strip())
    if match is None:
        raise UsageError(f"--launch {text!r}: expected N or N:M, 0-based, M excluded")
    first = int(match[1])
    last = int(match[2]) if match[2] else first + 1
    if last <= first:
        raise UsageError(f"--launch {text!r}: empty, {last} is not above {first}")
    return first, last


def parse_ranks(text: str) -> tuple[int, ...]:
    """``0`` or ``0,2,3`` as numbers, ascending."""
    parts = [part.strip() for part in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,9}", part) for part in parts):
        raise UsageError(f"--rank {text!r}: expected ranks from 0 with commas between, such as 0 or 0,2")
    return tuple(sorted({int(part) for part in parts}))


def check_regex(text: str, option: str = "-k") -> str:
    """``text`` itself, if it compiles; the place of the error otherwise."""
    try:
        re.compile(text)
    except re.error as error:
        where = "" if error.pos is None else f" at column {error.pos + 1}"
        raise UsageError(f"{option} {text!r}: {error.msg}{where}") from error
    return text


@dataclass(frozen=True)
class CaptureOptions:
    """One capture. Sizes are bytes; raises UsageError for what contradicts itself."""

    command: tuple[str, ...]
    output: Path = DEFAULT_OUTPUT
    kernel: str | None = None
    launch: tuple[int, int] | None = None
    per_config: bool = False
    where: list[Any] | None = None
    range: str | None = None  # a regular expression for the names of the open NVTX ranges
    ranks: tuple[int, ...] | None = None  # processes of other ranks capture nothing
    on_fault: bool = False
    fault_timeout_s: float = 60.0
    when: Literal["nonfinite", "differs"] | None = None
    last: int | None = None
    memory: Literal["reachable", "args", "all"] = "reachable"
    memory_was_asked: bool = False  # then it is said that the hook alone gives less
    max_size: int = DEFAULT_MAX_SIZE
    backend: Literal["auto", "cuda", "hip", "triton"] = "auto"
    source_dirs: tuple[Path, ...] = ()  # where sources of CUDA and HIP kernels are looked for too
    stop: bool = False
    no_values: bool = False
    keep_session: bool = False
    self_check: bool = True
    self_check_timeout_s: float = 30.0  # for each; four times as long for all
    list_only: bool = False
    dormant: bool = False  # nothing is selected until `kerncap arm`
    generation: int = 0  # of `kerncap arm`: the n-th selection of a session
    stdout_to_stderr: bool = False  # kerncap's own stdout carries one JSON document
    environment: dict[str, str] | None = field(default=None, repr=False)  # None: this process's own

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError("no command: give the program after --")
        if self.kernel is not None:
            check_regex(self.kernel)
        if self.range is not None:
            check_regex(self.range, "--range")
        if self.dormant and not (self.default_selection and self.ranks is None):
            raise UsageError("--dormant takes no selectors: give them to kerncap arm, later")
        if self.dormant and self.stop:
            raise UsageError("--dormant and --stop exclude each other: kerncap arm --stop ends the program")
        if self.last is not None and self.last < 1:
            raise UsageError(f"--last {self.last}: at least 1")
        if not 0 < self.fault_timeout_s <= 86400:
            raise UsageError(f"--fault-timeout {self.fault_timeout_s}: above 0 and at most 86400 seconds")
        if not 0 < self.self_check_timeout_s <= 86400:
            raise UsageError(
                f"--self-check-timeout {self.self_check_timeout_s}: above 0 and at most 86400 seconds"
            )
        if self.on_fault and self.when:
            raise UsageError("--on-fault and --when exclude each other: one keeps faults, the other results")
        if self.no_values and self.when:
            raise UsageError(f"--no-values leaves out the contents that --when {self.when} looks at")
        if self.last is not None and (self.on_fault or self.launch):
            raise UsageError("--last goes with neither --on-fault nor --launch")

    @property
    def default_selection(self) -> bool:
        """No selector: the first launch of each distinct kernel whose source is known."""
        return not (
            self.kernel or self.launch or self.per_config or self.where or self.range or self.on_fault
            or self.when or self.last
        )  # fmt: skip

    @property
    def backends(self) -> tuple[str, ...]:
        """What may capture: the native shims, the Triton hook, or one of them alone."""
        return ("cuda", "hip", "triton") if self.backend == "auto" else (self.backend,)

    def for_hook(self, token: str, socket_path: str) -> dict[str, Any]:
        """The object of session.json, as docs/session.md has it."""
        return {
            "version": 1,
            "token": token,
            "socket": socket_path,
            "backend": self.backend,
            "select": {
                "kernel": self.kernel,
                "launch": list(self.launch) if self.launch else None,
                "per_config": self.per_config,
                "where": self.where,
                "default": self.default_selection,
                "range": self.range,
                "ranks": list(self.ranks) if self.ranks is not None else None,
            },
            "limits": {"kernels": DEFAULT_KERNELS, "bytes": DEFAULT_BYTES, "max_size": self.max_size},
            "on_fault": self.on_fault,
            "fault_timeout_s": self.fault_timeout_s,
            "when": self.when,
            "last": self.last,
            "stop": self.stop,
            "no_values": self.no_values,
            "list_only": self.list_only,
            "dormant": self.dormant,
            **({"generation": self.generation} if self.generation else {}),
            "drain_timeout_s": DRAIN_TIMEOUT_S,
            "chunk_bytes": CHUNK_BYTES,
            "memory": self.memory,
        }

    def for_shim(self, token: str, socket_path: str) -> bytes:
        """The text of session.conf, as docs/session.md has it."""
        first, last = self.launch or (None, None)
        return session_conf.encode(
            {
                "version": 1,
                "token": token,
                "socket": socket_path,
                "backends": ",".join(self.backends),
                "launch_first": first,
                "launch_last": last,
                "per_config": self.per_config,
                "default": self.default_selection,
                "where": session_conf.reverse_polish(self.where) if self.where is not None else None,
                "range": True if self.range is not None else None,
                "ranks": ",".join(map(str, self.ranks)) if self.ranks is not None else None,
                "dormant": True if self.dormant else None,
                "generation": self.generation or None,
                "limit_kernels": DEFAULT_KERNELS,
                "limit_bytes": DEFAULT_BYTES,
                "max_size": self.max_size,
                "on_fault": self.on_fault,
                "fault_timeout_ns": round(self.fault_timeout_s * 1e9),
                "when": self.when,
                "last": self.last,
                "stop": self.stop,
                "no_values": self.no_values,
                "list_only": self.list_only,
                "drain_timeout_ns": round(DRAIN_TIMEOUT_S * 1e9),
                "chunk_bytes": CHUNK_BYTES,
                "memory": self.memory,
            }
        )
