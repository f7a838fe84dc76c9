"""``replay --limits``, ``profile`` and ``tune``: times, and what they are held against."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType

from kerncap.report.documents.basics import (
    Bytes,
    Configuration,
    Count,
    Document,
    Milliseconds,
    Names,
    Notes,
    Part,
    Path,
    Word,
    says,
)
from kerncap.report.documents.judging import RatioInterval


class Traffic(Part, frozen=True, kw_only=True):
    """Bytes of one direction."""

    requested_bytes: Annotated[Bytes, says("Bytes of all lanes of all programs.")]
    l2_bytes: Annotated[Bytes, says("Bytes of sectors that tiles ask for.")]
    unique_bytes: Annotated[Bytes, says("Bytes, each counted once.")]
    sector_bytes: Annotated[Bytes, says("Bytes of the sectors that hold these: the least that memory moves.")]


class TensorTraffic(Part, frozen=True, kw_only=True):
    name: str
    read_bytes: Bytes
    written_bytes: Bytes


class Work(Part, frozen=True, kw_only=True):
    """What one launch has to do."""

    source: Annotated[str, says("Where the numbers come from: TTIR, ncu, closure.")]
    exact: Annotated[bool, says("False: bytes are an upper bound.")]
    for_these_contents: Annotated[bool, says("They hold for the captured memory.")]
    read: Traffic | None
    written: Traffic | None
    dram_bytes: Bytes | None
    l2_bytes: Bytes | None
    flops: Annotated[float | None, says("Floating-point operations.")]
    flops_per_byte: float | None
    operations: Annotated[dict[str, float], says("Operations by kind.")]
    lanes: Annotated[Count, says("Of all loads, stores and atomics.")]
    masked_lanes: Annotated[Count, says("Of these, switched off by a mask.")]
    atomics: Annotated[Count, says("Elements.")]
    programs: Count
    tensors: tuple[TensorTraffic, ...]
    notes: Notes


class TimesByCache(Part, frozen=True, kw_only=True):
    """Medians in milliseconds."""

    warm: Annotated[float | None, says("Milliseconds with the data in the cache.")]
    cold: Annotated[float | None, says("Milliseconds with an emptied cache.")]
    timed: Annotated[float | None, says("Milliseconds of plain timed runs.")]


class Bound(Part, frozen=True, kw_only=True):
    """One resource: what the launch needs of it, how fast it is here, how much of it the launch gets."""

    name: str
    unit: str
    amount: float
    measured_per_s: Annotated[float | None, says("The measured ceiling, units a second.")]
    peak_per_s: Annotated[float | None, says("The data sheet's, units a second.")]
    warm_floor_ms: Annotated[
        float | None, says("Milliseconds that it takes at the least, data in the cache.")
    ]
    cold_floor_ms: Annotated[float | None, says("Milliseconds that it takes at the least, cache emptied.")]
    warm_fraction: Annotated[float | None, says("Reached of the measured ceiling.")]
    cold_fraction: Annotated[float | None, says("Reached of the measured ceiling.")]
    warm_fraction_of_peak: float | None
    cold_fraction_of_peak: float | None


class LimitsDocument(Document, frozen=True, kw_only=True):
    """How far a launch is from what the device can do."""

    path: Path
    kernel: str
    engine: Annotated[str, says("'none' where nothing was run.")]
    device: str
    times_ms: TimesByCache
    judged_time: Annotated[str | None, says("Which of the times is judged.")]
    work: Annotated[Work, says("What is judged: ncu's numbers where there are some.")]
    counted: Annotated[Work, says("Counted without running anything.")]
    counters: Annotated[Work | None, says("Counted by Nsight Compute.")]
    counter_metrics: Annotated[dict[str, Any], says("Shares that Nsight Compute reports, by metric.")]
    ceilings: Annotated[dict[str, Any] | None, says("The device's measured ceilings, with how.")]
    bounds: tuple[Bound, ...]
    binding: Annotated[str | None, says("The resource that holds the launch back.")]
    achieved: Annotated[float | None, says("Reached of that resource's ceiling.")]
    headroom: Annotated[float | None, says("How many times as fast it could be at the ceiling.")]
    notes: Notes


# --- profile -----------------------------------------------------------------------------------------


class Evidence(Part, frozen=True, kw_only=True):
    metric: Annotated[str, says("Nsight Compute's name.")]
    value: float


class Claim(Part, frozen=True, kw_only=True):
    topic: str
    severity: Literal["problem", "limit", "fact"]
    text: str
    evidence: tuple[Evidence, ...]


class ProfileDocument(Document, frozen=True, kw_only=True):
    """What Nsight Compute counted, explained."""

    kernel: str
    device: str
    ncu: Annotated[str, says("Its version.")]
    head: Annotated[dict[str, float], says("time_s (seconds), registers, shared_bytes, grid and block.")]
    claims: Annotated[tuple[Claim, ...], says("What holds the launch back comes first.")]
    metrics: Annotated[dict[str, float], says("All numbers of the report, in base units.")]
    report: Path | None


# --- tune --------------------------------------------------------------------------------------------


class TuneSpace(Part, frozen=True, kw_only=True):
    size: Annotated[float, says("Configurations.")]
    exact: Annotated[bool, says("False: combinations before constraints.")]
    parameters: Annotated[dict[str, tuple[Any, ...]], says("Values by the parameter's name.")]
    pinned: Annotated[dict[str, str], says("What is not tuned, and why.")]


class BestConfiguration(Part, frozen=True, kw_only=True):
    config: Configuration
    ms: Milliseconds
    captured_ms: Milliseconds | UnsetType = UNSET
    speedup: Annotated[RatioInterval | UnsetType, says("Times as fast as captured.")] = UNSET


class TunedShape(Part, frozen=True, kw_only=True):
    """One launch of the set."""

    digest: str
    path: Path
    arguments: Annotated[dict[str, Any], says("Those that set it apart.")]
    captured: Configuration
    captured_ms: Annotated[float, says("Milliseconds as captured; NaN where it was not timed.")]
    best: BestConfiguration | None
    selected: Configuration | None


class RobustConfiguration(Part, frozen=True, kw_only=True):
    config: Configuration
    mean_ratio_to_best: float
    largest_ratio_to_best: float


class TuneTrial(Part, frozen=True, kw_only=True):
    """What became of a configuration on one launch; what is not known is not there."""

    point: Configuration
    digest: str
    state: Literal["timed", "slow", "wrong", "failed", "pruned", "lost"]
    reason: str | UnsetType = UNSET
    ms: Milliseconds | UnsetType = UNSET
    runs: Count | UnsetType = UNSET
    registers: int | UnsetType = UNSET
    spilled_bytes: Bytes | UnsetType = UNSET
    shared_bytes: Bytes | UnsetType = UNSET
    occupancy: float | UnsetType = UNSET
    compile_ms: Milliseconds | UnsetType = UNSET
    cached: bool | UnsetType = UNSET
    worker: str | UnsetType = UNSET


class TuneDocument(Document, frozen=True, kw_only=True):
    """A search over configurations and what follows from it."""

    result: Word
    kernel: str
    device: str
    engine: str
    triton: str
    torch: str
    workers: Count
    sampler: str
    space: TuneSpace
    shapes: tuple[TunedShape, ...]
    robust: Annotated[RobustConfiguration | None, says("One for all launches.")]
    selected: Annotated[tuple[Configuration, ...], says("The fewest within 3 % of the best everywhere.")]
    key: Annotated[Any, says("The arguments that choose between them.")]
    autotune: Annotated[str | None, says("The decorator, ready to paste.")]
    patch: str | None
    patch_path: Path | None
    patch_note: str | None
    ended: Annotated[str, says("Why the search ended.")]
    seconds: float
    resumed: Annotated[Count, says("Trials from an earlier search.")]
    states: Annotated[dict[str, int], says("Trials by how they ended.")]
    trials: tuple[TuneTrial, ...]
    notes: Names
    journal: Path | None
