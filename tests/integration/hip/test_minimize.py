"""`kerncap minimize` of a HIP launch: replays under poison on the emulated GPU tell what it reads."""

from __future__ import annotations

import pytest

from kerncap.format import Reproducer

from .conftest import Bench, Programs


@pytest.mark.long
def test_one_per_cent_stays_and_verifies(bench: Bench, programs: Programs) -> None:
    run = bench.capture("-k", "^sum_of_pages$", program=(programs("cases"), "sparse"))
    done = bench("minimize", "--json", "-o", "small", "--emulator", bench.rig.folder, run.path, timeout=300)
    assert done.status == 0, done.stderr
    result = done.document
    assert result["complete"] and result["ratio"] <= 0.03 and "poison" in result["how"], result
    path = bench.kerncap.folder / result["path"]
    with Reproducer.open(path) as small:
        view = next(view for view in small.manifest.views if view.name == "arg0")
        words = small.read("pre", view.region, view.offset, 4 << 20)
    kept = [page for page in range(1024) if any(words[page * 4096 : page * 4096 + 4096])]
    assert kept == sorted((i * 379 + 17) % 1024 for i in range(10))
    assert bench.judge(path)["result"] == "pass"
