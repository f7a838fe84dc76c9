"""What a capture is asked to do, in three parts: checked at birth."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap.errors import UsageError
from kerncap.format.contract import Backend, Memory, When, default, word
from kerncap.format.schema import MAX_RANGE_LAUNCHES

DEFAULT_OUTPUT = Path("kerncap-out")
SELF_CHECK_TIMEOUT_S = 30.0
MAX_RANKS = 48  # Collective::most_ranks

_SIZE = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*([kmgt]?)(i?)(b?)\s*$", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """``8GiB``, ``512M``, ``1.5g``, ``4096`` in bytes; units are powers of 1024, of 1000 for ``8GB``."""
    match = _SIZE.match(text)
    if match is None:
        raise UsageError(f"size {text!r}: expected a number with a unit, such as 512MiB or 8GiB")
    number, unit, binary, byte = match.groups()
    base = 1000 if unit and byte and not binary else 1024
    size = float(number) * base ** _POWERS[unit.lower()]  # infinite, if the digits are many
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


def parse_launches(text: str) -> tuple[int, int]:
    """``N:M`` (half open) as first and last-exclusive number of a launch, 0-based."""
    match = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text.strip())
    if match is None or int(match[2]) <= int(match[1]):
        raise UsageError(f"--launches {text!r}: expected N:M, 0-based, M excluded and above N")
    return int(match[1]), int(match[2])


def parse_kernel_launch(text: str) -> tuple[str, int]:
    """``REGEX`` or ``REGEX:N``: a kernel's name, and how many of its launches come before."""
    match = re.fullmatch(r"(.*[^:]):([0-9]{1,9})", text, re.DOTALL)
    return (match[1], int(match[2])) if match is not None else (text, 0)


def parse_graph(text: str) -> tuple[int, int]:
    """``N`` or ``N:K``: a graph, in the order of first launches, and how many of its launches come before."""
    match = re.fullmatch(r"([0-9]{1,9})(?::([0-9]{1,9}))?", text.strip())
    if match is None:
        raise UsageError(f"--graph {text!r}: expected N or N:K, 0-based; kerncap list --by graph shows them")
    return int(match[1]), int(match[2] or 0)


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
class Selection:
    """Which launches are taken. Raises UsageError for what contradicts itself."""

    kernel: str | None = None
    launch: tuple[int, int] | None = None
    launches: tuple[int, int] | None = None  # of all kernels together, in one reproducer: a range
    from_kernel: str | None = None  # or a range by its first and its last kernel
    from_skip: int = 0
    to_kernel: str | None = None
    to_skip: int = 0
    whole_range: int | None = None  # or all within an occurrence of the NVTX range, the first if it is 0
    graph: int | None = None  # or all of one launch of a graph
    graph_skip: int = 0
    per_config: bool = False
    where: list[list[Any]] | None = None  # steps, as `kerncap.capture.parse_where.postfix` makes them
    range: str | None = None  # a regular expression for the names of the open NVTX ranges
    ranks: tuple[int, ...] | None = None  # processes of other ranks capture nothing
    collective: int | None = None  # how many ranks make each launch together
    collective_timeout_s: float = default.collective_timeout_s
    on_fault: bool = False
    fault_timeout_s: float = default.fault_timeout_s
    when: When | None = None
    last: int | None = None
    stop: bool = False

    def __post_init__(self) -> None:
        if self.kernel is not None:
            check_regex(self.kernel)
        if self.range is not None:
            check_regex(self.range, "--range")
        if self.last is not None and self.last < 1:
            raise UsageError(f"--last {self.last}: expected 1 or more")
        if not 0 < self.fault_timeout_s <= 86400:
            raise UsageError(f"--fault-timeout {self.fault_timeout_s}: expected seconds, at most 86400")
        self._check_collective()
        if self.on_fault and self.when:
            raise UsageError("--on-fault and --when exclude each other: one keeps faults, the other results")
        self._check_span()
        if self.last is not None and (self.on_fault or self.launch):
            raise UsageError("--last goes with neither --on-fault nor --launch")

    def _check_collective(self) -> None:
        if not 0 < self.collective_timeout_s <= 86400:
            raise UsageError(
                f"--collective-timeout {self.collective_timeout_s}: expected seconds, at most 86400"
            )
        if self.collective is None:
            return
        if not 2 <= self.collective <= MAX_RANKS:
            raise UsageError(
                f"--collective {self.collective}: expected a number of ranks from 2 to {MAX_RANKS}"
            )
        if self.kernel is None:
            raise UsageError("--collective: which launches do the ranks make together? give -k REGEX too")
        if self.on_fault or self.when or self.last is not None or self.is_span or self.ranks is not None:
            raise UsageError(
                "--collective takes the same launch of all ranks: leave out --rank, --on-fault, --when, "
                "--last and ranges"
            )

    def _check_span(self) -> None:
        for text, option in ((self.from_kernel, "--from"), (self.to_kernel, "--to")):
            if text is not None:
                check_regex(text, option)
        if (self.from_kernel is None) != (self.to_kernel is None):
            raise UsageError("--from, --to: a range needs both; add the other, or use --launches N:M")
        asked = {
            "--launches": self.launches, "--from": self.from_kernel, "--whole-range": self.whole_range,
            "--graph": self.graph,
        }  # fmt: skip
        both = [option for option, value in asked.items() if value is not None]
        if len(both) > 1:
            raise UsageError(f"{' and '.join(both)} exclude each other: each says what a range is")
        if self.launches is not None:
            first, end = self.launches
            if end - first > MAX_RANGE_LAUNCHES:
                raise UsageError(
                    f"--launches {first}:{end}: a range has {MAX_RANGE_LAUNCHES} launches at most"
                )
        if self.whole_range is not None and self.range is None:
            raise UsageError("--whole-range: no NVTX range is named; add --range REGEX")
        if self.is_span and (
            self.launch or self.per_config or self.on_fault or self.when or self.last is not None
        ):
            raise UsageError(
                "--launches, --from, --whole-range and --graph take every launch of a range: leave out "
                "--launch, --per-config, --on-fault, --when and --last"
            )

    @property
    def is_span(self) -> bool:
        """Whether it is a range: consecutive launches, in one reproducer."""
        spans = (self.launches, self.from_kernel, self.whole_range, self.graph)
        return any(span is not None for span in spans)

    @property
    def is_default(self) -> bool:
        """No selector: the first launch of each distinct kernel whose source is known."""
        return not (
            self.kernel or self.launch or self.per_config or self.where or self.range or self.on_fault
            or self.when or self.last or self.is_span
        )  # fmt: skip


@dataclass(frozen=True)
class Keep:
    """What is kept of a launch that is taken. Sizes are bytes."""

    memory: Memory = default.memory
    max_size: int = default.max_size
    no_values: bool = default.no_values

    def check(self, selection: Selection) -> None:
        """Raises UsageError for a selection that looks at what is not kept."""
        if self.no_values and selection.is_span:
            raise UsageError("--no-values leaves out what flows between the launches of a range")
        if self.no_values and selection.when:
            raise UsageError(f"--no-values leaves out the contents that --when {selection.when} looks at")


@dataclass(frozen=True)
class Run:
    """The program and how kerncap runs it. Raises UsageError for what can't be."""

    command: tuple[str, ...]
    output: Path = DEFAULT_OUTPUT
    backend: Backend = default.backend
    list_only: bool = False
    trace: bool = False  # with list_only: the memory of Triton launches is hashed, in CaptureResult.traced
    trace_native: bool = False  # with trace: that of launches that the CUDA shim sees, too
    timeline: bool = False  # with list_only: when launches, copies and ranges ran, in CaptureResult.timeline
    dormant: bool = False  # nothing is selected until `kerncap arm`
    source_dirs: tuple[Path, ...] = ()  # where sources of CUDA and HIP kernels are looked for too
    memory_was_asked: bool = False  # then it is said that the hook alone gives less
    keep_session: bool = False
    self_check: bool = True
    self_check_timeout_s: float = SELF_CHECK_TIMEOUT_S  # for each; four times as long for all
    stdout_to_stderr: bool = False  # kerncap's own stdout carries one JSON document
    environment: dict[str, str] | None = field(default=None, repr=False)  # None: this process's own

    def __post_init__(self) -> None:
        if not self.command:
            raise UsageError("no command: give the program after --")
        if not 0 < self.self_check_timeout_s <= 86400:
            raise UsageError(
                f"--self-check-timeout {self.self_check_timeout_s}: expected seconds, at most 86400"
            )

    @property
    def backends(self) -> tuple[str, ...]:
        """What may capture: the native shims, the Triton hook, or one of them alone."""
        every = (word.backend.cuda, word.backend.hip, word.backend.triton)
        return every if self.backend == word.backend.automatic else (self.backend,)


@dataclass(frozen=True)
class CaptureOptions:
    """One capture. Raises UsageError for parts that contradict each other."""

    run: Run
    selection: Selection = Selection()
    keep: Keep = Keep()

    def __post_init__(self) -> None:
        chosen = self.selection
        if self.run.dormant and not (chosen.is_default and chosen.ranks is None):
            raise UsageError("--dormant takes no selectors: give them to kerncap arm, later")
        if self.run.dormant and chosen.stop:
            raise UsageError("--dormant and --stop exclude each other: kerncap arm --stop ends the program")
        if chosen.graph is not None and not {word.backend.cuda, word.backend.hip} & {*self.run.backends}:
            raise UsageError(
                f"--graph with --backend {self.run.backend}: launches of graphs are seen by the native "
                "shims only; leave out --backend"
            )
        self.keep.check(chosen)
