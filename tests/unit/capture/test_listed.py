"""What several processes' hooks and shims have counted, put together as one listing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kerncap.capture import listed
from kerncap.capture.payloads import CountsRecord, KernelCounts, ProcessRecord, RowRecord, SeenRecord
from kerncap.capture.process_log import ProcessLog


def log(
    pid: int,
    kernels: dict[str, KernelCounts],
    shim: str = "triton",
    span: tuple[int, int | None] = (0, 100),
    seen: dict[str, str] | None = None,
    **counts: Any,
) -> ProcessLog:
    """One process's log; ``seen`` is the kernels' short names by their qualified ones."""
    return ProcessLog(
        Path(f"/session/{pid}-{shim == 'triton':d}"),
        pid,
        process=ProcessRecord(pid, shim=shim, time_ns=span[0], rank=counts.pop("rank", None)),
        seen={name: SeenRecord(short, name) for name, short in (seen or {}).items()},
        counts=CountsRecord(kernels, launches=sum(k.launches for k in kernels.values()), **counts),
        ended_ns=span[1],
    )


def timed(launches: int, time_ns: int, **fields: Any) -> RowRecord:
    return RowRecord(launches=launches, time_ns=time_ns, timed=launches, **fields)


def of(*rows: RowRecord) -> KernelCounts:
    return KernelCounts(launches=sum(row.launches for row in rows), rows=rows)


def test_the_shims_rows_become_the_hooks_kernel() -> None:
    hook = log(
        7,
        {"a.add": KernelCounts(launches=3, stack=(("f.py", 1, "main"),)), "b.add": KernelCounts(launches=1)},
        seen={"a.add": "add", "b.add": "add"},
    )
    shim = log(
        7,
        {
            "add": of(
                timed(2, 20, config="a.add\tBLOCK=8", grid=(1, 1, 1)),
                timed(1, 5, config="b.add\t"),
                timed(4, 1, grid=(9, 1, 1)),  # a graph's, or an autotuner's: not announced
            ),
            "gemm": of(timed(1, 50)),
        },
        shim="cuda",
        clock="cupti",
    )
    found = listed.collect([hook, shim], 0)
    shown = {
        name: [(row.record.launches, row.record.config) for row in rows] for name, rows in found.rows.items()
    }
    assert shown == {
        "a.add": [(2, "BLOCK=8")], "b.add": [(1, None)], "add": [(4, None)], "gemm": [(1, None)]
    }  # fmt: skip
    assert found.stacks == {"a.add": (("f.py", 1, "main"),)}
    assert [(clock.name, clock.pid) for clock in found.clocks] == [("cupti", 7)]


def test_a_row_that_nobody_announced_goes_by_its_name_where_one_kernel_has_it() -> None:
    hook = log(7, {"a.add": KernelCounts(launches=1)}, seen={"a.add": "add"})
    shim = log(7, {"add": of(timed(4, 8))}, shim="cuda")
    other = log(8, {"add": of(timed(1, 2))}, shim="cuda")  # another process: no Triton there
    found = listed.collect([hook, shim, other], 0)
    assert {name: sum(row.record.launches for row in rows) for name, rows in found.rows.items()} == {
        "a.add": 4, "add": 1
    }  # fmt: skip


def test_counts_without_rows_are_one_row() -> None:
    found = listed.collect([log(1, {"k": KernelCounts(launches=3, time_ns=9)}, shim="hip")], 0)
    [row] = found.rows["k"]
    assert (row.record.launches, row.record.time_ns, row.record.timed, row.record.rest) == (3, 9, 3, True)


def test_processes_side_by_side_count_once() -> None:
    def listing(*spans: tuple[int, int | None]) -> listed.Listing:
        logs = [
            log(pid, {"k": of(timed(1, 10 * pid))}, span=span, rank=pid) for pid, span in enumerate(spans, 1)
        ]
        return listed.collect(logs, 1000)

    def together(found: listed.Listing) -> int:
        return found.side_by_side(lambda row: row.record.time_ns, found.rows["k"])

    assert together(listing((0, 100), (50, 150), (120, 200))) == 30, "a chain of three: the longest"
    assert together(listing((0, 100), (100, 200), (150, None))) == 10 + 30, "one after the other, then two"
    assert [row.rank for row in listing((0, 1), (0, 1)).rows["k"]] == [1, 2]
