"""Job folders: what a killed replay leaves behind goes, what is in use stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap import scratch
from kerncap.format import Reproducer
from kerncap.replay import staging

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
        assert [region["post"] for region in job.content["regions"]] == [None, None, "regions/2.post"]
        assert (job.folder / "regions/2.post").read_bytes() == reproducer.read("post", 2, 0, 4000)
        job.close()
