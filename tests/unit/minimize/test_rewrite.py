"""The rewritten reproducer: zeros where nothing is needed, the application's bytes where it wrote."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from kerncap.api.minimize.rewritten_reproducer import rewrite
from kerncap.format import Reproducer, schema
from kerncap.format.schema import CHUNK_BYTES
from kerncap.replay.worker.common import bitmap
from tests.unit.format.small import manifest, write

SIZE = CHUNK_BYTES + 1000
RNG = np.random.default_rng(0)
BEFORE = RNG.integers(1, 256, SIZE, dtype=np.uint8).tobytes()
AFTER = bytearray(BEFORE)
AFTER[500:600] = bytes(100)
AFTER[CHUNK_BYTES + 10 : CHUNK_BYTES + 20] = b"0123456789"


def rewritten(tmp_path: Path, free: dict, written: dict, drop: bool = False) -> tuple[Path, int]:  # type: ignore[type-arg]
    views = (schema.View(region=0, offset=0, dtype="uint8", itemsize=1, shape=(SIZE,), strides=(1,)),)
    states = [(BEFORE, bytes(AFTER)), (b"\7" * 5000, b"\7" * 5000), (b"\1" * 300, b"\1" * 300)]
    shape = write(tmp_path / "shape", states)
    with Reproducer.open(shape) as opened:
        extra = msgspec.structs.replace(
            manifest(opened.manifest.memory, [len(b) for b, _ in states]), views=views
        )
    folder = write(tmp_path / "old", states, extra)
    with Reproducer.open(folder) as reproducer:
        return rewrite(reproducer, tmp_path / "new", free, written, "a note", drop)


def span(*places: tuple[int, int], size: int = SIZE) -> bitmap.Bits:
    return bitmap.of_ranges(size, places)


def test_free_bytes_are_zero_and_written_ones_are_the_applications(tmp_path: Path) -> None:
    # 500 to 600 was changed, 700 to 800 written with what it had, the rest of the first chunk is idle.
    folder, gone = rewritten(tmp_path, {0: span((0, CHUNK_BYTES))}, {0: span((500, 600), (700, 800))})
    with Reproducer.open(folder) as reproducer:
        reproducer.verify()
        before, after = reproducer.read("pre", 0, 0, SIZE), reproducer.read("post", 0, 0, SIZE)
        assert gone == 0 and reproducer.manifest.notes[-1] == "a note"
    assert before[:CHUNK_BYTES] == bytes(CHUNK_BYTES) and before[CHUNK_BYTES:] == BEFORE[CHUNK_BYTES:]
    assert after[700:800] == BEFORE[700:800] and after[500:600] == bytes(100)
    assert after[:500] == bytes(500) and after[CHUNK_BYTES:] == bytes(AFTER[CHUNK_BYTES:])


def test_what_changed_is_written_though_no_mask_says_so(tmp_path: Path) -> None:
    folder, _ = rewritten(tmp_path, {0: span((0, SIZE))}, {})
    with Reproducer.open(folder) as reproducer:
        assert not any(reproducer.read("pre", 0, 0, SIZE))
        after = reproducer.read("post", 0, CHUNK_BYTES, 30)
    assert after[10:20] == b"0123456789" and not any(after[:10] + after[20:])


def test_regions_that_nobody_needs_go(tmp_path: Path) -> None:
    free = {0: span((0, 10)), 1: span((0, 5000), size=5000), 2: span((0, 299), size=300)}
    folder, gone = rewritten(tmp_path, free, {}, drop=True)
    with Reproducer.open(folder) as reproducer:
        assert gone == 1 and [region.size for region in reproducer.manifest.regions] == [SIZE, 300]
        assert reproducer.read("pre", 1, 0, 300) == bytes(299) + b"\1"
        assert reproducer.manifest.views[0].region == 0


def test_a_viewed_region_stays(tmp_path: Path) -> None:
    _, gone = rewritten(tmp_path, {0: span((0, SIZE))}, {}, drop=True)
    assert gone == 0


def test_nothing_free_is_the_same_memory(tmp_path: Path) -> None:
    folder, _ = rewritten(tmp_path, {}, {0: span((700, 800))})
    with Reproducer.open(folder) as reproducer:
        assert reproducer.read("pre", 0, 0, SIZE) == BEFORE
        assert reproducer.read("post", 0, 0, SIZE) == bytes(AFTER)
