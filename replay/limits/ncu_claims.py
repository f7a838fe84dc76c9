"""What ncu's metrics say of a launch, in words: each claim with the metric that it rests on.

All thresholds stand in `RULES` and the constants above it. Metric names differ between chips; a rule whose
metric is not in a report says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kerncap.replay.limits.counters import DRAM_SHARES
from kerncap.replay.limits.ncu_csv import KernelRow

# Per cent of a peak. Source for the first two: what Nsight Compute's own speed-of-light rule takes.
BUSY = 80.0
MODERATE = 60.0
LOW_OCCUPANCY = 50.0
WARP_SECTORS_WORST = 32.0
STALL_SHARE = 0.25  # of the cycles between two instructions of a warp
CONFLICT_SHARE = 0.1  # of the wavefronts of shared memory
TAIL_SHARE = 0.2  # of the time, in the last wave
SECTORS_EXCESS = 1.5
FEW_ELIGIBLE = 1.0

STALLS: Mapping[str, str] = {
    "long_scoreboard": "waiting for data from global or local memory",
    "short_scoreboard": "waiting for shared memory, special functions or the like",
    "barrier": "waiting for the other warps of the block at a barrier",
    "membar": "waiting for a memory fence",
    "mio_throttle": "the queue of shared-memory and special instructions is full",
    "lg_throttle": "the queue of global and local memory instructions is full",
    "tex_throttle": "the queue of the texture unit is full",
    "math_pipe_throttle": "the arithmetic unit that it needs is busy",
    "wait": "fixed latency of the instruction before",
    "not_selected": "another warp was chosen: there are enough of them",
    "no_instruction": "instructions are still fetched: the code jumps or is large",
    "drain": "stores are still under way at the end",
    "gmma": "waiting for the tensor cores (wgmma)",
    "imc_miss": "waiting for the constant cache",
    "dispatch_stall": "the dispatcher holds it back",
    "branch_resolving": "waiting for a branch",
    "sleeping": "asleep (nanosleep)",
    "misc": "other reasons",
}
_LIMITERS: Mapping[str, str] = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "the block's warps",
    "launch__occupancy_limit_blocks": "the number of blocks that an SM takes",
    "launch__occupancy_limit_barriers": "barriers",
}


# Where a unit is busy all the time, warps wait for it: more of them, or sooner, would wait as well.
_WAITING = ("occupancy", "schedulers", "stalls")
# Units by their name in a metric, if that says little.
_UNITS: Mapping[str, str] = {
    "adu": "address divergence (adu)",
    "alu": "integers and logic (alu)",
    "cbu": "branches (cbu)",
    "fma": "fp32 multiply-add (fma)",
    "fmaheavy": "fp32 and integer multiply-add (fmaheavy)",
    "fmalite": "fp32 multiply-add (fmalite)",
    "lsu": "loads and stores (lsu)",
    "shared": "what fp64 and the tensor cores share",
    "tex": "texture (tex)",
    "xu": "special functions and conversions (xu)",
}


Severity = Literal["problem", "limit", "fact"]


@dataclass(frozen=True)
class Claim:
    """A ``limit`` is what holds the launch back."""

    topic: str
    severity: Severity
    text: str
    evidence: tuple[tuple[str, float], ...]

    @property
    def at_limit(self) -> bool:
        """Whether something that it names is busy as hardly anything gets."""
        return self.severity == "limit" and any(value >= BUSY for _, value in self.evidence)


Rule = Callable[[KernelRow], Iterator[Claim]]


def explain(row: KernelRow) -> list[Claim]:
    """All that the rules find, in their order: what holds the launch back comes first."""
    claims = [claim for rule in RULES for claim in rule(row)]
    if not any(claim.topic == "speed of light" and claim.at_limit for claim in claims):
        return claims
    return [replace(c, severity="fact") if c.topic in _WAITING and not c.at_limit else c for c in claims]


_SM = ("sm__throughput.avg.pct_of_peak_sustained_elapsed",)
_L2 = (
    "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
)
_L1 = (
    "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
)


def _speed_of_light(row: KernelRow) -> Iterator[Claim]:
    found = {
        name: one
        for name, one in (("DRAM", row.first(*DRAM_SHARES)), ("the multiprocessors", row.first(*_SM)),
                          ("L2", row.first(*_L2)), ("L1", row.first(*_L1)))
        if one is not None
    }  # fmt: skip
    if not found:
        return
    name, (metric, value) = max(found.items(), key=lambda item: item[1][1])
    if name.startswith("L") and found.get("DRAM", ("", 0.0))[1] >= BUSY:
        # What streams through the caches keeps them busy as well; no launch gets all of DRAM's peak.
        name, (metric, value) = "DRAM", found["DRAM"]
    evidence = ((metric, value),)
    bound = {"DRAM": "memory-bound", "the multiprocessors": "compute-bound"}.get(name, f"bound by {name}")
    if value >= BUSY:
        yield Claim("speed of light", "limit", f"{bound}: {name} at {value:.0f} % of the peak", evidence)
    elif value >= MODERATE:
        yield Claim(
            "speed of light", "limit", f"mostly {bound}: {name} at {value:.0f} % of the peak", evidence
        )
    else:
        every = tuple(one for one in found.values())
        yield Claim(
            "speed of light", "problem",
            f"latency-bound: nothing is busy; the busiest unit is {name}, at {value:.0f} % "
            "of its peak", every,
        )  # fmt: skip


def _pipes(row: KernelRow) -> Iterator[Claim]:
    tensor = [
        (name, value)
        for name, value in row.metrics.items()
        if "pipe_tensor" in name and ".pct_of_peak_sustained_" in name and ".avg" in name
    ]
    if tensor:
        metric, value = max(tensor, key=lambda one: one[1])
        if value >= BUSY:
            yield Claim(
                "tensor cores", "limit", f"the tensor cores are busy: {value:.0f} %", ((metric, value),)
            )
        elif value > 0:
            yield Claim(
                "tensor cores", "fact", f"the tensor cores are used to {value:.0f} %", ((metric, value),)
            )
    # The tensor cores' instructions go through the pipe that fp64 shares with them: it is no other unit.
    theirs = ("tensor", "pipe_shared") if any(value > 0 for _, value in tensor) else ("tensor",)
    pipes = [
        (name, value)
        for name, value in row.metrics.items()
        if name.startswith(("sm__inst_executed_pipe_", "sm__pipe_"))
        and ".avg.pct_of_peak_sustained_active" in name
        and not any(each in name for each in theirs)
    ]
    if pipes:
        metric, value = max(pipes, key=lambda one: one[1])
        if value >= MODERATE:
            pipe = metric.partition("pipe_")[2].partition(".")[0].removesuffix("_cycles_active")
            which = "the busiest other unit" if len(theirs) > 1 else "the busiest unit"
            yield Claim(
                "pipes", "limit", f"{which}: {_UNITS.get(pipe, pipe)}, {value:.0f} %", ((metric, value),)
            )


def _stalls(row: KernelRow) -> Iterator[Claim]:
    """Which wait takes the largest part of the cycles between two instructions of a warp."""
    ratios = {}
    for name, value in row.metrics.items():
        head, _, tail = name.partition("issue_stalled_")
        if (
            tail
            and "average_warp" in head
            and tail.endswith("_per_issue_active.ratio")
            and "not_issued" not in tail
        ):
            ratios[tail.removesuffix("_per_issue_active.ratio")] = (name, value)
    total = sum(value for _, value in ratios.values())
    latency = row.first(
        "smsp__average_warp_latency_per_inst_issued.ratio",
        "smsp__average_warps_active_per_issue_active.ratio",
    )
    whole = latency[1] if latency and latency[1] > 0 else total
    for stall, (metric, value) in sorted(ratios.items(), key=lambda one: -one[1][1])[:3]:
        if whole and value / whole >= STALL_SHARE and stall != "selected":
            text = STALLS.get(stall, stall.replace("_", " "))
            evidence = ((metric, value), *((latency,) if latency else ()))
            severity: Severity = "fact" if stall == "not_selected" else "problem"
            yield Claim(
                "stalls", severity, f"a warp spends {100 * value / whole:.0f} % of its time {text}", evidence
            )


def _schedulers(row: KernelRow) -> Iterator[Claim]:
    eligible = row.first("smsp__warps_eligible.avg.per_cycle_active")
    if eligible and eligible[1] < FEW_ELIGIBLE:
        yield Claim(
            "schedulers", "problem",
            f"too few warps are ready: {eligible[1]:.2g} per cycle and scheduler", (eligible,),
        )  # fmt: skip


def _occupancy(row: KernelRow) -> Iterator[Claim]:
    theory = row.first("sm__maximum_warps_per_active_cycle_pct")
    achieved = row.first("sm__warps_active.avg.pct_of_peak_sustained_active")
    limits = [(name, row.metrics[name]) for name in _LIMITERS if name in row.metrics]
    if theory and limits and theory[1] < 100:
        least = min(value for _, value in limits)
        what = ", ".join(_LIMITERS[name] for name, value in limits if value == least)
        severity: Severity = "problem" if theory[1] < LOW_OCCUPANCY else "fact"
        yield Claim(
            "occupancy", severity,
            f"at most {theory[1]:.0f} % of the warps fit, {least:.0f} blocks per SM: {what}",
            (theory, *(one for one in limits if one[1] == least)),
        )  # fmt: skip
    if theory and achieved and achieved[1] < 0.75 * theory[1]:
        yield Claim(
            "occupancy", "problem",
            f"{achieved[1]:.0f} % of the warps are resident, of {theory[1]:.0f} % that fit: "
            "blocks end unevenly, or there are too few", (achieved, theory),
        )  # fmt: skip


def _waves(row: KernelRow) -> Iterator[Claim]:
    waves = row.first("launch__waves_per_multiprocessor")
    if not waves or waves[1] <= 0:
        return
    full = int(waves[1])
    rest = waves[1] - full
    if waves[1] < 1:
        yield Claim("waves", "problem", f"the grid fills {100 * waves[1]:.0f} % of the device once", (waves,))
    elif rest > 0 and (1 - rest) / (full + 1) >= TAIL_SHARE:
        yield Claim(
            "waves", "problem",
            f"tail effect: {waves[1]:.3g} waves of blocks, the last only {100 * rest:.0f} % full: up to "
            f"{100 * (1 - rest) / (full + 1):.0f} % of the time is lost", (waves,),
        )  # fmt: skip


def _coalescing(row: KernelRow) -> Iterator[Claim]:
    for what, short in (("loads", "ld"), ("stores", "st")):
        found = row.first(
            f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{short}.ratio",
            f"derived__l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{short}.ratio",
        )
        # 4 sectors serve a warp's words of 4 bytes, 16 its words of 16 bytes: beyond that, bytes are moved
        # that nobody asked for.
        if found and found[1] > 16 * SECTORS_EXCESS:
            yield Claim(
                "coalescing", "problem",
                f"global {what} are scattered: {found[1]:.3g} sectors per request, "
                f"{WARP_SECTORS_WORST:.0f} is the worst", (found,),
            )  # fmt: skip
    excess = row.first("derived__memory_l2_theoretical_sectors_global_excessive")
    whole = row.first("memory_l2_theoretical_sectors_global", "derived__memory_l2_theoretical_sectors_global")
    if excess and whole and whole[1] > 0 and excess[1] / whole[1] > CONFLICT_SHARE:
        yield Claim(
            "coalescing", "problem",
            f"{100 * excess[1] / whole[1]:.0f} % of the sectors are more than coalesced accesses would take",
            (excess, whole),
        )  # fmt: skip


def _banks(row: KernelRow) -> Iterator[Claim]:
    conflicts = row.first("l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum")
    whole = row.first("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum")
    if conflicts and whole and whole[1] > 0 and conflicts[1] / whole[1] >= CONFLICT_SHARE:
        yield Claim(
            "shared memory", "problem",
            f"bank conflicts: {100 * conflicts[1] / whole[1]:.0f} % of the wavefronts of shared memory",
            (conflicts, whole),
        )  # fmt: skip


def _caches(row: KernelRow) -> Iterator[Claim]:
    hits = row.first("lts__t_sector_hit_rate.pct")
    dram = row.first(*DRAM_SHARES)
    if hits and dram and dram[1] >= MODERATE:
        # No problem by itself: what is read once is in no cache.
        yield Claim(
            "caches", "fact", f"the L2 cache answers {hits[1]:.0f} % of what it is asked", (hits, dram)
        )


def _spills(row: KernelRow) -> Iterator[Claim]:
    for name in (
        "smsp__inst_executed_op_local_ld.sum",
        "sass__inst_executed_local_loads",
        "smsp__sass_inst_executed_op_local_ld.sum",
    ):
        if row.metrics.get(name, 0) > 0:
            yield Claim(
                "registers", "problem", "registers are spilled to local memory", ((name, row.metrics[name]),)
            )
            return


RULES: tuple[Rule, ...] = (
    _speed_of_light, _pipes, _waves, _occupancy, _schedulers, _stalls, _coalescing, _banks, _caches, _spills,
)  # fmt: skip
