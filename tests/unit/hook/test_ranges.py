"""NVTX ranges that Python opens, in a process without a native shim."""

from __future__ import annotations

import re
import threading
import types
from typing import Any

import pytest

from .conftest import ADD, Run

RANGES = (
    ADD
    + """
import nvtx
x = torch.ones(8)
def launch():
    add[(1,)](x, x, x, 8, 8)
launch()
with nvtx.annotate("step"):
    nvtx.push_range("forward")
    launch()
    nvtx.pop_range()
    @nvtx.annotate("backward")
    def backward():
        launch()
    backward()
handle = nvtx.start_range("whole")
launch()
nvtx.end_range(handle)
launch()
"""
)


def test_package_nvtx_in_a_listing_and_as_a_selector(run: Run) -> None:
    pytest.importorskip("nvtx")
    rows = run(RANGES, list_only=True).only.counts("__main__.add")["rows"]
    assert {tuple(row["range"]): row["launches"] for row in rows} == {
        (): 2, ("step", "forward"): 1, ("step", "backward"): 1, ("whole",): 1
    }  # fmt: skip
    process = run(RANGES, range="^step/").only
    assert [launch["range"] for launch in process.launches] == [["step", "forward"]]
    assert process.counts("__main__.add")["filtered"]["range"] == 1, "then it is disarmed"
    process = run(RANGES, range="step", whole_range=0).only
    assert [launch["position"] for launch in process.launches] == [0, 1], "both are within one"
    where = ["in", ["name", "range"], ["const", ["step/backward"]]]
    assert [launch["range"] for launch in run(RANGES, where=where).only.launches] == [["step", "backward"]]


@pytest.fixture
def torch_nvtx(package: Any) -> Any:
    """torch.cuda.nvtx of a build with CUDA, as far as the hook looks at it."""
    from kerncap_triton import nvtx_ranges  # type: ignore[import-not-found,unused-ignore]

    def fails(msg: str) -> int:
        if msg == "refused":
            raise RuntimeError("NVTX functions not installed")
        return 0

    module = types.SimpleNamespace(
        range_push=fails, range_pop=lambda: 0, range_start=lambda msg: 0, range_end=lambda number: None
    )
    nvtx_ranges._PATCHES["torch.cuda.nvtx"](module)
    return module


def test_torchs_functions_are_seen_once_they_have_worked(torch_nvtx: Any, package: Any) -> None:
    from kerncap_triton import nvtx_ranges

    torch_nvtx.range_push("outer")
    with pytest.raises(RuntimeError):
        torch_nvtx.range_push("refused")
    torch_nvtx.range_push(msg="a\nb")
    assert nvtx_ranges.names() == ["outer", "a b"] and nvtx_ranges.text() == "outer/a b"
    first, second = torch_nvtx.range_start("one"), torch_nvtx.range_start("two")
    assert first == second, "without a profiler every handle is 0"
    assert nvtx_ranges.names() == ["one", "two", "outer", "a b"]
    outer, pattern = nvtx_ranges.occurrence(re.compile("outer")), re.compile("a b")
    inner = nvtx_ranges.occurrence(pattern)
    assert 0 != outer != inner != 0 and nvtx_ranges.occurrence(re.compile("other")) == 0
    assert nvtx_ranges.occurrence(re.compile("one")) == nvtx_ranges.occurrence(re.compile("^one$"))
    torch_nvtx.range_pop()
    torch_nvtx.range_push("a b")
    assert nvtx_ranges.occurrence(pattern) != inner, "another one of the same name"
    others: list[list[str]] = []
    thread = threading.Thread(target=lambda: others.append(nvtx_ranges.names()))
    thread.start()
    thread.join()
    assert others == [["one", "two"]], "push and pop are a thread's own"
    for _ in range(2):
        torch_nvtx.range_end(0)
    for _ in range(3):  # one more than there are
        torch_nvtx.range_pop()
    assert nvtx_ranges.names() == []
