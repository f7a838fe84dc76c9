"""--on-fault, --when, --last with native kernels."""

from __future__ import annotations

import pytest

from tests.integration.cuda.conftest import Bench, opened
from tests.parameters import first_of


def test_on_fault_keeps_exactly_the_launch_that_faulted(bench: Bench) -> None:
    captured = bench.capture("--on-fault", client=("failures", "fault"))
    manifest = captured.manifest()
    assert manifest.kernel.name == "strike" and manifest.launch.ordinal == 1
    assert manifest.oracle.kind == "fault" and "ILLEGAL_ADDRESS" in (manifest.oracle.error or "")
    assert bench.judge(captured.path, command="replay")["result"] == "pass", "it faults again"


def test_on_fault_without_a_fault(bench: Bench) -> None:
    captured = bench.capture("--on-fault", client=("values", "many"), expect=0)
    assert captured.done.status == 1 and "fault" in captured.reason


@pytest.mark.long
def test_on_fault_takes_a_hang(bench: Bench) -> None:
    client = bench.rig.client("failures")
    done = bench(
        "capture", "--json", "--on-fault", "--fault-timeout", "1", "--stop", "--no-self-check", "-o", "out",
        "--", client, "hang",
    )  # fmt: skip
    [path] = done.document["captured"]
    with opened(bench.kerncap.folder / path) as reproducer:
        assert reproducer.manifest.oracle.kind == "timeout"
        assert reproducer.manifest.kernel.name == "forever"


def test_a_result_that_is_not_finite(bench: Bench) -> None:
    captured = bench.capture("--when", "nonfinite", "-k", ".", client=("values", "nan"), expect=None)
    by_name = {captured.manifest(path).kernel.name: captured.manifest(path) for path in captured.paths}
    assert "make_nan" in by_name
    assert by_name["make_nan"].oracle.kind == "suspect"
    assert by_name["make_nan"].oracle.condition == "nonfinite"


# The run that is wrong is the third of its process, and then every so many: with 3 one is among the runs
# that a replay learns the noise from, with 50 none after the first of them is.
@first_of("every", ["50", "3"])
def test_a_result_that_differs_when_launched_again(bench: Bench, every: str) -> None:
    extra = {"SOMETIMES_OFF_EVERY": every}
    captured = bench.capture(
        "--when", "differs", "-k", "sometimes_off", client=("values", "racy"), extra=extra, same=False
    )
    manifest = captured.manifest()
    assert manifest.oracle.kind == "suspect" and manifest.oracle.condition == "differs"
    # What does not repeat is found by repeating.
    done = bench("replay", captured.path, "--until-fail", "200", extra=extra)
    assert done.status == 1, done.stdout
    assert "differ" in done.stdout and done.result_line.startswith("Result: FAIL")


def test_nothing_differs(bench: Bench) -> None:
    captured = bench.capture("--when", "differs", "-k", "scale_in_place", client=("values", "many"), expect=0)
    assert captured.done.status == 1


@pytest.mark.long
def test_the_last_ones(bench: Bench) -> None:
    captured = bench.capture("--last", "3", "-k", "increment", client=("values", "many"), expect=3)
    assert sorted(captured.manifest(path).launch.ordinal for path in captured.paths) == [7, 8, 9]
    for path in captured.paths:
        bench.passes(path)


def test_stop_ends_the_program_once_all_is_there(bench: Bench) -> None:
    client = bench.rig.client("values")
    done = bench(
        "capture", "--json", "-k", "increment", "--stop", "--no-self-check", "-o", "out", "--", client, "many"
    )
    assert len(done.document["captured"]) == 1


def test_no_values_leaves_the_bytes_out(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_in_place", "--no-values", client=("values", "in_place"))
    manifest = captured.manifest()
    assert manifest.memory.pre_bytes == 0 and manifest.memory.post_bytes == 0


@pytest.mark.long
def test_list_counts_and_captures_nothing(bench: Bench) -> None:
    done = bench("list", "--json", "--", bench.rig.client("values"), "many")
    kernels = {kernel["name"]: kernel for kernel in done.document["kernels"]}
    assert kernels["increment"]["launches"] == kernels["scale_in_place"]["launches"] == 10
    assert all(kernel["time_ns"] > 0 for kernel in kernels.values())
