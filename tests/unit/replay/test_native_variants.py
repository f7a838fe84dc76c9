"""Variants of a native launch on the stand-in driver: what they are, times in turns, what is freed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.replay.engine import CANDIDATE, CAPTURED, ORIGINAL, Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.outcome import CandidateError, Config
from kerncap.replay.verdict import judge

from . import native, rig
from .native import Native

_WRONG = 1  # the edition of the stand-in's kernel that does nothing


@pytest.fixture(scope="module")
def launch() -> Native:
    return native.add()


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory, launch: Native) -> Iterator[Engine]:
    with pytest.MonkeyPatch.context() as patch:
        rig.use(patch, rig.kernels(tmp_path_factory.mktemp("kernels")))
        path = launch.seal(tmp_path_factory.mktemp("native"))
        with Reproducer.open(path) as reproducer, Engine(reproducer) as found:
            yield found


def image(launch: Native, folder: Path, edition: int | None = None) -> Path:
    path = folder / "candidate.ptx"
    path.write_bytes(launch.image(edition=edition))
    return path


def test_what_an_image_is_compiled_to(engine: Engine) -> None:
    found = engine.compiled(ORIGINAL)
    assert (found.grid, found.block) == ((4, 1, 1), (256, 1, 1))
    # As the stand-in says of every function: 32 registers, and as many blocks as 2048 threads make.
    assert (found.registers, found.spilled_bytes, found.shared_bytes, found.max_threads) == (32, 0, 0, 1024)
    assert (found.num_warps, found.blocks_per_sm, found.occupancy) == (8, 8, 1.0)
    assert Path(found.stages["ptx"]).read_bytes().startswith(b".version")


def test_times_of_images_come_in_turns(engine: Engine, launch: Native, tmp_path: Path) -> None:
    measured = measure(engine)
    engine.load_captured()
    engine.load_candidate(image(launch, tmp_path))
    for ranges in (None, [(2, 0, 4000)]):
        times = engine.interleaved([ORIGINAL, CAPTURED, CANDIDATE], 4, [2], ranges)
        assert [len(found) for found in times.values()] == [4, 4, 4]
    assert judge(engine, measured, CAPTURED).exact and judge(engine, measured, CANDIDATE).passed
    engine.unload(CAPTURED)
    assert not engine.is_loaded(CAPTURED)


def test_a_candidate_takes_the_place_of_the_one_before(
    engine: Engine, launch: Native, tmp_path: Path
) -> None:
    measured = measure(engine)
    for edition, passes in ((_WRONG, False), (None, True), (_WRONG, False)):
        engine.load_candidate(image(launch, tmp_path, edition))
        assert judge(engine, measured, CANDIDATE).passed == passes
    assert judge(engine, measured, ORIGINAL).exact


def test_a_refused_candidate_leaves_none_behind(engine: Engine, launch: Native, tmp_path: Path) -> None:
    engine.load_candidate(image(launch, tmp_path))
    path = tmp_path / "other.ptx"
    path.write_bytes(launch.image(sizes=[8, 8, 4]))
    with pytest.raises(CandidateError, match="takes parameters of 8, 8, 4 bytes"):
        engine.load_candidate(path)
    assert not engine.is_loaded(CANDIDATE) and engine.is_loaded(ORIGINAL)


def test_what_a_native_engine_has_not(engine: Engine) -> None:
    with pytest.raises(UsageError, match="needs a Triton kernel's source"):
        engine.load_configured("wide", Config({"BLOCK": 8}))
    with pytest.raises(BackendUnavailable, match="source was not found at capture"):
        engine.load_rebuilt()
    with pytest.raises(UsageError, match="original stays"):
        engine.unload(ORIGINAL)
