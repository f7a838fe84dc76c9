"""Replay of HIP launches on the emulated AMD GPU, under the real ROCm: reproducers made by hand."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, ReplayResult, replay
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer, schema
from kerncap.format.code_object import CodeObject, KernelMetadata
from kerncap.replay import amd_devices, staging
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.worker_process import Worker
from tests.parameters import first_of
from tests.unit.replay.native import BASE, SPACING

from . import replay_launches as launches
from .replay_launches import HERE, HipLaunch, emulator, launch

EMULATOR = emulator()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hip")


@pytest.fixture(scope="module")
def code(folder: Path) -> bytes:
    return launches.kernels(folder)


def run(path: Path, **options: Any) -> ReplayResult:
    wanted = {"timed_runs": 0, "timeout_s": 10.0, "emulator": EMULATOR, **options}
    return replay(path, ReplayOptions(**wanted))


def kernel_metadata(code: bytes, kernel: str) -> KernelMetadata:
    found = CodeObject(code).kernel(kernel)
    assert found is not None
    return found


def floats(n: int, seed: int = 1) -> Any:
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


def add(code: bytes, n: int = 1000, **options: Any) -> HipLaunch:
    """``out = a + b``; the output held something else before."""
    a, b = floats(n), floats(n, 2)
    made = launch("vector_add", code, grid=(-(-n // 64), 1, 1), **options)
    made.array(a).array(b).array(np.full(n, 7, dtype=np.float32), a + b).integer(n)
    return made


def passes(made: HipLaunch, folder: Path, **options: Any) -> ReplayResult:
    result = run(made.seal(folder), **options)
    assert result.passed and result.verdict.exact, (result.verdict.reasons, result.notes)
    return result


# --- what kernels use ----------------------------------------------------------------------------------


def test_vector_add_at_the_captured_addresses(code: bytes, folder: Path) -> None:
    result = passes(add(code), folder)
    assert result.relocated == []
    assert any(note.startswith("on an emulated AMD GPU") for note in result.notes)
    assert any(note.startswith("captured on AMD GPU, replayed on ") for note in result.notes)
    assert (result.engine, result.software) == ("binary", f"ROCr {result.driver}")


def test_a_wrong_oracle_is_not_confirmed(code: bytes, folder: Path) -> None:
    made = add(code)
    region, before, after = made.regions[2]
    wrong = bytearray(after)
    wrong[400] ^= 0x40
    made.regions[2] = region, before, bytes(wrong)
    made.device_name = device_name(folder, code)  # on the captured device nothing is allowed for
    result = run(made.seal(folder))
    assert not result.passed
    assert "1 of 1,000 elements" in " ".join(result.verdict.reasons)


def device_name(folder: Path, code: bytes) -> str:
    with (
        Reproducer.open(add(code).seal(folder)) as reproducer,
        Engine(reproducer, emulator=EMULATOR) as engine,
    ):
        return engine.facts.device


def test_in_place(code: bytes, folder: Path) -> None:
    x = floats(300)
    made = launch("scale_in_place", code, grid=(5, 1, 1)).array(x, x * np.float32(3))
    passes(made.single(3.0).integer(300), folder)


@pytest.mark.parametrize("wrong", [None, pytest.param(0, marks=pytest.mark.long), 2])
def test_a_large_region_is_kept_as_its_changes(
    code: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch, wrong: int | None
) -> None:
    """Of three chunks the launch changes the first; an oracle that is wrong there, or elsewhere, is found."""
    monkeypatch.setattr(staging, "_LARGE_BYTES", schema.CHUNK_BYTES)
    x = np.random.default_rng(1).integers(1, 100, 3 * schema.CHUNK_BYTES // 4).astype(np.float32)
    after = x.copy()
    after[:300] *= np.float32(3)
    if wrong is not None:
        after[wrong * schema.CHUNK_BYTES // 4 + 5] += 50
    made = launch("scale_in_place", code, grid=(5, 1, 1)).array(x, after).single(3.0).integer(300)
    result = run(made.seal(folder))
    assert result.passed == (wrong is None), result.verdict.reasons


def test_pointers_to_pointers(code: bytes, folder: Path) -> None:
    values = [5, -7, 11, 1 << 40]
    made = launch("sum_list", code, block=(1, 1, 1))
    bases = [BASE + i * SPACING for i in range(len(values))]
    for following, value in zip([*bases[1:], 0], values, strict=True):
        made.region(np.array([following, value], dtype=np.int64))
    out = made.region(np.zeros(1, dtype=np.int64), np.array([sum(values)]))
    made.pointer(0, "int64", 2)
    passes(made.pointer(out, "int64", 1), folder)


def test_variables_of_the_module(code: bytes, folder: Path) -> None:
    keys = np.random.default_rng(3).integers(0, 64, 256).astype(np.int32)
    before = np.arange(64, dtype=np.int32)
    made = launch("count_in_table", code, grid=(4, 1, 1))
    # Captured elsewhere: a pointer to a variable, in another variable, has to follow.
    after = (before + np.bincount(keys, minlength=64)).astype(np.int32)
    made.region(before, after, base=0x7E80_0000_0000, kind="global", name="table")
    made.region(np.array([0x7E80_0000_0000]), base=0x7E80_0000_1000, kind="global", name="table_pointer")
    result = passes(made.array(keys).integer(256), folder)
    assert result.relocated == [0, 1]


def test_a_variable_that_no_symbol_names_outside(code: bytes, folder: Path) -> None:
    keys = np.random.default_rng(5).integers(0, 32, 100).astype(np.int32)
    before = np.arange(32, dtype=np.int32)
    after = (before + np.bincount(keys, minlength=32)).astype(np.int32)
    made = launch("count_inside", code, grid=(2, 1, 1))
    name = next(each.name for each in CodeObject(code).static_variables() if "unnamed_outside" in each.name)
    made.region(before, after, base=0x7E80_0000_0000, kind="global", name=name)
    passes(made.array(keys).integer(100), folder)


def test_constants(code: bytes, folder: Path) -> None:
    factors, x = np.array([2, 3, 5, 7], dtype=np.float32), floats(256)
    made = launch("by_factors", code, grid=(4, 1, 1))
    made.region(factors, base=0x7E80_0000_0000, kind="global", name="factors")
    passes(made.array(x, x * np.tile(factors, 64)).integer(256), folder)


def test_static_and_dynamic_group_memory(code: bytes, folder: Path) -> None:
    x = floats(512)
    made = launch("reverse_static", code, grid=(8, 1, 1), group_bytes=256)
    passes(made.array(x, x.reshape(8, 64)[:, ::-1].reshape(-1)), folder)
    made = launch(
        "reverse_dynamic", code, grid=(4, 1, 1), block=(128, 1, 1), group_bytes=512, shared_bytes=512
    )
    passes(made.array(x, x.reshape(4, 128)[:, ::-1].reshape(-1)), folder)


def test_too_much_group_memory_is_refused_by_number(code: bytes, folder: Path) -> None:
    made = launch("reverse_dynamic", code, grid=(4, 1, 1), group_bytes=1 << 20, shared_bytes=1 << 20)
    with pytest.raises(BackendUnavailable, match="needs 1,048,576 bytes of LDS, this device has 65,536"):
        run(made.array(floats(256)).seal(folder))


def test_partial_workgroups_and_rebuilt_hidden_arguments(code: bytes, folder: Path) -> None:
    """150 work-items in groups of 64: the third has 22, and no work-item of it is run that was not there."""
    x = np.full(4 * 192, -1, dtype=np.int32)
    after = x.reshape(192, 4).copy()
    for i in range(150):
        # HIP counts whole blocks and the partial one alike; a partial block says how many it has.
        after[i] = (64 if i < 128 else 22, 3, i // 64, i % 64)
    made = launch("describe", code, grid=(3, 1, 1), work_items=(150, 1, 1))
    passes(made.array(x, after.reshape(-1)), folder)


_HIDDEN = """
extern "C" __global__ void describe(int* out) {
  int i = (blockIdx.z * 2 + blockIdx.y) * 64 + threadIdx.y * 32 + threadIdx.x;
  out[8 * i + 0] = gridDim.x;
  out[8 * i + 1] = gridDim.y;
  out[8 * i + 2] = gridDim.z;
  out[8 * i + 3] = blockDim.x;
  out[8 * i + 4] = blockDim.y;
  out[8 * i + 5] = blockDim.z;
  out[8 * i + 6] = blockIdx.y + 10 * blockIdx.z;
  out[8 * i + 7] = threadIdx.x + 100 * threadIdx.y;
}
"""


@first_of("arch", ["gfx90a", "gfx942"])
def test_hidden_arguments_are_those_of_the_replay(folder: Path, arch: str) -> None:
    """A newer compiler has kernels read their grid from hidden arguments: the captured bytes are stale."""
    code = launches.by_hiprtc(_HIDDEN, arch, EMULATOR, folder)
    kinds = {slot.value_kind for slot in kernel_metadata(code, "describe").hidden}
    assert {"hidden_block_count_x", "hidden_group_size_y", "hidden_remainder_x"} <= kinds
    index = np.arange(6 * 64)
    block, thread = index // 64, index % 64
    after = np.stack([
        np.full(384, 1), np.full(384, 2), np.full(384, 3), np.full(384, 32), np.full(384, 2),
        np.full(384, 1), block % 2 + 10 * (block // 2), thread % 32 + 100 * (thread // 32),
    ], axis=1).astype(np.int32)  # fmt: skip
    made = launch("describe", code, grid=(1, 2, 3), block=(32, 2, 1), arch=arch, dimensions=3)
    passes(made.array(np.full((384, 8), -1, np.int32), after), folder)


def test_scratch(code: bytes, folder: Path) -> None:
    which = np.random.default_rng(4).integers(0, 96, 200).astype(np.int32)
    local = np.zeros(96, dtype=np.int32)
    k = np.arange(96)
    local[(k * 5 + 200) % 96] = k * k
    made = launch("through_scratch", code, grid=(4, 1, 1))
    assert kernel_metadata(code, "through_scratch").private_segment_fixed_size > 0
    passes(made.array(which).array(np.zeros(200, np.int32), local[which]).integer(200), folder)


def test_host_and_managed_memory(code: bytes, folder: Path) -> None:
    n = 500
    a, b = floats(n), floats(n, 2)
    made = launch("vector_add", code, grid=(8, 1, 1))
    made.array(a, kind="host", device=-1).array(b, kind="managed")
    made.array(np.zeros(n, dtype=np.float32), a + b, kind="host", device=-1)
    result = passes(made.integer(n), folder)
    assert result.relocated == []
    assert any("managed memory and is plain device memory" in note for note in result.notes)


def test_a_kernel_that_prints_is_answered_and_its_text_compared(code: bytes, folder: Path) -> None:
    path = (
        launch("with_printf", code).array(np.zeros(64, np.int32), np.arange(64, dtype=np.int32)).seal(folder)
    )
    same, other = folder / "same.hsaco", folder / "other.hsaco"
    same.write_bytes(code)
    other.write_bytes(code.replace(b"lane\0", b"LANE\0"))
    result = run(path, candidate=same)
    told = [each for each in result.verdict.notes if "print" in each]
    assert result.passed and told == ["it prints the same as the captured kernel in a replay (4 lines)"], (
        result.verdict
    )
    lines = [f"lane {i} of {1 << 40:5}: {i / 3:<8.3f}|{-7:4}|x%" for i in (16, 32, 48)]
    [reason] = run(path, candidate=other).verdict.reasons
    assert any(f"prints '{line}' 0 times, the captured kernel 1 times" in reason for line in lines), reason


def test_a_kernel_that_asks_for_memory_gets_it(code: bytes, folder: Path) -> None:
    made = launch("with_malloc", code).array(np.zeros(64, np.int32), np.arange(63, -1, -1, dtype=np.int32))
    passes(made, folder)


def test_a_grid_waits_for_itself_by_its_counters(code: bytes, folder: Path) -> None:
    groups = 7
    first = np.arange(1, groups + 1)
    wanted = np.concatenate([first, np.full(groups, first.sum() + 64 * groups + 1)]).astype(np.int32)
    made = launch("across_the_grid", code, grid=(groups, 1, 1))
    passes(made.array(np.zeros(2 * groups, np.int32), wanted), folder)


# --- candidates ------------------------------------------------------------------------------------------


@first_of(
    ("flag", "passed", "said"),
    [
        ("-DNO_OP", False, "never written"),
        ("-DMISTAKEN", False, "4 bytes"),
        (
            "-DOTHER_ARGUMENTS",
            False,
            "takes parameters of 8, 8, 4 bytes, the captured launch passes 8, 8, 8, 4",
        ),
    ],
)
def test_candidates(code: bytes, folder: Path, flag: str, passed: bool, said: str) -> None:
    file = folder / f"candidate{flag}.hsaco"
    file.write_bytes(launches.code_object(HERE / "replay_candidates.hip", folder, flag))
    result = run(add(code).seal(folder), candidate=file)
    assert result.passed == passed
    assert said in " ".join(result.verdict.reasons), result.verdict.reasons


def test_the_same_kernel_as_a_candidate_passes(code: bytes, folder: Path) -> None:
    file = folder / "same.co"
    file.write_bytes(code)
    assert run(add(code).seal(folder), candidate=file).passed


def test_a_file_that_is_no_code_object(code: bytes, folder: Path) -> None:
    file = folder / "text.hsaco"
    file.write_text("no code object")
    result = run(add(code).seal(folder), candidate=file)
    assert not result.passed and "not a code object" in result.verdict.summary


# --- what goes wrong ---------------------------------------------------------------------------------------


def test_a_fault_is_named_with_its_address(code: bytes, folder: Path) -> None:
    made = launch("read_at", code)
    where = made.region(np.array([0x7E70_0000_1000], dtype=np.int64))
    made.pointer(where, "int64", 1).array(np.zeros(64, dtype=np.int32))
    made.oracle = schema.Oracle(kind="fault", error="memory fault")
    result = run(made.seal(folder))
    assert result.passed, result.verdict.reasons
    assert "GPU memory fault at 0x7e7000001000" in result.verdict.summary


@pytest.mark.long
def test_a_hang_is_a_timeout(code: bytes, folder: Path) -> None:
    made = launch("until_released", code, block=(1, 1, 1))
    made.array(np.zeros(1, dtype=np.int32)).array(np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.int32))
    result = run(made.seal(folder), timeout_s=1.0)
    assert result.verdict.answer is Answer.UNDECIDED
    assert "the kernel did not end within 1 s" in result.verdict.summary


def test_a_timeout_is_reproduced(code: bytes, folder: Path) -> None:
    made = launch("until_released", code, block=(1, 1, 1))
    made.array(np.zeros(1, dtype=np.int32)).array(np.zeros(1, dtype=np.int32))
    made.oracle = schema.Oracle(kind="timeout")
    result = run(made.seal(folder), timeout_s=0.5)
    assert result.passed and "timeout reproduced" in result.verdict.summary


@first_of("mib", [64, 128])
def test_too_little_memory_is_named(
    code: bytes, folder: Path, monkeypatch: pytest.MonkeyPatch, mib: int
) -> None:
    """One region that is more than all of the device; one that is more than what is left."""
    monkeypatch.setenv("AMD_GPU_MEMORY", str(mib << 20))
    made = launch("vector_add", code)
    made.array(np.zeros(96 << 18, dtype=np.float32)).array(np.zeros(64 << 18, dtype=np.float32))  # 96, 64 MiB
    made.array(np.zeros(64, np.float32), floats(64)).integer(64)
    with pytest.raises(BackendUnavailable, match=r"no room for 167,772,416 bytes of captured memory"):
        run(made.seal(folder))


def test_another_architecture_is_refused_by_name(code: bytes, folder: Path, tmp_path: Path) -> None:
    made = add(code, arch="gfx942")
    path = made.seal(folder)
    (tmp_path / "run").write_text(f'#!/bin/sh\nAMD_GPU_GFX=gfx90a exec {EMULATOR}/run "$@"\n')
    (tmp_path / "run").chmod(0o755)
    with pytest.raises(
        BackendUnavailable, match="for gfx942 and AMD GPU 0 here is gfx90a.*--emulator FOLDER"
    ):
        run(path, emulator=tmp_path)


# --- addresses ---------------------------------------------------------------------------------------------


def test_a_taken_address_is_relocated_and_said(code: bytes, folder: Path, tmp_path: Path) -> None:
    """Something that lies there in every process: pointers follow, in arguments and in memory."""
    made = launch("sum_list", code, block=(1, 1, 1))
    library = occupier(tmp_path, BASE)
    made.region(np.array([BASE + SPACING, 5], dtype=np.int64))
    made.region(np.array([0, 8], dtype=np.int64))
    out = made.region(np.zeros(1, dtype=np.int64), np.array([13]))
    made.pointer(0, "int64", 2).pointer(out, "int64", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        result = run(made.seal(folder))
    assert result.passed, result.verdict.reasons
    assert result.relocated == [0]
    assert any(
        note.startswith("relocated: the captured address of region 0 is in use here") for note in result.notes
    )


def occupier(folder: Path, address: int) -> Path:
    """A library that takes a page of address space as soon as it is loaded."""
    source, library = folder / "occupier.c", folder / "liboccupier.so"
    source.write_text(
        "#include <sys/mman.h>\n__attribute__((constructor)) static void take(void) {\n"
        f"  mmap((void*){address:#x}, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);\n}}\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    return library


@pytest.mark.long
def test_ten_fresh_processes_honour_all_addresses(code: bytes, folder: Path) -> None:
    with (
        Reproducer.open(add(code).seal(folder)) as reproducer,
        Engine(reproducer, emulator=EMULATOR) as engine,
    ):
        choice, job = engine.choice, engine.connection.job
        environment = amd_devices.environment(os.environ, choice.emulator)
        for _ in range(10):
            worker = Worker(choice.python, job.path, job.log, environment, False, choice.prefix)
            assert (worker.refused, worker.taken) == (None, [])
            os.close(worker._requests)
            worker._requests = -1
            assert worker._process.wait(60) == 0  # ROCr would crash at its end over what is still mapped
            worker.close()
        engine.connection.start()
        engine.restore()
        assert engine.launch(ORIGINAL).ok
        assert engine.differing("post") == []


# --- many replays ------------------------------------------------------------------------------------------


def test_repeated_replays_are_equal(code: bytes, folder: Path) -> None:
    x = floats(300)
    made = launch("scale_in_place", code, grid=(5, 1, 1)).array(x, x * np.float32(3))
    path = made.single(3.0).integer(300).seal(folder)
    result = run(path, timed_runs=25)
    assert result.passed and result.timing is not None
    assert (result.timing.runs, result.timing.clock) == (25, "the emulator's clock")
    result = run(path, until_fail=20)
    assert (result.passed, result.runs, result.different) == (True, 20, 0)


def test_a_launch_without_a_layout_takes_the_code_objects_own(code: bytes, folder: Path) -> None:
    passes(add(code, with_layout=False, with_views=False), folder)


def test_parameters_shorter_than_the_kernel_takes(code: bytes, folder: Path) -> None:
    made = launch("vector_add", code, with_layout=False, hidden=b"")
    made.array(floats(64)).array(floats(64))
    with pytest.raises(BackendUnavailable, match="takes 28 bytes of arguments, 16 were captured"):
        run(made.seal(folder))


def test_stale_words_in_hidden_arguments_are_not_followed(code: bytes, folder: Path) -> None:
    made = add(code, hidden=struct.pack("<Q", BASE) * 32)
    passes(made, folder)
