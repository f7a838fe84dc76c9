"""One mistake per test, as the walk would hand it over; see test_bounds_kernels for kernels as written."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap.sanitizer.checks import bounds, overflow
from kerncap.sanitizer.diagnose.confirm import Confirmation
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.symbolic.expr import TRUE, Buffer, Expr, Variable, const, eq, read, unknown, var, wrap
from kerncap.sanitizer.walk.access import DescriptorUse, Target
from tests.counted_work import calls_of
from tests.unit.sanitizer.checks.hand_made import FIRST_ADDRESS, Scene, access, lane, loop


@pytest.fixture(autouse=True)
def _believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses made by hand have no kernel that could be run."""
    for module in (bounds, overflow):
        monkeypatch.setattr(module, "confirm", lambda *_: Confirmation(True, "expressions"))


def findings(verdict: Verdict) -> list[Finding]:
    assert isinstance(verdict, Violated), verdict
    return list(verdict.findings)


def only(verdict: Verdict) -> Finding:
    (finding,) = findings(verdict)
    return finding


def four(e: Expr) -> Expr:
    return e * 4


# --- one axis ----------------------------------------------------------------------------------------


def test_a_masked_access_is_proved_by_intervals() -> None:
    scene = Scene((10**6, 1, 1))
    x = scene.tensor("x", (10**8,))
    i = lane(1024)
    offs = scene.pid * 1024 + var(i)
    one = access(x, four(offs), lanes=[i], mask=offs < 10**8)
    verdict = bounds.check(scene.analysis(one), one)
    assert isinstance(verdict, Proved)
    assert verdict.how in ("interval", "affine")


def test_a_missing_mask() -> None:
    scene = Scene((4, 1, 1))
    x = scene.tensor("scores_ptr", (1000,))
    i = lane(256)
    offs = scene.pid * 256 + var(i)
    one = access(x, four(offs), lanes=[i], kind="store")
    found = only(bounds.check(scene.analysis(one), one))
    assert found.message == (
        "store of 4 bytes at scores_ptr + 1000 (byte 4,000): just past the end of scores_ptr "
        "(float32[1000], 4,000 bytes); program (3, 0, 0), lane 232"
    )
    assert (found.check, found.access, found.argument, found.beyond_bytes) == (
        "oob",
        "store",
        "scores_ptr",
        0,
    )
    assert (found.shape, found.strides, found.width_bytes) == ((1000,), (1,), 4)
    place = found.place
    assert (place.program_id, place.lane, place.offset_bytes, place.element) == (
        (3, 0, 0),
        (232,),
        4000,
        1000,
    )
    assert place.mask is True


def test_off_by_one_in_the_mask() -> None:
    scene = Scene((4, 1, 1))
    x = scene.tensor("x", (1000,))
    i = lane(256)
    offs = scene.pid * 256 + var(i)
    one = access(x, four(offs), lanes=[i], mask=~(offs > 1000))
    assert only(bounds.check(scene.analysis(one), one)).place.element == 1000


def test_a_negative_offset() -> None:
    scene = Scene((8, 1, 1))
    scene.tensor("before", (4,))
    x = scene.tensor("x", (1024,))
    i = lane(128)
    offs = scene.pid * 128 + var(i) - 3
    one = access(x, four(offs), lanes=[i])
    found = only(bounds.check(scene.analysis(one), one))
    assert (found.beyond_bytes, found.place.program_id, found.place.lane) == (-12, (0, 0, 0), (0,))
    assert "12 bytes before the start of x" in found.message


def test_both_directions_are_findings() -> None:
    scene = Scene((8, 1, 1))
    x = scene.tensor("x", (1000,))
    i = lane(128)
    offs = scene.pid * 128 + var(i) - 1
    one = access(x, four(offs), lanes=[i])
    assert [f.beyond_bytes for f in findings(bounds.check(scene.analysis(one), one))] == [-4, 0]


def test_only_the_last_byte_is_out() -> None:
    scene = Scene()
    x = scene.tensor("x", (16,), dtype="int8")
    i = lane(4)
    one = access(x, four(var(i)) + 1, lanes=[i])
    found = only(bounds.check(scene.analysis(one), one))
    assert (found.place.offset_bytes, found.beyond_bytes) == (13, 0)
    assert "its last 1 byte is past the end" in found.message
    exact = access(x, four(var(i)), lanes=[i])
    assert isinstance(bounds.check(scene.analysis(exact), exact), Proved)


def test_the_last_iteration_alone() -> None:
    scene = Scene()
    x = scene.tensor("x", (100_000 * 32 - 1,))
    k, i = loop(100_000), lane(32)
    one = access(x, four(var(k.counter) * 32 + var(i)), lanes=[i], loops=(k,))
    found = only(bounds.check(scene.analysis(one), one))
    assert found.place.iterations == (("k", 99_999),)
    assert found.place.lane == (31,)


def test_where_it_lands() -> None:
    scene = Scene()
    x = scene.tensor("x", (16,))
    y = scene.tensor("y", (16,))
    far = scene.storages[y].address - scene.storages[x].address
    one = access(x, const(far + 8))
    assert only(bounds.check(scene.analysis(one), one)).lands_in == "y"


def test_a_false_path_or_mask_is_no_access() -> None:
    scene = Scene((4, 1, 1))
    x = scene.tensor("x", (4,))
    one = access(x, const(400), path=scene.pid < 0)
    assert isinstance(bounds.check(scene.analysis(one), one), Proved)


def test_the_tail_of_a_bumped_pointer() -> None:
    scene = Scene()
    x = scene.tensor("x", (100,))
    k, i = loop(4), lane(32)
    offs = var(k.counter) * 32 + var(i)
    one = access(x, four(offs), lanes=[i], mask=var(i) < 100 - var(k.counter) * 32)
    assert isinstance(bounds.check(scene.analysis(one), one), Proved)


# --- two axes ---------------------------------------------------------------------------------------


def tile(scene: Scene, size: int) -> tuple[list[Variable | None], Expr, Expr]:
    i, j = lane(size, 0), lane(size, 1)
    rows = scene.pid * size + var(i)
    cols = var(scene.programs[1]) * size + var(j)
    return [i, j], rows, cols


@pytest.mark.parametrize("stride", [100, 101])
def test_a_wrong_stride(stride: int) -> None:
    scene = Scene((2, 2, 1))
    x = scene.tensor("x", (100, 100))
    lanes, rows, cols = tile(scene, 64)
    mask = (rows < 100) & (cols < 100)
    one = access(x, four(rows * stride + cols), lanes=lanes, mask=mask)
    verdict = bounds.check(scene.analysis(one), one)
    assert isinstance(verdict, Proved if stride == 100 else Violated)


def test_the_second_axis_of_the_grid() -> None:
    scene = Scene((1, 5, 1))
    x = scene.tensor("x", (4, 100))
    i = lane(100)
    one = access(x, four(var(scene.programs[1]) * 100 + var(i)), lanes=[i])
    assert only(bounds.check(scene.analysis(one), one)).place.program_id == (0, 4, 0)


def test_equal_aranges_are_two() -> None:
    scene = Scene()
    x = scene.tensor("x", (31 * 33 + 1,))  # the diagonal and no more
    i, j = lane(32, 0), lane(32, 1)
    one = access(x, four(var(i) * 33 + var(j)), lanes=[i, j])
    verdict = bounds.check(scene.analysis(one), one)
    assert only(verdict).place.lane == (31, 1)


# --- view, storage, allocation -------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "wrong"), [("view", True), ("storage", False), ("allocation", False)])
def test_padding_rows_inside_the_storage(mode: str, wrong: bool) -> None:
    scene = Scene((2, 2, 1), bounds=mode)  # type: ignore[arg-type]
    x = scene.tensor("x", (96, 96), (128, 1), storage_bytes=128 * 128 * 4)
    lanes, rows, cols = tile(scene, 64)
    one = access(x, four(rows * 128 + cols), lanes=lanes)
    analysis = scene.analysis(one)
    assert calls_of(lambda: bounds.check(analysis, one)) < 20_000  # 16,384 elements: not one by one
    verdict = bounds.check(analysis, one)
    if not wrong:
        assert isinstance(verdict, Proved)
        return
    after, between = findings(verdict)
    assert (after.place.element, after.place.program_id, after.place.lane) == (96 * 128, (1, 0, 0), (32, 0))
    assert after.beyond_bytes == 32 * 4  # the padding of the last row is no part of the view either
    assert "between the elements of the view x (float32[96, 96], strides (128, 1)" in between.message
    assert between.place.element == 96


def test_a_masked_strided_view_is_proved_without_z3() -> None:
    scene = Scene((2, 1, 1), bounds="view")
    x = scene.tensor("x", (96, 96), (128, 1), storage_bytes=128 * 128 * 4)
    i, j = lane(64, 0), lane(256, 1)  # 256 columns reach beyond the stride: only the mask keeps them out
    rows, cols = scene.pid * 64 + var(i), var(j)
    mask = (rows < 96) & (cols < 96)
    one = access(x, four(rows * 128 + cols), lanes=[i, j], mask=mask)
    verdict = bounds.check(scene.analysis(one), one)
    assert isinstance(verdict, Proved)
    assert verdict.how in ("interval", "affine")


def test_a_window_of_a_larger_storage() -> None:
    def verdict(mode: str) -> Verdict:
        scene = Scene(bounds=mode)  # type: ignore[arg-type]
        x = scene.tensor("x", (16,), storage_offset=64, storage_bytes=256, allocation_bytes=512)
        i = lane(64)
        one = access(x, four(var(i) - 16), lanes=[i])
        return bounds.check(scene.analysis(one), one)

    assert isinstance(verdict("storage"), Proved)
    assert [f.beyond_bytes for f in findings(verdict("view"))] == [-64, 0]


def test_an_allocation_is_wider_than_its_storage() -> None:
    def verdict(mode: str) -> Verdict:
        scene = Scene(bounds=mode)  # type: ignore[arg-type]
        x = scene.tensor("x", (100,), allocation_bytes=512)
        i = lane(128)
        one = access(x, four(var(i)), lanes=[i])
        return bounds.check(scene.analysis(one), one)

    assert isinstance(verdict("allocation"), Proved)
    assert only(verdict("storage")).place.element == 100


@pytest.mark.parametrize(
    ("shape", "strides", "storage_offset"),
    [((8, 64), (0, 1), 0), ((64, 8), (1, 64), 0), ((8, 64), (-64, 1), 7 * 64 * 4)],
    ids=["expanded", "transposed", "flipped"],
)
def test_strides_of_all_kinds(shape: tuple[int, int], strides: tuple[int, int], storage_offset: int) -> None:
    scene = Scene(bounds="view")
    x = scene.tensor("x", shape, strides, storage_offset=storage_offset)
    i, j = lane(shape[0], 0), lane(shape[1], 1)
    address = four(var(i) * strides[0] + var(j) * strides[1])
    inside = access(x, address, lanes=[i, j])
    assert isinstance(bounds.check(scene.analysis(inside), inside), Proved)
    beyond = access(x, address + 4, lanes=[i, j])
    assert only(bounds.check(scene.analysis(beyond), beyond)).beyond_bytes == 0


def test_overlapping_strides_are_left_open() -> None:
    scene = Scene(bounds="view")
    x = scene.tensor("x", (10, 5), (3, 2))
    i = lane(36)
    one = access(x, four(var(i)), lanes=[i])
    verdict = bounds.check(scene.analysis(one), one)
    assert isinstance(verdict, Unproven)
    assert "overlap" in verdict.reason


@pytest.mark.parametrize("mode", ["view", "storage"])
def test_an_empty_tensor_has_no_bytes(mode: str) -> None:
    scene = Scene((4, 1, 1), bounds=mode)  # type: ignore[arg-type]
    x = scene.tensor("x", (0,))
    offs = scene.pid * 4 + var(lane(4))
    masked = access(x, four(offs), mask=offs < 0)
    assert isinstance(bounds.check(scene.analysis(masked), masked), Proved)
    bare = access(x, const(0))
    assert only(bounds.check(scene.analysis(bare), bare)).beyond_bytes == 0


# --- where pointers come from -------------------------------------------------------------------------


def test_each_target_has_its_own_limits() -> None:
    scene = Scene((4, 1, 1))
    x, y = scene.tensor("x", (256,)), scene.tensor("y", (128,))
    i = lane(256)
    first = scene.pid < 2
    targets = (Target(first, x, four(var(i))), Target(~first, y, four(var(i))))
    one = access(None, const(0), lanes=[i], targets=targets)
    found = only(bounds.check(scene.analysis(one), one))
    assert (found.argument, found.place.program_id, found.place.lane) == ("y", (2, 0, 0), (128,))


def test_a_null_pointer() -> None:
    scene = Scene((4, 1, 1))
    p = scene.pointer("bias", 0)
    scene.tensor("x", (16,))
    i = lane(16)
    guarded = access(p, four(var(i)), lanes=[i], path=scene.pid < 0)
    assert isinstance(bounds.check(scene.analysis(guarded), guarded), Proved)
    bare = access(p, four(var(i)), lanes=[i], path=scene.pid >= 2)
    found = only(bounds.check(scene.analysis(bare), bare))
    assert "bias is null" in found.message
    assert found.place.program_id == (2, 0, 0)


def test_memory_that_nobody_described() -> None:
    scene = Scene()
    p = scene.pointer("p", 0x1234_5678)
    one = access(p, const(0))
    verdict = bounds.check(scene.analysis(one), one)
    assert isinstance(verdict, Unproven)
    assert "p leads to memory of unknown extent" in verdict.reason


def test_a_bare_pointer_into_a_known_storage() -> None:
    scene = Scene()
    scene.tensor("x", (16,))
    p = scene.pointer("p", FIRST_ADDRESS + 32)
    i = lane(16)
    inside = access(p, four(var(i) - 8), lanes=[i])
    assert isinstance(bounds.check(scene.analysis(inside), inside), Proved)
    beyond = access(p, four(var(i)), lanes=[i])
    found = only(bounds.check(scene.analysis(beyond), beyond))
    assert (found.place.lane, found.beyond_bytes, found.argument) == ((8,), 0, "x")


def pointer_table(addresses: list[int]) -> tuple[Scene, Expr]:
    """A tensor of pointers; the expression of the one that a program takes."""
    scene = Scene((len(addresses), 1, 1))
    scene.tensor("x", (16,))
    scene.tensor("y", (8,))
    scene.tensor("table", (len(addresses),), dtype="int64", contents=np.array(addresses, np.int64))
    return scene, read(Buffer(2, 64), scene.pid * 8)


def test_pointers_from_memory_keep_to_what_they_point_into() -> None:
    x, y = FIRST_ADDRESS, FIRST_ADDRESS + 0x100_0000
    scene, pointer = pointer_table([x, y])
    i = lane(16)
    short = access(None, pointer + four(var(i)), lanes=[i], mask=var(i) < 8)
    verdict = bounds.check(scene.analysis(short), short)
    assert isinstance(verdict, Proved)
    assert verdict.contents
    long = access(None, pointer + four(var(i)), lanes=[i])
    found = only(bounds.check(scene.analysis(long), long))
    assert (found.argument, found.place.program_id, found.place.lane) == ("y", (1, 0, 0), (8,))
    assert found.contents


def test_a_null_pointer_from_memory() -> None:
    scene, pointer = pointer_table([FIRST_ADDRESS, 0])
    one = access(None, pointer)
    assert "null" in only(bounds.check(scene.analysis(one), one)).message


def test_unknown_contents_are_unproven() -> None:
    scene = Scene((4, 1, 1))
    x = scene.tensor("x", (16,))
    scene.tensor("index", (4,), dtype="int32")
    offs = read(Buffer(1, 32), scene.pid * 4)
    one = access(x, four(offs))
    assert isinstance(bounds.check(scene.analysis(one), one), Unproven)
    masked = access(x, four(offs), mask=(offs >= 0) & (offs < 16))
    assert isinstance(bounds.check(scene.analysis(masked), masked), Proved)


def test_unknown_values_are_unproven_unless_their_range_does() -> None:
    scene = Scene()
    x = scene.tensor("x", (16,))
    wild = access(x, four(unknown("inline assembly", "a", (), -(2**31), 2**31 - 1)))
    verdict = bounds.check(scene.analysis(wild), wild)
    assert isinstance(verdict, Unproven)
    assert "inline assembly" in verdict.reason
    tame = access(x, four(unknown("argmax", "a", (), 0, 15)))
    assert isinstance(bounds.check(scene.analysis(tame), tame), Proved)


def test_a_witness_that_is_not_confirmed_is_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "confirm", lambda *_: Confirmation(False, "evaluator", "it is not reached"))
    scene = Scene()
    x = scene.tensor("x", (16,))
    one = access(x, const(64))
    verdict = bounds.check(scene.analysis(one), one)
    assert isinstance(verdict, Unproven)
    assert "not confirmed: it is not reached" in verdict.reason


# --- descriptors -----------------------------------------------------------------------------------------


def test_a_descriptor_clips_to_its_shape() -> None:
    def verdict(rows: int, stride: int) -> Verdict:
        scene = Scene((2, 2, 1))
        x = scene.tensor("x", (100, 100))
        lanes, i, j = tile(scene, 64)
        offset = four(i * stride + j)
        base = Target(TRUE, x, const(0))
        shape = (const(rows), const(100))
        use = DescriptorUse(base, shape, (const(stride), const(1)), (i, j), (64, 64), 4, False)
        one = access(x, offset, lanes=lanes, descriptor=use)
        return bounds.check(scene.analysis(one), one)

    assert isinstance(verdict(100, 100), Proved)
    found = only(verdict(101, 100))
    assert (found.place.element, found.place.program_id) == (10_000, (1, 0, 0))
    assert "the descriptor's shape and strides reach beyond it" in found.message
    assert isinstance(verdict(100, 104), Violated)


# --- overflow beside it ------------------------------------------------------------------------------------


def test_outside_only_by_overflow_says_so() -> None:
    scene = Scene((3, 1, 1))
    x = scene.tensor("x", (3, 2**30), dtype="int8")
    offs = wrap(scene.pid * 2**30, 32)
    one = access(x, offs, width=1)
    analysis = scene.analysis(one)
    found = only(bounds.check(analysis, one))
    assert not found.note
    assert "only where an integer overflows" in found.message
    assert found.place.program_id == (2, 0, 0)
    alone = scene.analysis(one, checks=frozenset(("oob",)))
    assert not only(bounds.check(alone, one)).note


def test_outside_with_and_without_overflow_is_a_finding() -> None:
    scene = Scene((4, 1, 1))
    x = scene.tensor("x", (2**30,), dtype="int8")
    one = access(x, wrap(scene.pid * 2**30, 32), width=1)
    before, after = findings(bounds.check(scene.analysis(one), one))
    cause = "only where an integer overflows"
    assert (cause in before.message, before.place.program_id) == (True, (2, 0, 0))
    assert (cause in after.message, after.place.program_id) == (False, (1, 0, 0))


def test_the_first_place_that_goes_wrong_is_shown() -> None:
    scene = Scene((1000, 1, 1))
    x = scene.tensor("x", (1000,))
    k, i = loop(50), lane(64)
    offs = scene.pid * 64 + var(k.counter) * 64 + var(i)
    one = access(x, four(offs), lanes=[i], loops=(k,), path=~eq(scene.pid, 0))
    place = only(bounds.check(scene.analysis(one), one)).place
    assert (place.program_id, place.iterations, place.lane) == ((1, 0, 0), (("k", 14),), (40,))
