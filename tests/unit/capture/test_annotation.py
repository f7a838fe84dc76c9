"""The hook's words and the shim's memory become one launch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture import manifest, payloads
from kerncap.capture.annotation import AnnotatedView, join
from kerncap.errors import CaptureError

BASE = 0x7F00_0000_0000


def native(**changes: Any) -> payloads.LaunchRecord:
    """LAUNCH of a shim: two allocations next to each other, and a module's global."""
    payload = {
        "launch": 5, "mode": "native", "kernel": {"name": "add_4", "qualified_name": "add_4"}, "ordinal": 0,
        "grid": [6, 1, 1], "block": [128, 1, 1], "device": {"kind": "cuda", "name": "GPU", "ordinal": 1},
        "regions": [
            {"base": BASE + 4096, "size": 4096, "kind": "device", "device": 1},
            {"base": BASE, "size": 4096, "kind": "device", "device": 1},
            {"base": BASE + (1 << 30), "size": 16, "kind": "global", "name": "counter", "device": 1},
        ],
        "pre": {"file": "5.pre"}, "pre_offsets": [0, 4096, 8192],
        "closure": {"mode": "reachable", "consistency": "gated", "included_bytes": 8208},
        "parameters": {"layout": [[0, 8]], "bytes": "00" * 8}, "condition": "nonfinite", "time_ns": 77,
        "annotation": "42-0/9",
    }  # fmt: skip
    return payloads.convert({**payload, **changes}, payloads.LaunchRecord, "LAUNCH")


def view(address: int, shape: list[int], strides: list[int], name: str = "x") -> dict[str, Any]:
    return {
        "address": address, "dtype": "float32", "itemsize": 4, "shape": shape, "strides": strides,
        "name": name,
    }  # fmt: skip


def before(*views: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """ANNOTATION's ``launch``."""
    arguments = [
        {"name": one["name"], "role": "runtime", "value": {"kind": "tensor", "view": number}}
        for number, one in enumerate(views)
    ]
    return {
        "mode": "jit", "ordinal": 3, "grid": [3, 1, 1], "grid_source": None, "arguments": arguments,
        "kernel": {"name": "add", "qualified_name": "app.add", "module": "app", "file": "/a.py", "line": 3},
        "options": {"num_warps": {"kind": "int", "value": "4"}}, "autotune": None, "source": "source-0.json",
        "python_stack": [["/a.py", 9, "<module>"]], "time_ns": 1, "views": list(views), **changes,
    }  # fmt: skip


COMPLETE = payloads.convert(
    {"launch": 5, "status": "complete", "post": {"file": "5.post"}, "chunks": [[0, 0]], "duration_ns": 8},
    payloads.CompleteRecord,
    "COMPLETE",
)
AFTER = {
    "code": [{"stage": "ttir", "file": "code/add-1.ttir"}],
    "compiled": {"shared": {"kind": "int", "value": "0"}},
    "signature": {"x": "*fp32"},
    "divisibility": {"x": 16},
}


def test_the_hooks_words_win_and_memory_is_the_shims() -> None:
    launch, complete = join(native(), COMPLETE, before(view(BASE + 4096, [8], [1])), AFTER)
    assert (launch.mode, launch.ordinal, launch.grid, launch.source) == ("jit", 3, (3, 1, 1), "source-0.json")
    assert (launch.kernel.name, launch.kernel.mangled, launch.kernel.line) == ("add", "add_4", 3)
    unnamed, _ = join(native(kernel={"name": "add", "qualified_name": "add"}), None, before(), None)
    assert unnamed.kernel.mangled is None
    assert launch.arguments[0].name == "x" and "num_warps" in launch.options
    assert launch.python_stack == (("/a.py", 9, "<module>"),)
    shims = native()
    for name in ("launch", "block", "device", "regions", "pre", "pre_offsets", "closure", "parameters"):
        assert getattr(launch, name) == getattr(shims, name)
    assert (launch.condition, launch.time_ns) == ("nonfinite", 77)
    assert complete is not None and complete.code[0].file == "code/add-1.ttir"
    assert (complete.signature, complete.divisibility) == ({"x": "*fp32"}, {"x": 16})
    assert (complete.post, complete.chunks, complete.duration_ns) == (
        COMPLETE.post, COMPLETE.chunks, COMPLETE.duration_ns
    )  # fmt: skip
    manifest.check_indices(launch)


def test_a_launch_that_never_ended_has_what_was_written_before_it() -> None:
    launch, complete = join(native(), None, before(view(BASE, [8], [1])), None)
    assert launch.kernel.name == "add" and complete is None
    launch, complete = join(native(), COMPLETE, before(view(BASE, [8], [1])), None)
    assert launch.kernel.name == "add" and complete == COMPLETE


def test_views_find_their_regions_by_address() -> None:
    launch, _ = join(
        native(),
        None,
        before(
            view(BASE + 8, [10, 100], [100, 1]),
            view(BASE + 4096, [1024], [1]),
            view(BASE + (1 << 30) + 12, [], []),
            view(BASE + 4000, [24], [1]),
            view(BASE + 400, [11], [-10]),
        ),
        None,
    )
    assert [(one.region, one.offset) for one in launch.views] == [
        (1, 8),
        (0, 0),
        (2, 12),
        (1, 4000),
        (1, 400),
    ]
    assert launch.views[0].strides == (100, 1) and launch.views[0].itemsize == 4


@pytest.mark.parametrize(
    ("storage", "in_region"),
    [
        ([BASE + 4096, 512], (0, 512)),
        ([BASE + 4096, 4096], (0, 4096)),
        ([BASE + 4096, 4097], None),  # leaves the region
        ([BASE + 4000, 200], None),  # begins before it
        ([BASE + 4096, 28], None),  # a resized storage: the view is more than it
        (None, None),
    ],
)
def test_a_storage_gets_its_place_in_the_region(storage: Any, in_region: tuple[int, int] | None) -> None:
    window = {**view(BASE + 4096, [8], [1]), "storage": storage}
    launch, _ = join(native(), None, before(window), None)
    assert launch.views[0].storage == in_region
    assert (launch.views[0].region, launch.views[0].offset) == (0, 0)


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (view(BASE - 4, [1], [1]), r"argument x: its memory at 0x7effffff"),
        (view(BASE + 8192, [1], [1]), r"argument x: its memory at .* is in none of the 3 regions"),
        (view(BASE + 396, [11], [-10]), r"argument x: its memory at"),
        (
            view(BASE + 4092, [2], [1]),
            r"argument x: float32 \[2\] with strides \[1\] takes .* beyond its region",
        ),
        (view(BASE, [2, 2], [1]), r"argument x: 2 extents, 1 strides"),
    ],
)
def test_a_view_outside_the_captured_memory_is_refused_by_name(window: dict[str, Any], reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        join(native(), None, before(window), None)


def test_a_view_of_no_elements_needs_no_memory() -> None:
    launch, _ = join(native(), None, before(view(0, [0, 4], [4, 1]), view(BASE + 16, [0], [1])), None)
    assert [(one.region, one.offset) for one in launch.views] == [(3, 0), (1, 16)]
    assert launch.regions[3].size == 0 and len(launch.pre_offsets) == 4
    manifest.check_indices(launch)
    launch, _ = join(native(pre=None, pre_offsets=[], regions=[]), None, before(view(0, [0], [1])), None)
    assert len(launch.regions) == 1 and not launch.pre_offsets
    manifest.check_indices(launch)


@pytest.mark.parametrize("changes", [{"kernel": 3}, {"mode": "native"}, {"source": "../x"}, {"views": [{}]}])
def test_words_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(CaptureError, match="hook's words about launch 5"):
        join(native(), None, before(**changes), None)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(-6, 6)), max_size=4), st.sampled_from([1, 2, 4, 8]))
def test_the_extent_is_that_of_the_elements(dimensions: list[tuple[int, int]], itemsize: int) -> None:
    shape, strides = [n for n, _ in dimensions], [s for _, s in dimensions]
    offsets = [0]
    for extent, stride in dimensions:
        offsets = [offset + index * stride for offset in offsets for index in range(extent)]
    found = AnnotatedView(BASE, "x", itemsize, tuple(shape), tuple(strides)).extent()
    assert found == (BASE + min(offsets) * itemsize, BASE + (max(offsets) + 1) * itemsize)
