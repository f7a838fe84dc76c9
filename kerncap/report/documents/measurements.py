"""``replay --limits``, ``profile`` and ``tune``: times, ceilings and searches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType

from kerncap.format.document_types import (
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
from kerncap.replay.limits.launch_work import Traffic
from kerncap.replay.limits.ncu_claims import Severity
from kerncap.replay.paired_times import Ratio


class TensorTraffic(Part, frozen=True, kw_only=True):
    name: str
    read_bytes: Bytes
    written_bytes: Bytes


class Work(Part, frozen=True, kw_only=True):
    """The work of one launch."""

    source: Annotated[str, says("Source of the numbers: TTIR, ncu, closure.")]
    exact: Annotated[bool, says("False: bytes are an upper bound.")]
    for_these_contents: Annotated[bool, says("True if the numbers depend on the captured memory.")]
    read: Traffic | None
    written: Traffic | None
    dram_bytes: Bytes | None
    l2_bytes: Bytes | None
    flops: Annotated[float | None, says("Floating-point operations.")]
    flops_per_byte: float | None
    operations: Annotated[dict[str, float], says("Operations by kind.")]
    lanes: Annotated[Count, says("Lanes of all loads, stores and atomics.")]
    masked_lanes: Annotated[Count, says("Lanes that a mask disables.")]
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
    """One resource: the launch's need, the ceiling, and the share that the launch reaches."""

    name: str
    unit: str
    amount: float
    measured_per_s: Annotated[float | None, says("Ceiling in units per second; ceilings.origin says whose.")]
    peak_per_s: Annotated[float | None, says("Peak of the data sheet in units per second.")]
    warm_floor_ms: Annotated[float | None, says("Minimum milliseconds with the data in the cache.")]
    cold_floor_ms: Annotated[float | None, says("Minimum milliseconds with an emptied cache.")]
    warm_fraction: Annotated[float | None, says("Share of that ceiling that is reached.")]
    cold_fraction: Annotated[float | None, says("Share of that ceiling that is reached.")]
    warm_fraction_of_peak: float | None
    cold_fraction_of_peak: float | None


class LimitsDocument(Document, frozen=True, kw_only=True):
    """How far a launch is from the device's limits."""

    path: Path
    kernel: str
    engine: Annotated[str, says("'none' if nothing was run.")]
    device: str
    times_ms: TimesByCache
    judged_time: Annotated[str | None, says("Which of the times is used.")]
    work: Annotated[Work, says("Work that is used: ncu's numbers if there are any.")]
    counted: Annotated[Work, says("Counted without running anything.")]
    counters: Annotated[Work | None, says("Counted by Nsight Compute.")]
    counter_metrics: Annotated[dict[str, Any], says("Percentages that Nsight Compute reports, by metric.")]
    ceilings: Annotated[dict[str, Any] | None, says("Ceilings of the device; origin: measured or published.")]
    bounds: tuple[Bound, ...]
    binding: Annotated[str | None, says("Resource that limits the launch.")]
    achieved: Annotated[float | None, says("Share of that resource's ceiling that is reached.")]
    headroom: Annotated[float | None, says("Speedup if the launch reached the ceiling.")]
    latency_ms: Annotated[float | None, says("Milliseconds of an empty launch, if that is most of the time.")]
    too_fast_for: Annotated[str | None, says("Ceiling that permits no such time: a suspicion.")]
    notes: Notes


# --- profile -----------------------------------------------------------------------------------------


class Evidence(Part, frozen=True, kw_only=True):
    metric: Annotated[str, says("Metric name of Nsight Compute.")]
    value: float


class Claim(Part, frozen=True, kw_only=True):
    topic: str
    severity: Severity
    text: str
    evidence: tuple[Evidence, ...]


class ProfileDocument(Document, frozen=True, kw_only=True):
    """Metrics of Nsight Compute, explained."""

    kernel: str
    device: str
    ncu: Annotated[str, says("Version of ncu.")]
    head: Annotated[dict[str, float], says("time_s (seconds), registers, shared_bytes, grid and block.")]
    claims: Annotated[tuple[Claim, ...], says("Claims; limiting ones come first.")]
    metrics: Annotated[dict[str, float], says("All metrics of the report, in base units.")]
    report: Path | None


# --- tune --------------------------------------------------------------------------------------------


class TuneSpace(Part, frozen=True, kw_only=True):
    size: Annotated[float, says("Number of configurations, counted up to 10^18.")]
    exact: Annotated[bool, says("False: combinations are counted before constraints.")]
    parameters: Annotated[dict[str, tuple[Any, ...]], says("Values by parameter name.")]
    pinned: Annotated[dict[str, str], says("Parameters that are not tuned, with the reason.")]


class BestConfiguration(Part, frozen=True, kw_only=True):
    config: Configuration
    ms: Milliseconds
    captured_ms: Milliseconds | UnsetType = UNSET
    speedup: Annotated[Ratio | UnsetType, says("Speedup over the captured configuration.")] = UNSET


class TunedShape(Part, frozen=True, kw_only=True):
    """One launch of the set."""

    digest: str
    path: Path
    arguments: Annotated[dict[str, Any], says("Arguments that distinguish this launch.")]
    captured: Configuration
    captured_ms: Annotated[float, says("Milliseconds as captured; NaN if it was not timed.")]
    best: BestConfiguration | None
    selected: Configuration | None


class RobustConfiguration(Part, frozen=True, kw_only=True):
    config: Configuration
    mean_ratio_to_best: float
    largest_ratio_to_best: float


class TuneTrial(Part, frozen=True, kw_only=True):
    """The trial of a configuration on one launch; unknown values are absent."""

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
    """A search over configurations, and its result."""

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
    robust: Annotated[RobustConfiguration | None, says("The best configuration for all launches together.")]
    selected: Annotated[
        tuple[Configuration, ...], says("Smallest set that is within 3 % of the best on every launch.")
    ]
    key: Annotated[Any, says("Arguments that select between them.")]
    autotune: Annotated[str | None, says("Decorator, ready to paste.")]
    patch: str | None
    patch_path: Path | None
    patch_note: str | None
    ended: Annotated[str, says("Why the search ended.")]
    seconds: float
    resumed: Annotated[Count, says("Trials from an earlier search.")]
    states: Annotated[dict[str, int], says("Number of trials by state.")]
    trials: tuple[TuneTrial, ...]
    notes: Names
    journal: Path | None
