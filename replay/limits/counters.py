"""A launch's work as ncu counted it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kerncap.replay.limits.launch_work import Traffic, Work
from kerncap.replay.limits.ncu_csv import KernelRow

_INSTRUCTION = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
# Per kind of operation: the instructions that do it, and the additions and multiplications in one. (Of half
# precision, one instruction may hold two numbers, and the counters do not tell.)
_FLOPS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "fp32": (("fadd", 1), ("fmul", 1), ("ffma", 2)),
    "fp64": (("dadd", 1), ("dmul", 1), ("dfma", 2)),
}
# The first is what older chips and versions call it.
DRAM_SHARES = (
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
)
# Shares of peaks as ncu gives them, to compare the report's own with.
SHARES = (
    *DRAM_SHARES,
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
    "smsp__cycles_elapsed.avg.per_second",
    "gpu__time_duration.sum",
)


def counted_by_ncu(row: KernelRow, counted: Work) -> Work | None:
    """Bytes of memory and cache and operations by ncu's counters; None if it has not counted bytes.

    What ncu was not asked for or does not have (tensor operations, exponentials) stays as it was counted. Of
    memory it is not less than what has to be moved: under ncu the launch begins with an empty cache, and what
    it leaves there of its results is written back later, outside of what ncu sees.
    """
    read, written = row.value("dram__bytes_read.sum"), row.value("dram__bytes_write.sum")
    if read is None or written is None:
        return None
    if counted.exact:
        read, written = max(read, counted.dram_read_bytes), max(written, counted.dram_written_bytes)
    l2 = int(row.value("lts__t_bytes.sum") or 0)
    operations = dict(counted.operations)
    for kind, parts in _FLOPS.items():
        found = [(row.value(_INSTRUCTION.format(name)), flops) for name, flops in parts]
        if all(number is not None for number, _ in found):
            operations[kind] = int(sum((number or 0) * flops for number, flops in found))
    # The cache does not tell its reads from its writes here: all of it stands with the reads.
    return replace(
        counted,
        source="ncu",
        read=Traffic(int(read), l2, int(read), int(read)),
        written=Traffic(int(written), 0, int(written), int(written)),
        operations={kind: amount for kind, amount in operations.items() if amount},
        exact=True,
        contents=True,
        notes=(),
    )


def shares(row: KernelRow) -> dict[str, float]:
    """The shares of peaks, in per cent, and the time in seconds, as far as the report has them."""
    found = {name: row.metrics[name] for name in SHARES if name in row.metrics}
    found.update(
        {
            name: value
            for name, value in row.metrics.items()
            if value
            and "pipe_tensor" in name
            and name.endswith(("avg.pct_of_peak_sustained_active", "avg.pct_of_peak_sustained_elapsed"))
        }
    )
    return found
