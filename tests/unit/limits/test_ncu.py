"""ncu's table, what is made of it, and ncu programs that behave in every way."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerncap.api.profile import import_report
from kerncap.errors import BackendUnavailable, ReplayError
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.choose_engine import Choice
from kerncap.replay.limits import ncu
from kerncap.replay.limits.counters import counted_by_ncu, shares
from kerncap.replay.limits.ncu_claims import explain
from kerncap.replay.limits.ncu_csv import KernelRow, parse
from kerncap.replay.worker import protocol, typed_json
from kerncap.replay.worker.protocol import Compiled, Ended, Hello, Loaded
from kerncap.report.profile_text import render
from tests.unit.limits.device_and_work import work

GOLDEN = Path(__file__).parents[2] / "golden" / "v1.2"
CHOICE = Choice(sys.executable, "jit", "cuda", 0)

TABLE = """\
==PROF== Connected to process 4242 (/usr/bin/python3)
"ID","Process ID","Kernel Name","Context","dram__bytes_read.sum","dram__bytes_write.sum",\
"gpu__time_duration.sum",\
"dram__throughput.avg.pct_of_peak_sustained_elapsed","launch__grid_size","smsp__cycles_active.avg","lts__t_bytes.sum"
"","","","","Mbyte","byte","us","%","","cycle","Gbyte"
"0","4242","add(float*, int)","1","134.25","1,048,576","100.5","91.25","1,024","12,345.5","1.5"
"""
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"


def row(**metrics: float) -> KernelRow:
    return KernelRow("kernel", metrics, {}, {})


def claims(metrics: dict[str, float]) -> dict[str, str]:
    return {
        claim.topic: f"{claim.severity}: {claim.text}" for claim in explain(KernelRow("k", metrics, {}, {}))
    }


# --- the table ---------------------------------------------------------------------------------------


def test_numbers_come_in_base_units() -> None:
    (found,) = parse(TABLE)
    assert found.kernel == "add(float*, int)"
    assert found.metrics["dram__bytes_read.sum"] == pytest.approx(134.25e6)
    assert found.metrics["dram__bytes_write.sum"] == 1048576
    assert found.metrics["gpu__time_duration.sum"] == pytest.approx(100.5e-6)
    assert found.metrics[DRAM] == 91.25
    assert found.metrics["launch__grid_size"] == 1024
    assert found.metrics["smsp__cycles_active.avg"] == 12345.5
    assert found.metrics["lts__t_bytes.sum"] == 1.5e9


def test_a_counter_that_could_not_be_read_is_none() -> None:
    [found] = parse(TABLE.replace('"1.5"', '"nan"'))
    assert found.value("lts__t_bytes.sum") is None
    assert found.value("dram__bytes_read.sum") == 134.25e6
    counted = counted_by_ncu(found, work(1000, 10))
    assert counted is not None
    assert counted.read.l2_bytes == 0


@pytest.mark.parametrize(
    ("unit", "factor"),
    [("byte", 1), ("Kbyte", 1e3), ("Gbyte/second", 1e9), ("Tbyte/s", 1e12), ("cycle/nsecond", 1e9),
     ("Ghz", 1e9),
     ("msecond", 1e-3), ("ns", 1e-9), ("register/thread", 1), ("block", 1), ("Kbyte/block", 1e3), ("%", 1),
     ("inst/cycle", 1)],
)  # fmt: skip
def test_units(unit: str, factor: float) -> None:
    text = f'"ID","Kernel Name","metric"\n"","","{unit}"\n"0","k","2"\n'
    assert parse(text)[0].metrics["metric"] == pytest.approx(2 * factor)


def test_a_table_with_no_units_has_all_its_kernels() -> None:
    found = parse('"ID","Kernel Name","m"\n"0","a","1"\n"1","b","n/a"\n')
    assert [one.kernel for one in found] == ["a", "b"]
    assert found[1].metrics.get("m") is None and found[1].texts["m"] == "n/a"


def test_what_is_no_table_is_told() -> None:
    with pytest.raises(ReplayError, match="No kernels were profiled"):
        parse("==PROF== Connected\n==WARNING== No kernels were profiled.\n")


# --- what is made of it ------------------------------------------------------------------------------


def test_ncus_bytes_win_and_what_it_did_not_count_stays() -> None:
    counted = work(1 << 20, 1 << 20, fp32=10, special=5)
    metrics = {
        "dram__bytes_read.sum": 3e6, "dram__bytes_write.sum": 1e6, "lts__t_bytes.sum": 9e6,
        **{f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum": n
           for op, n in (("fadd", 1.0), ("fmul", 2.0), ("ffma", 10.0))},
    }  # fmt: skip
    found = counted_by_ncu(KernelRow("k", metrics, {}, {}), counted)
    assert found is not None
    assert (found.dram_read_bytes, found.l2_bytes) == (3_000_000, 9_000_000)
    assert found.dram_written_bytes == 1 << 20  # ncu saw less: the rest was still in the cache
    assert found.operations == {"fp32": 23, "special": 5}
    assert counted_by_ncu(row(), counted) is None


def test_shares_are_ncus_own() -> None:
    pipe = "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active"
    assert shares(row(**{DRAM: 90.0, pipe: 40.0, "launch__grid_size": 3.0})) == {DRAM: 90.0, pipe: 40.0}


def test_each_claim_stands_beside_its_metric() -> None:
    for claim in explain(row(**{DRAM: 91.0, SM: 30.0})):
        assert claim.evidence and all(name in (DRAM, SM) for name, _ in claim.evidence)
    assert claims({DRAM: 91.0, SM: 30.0}) == {
        "speed of light": "limit: memory-bound: DRAM at 91 % of the peak"
    }


def test_compute_bound_and_latency_bound() -> None:
    assert "compute-bound" in claims({DRAM: 20.0, SM: 85.0})["speed of light"]
    assert "latency-bound" in claims({DRAM: 20.0, SM: 15.0})["speed of light"]


def test_a_stream_through_the_caches_is_bound_by_memory() -> None:
    """The second-level cache is busier than DRAM can be: no launch gets all of DRAM's peak."""
    cache = {"lts__throughput.avg.pct_of_peak_sustained_elapsed": 90.0}
    assert "memory-bound" in claims({DRAM: 82.0, SM: 6.0, **cache})["speed of light"]
    assert "bound by L2" in claims({DRAM: 30.0, SM: 6.0, **cache})["speed of light"]


def test_what_waits_for_a_busy_unit_is_no_problem() -> None:
    few = {"smsp__warps_eligible.avg.per_cycle_active": 0.4}
    assert claims(few)["schedulers"].startswith("problem: ")
    assert claims({DRAM: 91.0, **few})["schedulers"].startswith("fact: ")
    assert claims({DRAM: 70.0, **few})["schedulers"].startswith("problem: ")


def test_the_tensor_cores_own_pipe_is_no_other_unit() -> None:
    shared = "sm__pipe_shared_cycles_active.avg.pct_of_peak_sustained_active"
    tensor = "sm__inst_executed_pipe_tensor_op_hmma.avg.pct_of_peak_sustained_active"
    lsu = "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active"
    found = claims({tensor: 96.0, shared: 96.0, lsu: 65.0})
    assert found["tensor cores"] == "limit: the tensor cores are busy: 96 %"
    assert found["pipes"] == "limit: the busiest other unit: loads and stores (lsu), 65 %"
    assert "pipes" not in claims({tensor: 96.0, shared: 96.0})
    assert "fp64" in claims({shared: 96.0})["pipes"]


def test_waves_and_their_tail() -> None:
    assert "only 10 % full" in claims({"launch__waves_per_multiprocessor": 1.1})["waves"]
    assert "fills 40 %" in claims({"launch__waves_per_multiprocessor": 0.4})["waves"]
    assert "waves" not in claims({"launch__waves_per_multiprocessor": 3.0})
    assert "waves" not in claims({"launch__waves_per_multiprocessor": 30.1})


def test_the_occupancy_limiter_is_the_smallest_limit() -> None:
    found = claims({
        "sm__maximum_warps_per_active_cycle_pct": 25.0, "launch__occupancy_limit_registers": 2.0,
        "launch__occupancy_limit_shared_mem": 5.0,
    })  # fmt: skip
    assert found["occupancy"] == "problem: at most 25 % of the warps fit, 2 blocks per SM: registers"


def test_the_largest_stall_is_named_with_its_share() -> None:
    found = claims({
        STALL.format("long_scoreboard"): 8.0, STALL.format("barrier"): 1.0,
        "smsp__average_warp_latency_per_inst_issued.ratio": 10.0,
    })  # fmt: skip
    assert (
        found["stalls"]
        == "problem: a warp spends 80 % of its time waiting for data from global or local memory"
    )


def test_scattered_loads_and_bank_conflicts() -> None:
    found = claims({
        "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": 31.0,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": 50.0,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": 100.0,
    })  # fmt: skip
    assert "31 sectors per request" in found["coalescing"]
    assert "50 %" in found["shared memory"]


# --- the program -------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _agreed() -> None:
    with Reproducer.open(GOLDEN) as reproducer:
        trust.agree(reproducer.manifest_sha256)


def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> Path:
    """An ncu of a test's own, the only one on PATH; ``report`` is where it is to write."""
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys\nargs = sys.argv[1:]\nTABLE = {TABLE!r}\n"
        "report = next((a.split('=')[1] + '.ncu-rep' for a in args if a.startswith('--export=')), None)\n"
        + body
    )
    program.chmod(0o755)
    monkeypatch.setattr(ncu, "_places", lambda environment: iter([program]))
    return program


HELLO, LOADED, RESTORED = typed_json.line(Hello()), protocol.reply(Loaded(Compiled())), protocol.reply(None)
FAILED = protocol.reply(Ended("error", "bad"))
REFUSES = f"open(args[-1], 'wb').write({typed_json.line(Hello(refused='no room'))!r})"
FAILS = f"open(args[-1], 'wb').write({HELLO + LOADED + RESTORED + FAILED!r})"
WRITES = """
if '--version' in args:
    print('NVIDIA (R) Nsight Compute\\nVersion 2025.3.1.0 (build 1)')
elif '--import' in args:
    print(TABLE)
else:
    open(report, 'w').write(' '.join(args))
"""


def test_one_launch_is_profiled_and_its_report_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path, monkeypatch, WRITES)
    kept = tmp_path / "kept.ncu-rep"
    with Reproducer.open(GOLDEN) as reproducer:
        done = ncu.profile(reproducer, CHOICE, output=kept)
        symbol = reproducer.manifest.kernel.mangled or reproducer.manifest.kernel.name
    assert done.row.metrics[DRAM] == 91.25
    assert done.version.startswith("2025.3.1.0")
    asked = kept.read_text().split()
    assert {
        "--launch-count=1",
        f"--kernel-name={symbol}",
        "--clock-control=none",
        "--section=SpeedOfLight",
    } <= {*asked}
    text = render(import_report(kept))
    assert "memory-bound: DRAM at 91 % of the peak" in text
    assert f"    {DRAM} 91.25" in text


def test_a_list_of_metrics_that_is_refused_is_made_shorter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "if report and any(a.startswith('--metrics') for a in args):\n    sys.exit('no such metric')\n"
    fake(tmp_path, monkeypatch, body + WRITES)
    with Reproducer.open(GOLDEN) as reproducer:
        assert ncu.profile(reproducer, CHOICE).row.kernel


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        ("print('==ERROR== ERR_NVGPUCTRPERM')", BackendUnavailable, "NVreg_RestrictProfilingToAdminUsers"),
        ("print('==WARNING== No kernels were profiled.')", ReplayError, "No kernels were profiled"),
        (REFUSES, ReplayError, "did not start under ncu: no room"),
        (FAILS, ReplayError, "failed under ncu: bad"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, error: type[Exception], text: str
) -> None:
    fake(tmp_path, monkeypatch, body)
    with Reproducer.open(GOLDEN) as reproducer, pytest.raises(error, match=text):
        ncu.profile(reproducer, CHOICE)


def test_without_ncu_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "_places", lambda environment: iter(()))
    with (
        Reproducer.open(GOLDEN) as reproducer,
        pytest.raises(BackendUnavailable, match="install Nsight Compute"),
    ):
        ncu.profile(reproducer, CHOICE)
