"""Pointers in memory, structs of pointers, module variables: found, kept valid, restored."""

from __future__ import annotations

import pytest

from tests.integration.cuda.conftest import Bench, opened
from tests.parameters import first_of


@pytest.mark.parametrize(
    ("case", "kernel", "regions"),
    [
        pytest.param("rows", "sum_of_rows", 7, marks=pytest.mark.long),
        ("list", "sum_of_list", 7),
        pytest.param("structs", "add_batch", 3, marks=pytest.mark.long),
        pytest.param("through_global", "through_global", 3, marks=pytest.mark.long),
    ],
)
@first_of("way", ["device", "host"])
def test_what_pointers_lead_to_comes_along(
    bench: Bench, case: str, kernel: str, regions: int, way: str
) -> None:
    # Without our own kernels on the device the scan goes over the host, and finds the same.
    extra = {"KERNCAP_RIG_NO_HELPERS": "1"} if way == "host" else {}
    captured = bench.capture("-k", kernel, client=("pointers", case), extra=extra)
    manifest = captured.manifest()
    assert len(manifest.regions) == regions, [(r.reason, r.size) for r in manifest.regions]
    assert all(region.reason for region in manifest.regions)
    bench.passes(captured.path, extra=extra)


def test_constants_and_variables_of_the_module(bench: Bench) -> None:
    captured = bench.capture("-k", "scale_by_constant", "--launch", "1", client=("pointers", "globals"))
    manifest = captured.manifest()
    by_name = {region.name: index for index, region in enumerate(manifest.regions) if region.kind == "global"}
    assert set(by_name) == {"factor", "calls"}
    with opened(captured.path) as reproducer:
        assert reproducer.read("pre", by_name["calls"], 0, 4) == (1).to_bytes(4, "little")
        assert reproducer.read("post", by_name["calls"], 0, 4) == (2).to_bytes(4, "little")
    bench.passes(captured.path)


@pytest.mark.long
def test_no_arguments_at_all(bench: Bench) -> None:
    captured = bench.capture("-k", "tick", "--launch", "2", client=("values", "no_arguments"))
    manifest = captured.manifest()
    total = next(i for i, region in enumerate(manifest.regions) if region.name == "total")
    with opened(captured.path) as reproducer:
        assert reproducer.read("pre", total, 0, 4) == (17).to_bytes(4, "little")
        assert reproducer.read("post", total, 0, 4) == (22).to_bytes(4, "little")
    bench.passes(captured.path)


@pytest.mark.long
def test_one_name_in_two_modules(bench: Bench) -> None:
    captured = bench.capture("-k", "tick", "--launch", "0:3", client=("pointers", "two_modules"), expect=3)
    seen = []
    for path in captured.paths:
        manifest = captured.manifest(path)
        own = next(
            i
            for i, r in enumerate(manifest.regions)
            if r.name == "total" and r.kind == "global" and r.module == 0
        )
        with opened(path) as reproducer:
            before, after = (reproducer.read(state, own, 0, 4) for state in ("pre", "post"))
        seen.append((int.from_bytes(before, "little"), int.from_bytes(after, "little")))
        bench.passes(path)
    assert sorted(seen) == [(100, 101), (200, 210), (210, 220)]
