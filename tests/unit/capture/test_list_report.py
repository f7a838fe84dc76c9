"""The table and the document of `kerncap list`: names, gains, groups, and commands that choose exactly."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.listed import Clock, Listing, Row, Span
from kerncap.capture.outcome import CaptureResult, KernelSummary
from kerncap.capture.parse_where import parse_where
from kerncap.capture.payloads import KernelCounts, RowRecord, SeenRecord
from kerncap.capture.target import TargetResult
from kerncap.cli import main
from kerncap.report.capture_text import capture_command, chooses_only
from kerncap.report.listing_data import Gain, figures
from kerncap.report.listing_groups import By, groups
from kerncap.report.listing_json import listing_document
from kerncap.report.listing_names import MAX_WIDTH, condensed, short_names
from kerncap.report.listing_text import render_listing
from tests.session_options import capture_options

COMMAND = ("python", "my app.py")
LONG = "void at::native::(anonymous namespace)::vectorized<4, at::Add<float>, std::array<char*, 3ul>>(int)"


def row(launches: int, time_ns: int, rank: int | None = None, pid: int = 1, **fields: Any) -> Row:
    each = time_ns // launches
    record = RowRecord(
        launches=launches, time_ns=time_ns, timed=launches, min_ns=each, max_ns=each + 1, **fields
    )
    return Row(record, f"{pid}-0", pid, rank)


def kernel(name: str, *rows: Row, mangled: str | None = None) -> KernelSummary:
    counts = KernelCounts(
        launches=sum(r.record.launches for r in rows), time_ns=sum(r.record.time_ns for r in rows)
    )
    short = name if mangled else name.rpartition(".")[2]
    return KernelSummary(
        name, counts, SeenRecord(short, name, mangled=mangled), rows, (("app.py", 3, "main"),)
    )


def result(*kernels: KernelSummary, wall_ns: int = 1000, pids: tuple[int, ...] = (1,)) -> CaptureResult:
    listing = Listing(
        {each.qualified_name: each.rows for each in kernels},
        clocks=(Clock("events", "CUPTI is taken", 1),),
        spans=tuple(Span(pid, 0, wall_ns) for pid in pids),
    )
    return CaptureResult(
        capture_options(*COMMAND, list_only=True), TargetResult(0, pid=1), [], list(kernels), listing=listing,
        wall_ns=wall_ns,
    )  # fmt: skip


# --- names -------------------------------------------------------------------------------------------


def native(template: str) -> KernelSummary:
    return kernel(f"void ns::k<{template}>(int)", mangled=f"_ZN2ns1kI{abs(hash(template))}EEvi")


def test_a_template_of_500_characters_is_readable() -> None:
    assert condensed("vectorized<(int)4, at::Add<std::pair<int, int>>, x::array<char*, 3ul>>", 1) == (
        "vectorized<4, Add<…>, array<…>>"
    )
    assert condensed("f<a::b<c<d>>>", 2) == "f<b<c<…>>>" and condensed("f<a->b>", 1) == "f<a->b>"
    one, other = native("4, at::Add<float>"), native("4, at::Add<double>")
    assert short_names([one]) == ["k"]
    assert short_names([one, other]) == ["k<4, Add<float>>", "k<4, Add<double>>"]
    assert short_names([native("x::A<" + "y::B<int>, " * 100 + "int>"), native("float")])[0] == "k<A<…>>"


@given(st.lists(st.text("ab<>(),: ", min_size=1, max_size=120), min_size=2, max_size=6, unique=True))
def test_two_kernels_stay_two(templates: list[str]) -> None:
    names = short_names([native(each) for each in templates])
    assert len(set(names)) == len(names)
    assert all(len(name) <= MAX_WIDTH + len(" [6]") and name.isprintable() for name in names)


def test_the_whole_name_is_shown_if_asked_for() -> None:
    one = result(kernel(LONG, row(1, 5), mangled="_ZL10vectorizedI"))
    assert LONG not in render_listing(one)
    assert f"full names:\n1  {LONG}\n" in render_listing(one, full_names=True)


def test_the_whole_name_is_in_the_document() -> None:
    document = listing_document(result(kernel(LONG, row(1, 5), mangled="_ZL10vectorizedI")))
    assert document["kernels"][0]["qualified_name"] == LONG
    assert document["kernels"][0]["short_name"] == "vectorized"


# --- figures -----------------------------------------------------------------------------------------


def test_amdahl() -> None:
    assert Gain.of(0.5) == Gain(0.5, pytest.approx(4 / 3), 2.0)  # type: ignore[arg-type]
    assert Gain.of(1.0).gone is None and Gain.of(1.0).twice == 2.0
    assert Gain.of(0.0) == Gain(0.0, 1.0, 1.0)
    assert Gain.of(7.0).share == 1.0, "streams at once may sum up to more than the wall"


def test_shares_are_of_the_wall_and_of_all_kernels() -> None:
    found = figures(result(kernel("m.a", row(2, 300)), kernel("m.b", row(1, 100))))
    first, second = found.kernels
    assert (first.name, first.times.mean_ns, first.times.max_ns) == ("a", 150.0, 151)
    assert first.device is not None and first.wall is not None and second.wall is not None
    assert (first.device.share, first.wall.share, second.wall.share) == (0.75, 0.3, 0.1)


def test_ranks_side_by_side_are_not_added_up() -> None:
    rows = [row(1, 400, rank=rank, pid=pid) for rank, pid in ((0, 1), (1, 2))]
    [only] = figures(result(kernel("m.a", *rows), pids=(1, 2))).kernels
    assert only.times.time_ns == 800 and only.wall is not None and only.wall.share == 0.4


def test_configurations_are_counted_as_per_config_tells_them_apart() -> None:
    triton = kernel("m.a", row(1, 1, config="B=8", grid=(1, 1, 1)), row(1, 1, config="B=8", grid=(2, 1, 1)))
    shapes = [
        row(1, 1, grid=(n, 1, 1), block=(32, 1, 1), shared_bytes=0, stream=stream)
        for n, stream in ((1, "0x1"), (1, "0x2"), (2, "0x1"))
    ]
    native_one = kernel("f(int)", *shapes, row(9, 9, rest=True), mangled="_Z1fi")
    by_name = {each.name: each for each in figures(result(triton, native_one)).kernels}
    assert (by_name["a"].configurations, by_name["a"].more_configurations) == (1, False)
    assert (by_name["f"].configurations, by_name["f"].more_configurations) == (2, True)


# --- the table ---------------------------------------------------------------------------------------


def test_the_table_says_clock_gain_and_command() -> None:
    text = render_listing(result(kernel("m.a", row(2, 300)), kernel("m.b", row(1, 100))), stacks=True)
    assert "1.0 us wall time, 400 ns of it in 2 kernels (3 launches)" in text
    assert "clock: events" in text and "(CUPTI is taken)" in text
    line = next(line for line in text.splitlines() if line.startswith("1  a "))
    assert (
        line.split()[2:5] == ["2", "300", "ns"]
        and "75.0 %" in line
        and line.split()[-2:] == ["1.18x", "1.60x"]
    )
    assert "1  kerncap capture -k '^a$' -- python 'my app.py'" in text.splitlines()
    assert "     app.py:3 in main" in text.splitlines()


def test_the_most_expensive_are_shown_and_the_rest_is_counted() -> None:
    many = [kernel(f"m.k{number}", row(1, 100 - number)) for number in range(5)]
    text = render_listing(result(*many), top=2)
    assert "… and 3 more kernels, 59.4 % of the time (-n 0 shows all)" in text
    assert (
        text.count("kerncap capture") == 2
        and render_listing(result(*many), top=0).count("kerncap capture") == 5
    )
    document = listing_document(result(*many), top=2)
    assert len(document["kernels"]) == 2 and document["kernel_count"] == 5


def test_a_program_of_long_templates_fills_one_page() -> None:
    """Of torch's kind: names of 300 characters and more that differ somewhere in the middle."""
    arguments = "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::"
    rest = "Functor<float>>, std::array<char*, 3ul>, at::detail::TrivialOffsetCalculator<2, unsigned int>>"
    many = [
        kernel(
            f"void at::native::vectorized_elementwise_kernel<4, {arguments}Op{number}{rest}(int, {rest})",
            row(1, 1000 - number),
            mangled=f"_ZN2at6native{number}{'x' * 400}Ei",
        )
        for number in range(40)
    ]
    whole = result(*many)
    text = render_listing(whole)
    assert len(text.splitlines()) <= 60
    commands = [line for line in text.splitlines() if "kerncap capture" in line]
    assert len(commands) == 20 and max(map(len, commands)) < 250
    assert all(chooses_only(each, whole) for each in many), "Op1 is not Op12"


# --- groups ------------------------------------------------------------------------------------------

ROWS = [
    row(1, 10, rank=0, range=("step",), stream="stream 0x1", device=0, grid=(1, 1, 1), block=(32, 1, 1)),
    row(
        2, 20, rank=0, range=("step", "fwd"), stream="stream 0x2", device=0, grid=(2, 1, 1), block=(32, 1, 1)
    ),
    row(
        4,
        40,
        rank=1,
        pid=2,
        stream="the default stream",
        device=1,
        grid=(2, 1, 1),
        block=(64, 1, 1),
        shared_bytes=8,
    ),
]


@pytest.mark.parametrize(
    ("by", "expected", "selector"),
    [
        ("range", [("",), ("step", "fwd"), ("step",)], ["--range", "^$"]),
        ("stream", [("device 1, the default stream",), ("device 0, stream 0x2",), ("device 0, stream 0x1",)],
         ["--where", "stream in (0, 1)"]),
        ("device", [("device 1",), ("device 0",)], ["--where", "device == 1"]),
        ("rank", [("rank 1",), ("rank 0",)], ["--rank", "1"]),
        ("configuration", [("f", "grid 2x1x1, block 64x1x1, shared 8"), ("f", "grid 2x1x1, block 32x1x1"),
         ("f", "grid 1x1x1, block 32x1x1")],
         ["--where", "grid == (2, 1, 1) and block == (64, 1, 1) and shared == 8"]),
    ],
)  # fmt: skip
def test_launches_are_told_apart_with_a_command_each(
    by: Any, expected: list[tuple[str, ...]], selector: list[str]
) -> None:
    whole = result(kernel("f(int)", *ROWS, mangled="_Z1fi"), pids=(1, 2))
    found = groups(whole, figures(whole), by)
    assert [group.key for group in found] == expected
    assert sum(group.times.launches for group in found) == 7
    words = shlex.split(found[0].leaves[0].command or "")
    assert words[4 : 4 + len(selector)] == selector and words[-2:] == list(COMMAND)
    text = render_listing(whole, by=by)
    assert shlex.join(selector) in text
    document = listing_document(whole, by)
    assert [tuple(group["name"]) for group in document["groups"]] == expected


def test_a_streams_handle_is_new_in_each_run_so_there_is_no_command() -> None:
    whole = result(kernel("f(int)", *ROWS, mangled="_Z1fi"))
    commands = {group.key[0]: group.leaves[0].command for group in groups(whole, figures(whole), "stream")}
    assert commands["device 0, stream 0x2"] is None
    assert "no selector of capture distinguishes these" in render_listing(whole, by="stream")


def test_the_only_stream_beside_the_default_one_has_a_command() -> None:
    rows = [row(1, 2, stream=name, device=0) for name in ("the default stream", "stream 0x7f00")]
    whole = result(kernel("f(int)", *rows, mangled="_Z1fi"))
    commands = {group.key[0]: group.leaves[0].command for group in groups(whole, figures(whole), "stream")}
    chosen = [shlex.split(command or "")[5] for command in commands.values()]
    assert sorted(chosen) == ["stream > 2", "stream in (0, 1)"], commands


def test_a_triton_configurations_command_names_its_constants() -> None:
    text = "BLOCK=64 ACT=relu EVEN=True axes=[1, 2] num_warps=4"
    whole = result(kernel("m.a", row(1, 2, config=text, grid=(2, 1, 1)), row(1, 1)))
    group, _ = groups(whole, figures(whole), "configuration")
    where = "grid == (2, 1, 1) and BLOCK == 64 and EVEN == True and num_warps == 4"
    assert shlex.split(group.leaves[0].command or "")[4:6] == ["--where", where]


def test_what_a_configurations_command_can_compare() -> None:
    text = """ACT='it is B=2' EPS=1e-05 DT=fp16 KIND=Mode größe=-4 WHY="it's" F=inf CUT=12…"""
    whole = result(kernel("m.a", row(1, 2, config=text, grid=(2, 1, 1)), row(1, 1)))
    group, _ = groups(whole, figures(whole), "configuration")
    where = (
        "grid == (2, 1, 1) and ACT == 'it is B=2' and EPS == 1e-05 and DT == 'fp16' and größe == -4 "
        """and WHY == "it's\""""
    )
    assert shlex.split(group.leaves[0].command or "")[4:6] == ["--where", where]
    parse_where(where)


def test_a_command_that_would_take_another_configuration_is_none() -> None:
    texts = ("KIND=a B=2", "KIND=b B=2", "KIND=a B=4", "KIND=a B=4 num_warps=8")
    rows = [row(1, 9 - n, config=text, grid=(1, 1, 1)) for n, text in enumerate(texts)]
    whole = result(kernel("m.a", *rows))
    found = groups(whole, figures(whole), "configuration")
    assert [group.leaves[0].command is None for group in found] == [True, True, True, False]


def test_ranges_are_a_tree_with_the_sum_on_each_level() -> None:
    lines = render_listing(result(kernel("f(int)", *ROWS, mangled="_Z1fi")), by="range").splitlines()
    start = next(number for number, line in enumerate(lines) if line.split()[:1] == ["range"])
    tree = [line[3:] for line in lines[start + 1 : start + 7]]
    width = len("(outside of all ranges)")
    assert [line[:width].rstrip() for line in tree] == [
        "(outside of all ranges)", "  f", "step", "  f", "  fwd", "    f"
    ]  # fmt: skip
    assert tree[2].split()[1] == "3", "with what lies deeper"


@pytest.mark.parametrize("by", get_args(By))
def test_what_is_not_known_is_a_group_too(by: Any) -> None:
    whole = result(kernel("m.a", row(3, 9)))
    [group] = groups(whole, figures(whole), by)
    assert group.times.launches == 3 and render_listing(whole, by=by)
    assert group.leaves[0].command == capture_command(whole.kernels[0], whole), "nothing to tell it from"


def test_a_command_that_chooses_two_kernels_is_not_called_exact() -> None:
    same = kernel("add", row(1, 1), mangled="add")
    document = listing_document(result(kernel("__main__.add", row(1, 2)), same))
    exact = {each["qualified_name"]: each["command_is_exact"] for each in document["kernels"]}
    assert exact == {"__main__.add": True, "add": False}


def test_a_listing_that_cannot_be_saved_is_still_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = result(kernel("m.scale", row(1, 2)))
    monkeypatch.setattr("kerncap.api.listing.list_kernels", lambda command, **_: whole)
    assert main(["list", "--save", str(tmp_path / ("a" * 300)), "--", "app"]) == 2
    shown = capsys.readouterr().err
    assert "-k '^scale$'" in shown
    said = "can't be written: File name too long; give a shorter path"
    assert shown.rstrip().splitlines()[-1].startswith("kerncap: --save ") and shown.rstrip().endswith(said)
