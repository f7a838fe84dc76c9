"""Shares of ceilings, which one binds, and how that is said."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay.limits import peaks, published
from kerncap.replay.limits.binding_floor import LimitReport, Times, bounds
from kerncap.replay.limits.launch_work import Work
from kerncap.replay.limits.ncu_agreement import agreement
from kerncap.report.limits_text import percent, quantity, render
from tests.unit.limits.device_and_work import device, traffic, work

GIB = 1 << 30


def report(done: Work, times: Times, **rates: float) -> LimitReport:
    made = device(**rates)
    return LimitReport(
        Path("repro"), "kernel", "jit", made.device, times, done, done, None, made, bounds(done, made)
    )


def test_a_copy_is_bound_by_memory() -> None:
    found = report(work(GIB, GIB), Times(warm_ms=0.7, cold_ms=0.75))
    bound = found.binding
    assert bound is not None and bound.name == "DRAM"
    assert bound.cold_floor_ms == pytest.approx(2 * GIB / 3.5e12 * 1e3)
    assert found.achieved == pytest.approx(2 * GIB / 3.5e12 * 1e3 / 0.75)
    assert found.headroom == pytest.approx(1 / found.achieved)
    assert bound.fraction_of_peak(0.75) == pytest.approx(2 * GIB / 0.75e-3 / (2 * 3.201e9 * 6144 / 8))
    text = render(found)
    assert "Limit: DRAM bandwidth: 82 % of it is reached (cold, 750 us); at most 1.22x faster here" in text


def test_far_from_published_ceilings_nothing_is_promised() -> None:
    """What an empty launch takes is not published, and may be all of it."""
    made = published.of("AMD Instinct MI300X")
    assert made is not None
    for time_ms, promised in (
        (0.5, "; at most 1.24x faster here, as long as it moves these bytes"),
        (5.0, ""),
    ):
        done, times = work(GIB, GIB), Times(cold_ms=time_ms)
        found = LimitReport(
            Path("repro"), "kernel", "binary", made.device, times, done, done, None, made, bounds(done, made)
        )
        assert found.binding is not None and found.binding.name == "DRAM"
        assert (found.headroom is not None) == bool(promised)
        text = render(found)
        assert "ceilings: published for the AMD Instinct MI300X" in text and "at most" not in text.replace(
            promised, ""
        )
        assert promised in text, text


def test_the_mixture_of_reads_and_writes_decides_the_ceiling() -> None:
    made = device()
    assert made.dram(GIB, 0) == 4e12
    assert made.dram(0, GIB) == 3e12
    assert made.dram(3 * GIB, GIB) == pytest.approx(3.75e12)
    assert made.dram(GIB, 3 * GIB) == pytest.approx(3.25e12)


def test_a_product_is_bound_by_the_tensor_cores() -> None:
    done = work(2 * (8192**2) * 2, 8192**2 * 2, tensor_fp16=2 * 8192**3)
    found = report(done, Times(warm_ms=1.6, cold_ms=1.7))
    assert found.binding is not None and found.binding.name == "tensor fp16"
    assert found.achieved == pytest.approx(2 * 8192**3 / 800e12 / 1.7e-3)
    assert found.binding.peak == pytest.approx(4096 * 132 * 1.98e9)
    assert "tensor fp16 throughput" in render(found)


def test_data_that_fits_in_the_cache_is_not_held_against_memory_when_warm() -> None:
    found = report(work(1 << 20, 1 << 20), Times(warm_ms=0.002, cold_ms=None))
    dram = next(one for one in found.bounds if one.name == "DRAM")
    assert dram.warm_floor_ms is None and dram.cold_floor_ms is not None
    assert found.binding is not None and found.binding.name == "launch"


def test_what_is_near_nothing_says_so() -> None:
    found = report(work(GIB, GIB), Times(cold_ms=10.0))
    assert "nothing is near its limit" in render(found)


def test_a_time_that_the_ceilings_do_not_permit_is_suspicious() -> None:
    found = report(work(GIB, GIB), Times(cold_ms=0.5))
    assert found.achieved is None and found.headroom is None
    line = render(found).splitlines()[-1]
    assert line.startswith("Limit: suspicious: 500 us (cold) is less than the 593 us that the measured DRAM")


@pytest.mark.parametrize(
    ("done", "ms", "possible"),
    [
        (work(GIB, 0), 0.24, False),  # 1 GiB less the cache at 4 TB/s: 0.255 ms
        (work(GIB, 0), 0.26, True),
        (work(40 << 20, 0), 0.004, True),  # it may all be in the cache
        (dataclasses.replace(work(GIB, 0), exact=False), 0.1, True),  # at most that much is read
    ],
)
def test_what_no_cache_holds_is_read_from_memory_also_when_warm(
    done: Work, ms: float, possible: bool
) -> None:
    assert (report(done, Times(warm_ms=ms)).too_fast is None) == possible


def test_a_product_that_is_too_fast_is_suspicious_with_a_warm_cache_too() -> None:
    done = work(2 << 20, 2 << 20, tensor_fp16=2 * 8192**3)
    assert report(done, Times(warm_ms=1.0)).too_fast is not None
    assert report(done, Times(warm_ms=1.4)).too_fast is None


@pytest.mark.parametrize(
    "done",
    [
        work(0, 40 << 20),  # its writes fit in the cache, and may still be there
        dataclasses.replace(work(GIB, 0), exact=False),  # at most that much
    ],
)
def test_work_that_may_not_have_been_done_is_no_suspicion(done: Work) -> None:
    found = report(done, Times(cold_ms=0.009))
    assert found.too_fast is None and found.achieved is None
    assert "Limit: not known: 9 us (cold) is less than all of the counted work takes" in render(found)


def test_writes_that_may_be_in_the_cache_leave_a_share_that_is_certain() -> None:
    """Seen on an H100: a softmax took 174 us, and all of its bytes 179."""
    found = report(work(GIB, GIB), Times(cold_ms=0.6))
    assert found.binding is not None and found.binding.fraction("cold", 0.6) is None
    assert found.achieved is not None and 0.95 < found.achieved < 1
    assert "Limit: DRAM bandwidth: at least 9" in render(found)


def test_a_tiny_launch_is_bound_by_latency_and_has_no_shares() -> None:
    for time_ms, said in ((0.004, "3 us of 4 us"), (0.0011, "1.1 us of 1.1 us")):
        found = report(work(4096, 4096), Times(cold_ms=time_ms))
        lines = render(found).splitlines()
        assert lines[-1] == f"Limit: latency-bound: {said} (cold) are what an empty launch takes here"
        assert not any(line.startswith("limit ") for line in lines), "no roofline"
        assert found.achieved is None and found.headroom is None
        document = found.as_dict()
        assert document["latency_ms"] == min(0.003, time_ms)
        assert all(row["cold_fraction"] is None for row in document["bounds"])


@given(
    st.integers(0, 34), st.integers(0, 34), st.integers(0, 40), st.floats(1e-4, 1e3), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_no_share_is_above_one(
    read: int, written: int, operations: int, time_ms: float, warm: bool, exact: bool
) -> None:
    done = dataclasses.replace(work(1 << read, 1 << written, fp32=1 << operations), exact=exact)
    found = report(done, Times(warm_ms=time_ms if warm else None, cold_ms=None if warm else time_ms))
    document = found.as_dict()
    shares = [
        document["achieved"],
        *(row[key] for row in document["bounds"] for key in row if "fraction" in key),
    ]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    assert not any(int(share) > 100 for share in re.findall(r"(\d+) %", render(found)))
    judged = [found.achieved is not None, found.latency_ms is not None, found.too_fast is not None]
    assert sum(judged) <= 1


def test_with_no_ceilings_there_are_amounts_alone() -> None:
    done = work(GIB, GIB, fp32=1000)
    found = LimitReport(Path("r"), "kernel", "none", "", Times(), done, done, bounds=bounds(done, None))
    assert found.binding is None and found.achieved is None and found.headroom is None
    text = render(found)
    assert "not measured" in text and "cold" not in text
    assert text.splitlines()[-1] == "Limit: not known: no ceiling was measured"


def test_ceilings_of_another_device_give_a_shortest_time() -> None:
    done = work(GIB, GIB)
    made = device()
    found = LimitReport(
        Path("r"), "kernel", "none", made.device, Times(), done, done, None, made, bounds(done, made)
    )
    assert "this work takes no less than 614 us on that device" in render(found)


def test_counters_stand_beside_what_was_counted() -> None:
    counted = work(GIB, GIB)
    counters = dataclasses.replace(counted, source="ncu", read=traffic(3 * GIB))
    made = device()
    found = LimitReport(
        Path("r"), "kernel", "jit", made.device, Times(cold_ms=2.0), counters, counted, counters, made,
        bounds(counters, made), {"dram__throughput.avg.pct_of_peak_sustained_elapsed": 44.0},
    )  # fmt: skip
    text = render(found)
    assert "bytes (TTIR): 1.07 GB read" in text
    assert "bytes (ncu): 3.22 GB from memory, 1.07 GB to it" in text
    assert "2 times what has to be moved" in text
    assert "dram__throughput.avg.pct_of_peak_sustained_elapsed 44 %" in text


def test_the_document_is_json_and_has_the_figures() -> None:
    document = json.loads(json.dumps(report(work(GIB, GIB, fp32=5), Times(cold_ms=0.75)).as_dict()))
    assert document["binding"] == "DRAM"
    assert document["work"]["dram_bytes"] == 2 * GIB
    row = next(one for one in document["bounds"] if one["name"] == "DRAM")
    assert row["cold_fraction"] == pytest.approx(document["achieved"])
    assert 0.5 < row["cold_fraction_of_peak"] < row["cold_fraction"]


def test_a_chip_that_is_in_no_table_has_only_the_peak_of_its_memory() -> None:
    other = msgspec.structs.replace(device(), arch="sm_123")
    assert peaks.operations_per_s(other, "fp32") is None
    assert peaks.dram_bytes_per_s(other) == pytest.approx(4.917e12, rel=1e-3)


@pytest.mark.parametrize(
    ("value", "text"), [(4.02e12, "4.02 TB"), (999, "999 B"), (1e3, "1 kB"), (2.5e9, "2.5 GB")]
)
def test_quantities(value: float, text: str) -> None:
    assert quantity(value, "B") == text


def test_percent() -> None:
    assert [percent(one) for one in (None, 0.005, 0.5, 1.0)] == ["-", "0.5 %", "50 %", "100 %"]


def test_the_same_share_is_what_ncu_measured() -> None:
    """A launch that moves at 61 % of the bus's data rate, and one that multiplies at 60 % at ncu's clock."""
    peak = 2 * 3.201e9 * 6144 / 8
    done = work(GIB, GIB, tensor_fp16=2**41)
    made = device()
    seconds = 2 * GIB / peak / 0.61
    pipe = "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_elapsed"
    share = 100 * 2**41 / seconds / (4096 * 132 * 1.5e9)
    metrics = {
        "dram__throughput.avg.pct_of_peak_sustained_elapsed": 60.0, pipe: share,
        "smsp__cycles_elapsed.avg.per_second": 1.5e9,
    }  # fmt: skip
    found = LimitReport(
        Path("r"), "k", "jit", made.device, Times(cold_ms=seconds * 1e3), done, done, done, made,
        bounds(done, made), metrics,
    )  # fmt: skip
    dram, tensor = agreement(found)
    assert dram.ours == pytest.approx(61.0) and dram.points == pytest.approx(1.0)
    assert tensor.metric == pipe and tensor.points == pytest.approx(0.0)
    assert agreement(dataclasses.replace(found, counter_metrics={})) == []
