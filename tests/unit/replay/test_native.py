"""Native launches, replayed and judged on the stand-in driver."""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, ReplayResult, replay
from kerncap.api.verify import VerifyOptions, verify
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer, schema
from kerncap.replay import candidates
from kerncap.replay.engine import Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.outcome import Outcome
from kerncap.replay.plain_run import PlainRun
from kerncap.replay.verdict import judge
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.protocol import Backend

from . import native, rig
from .native import BASE, SPACING, Native


@pytest.fixture(autouse=True, params=["device", pytest.param("host", marks=pytest.mark.long)])
def stand_in(request: pytest.FixtureRequest, own_kernels: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test twice: with the worker's own kernels, and on a driver that does not take them."""
    rig.use(monkeypatch, own_kernels)
    if request.param == "host":
        monkeypatch.setenv("KERNCAP_RIG_NO_HELPERS", "1")
    return str(request.param)


def test_the_way_over_memory_is_the_one_meant(tmp_path: Path, stand_in: str) -> None:
    with Reproducer.open(native.add().seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        assert engine.connection.call(Backend.open).bulk == stand_in


def test_values_on_which_comparisons_turn_reach_the_device(tmp_path: Path) -> None:
    with Reproducer.open(native.add().seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        engine.restore()
        assert engine.connection.call(Backend.boundaries, [0, 1], [], []) == [0, 1]
        assert {0, 1} <= set(engine.differing("pre"))
        engine.restore()
        assert engine.connection.call(Backend.boundaries, [0], [], []) == [0]
        assert engine.differing("pre") == [0]


def run(path: Path, **options: Any) -> ReplayResult:
    return replay(path, ReplayOptions(**{"timed_runs": 0, "timeout_s": 10.0, **options}))


def edited(launch: Native, folder: Path, **image: Any) -> Path:
    path = folder / "candidate.ptx"
    path.write_bytes(launch.image(**image))
    return path


def test_the_captured_launch_gives_the_captured_result(tmp_path: Path) -> None:
    result = run(native.add().seal(tmp_path))
    assert result.verdict.line == "Result: PASS (12,000 bytes identical, 4,000 written bytes poisoned)"
    assert (result.engine, result.triton, result.driver) == ("binary", "", "13.0")
    assert result.relocated == []


def test_parameters_of_unknown_layout_go_as_one_buffer(tmp_path: Path) -> None:
    assert run(native.add(with_layout=False).seal(tmp_path)).verdict.exact


def test_a_wrong_oracle_fails_with_the_element(tmp_path: Path) -> None:
    launch = native.add()
    region, before, after = launch.regions[2]
    wrong = bytearray(after)
    wrong[40:44] = struct.pack("<f", 5.0)
    launch.regions[2] = region, before, bytes(wrong)
    result = run(launch.seal(tmp_path))
    assert not result.passed
    assert "arg2[10]: expected 5.0" in " ".join(result.verdict.reasons).replace(
        "first at arg2[10]: ", "arg2[10]: "
    )


def test_a_candidate_that_does_nothing_fails(tmp_path: Path) -> None:
    launch = native.add()
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=1))
    assert not result.passed
    assert "4,000 bytes of arg2 were never written (first at arg2[0])" in result.verdict.reasons


def test_a_candidate_that_does_nothing_fails_without_types(tmp_path: Path) -> None:
    launch = native.add(with_views=False)
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=1))
    assert (
        "4,000 bytes of region 2 were never written (first at byte 0 of region 2)" in result.verdict.reasons
    )


def test_a_busy_machine_that_stands_still_once_changes_no_measurement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch, launches, still = PlainRun.launch, 0, 0

    def counted(self: PlainRun, *given: Any, **options: Any) -> Outcome:
        nonlocal launches
        launches += 1
        return Outcome("timeout") if launches == still else launch(self, *given, **options)

    def outputs(engine: Engine) -> dict[int, int]:
        nonlocal launches
        launches = 0
        measured = measure(engine)
        return {region: bitmap.count(measured.output(region)) for region in measured.written}

    monkeypatch.setattr(PlainRun, "launch", counted)
    with Reproducer.open(native.add().seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        wanted = outputs(engine)
        assert wanted == {2: 4000} and launches > 4
        for still in range(2, launches + 1):  # the first one is the plain run
            assert outputs(engine) == wanted, still


def test_a_write_beside_the_region_is_found(tmp_path: Path) -> None:
    launch = native.add()
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=2))
    assert not result.passed
    assert "0 bytes past the end of region 2, which holds arg2" in result.verdict.reasons[0]


def test_a_candidate_may_differ_by_rounding_where_the_type_is_known(tmp_path: Path) -> None:
    launch = native.add()
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=3))
    assert result.passed and not result.verdict.exact
    assert "within tolerance" in result.verdict.line


def test_a_candidate_may_not_differ_where_no_type_is_known(tmp_path: Path) -> None:
    launch = native.add(with_views=False)
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=3))
    assert not result.passed
    assert "bytes differ (first at byte" in result.verdict.reasons[0]


def test_an_update_in_place_is_applied_once(tmp_path: Path) -> None:
    assert run(native.scale().seal(tmp_path), timed_runs=50).verdict.exact


def test_a_candidate_that_does_nothing_in_place_fails(tmp_path: Path) -> None:
    launch = native.scale(s=1.0)  # the oracle shows no work: other scalars do
    image = launch.image(kernel="_Z7nothingPfi", sizes=[8, 4, 4])
    candidate = tmp_path / "nothing.ptx"
    candidate.write_bytes(image)
    result = run(launch.seal(tmp_path), candidate=candidate)
    assert not result.passed
    assert run(launch.seal(tmp_path / "again"), candidate=edited(launch, tmp_path)).passed


def sum_of_rows() -> Native:
    """A launch with a table of pointers in memory."""
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    launch = Native("_Z11sum_of_rowsPKPKfPfii")
    table = launch.region(np.array([BASE + (k + 1) * SPACING for k in range(3)], dtype=np.uint64))
    for row in rows:
        launch.region(row)
    launch.pointer(table, "uint64", 3)
    launch.array(np.zeros(3, dtype=np.float32), rows.sum(axis=1)).integer(3).integer(4)
    return launch


def test_pointers_in_memory_stay_valid(tmp_path: Path) -> None:
    assert run(sum_of_rows().seal(tmp_path)).verdict.exact


def test_nodes_of_a_list_cost_no_worker_each(tmp_path: Path) -> None:
    count = 200
    values = np.arange(count, dtype=np.float32)
    launch = Native("_Z11sum_of_listPK4NodePf")
    for i, value in enumerate(values):
        following = BASE + 512 * (i + 1) if i + 1 < count else 0
        launch.region(np.frombuffer(struct.pack("<ffQ", value, 0, following), np.uint8), base=BASE + 512 * i)
    launch.pointer(0, "uint8", 16)
    launch.array(np.zeros(1, np.float32), np.array([values.sum()], np.float32), base=BASE + SPACING)
    with Reproducer.open(launch.seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        measured = measure(engine)
        assert engine.generation <= 2  # the first time, the last node is poisoned to point anywhere
        assert sorted(measured.written) == [count]
        assert judge(engine, measured).exact


def test_a_node_that_is_written_is_told_from_those_that_are_not(tmp_path: Path) -> None:
    """Many variables that no view describes, of which the launch writes one with the value that it has."""
    launch = native.add(with_views=False)
    region, _, after = launch.regions[2]
    launch.regions[2] = region, after, after  # as a second launch into the same output
    for _ in range(30):
        launch.region(np.arange(16, dtype=np.int32))
    with Reproducer.open(launch.seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        measured = measure(engine)
        assert sorted(measured.written) == [2]
        assert bitmap.count(measured.output(2)) == 4000
        assert judge(engine, measured).exact


def test_a_taken_address_is_relocated_with_all_that_points_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNCAP_RIG_TAKEN", f"{BASE + 2 * SPACING:#x}:0x1000,{BASE + 4 * SPACING:#x}:0x1000")
    result = run(sum_of_rows().seal(tmp_path))
    assert result.verdict.exact
    assert result.relocated == [2, 4]
    assert any("2 words that point there were changed" in note for note in result.notes)


def test_variables_alone_take_part(tmp_path: Path) -> None:
    launch = Native("_Z4tickv")
    launch.region(np.array([40], np.int32), np.array([42], np.int32), kind="global", name="total")
    launch.region(np.array([2], np.int32), kind="global", name="step")
    result = run(launch.seal(tmp_path), timed_runs=20)
    assert result.verdict.exact
    assert result.relocated == []  # nothing points to them: where they lie does not matter


def test_a_pointer_to_a_variable_follows_it(tmp_path: Path) -> None:
    at = BASE + 5 * SPACING
    launch = Native("follow")
    cell = launch.region(np.array([at], np.uint64), np.array([at + 4], np.uint64))
    launch.region(
        np.array([7, 7], np.int32), np.array([8, 7], np.int32), kind="global", name="counted", base=at
    )
    launch.pointer(cell, "uint64", 1)
    result = run(launch.seal(tmp_path), timed_runs=20)
    assert result.verdict.exact, result.verdict.reasons
    assert result.relocated == [1]
    assert any(note.startswith("relocated: ") for note in result.notes)


def test_a_variable_that_points_to_memory(tmp_path: Path) -> None:
    data = np.arange(8, dtype=np.float32)
    launch = Native("_Z14through_globalPfi")
    source = launch.region(data)
    launch.region(np.array([launch.base(source)], np.uint64), kind="global", name="table")
    launch.array(np.zeros(8, np.float32), 2 * data).integer(8)
    assert run(launch.seal(tmp_path)).verdict.exact


def test_an_image_without_a_captured_variable_is_refused(tmp_path: Path) -> None:
    launch = Native("_Z4tickv")
    launch.region(np.array([40], np.int32), np.array([42], np.int32), kind="global", name="total")
    launch.code = {"ptx": native.ptx("_Z4tickv", [])}
    with pytest.raises(BackendUnavailable, match="no variable total"):
        run(launch.seal(tmp_path))


def test_host_memory_lies_at_its_address(tmp_path: Path) -> None:
    launch = native.add()
    region, before, after = launch.regions[1]
    host = schema.Region(base=0x5F00_0000_1000, size=region.size, kind="host", device=-1)
    launch.regions[1] = host, before, after
    launch.parameters[1] = struct.pack("<Q", host.base)
    result = run(launch.seal(tmp_path))
    assert result.verdict.exact
    assert result.relocated == []


def test_host_memory_that_can_not_be_there_is_relocated(tmp_path: Path) -> None:
    launch = native.add()
    region, before, after = launch.regions[1]
    host = schema.Region(
        base=1 << 62, size=region.size, kind="host", device=-1
    )  # no process has such addresses
    launch.regions[1] = host, before, after
    launch.parameters[1] = struct.pack("<Q", host.base)
    result = run(launch.seal(tmp_path))
    assert result.verdict.exact
    assert result.relocated == [1]
    assert any("1 words that point there were changed" in note for note in result.notes)


def test_a_kernel_that_faults_now_and_then_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = native.add().seal(tmp_path)
    assert run(path).verdict.exact  # the write set is known from here on
    monkeypatch.setenv("KERNCAP_RIG_FAULT_AT", "500")
    result = run(path, until_fail=2_000)
    assert not result.passed
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in result.verdict.line
    assert result.different is None


def test_managed_memory_becomes_device_memory_and_says_so(tmp_path: Path) -> None:
    launch = native.add()
    region, before, after = launch.regions[2]
    launch.regions[2] = schema.Region(base=region.base, size=region.size, kind="managed"), before, after
    result = run(launch.seal(tmp_path))
    assert result.verdict.exact
    assert "region 2 was managed memory and is plain device memory here" in result.notes


def test_regions_of_one_slab(tmp_path: Path) -> None:
    a = np.arange(100, dtype=np.float32)
    launch = Native("_Z10vector_addPKfS0_Pfi", block=(128, 1, 1))
    launch.array(a, base=BASE).array(a, base=BASE + 512)
    launch.array(np.zeros(100, np.float32), 2 * a, base=BASE + 1024).integer(100)
    assert run(launch.seal(tmp_path)).verdict.exact


def run_of_device(device: int, folder: Path) -> ReplayResult:
    launch = native.add()
    region, before, after = launch.regions[0]
    other = schema.Region(base=region.base, size=region.size, kind="device", device=device)
    launch.regions[0] = other, before, after
    result = run(launch.seal(folder))
    assert result.verdict.exact
    return result


def test_memory_of_a_device_that_is_not_here(tmp_path: Path) -> None:
    result = run_of_device(3, tmp_path)
    assert any("region 0 was on CUDA device 3" in note for note in result.notes)


def test_memory_of_another_device_lies_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAP_RIG_DEVICES", "2")
    result = run_of_device(1, tmp_path)
    assert result.notes == []


def test_nothing_written_is_nothing_to_compare(tmp_path: Path) -> None:
    launch = Native("_Z7nothingPfi").array(np.zeros(4, np.float32)).integer(4)
    line = run(launch.seal(tmp_path)).verdict.line
    assert line.startswith("Result: UNDECIDED (nothing to compare: the launch writes nothing")


def test_a_compiler_that_is_missing_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: Any) -> Path:
        raise BackendUnavailable("nvcc", "there is none")

    monkeypatch.setattr(candidates, "compile_candidate", build)
    source = tmp_path / "k.cu"
    source.write_text("")
    with pytest.raises(BackendUnavailable, match="nvcc is not available"):
        run(native.add().seal(tmp_path), candidate=source)


def test_noise_is_allowed_by_the_type_that_it_has(tmp_path: Path) -> None:
    result = run(native.doubled("noisy", with_views=False).seal(tmp_path))
    assert result.passed, result.verdict.reasons
    assert "within tolerance" in result.verdict.line
    assert "region 1 as float32 (inferred)" in result.verdict.line


def test_noise_hides_no_wrong_result(tmp_path: Path) -> None:
    launch = native.doubled("noisy", with_views=False)
    region, before, after = launch.regions[1]
    wrong = np.frombuffer(after, np.float32).copy()
    wrong[3] *= 1.001
    launch.regions[1] = region, before, wrong.tobytes()
    result = run(launch.seal(tmp_path))
    assert not result.passed
    assert "region 1 as float32 (inferred): 1 of 1,000 elements differ" in result.verdict.reasons[0]


def test_rounding_that_no_replay_shows_is_undecided(tmp_path: Path) -> None:
    launch = native.add()
    region, before, after = launch.regions[2]
    values = np.frombuffer(after, np.float32).copy()
    values[10] = np.nextafter(values[10], np.float32(np.inf))
    launch.regions[2] = region, before, values.tobytes()
    verdict = run(launch.seal(tmp_path)).verdict
    assert verdict.answer is Answer.UNDECIDED
    assert "arg2: 1 of 1,000 elements differ, first at arg2[10]" in verdict.reasons[0]
    assert verdict.reasons[0].endswith("within tolerance, and 20 replays agree bit by bit")


def test_the_rate_of_wrong_replays_is_told(tmp_path: Path) -> None:
    result = run(native.doubled("racy").seal(tmp_path), until_fail=2000)
    assert not result.passed
    assert result.different is not None and result.different >= 1
    assert result.runs < 2000
    rate, *rest = result.verdict.reasons
    assert rate.startswith(f"{result.different:,} of {result.runs - 1:,} replays differ, the first is number")
    assert any("arg1" in reason for reason in rest)


def test_a_race_is_no_noise_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETIMES_OFF_EVERY", "3")  # so often that replays of the baseline show it, too
    x = np.arange(1000, dtype=np.float32)
    launch = Native("_Z13sometimes_offPKfPfi").array(x).array(np.zeros(1000, np.float32), 3 * x)
    path = launch.integer(1000).seal(tmp_path)
    assert run(path).answer in (Answer.UNDECIDED, Answer.YES), "one run may be right"
    result = run(path, until_fail=200)
    assert result.answer is Answer.NO, "that runs disagree is what was asked"
    assert any("arg1 differs from run to run by up to 1e+03" in why for why in result.verdict.reasons)


def test_without_a_wrong_replay_all_are_counted(tmp_path: Path) -> None:
    result = run(native.add().seal(tmp_path), until_fail=300)
    assert result.verdict.exact
    assert (result.runs, result.different) == (300, 0)


def test_timed_replays_are_in_a_row(tmp_path: Path) -> None:
    result = run(native.add().seal(tmp_path), timed_runs=300)
    assert result.verdict.exact
    timing = result.timing
    assert timing is not None and timing.runs == 300
    assert timing.low_ms <= timing.median_ms <= timing.high_ms
    assert timing.warm_ms is not None and timing.cold_ms is not None and timing.replays_per_s is not None


def test_an_update_in_place_is_timed_with_a_restore_before_each(tmp_path: Path) -> None:
    timing = run(native.scale().seal(tmp_path), timed_runs=20).timing
    assert timing is not None and timing.warm_ms == timing.median_ms


def test_a_fault_is_reproduced_and_kills_only_the_worker(tmp_path: Path) -> None:
    launch = Native("_Z6strikePKfPfi", oracle=schema.Oracle(kind="fault", error="CUDA_ERROR_ILLEGAL_ADDRESS"))
    launch.array(np.zeros(4, np.float32))
    launch.parameters[0] = struct.pack("<Q", BASE - SPACING)
    launch.array(np.zeros(4, np.float32)).integer(4)
    result = run(launch.seal(tmp_path))
    assert result.verdict.line == "Result: PASS (fault reproduced: the kernel: CUDA_ERROR_ILLEGAL_ADDRESS)"


def test_an_endless_kernel_is_a_timeout(tmp_path: Path) -> None:
    launch = Native("_Z7foreverPi", oracle=schema.Oracle(kind="timeout"))
    launch.array(np.zeros(1, np.int32))
    result = run(launch.seal(tmp_path), timeout_s=0.5)
    assert result.verdict.line.startswith("Result: PASS (timeout reproduced: the kernel did not end within")


def test_the_shape_of_the_launch_is_the_captured_one(tmp_path: Path) -> None:
    expected = np.array([6, 2, 1, 64, 2, 1, 2, 1, 1, 4096, 1], np.uint32)
    cluster = schema.LaunchAttribute(id=4, value=struct.pack("<3I", 2, 1, 1).hex().ljust(128, "0"))
    event = schema.LaunchAttribute(id=7, value="ff" * 64)  # would point to an event of the application
    launch = Native(
        "_Z5shapePj", grid=(6, 2, 1), block=(64, 2, 1), shared_bytes=4096,
        launch={"cooperative": True, "cluster": (2, 1, 1), "attributes": (cluster, event)},
    )  # fmt: skip
    launch.array(np.zeros(11, np.uint32), expected)
    result = run(launch.seal(tmp_path))
    assert result.verdict.exact, result.verdict.reasons


def test_each_attribute_is_given_back_or_named(tmp_path: Path) -> None:
    """Those that the bindings know; and one that they don't."""
    cu = pytest.importorskip("cuda.bindings.driver")
    known = [each for each in cu.CUlaunchAttributeID if each.value]
    ones = struct.pack("<3I", 1, 1, 1).hex().ljust(128, "0")
    attributes = tuple(schema.LaunchAttribute(id=each.value, value=ones) for each in known)
    left_out = {"ACCESS_POLICY_WINDOW", "SYNCHRONIZATION_POLICY", "PROGRAMMATIC_STREAM_SERIALIZATION"}
    left_out |= {"PROGRAMMATIC_EVENT", "PRIORITY", "LAUNCH_COMPLETION_EVENT", "DEVICE_UPDATABLE_KERNEL_NODE"}
    given = [each for each in known if each.name.removeprefix("CU_LAUNCH_ATTRIBUTE_") not in left_out]
    mask = np.array([sum(1 << each.value for each in given)], np.uint64)
    unknown = schema.LaunchAttribute(id=63, value=ones)
    launch = Native("_Z5askedPy", launch={"attributes": (*attributes, unknown)})
    result = run(launch.array(np.zeros(1, np.uint64), mask).seal(tmp_path))
    assert result.verdict.exact, result.verdict.reasons
    [note] = [each for each in result.notes if each.startswith("launched without ")]
    assert note.count(",") == len(left_out) and note.count("attribute") == 1 and "attribute 63" in note


def test_more_shared_memory_than_the_device_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="the kernel needs 1,000,000 bytes of shared memory"):
        run(native.add(shared_bytes=1_000_000).seal(tmp_path))


def test_the_first_image_that_loads_is_taken(tmp_path: Path) -> None:
    launch = native.add()
    launch.code = {"cubin": b"no image at all", "ptx": launch.image()}
    assert run(launch.seal(tmp_path)).verdict.exact


def test_an_image_that_does_not_load_is_refused_with_the_reason(tmp_path: Path) -> None:
    launch = native.add()
    launch.code = {"cubin": b"no image at all"}
    with pytest.raises(BackendUnavailable, match="no captured image can be used here: cubin: CUDA_ERROR"):
        run(launch.seal(tmp_path))


def test_a_reproducer_without_an_image_is_refused(tmp_path: Path) -> None:
    launch = native.add()
    launch.code = {}
    with pytest.raises(BackendUnavailable, match="holds no image"):
        run(launch.seal(tmp_path))


def test_candidates_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    launch = native.add()
    path = launch.seal(tmp_path)
    broken = tmp_path / "broken.cubin"
    broken.write_bytes(b"no image")
    assert "broken.cubin does not load: CUDA_ERROR" in run(path, candidate=broken).verdict.line
    two = tmp_path / "two.ptx"
    two.write_bytes(native.ptx("one", [8]) + native.ptx("two", [8])[50:])
    assert "has no kernel _Z10vector_addPKfS0_Pfi; it has one, two" in run(path, candidate=two).verdict.line
    other = run(path, candidate=edited(launch, tmp_path, sizes=[8, 8, 4]))
    assert (
        "takes parameters of 8, 8, 4 bytes, the captured launch passes 8, 8, 8, 4 bytes" in other.verdict.line
    )


@pytest.mark.parametrize("engine", ["jit", "interpreter"])
def test_engines_for_source_are_refused(tmp_path: Path, engine: str) -> None:
    with pytest.raises(UsageError, match=f"--engine {engine} .* is a cuda kernel"):
        run(native.add().seal(tmp_path), engine=engine)


def test_the_host_is_no_place_for_it(tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="--device cpu was given"):
        run(native.add().seal(tmp_path), device="cpu")


def test_without_a_device_the_reason_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNCAP_RIG_DEVICES", "0")
    with pytest.raises(BackendUnavailable, match="a native kernel needs a CUDA device"):
        run(native.add().seal(tmp_path))


def test_verify_by_a_reference_of_numpy(tmp_path: Path) -> None:
    reference = tmp_path / "reference.py"
    reference.write_text("def reference(args):\n    return {'arg2': args['arg0'] + args['arg1']}\n")
    launch = native.add(oracle=schema.Oracle(kind="suspect", detail="a test"))
    path = launch.seal(tmp_path)
    assert verify(path, VerifyOptions(reference=reference)).passed
    before = reference.stat()
    reference.write_text("def reference(args):\n    return {'arg2': args['arg0'] - args['arg1']}\n")
    os.utime(reference, ns=(before.st_atime_ns, before.st_mtime_ns))  # saved twice within a second
    assert not verify(path, VerifyOptions(reference=reference)).passed


def test_verify_finds_a_nan(tmp_path: Path) -> None:
    x = np.ones(9, np.float32)
    after = x + 1
    after[4] = np.nan
    launch = Native("_Z8make_nanPfi", oracle=schema.Oracle(kind="suspect", condition="nonfinite"))
    path = launch.array(x, after).integer(9).seal(tmp_path)
    result = verify(path, VerifyOptions(expect="finite"))
    assert not result.passed
    assert "arg0[4] = nan" in result.verdict.reasons[0]


def test_neither_torch_nor_triton_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "blocked"
    blocker.mkdir()
    for name in ("torch", "triton"):
        (blocker / f"{name}.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(blocker))
    assert run(native.add().seal(tmp_path), python=sys.executable).verdict.exact
