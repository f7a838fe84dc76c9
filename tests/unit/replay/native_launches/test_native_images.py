"""Images of native launches, the attributes that they are launched with, and what is refused."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import schema
from kerncap.replay import candidates

from .. import native
from ..native import Native, edited, run


def test_an_image_without_a_captured_variable_is_refused(tmp_path: Path) -> None:
    launch = Native("_Z4tickv")
    launch.region(np.array([40], np.int32), np.array([42], np.int32), kind="global", name="total")
    launch.code = {"ptx": native.ptx("_Z4tickv", [])}
    with pytest.raises(BackendUnavailable, match="no variable total"):
        run(launch.seal(tmp_path))


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


def test_a_compiler_that_is_missing_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: Any) -> Path:
        raise BackendUnavailable("nvcc", "not installed")

    monkeypatch.setattr(candidates, "compile_candidate", build)
    source = tmp_path / "k.cu"
    source.write_text("")
    with pytest.raises(BackendUnavailable, match="nvcc is not available"):
        run(native.add().seal(tmp_path), candidate=source)


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


def test_neither_torch_nor_triton_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocker = tmp_path / "blocked"
    blocker.mkdir()
    for name in ("torch", "triton"):
        (blocker / f"{name}.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(blocker))
    assert run(native.add().seal(tmp_path), python=sys.executable).verdict.exact
