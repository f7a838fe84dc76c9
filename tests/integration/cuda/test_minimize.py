"""`kerncap minimize` of a native launch: replays under poison tell what its pointers really lead to."""

from __future__ import annotations

from kerncap.format import Reproducer
from tests.integration.cuda.conftest import Bench


def test_one_per_cent_of_all_memory_stays_and_verifies(bench: Bench) -> None:
    captured = bench.capture("-k", "sum_of_rows", "--memory", "all", client=("pointers", "rows"))
    done = bench("minimize", "--json", "-o", "small", captured.path, timeout=300)
    assert done.status == 0, done.stderr
    result = done.document
    assert result["ratio"] <= 0.03 and result["regions_left_out"] >= 1 and "poison" in result["how"]
    path = bench.kerncap.folder / result["path"]
    with Reproducer.open(path) as small, Reproducer.open(captured.path) as whole:
        assert sum(r.size for r in small.manifest.regions) < sum(r.size for r in whole.manifest.regions) // 10
        assert small.manifest.notes[-1].startswith("Minimized from")
    bench.passes(path)
