"""`kerncap list` in the hook: rows, the clock, and where a kernel is launched from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kerncap.format.records import RecordKind

from .conftest import ADD, Run

STEPS = (
    ADD
    + """
x = torch.ones(32)
def step(block):
    add[lambda meta: (triton.cdiv(32, meta["BLOCK"]),)](x, x, x, 32, BLOCK=block, num_warps=4)
for block in (8, 16, 8, 16, 16):
    step(block)
add[(1,)](x, x, x, 8, 8)
"""
)


def test_rows_tell_grids_and_configurations_apart(run: Run) -> None:
    process = run(STEPS, list_only=True).only
    kernel = process.counts("__main__.add")
    found = {(tuple(row["grid"]), row["config"]): row for row in kernel["rows"]}
    assert {key: row["launches"] for key, row in found.items()} == {
        ((4, 1, 1), "BLOCK=8 num_warps=4"): 2,
        ((2, 1, 1), "BLOCK=16 num_warps=4"): 3,
        ((1, 1, 1), "BLOCK=8"): 1,
    }
    assert kernel["configs"] == 3
    for row in kernel["rows"]:
        assert row["timed"] == row["launches"] and row["device"] is None and row["route"] == "interpreter"
        assert 0 < row["min_ns"] <= row["time_ns"] / row["timed"] <= row["max_ns"]
    for key in ("time_ns", "timed"):
        assert kernel[key] == sum(row[key] for row in kernel["rows"])
    assert kernel["min_ns"] == min(row["min_ns"] for row in kernel["rows"])
    counts = process.all(RecordKind.COUNTS)[-1]
    assert counts["clock"] == "host" and "interpreter" in counts["clock_reason"]


@pytest.mark.usefixtures("package")
def test_a_configuration_can_be_read_back() -> None:
    """Strings are quoted; what was cut says so, or half of a number would look like one."""
    from kerncap_triton.call import Call  # type: ignore[import-not-found,unused-ignore]

    kernel = SimpleNamespace(constexprs={"ACT", "WHY", "BLOCK", "DEEP"})
    arguments = {"ACT": "relu 6", "WHY": "it's", "BLOCK": 64, "n": 3, "DEEP": False}
    made = Call(kernel, arguments, {"num_warps": 4}, (1,)).configuration({})[1]
    assert made == """ACT='relu 6' WHY="it's" BLOCK=64 DEEP=False num_warps=4"""
    cut = Call(kernel, {"ACT": "x" * 485, "BLOCK": 12345}, {}, (1,)).configuration({})[1]
    assert len(cut) == 500 and cut.endswith("' BLOCK=1…")


def test_the_stack_is_that_of_the_first_launch(run: Run) -> None:
    stack = run(STEPS, list_only=True).only.counts("__main__.add")["stack"]
    assert [(line, function) for _, line, function in stack[-2:]] == [(13, "<module>"), (11, "step")]


def test_an_autotuners_own_launches_have_a_row(run: Run) -> None:
    script = (
        ADD.replace(
            "@triton.jit",
            "@triton.autotune([triton.Config({'BLOCK': 8})], key=[], do_bench=bench)\n@triton.jit",
        )
        .replace(
            "\n@triton.autotune",
            "\ndef bench(call, quantiles): call(); return [1.0, 1.0, 1.0]\n@triton.autotune",
        )
        .replace("configs=", "")
    )
    script = script.replace(
        "[triton.Config({'BLOCK': 8})]", "[triton.Config({'BLOCK': 8}), triton.Config({'BLOCK': 16})]"
    )
    kernel = run(script + "x = torch.ones(8)\nadd[(1,)](x, x, x, 8)\n", list_only=True).only.counts(
        "__main__.add"
    )
    routes = {row["route"]: row for row in kernel["rows"]}
    assert routes["interpreter"]["launches"] == 1
    assert routes["autotuner"]["launches"] >= 2 and routes["autotuner"]["timed"] == 0
    assert sum(row["launches"] for row in kernel["rows"]) == kernel["launches"]


def test_what_has_no_room_is_counted_in_the_rest(package: Any) -> None:
    from kerncap_triton import listing_rows as rows  # type: ignore[import-not-found,unused-ignore]

    room = rows.Room()
    one, other = rows.Rows(room), rows.Rows(room)
    for number in range(rows.MAX_ROWS + 5):
        one.took(one.launched(rows.Key(grid=(number, 1, 1))), 7)
    records = one.as_records()
    assert len(records) == rows.MAX_ROWS + 1
    rest = records[-1]
    assert rest["rest"] and (rest["launches"], rest["time_ns"], rest["grid"], rest["config"]) == (
        5,
        35,
        None,
        None,
    )
    assert one.total.launches == rows.MAX_ROWS + 5
    room.left = 0
    other.launched(rows.Key())
    assert [record.get("rest") for record in other.as_records()] == [True]


def test_an_argument_called_stream_is_not_the_launchs_stream(package: Any) -> None:
    from kerncap_triton import call, listing_times, where_names  # type: ignore[import-not-found,unused-ignore]

    kernel = SimpleNamespace(mode="jit", constexprs=())
    one = call.Call(kernel, {"stream": 12345}, {}, (1, 1, 1))
    one.stream, one.device = 5, lambda: ("cuda", 0)
    row = listing_times.Timing.__new__(listing_times.Timing)
    row.call, row.counters, row._config = one, SimpleNamespace(kernel=kernel), None
    assert row._key().stream == "5"
    assert where_names.WhereNames(one)["stream"] == 12345
