"""Job folders: what a killed replay leaves behind goes, what is in use stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap import scratch
from kerncap.format import Reproducer, schema
from kerncap.replay import staging, trust
from kerncap.replay.worker.common.private_map import private_state
from tests.golden.contents import noise
from tests.unit.format import small

from . import build


def test_abandoned_folders_are_swept_and_used_ones_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setattr(staging, "_place", lambda _: place)
    with Reproducer.open(build.add().seal(tmp_path)) as reproducer:
        used = staging.stage(reproducer, "interpreter", "host", -1)
        abandoned = place / "kerncap-job-0123456789abcdef"
        (abandoned / "regions").mkdir(parents=True)
        scratch._swept.clear()
        second = staging.stage(reproducer, "interpreter", "host", -1)
        assert used.path.is_file() and not abandoned.exists()
        used.close()
        second.close()
    assert not list(place.iterdir())


def test_unchanged_regions_have_no_post_file(tmp_path: Path) -> None:
    with Reproducer.open(build.add().seal(tmp_path)) as reproducer:
        job = staging.stage(reproducer, "interpreter", "host", -1)
        job.add_memory()
        assert [region["post"] for region in job.content["regions"]] == [[], [], ["regions/2.post"]]
        assert (job.folder / "regions/2.post").read_bytes() == reproducer.read("post", 2, 0, 4000)
        job.close()


def test_a_large_region_is_in_several_files_and_after_the_launch_only_where_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "_LARGE_BYTES", 1)
    chunk = schema.CHUNK_BYTES
    pre = (
        noise(chunk, 1) * 8 + bytes(40 * chunk) + b"end"
    )  # two files: whole units of 16 chunks, two at least
    post, most = bytearray(pre), bytearray(pre)
    for number in (1, 2, 31, 32, 48):
        post[number * chunk] ^= 1
    for number in range(0, 48, 2):
        most[number * chunk] ^= 1
    with Reproducer.open(small.write(tmp_path, [(pre, bytes(post)), (pre, bytes(most))])) as reproducer:
        monkeypatch.setattr(trust, "check", lambda _: None)
        job = staging.stage(reproducer, "native", "cuda", 0)
        job.add_memory()
        regions = job.content["regions"]
        assert len(regions[0]["pre"]) == 16
        sizes = [(job.folder / name).stat().st_size for name in regions[0]["pre"]]
        assert sizes == [32 * chunk, 16 * chunk + 3, *[0] * 14]
        ranges = [[chunk, 3 * chunk], [31 * chunk, 33 * chunk], [48 * chunk, len(pre)]]
        assert [region["changed"] for region in regions] == [ranges, [[0, len(pre)]]]
        for region, after in zip(regions, (post, most), strict=True):
            assert bytes(private_state(job.folder, region, "pre")) == pre
            assert bytes(private_state(job.folder, region, "post")) == after
        written = sum((job.folder / name).stat().st_blocks * 512 for name in regions[0]["post"])
        assert written <= 6 * chunk, "what did not change is in no file of its own"
        job.close()


@pytest.mark.parametrize("is_read", [True, False])
def test_files_that_nobody_reads_lose_their_pages_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    monkeypatch.setattr(staging, "_LARGE_BYTES", 1)
    pre = noise(1000, 1)
    with Reproducer.open(small.write(tmp_path, [(pre, pre)])) as reproducer:
        monkeypatch.setattr(trust, "check", lambda _: None)
        job = staging.stage(reproducer, "native", "cuda", 0)
        job.add_memory()
        with (job.folder / job.content["regions"][0]["pre"][0]).open("rb") as mapped:
            job.give_up_memory(is_read)
            assert mapped.read() == (pre if is_read else b"")
        assert not list((job.folder / "regions").iterdir())
        job.close()
