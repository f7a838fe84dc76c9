"""Pairs of accesses made by hand: every answer against all points gone through one by one."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from kerncap.sanitizer.checks import races
from kerncap.sanitizer.checks.races import conflict_findings
from kerncap.sanitizer.checks.races.disjoint_tiles import Relation
from kerncap.sanitizer.checks.races.expression_bounds import Ranges
from kerncap.sanitizer.checks.races.sides import Side, program_axes, sides_of
from kerncap.sanitizer.diagnose.confirm import Confirmation
from kerncap.sanitizer.findings import Proved, Settled, Unproven, Violated
from kerncap.sanitizer.symbolic.evaluate import evaluate
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, Variable, add, const, eq, minimum, unknown, var
from kerncap.sanitizer.walk.access import Access
from tests.counted_work import calls_of
from tests.unit.sanitizer.checks.hand_made import FIRST_ADDRESS, Scene, access, lane, loop


@pytest.fixture(autouse=True)
def _believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Accesses made by hand have no kernel that could be run."""
    monkeypatch.setattr(conflict_findings, "confirm", lambda *_: Confirmation(True, "expressions"))


def verdicts(settled: list[Settled]) -> list[str]:
    return [type(one.verdict).__name__ for one in settled]


def points(
    side: Side, programs: tuple[Variable, ...], inside: tuple[int, int] | None = None
) -> set[tuple[int, tuple[int, ...]]]:
    """(byte, program) of everything that a side touches by elements that lie ``inside``."""
    used = sorted(side.variables | set(programs), key=lambda v: v.name)
    found = set()
    axes = np.meshgrid(*(np.arange(v.low, v.high + 1) for v in used), indexing="ij")
    point = {v: a.reshape(-1) for v, a in zip(used, axes, strict=True)}
    size = axes[0].size
    address, holds = (
        np.broadcast_to(a, (size,))
        for a in evaluate([side.address, side.condition], {v: point[v] for v in side.variables})
    )
    for index in np.flatnonzero(holds.astype(bool)):
        first = int(address[index])
        if inside is not None and not inside[0] <= first <= inside[1] - side.width:
            continue
        program = tuple(int(point[p][index]) for p in programs)
        found.update((first + b, program) for b in range(side.width))
    return found


def meets(
    left: Side, right: Side, programs: tuple[Variable, ...], inside: tuple[int, int] | None = None
) -> bool:
    """By brute force: do two different programs share a byte?"""
    by_byte: dict[int, set[tuple[int, ...]]] = {}
    for byte, program in points(left, programs, inside):
        by_byte.setdefault(byte, set()).add(program)
    return any(by_byte.get(byte, set()) - {program} for byte, program in points(right, programs, inside))


# --- generated pairs -----------------------------------------------------------------------------------


def _expression(dice: random.Random, programs: tuple[Variable, ...], lanes: list[Variable]) -> Expr:
    """An address as kernels make them: tiles of program ids by division, lanes, loops, odd strides."""
    pid = var(programs[0])
    n = dice.choice((2, 3, 4))
    tiles = [
        pid,
        pid // n,
        pid % n,
        minimum(pid, const(dice.randrange(1, 6))),
        pid // 2 % 2,
        var(programs[1]),
        pid + var(lanes[-1]) * dice.choice((3, 6)),
    ]
    terms = [dice.choice(tiles) * dice.choice((1, 2, 4, 6, 8, 12, 16, 24, -8)) for _ in range(2)]
    if dice.random() < 0.5:
        # A pair that belongs together: quotient and remainder of one number.
        whole = dice.choice((pid, tiles[-1]))
        inner = dice.choice((4, 6, 8))
        terms = [
            whole // n * (inner * dice.choice((n, n + 1, 1))),
            whole % n * inner,
            var(programs[1]) * dice.choice((0, 48, 96, 7)),
        ]
    terms += [var(v) * dice.choice((0, 1, 2, 4, 12)) for v in lanes]
    return add(*terms, const(dice.choice((0, 0, 0, 1, 4, 24))))


def _condition(dice: random.Random, programs: tuple[Variable, ...], lanes: list[Variable]) -> Expr:
    choices = [
        TRUE,
        var(lanes[0]) < dice.randrange(1, 4),
        var(programs[0]) * 4 + var(lanes[0]) < dice.randrange(4, 24),
        eq(var(programs[0]), dice.randrange(6)),
        var(programs[1]) >= 1,
    ]
    return dice.choice(choices) & dice.choice(choices)


@pytest.mark.parametrize("seed", range(4))
def test_generated_pairs_agree_with_brute_force(seed: int) -> None:
    """In a storage that nothing leaves, and in one so small that programs meet outside of it as well."""
    dice = random.Random(seed)
    for _ in range(40):
        scene = Scene(grid=(6, 2, 1))
        length, before = dice.choice(((4096, 1024), (4096, 1024), (24, 0), (40, 8)))
        scene.tensor("x", (length,), dtype="int8", storage_offset=before)
        storage = FIRST_ADDRESS, FIRST_ADDRESS + before + length
        lanes = [lane(4), Variable("k", "loop", 0, 2)]
        made = [
            access(
                0,
                _expression(dice, scene.programs, lanes),
                lanes=lanes[:1],
                path=_condition(dice, scene.programs, lanes),
                width=dice.choice((1, 2, 4)),
                kind=kind,
                value=scene.pid * 2 + var(scene.programs[1]),
            )
            for kind in ("store", "load")
        ]
        if dice.random() < 0.3:  # the same place read and written
            other = made[0]
            made[1] = access(
                0, other.targets[0].offset_bytes, lanes=lanes[:1], path=other.path, width=other.width_bytes
            )
        analysis = scene.analysis(*made)
        sides = [sides_of(analysis, one)[0] if sides_of(analysis, one) else None for one in made]
        settled = races.check(analysis)
        expected = [False, False]
        for i, j in ((0, 0), (0, 1)):
            left, right = sides[i], sides[j]
            if left is not None and right is not None and meets(left, right, scene.programs[:2], storage):
                expected[i] = expected[j] = True
        for one, racy in zip(settled, expected, strict=True):
            assert not isinstance(one.verdict, Unproven), one.verdict
            assert isinstance(one.verdict, Violated) == racy, (made, one)


def test_a_proof_by_relation_is_never_wrong() -> None:
    """The relation alone, without the tiers behind it that would notice."""
    dice = random.Random(99)
    proofs = 0
    for _ in range(400):
        scene = Scene(grid=(6, 2, 1))
        scene.tensor("x", (4096,), dtype="int8", storage_offset=1024)
        lanes = [lane(4), Variable("k", "loop", 0, 2)]
        made = access(
            0,
            _expression(dice, scene.programs, lanes),
            lanes=lanes[:1],
            path=_condition(dice, scene.programs, lanes),
            width=dice.choice((1, 2, 4)),
            kind="store",
        )
        analysis = scene.analysis(made)
        for side in sides_of(analysis, made):
            relation = Relation(side.condition, side.condition, Ranges(analysis.solver))
            relation.overlap(side.address, side.width, side.address, side.width)
            if relation.same_programs(program_axes(analysis)):
                proofs += 1
                assert not meets(side, side, scene.programs[:2])
    assert proofs > 40


def test_parts_that_many_expressions_share_are_compared_once() -> None:
    """A sort's network takes every lane twice in each step: 2¹⁴ ways down to what was read."""
    scene = Scene(grid=(6, 1, 1))
    network = read = unknown("data", "read", (var(lane(4)),))
    for step in range(14):
        network = unknown("a step", step, (network, network))
    relation = Relation(TRUE, TRUE, Ranges(scene.analysis().solver), {(read, read): 0})
    assert relation.equal(network, network)
    assert calls_of(lambda: relation.equal(network, network)) < 20_000


# --- what a pair is --------------------------------------------------------------------------------------


def tiled(scene: Scene, kind: str, block: int = 8, shift: int = 0, value: Expr | None = None) -> Access:
    i = lane(block)
    offset = (scene.pid * block + var(i) + shift) * 4
    return access(0, offset, lanes=[i], kind=kind, value=value)  # type: ignore[arg-type]


def test_two_reads_never_race() -> None:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("x", (64,))
    assert (
        verdicts(races.check(scene.analysis(tiled(scene, "load"), tiled(scene, "load", shift=1))))
        == ["Proved"] * 2
    )


def test_two_atomics_of_one_size_never_race() -> None:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("x", (64,))
    settled = races.check(
        scene.analysis(access(0, const(0), kind="atomic"), access(0, const(0), kind="atomic"))
    )
    assert verdicts(settled) == ["Proved", "Proved"]


@pytest.mark.parametrize("kind", ["load", "store"])
def test_an_atomic_races_with_a_plain_access(kind: str) -> None:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("x", (64,))
    plain = access(0, const(0), kind=kind, path=eq(scene.pid, 0))  # type: ignore[arg-type]
    settled = races.check(scene.analysis(plain, access(0, const(0), kind="atomic")))
    assert verdicts(settled) == ["Violated", "Violated"]


def test_atomics_of_two_sizes_race() -> None:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("x", (64,))
    settled = races.check(
        scene.analysis(access(0, const(0), kind="atomic"), access(0, const(0), kind="atomic", width=8))
    )
    assert verdicts(settled) == ["Violated", "Violated"]


def test_storages_of_their_own_never_meet() -> None:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("x", (64,))
    scene.tensor("y", (64,))
    beyond = access(1, const(-1 << 24), kind="load")  # as far as x, out of bounds: another check's business
    assert verdicts(races.check(scene.analysis(tiled(scene, "store"), beyond))) == ["Proved", "Proved"]


@pytest.mark.parametrize(("grid", "rows"), [(64, 32), (10**6, 5 * 10**5)])
def test_programs_that_meet_past_the_end_alone_do_not_race(grid: int, rows: int) -> None:
    """Rows of the grid's second half are clamped to one row, which the storage has not (out of bounds)."""
    for extent, expected in ((rows, "Proved"), (rows + 1, "Violated")):
        scene = Scene(grid=(grid, 1, 1))
        scene.tensor("x", (extent, 8))
        i = lane(8)
        row = minimum(scene.pid, const(rows))
        place = (row * 8 + var(i)) * 4
        made = access(0, place, lanes=[i], kind="store", value=scene.pid)
        (one,) = races.check(scene.analysis(made))
        assert type(one.verdict).__name__ == expected, one.verdict


@pytest.mark.parametrize("grid", [512, 10**6])
def test_a_race_inside_is_found_among_many_outside(grid: int) -> None:
    """Every program meets its neighbour, but only the first two of them in bytes of the tensor."""
    scene = Scene(grid=(grid, 1, 1))
    scene.tensor("x", (9,), storage_offset=64)
    i = lane(8)
    from_the_end = grid - 1 - scene.pid
    offset = (from_the_end * 4 + var(i)) * 4
    (one,) = races.check(scene.analysis(access(0, offset, lanes=[i], kind="store", value=scene.pid)))
    assert isinstance(one.verdict, Violated)
    (finding,) = one.verdict.findings
    assert finding.other is not None
    for place in (finding.place, finding.other.place):
        assert place.offset_bytes is not None
        assert -64 <= place.offset_bytes <= 32


@pytest.mark.parametrize(("value", "note"), [(const(1), True), ("pid", False), ("lane", True), ("odd", True)])
def test_stores_of_equal_values_are_notes(value: Expr | str, note: bool) -> None:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("x", (64,), dtype="int32")
    i = lane(8)
    # "odd": nothing is known of it but that it depends on the lane alone
    named = {"pid": scene.pid, "lane": var(i), "odd": unknown("odd", "odd", (var(i),))}
    stored = named[value] if isinstance(value, str) else value
    made = access(0, var(i) * 4, lanes=[i], kind="store", value=stored)
    ((one,),) = [races.check(scene.analysis(made))]
    assert isinstance(one.verdict, Violated)
    (finding,) = one.verdict.findings
    assert finding.note == ("same-value" if note else None)


def test_an_unknown_mask_leaves_a_conflict_open_and_a_proof_standing() -> None:
    for block, expected in ((8, "Proved"), (6, "Unproven")):
        scene = Scene(grid=(4, 1, 1))
        scene.tensor("x", (64,))
        i = lane(8)
        offset = (scene.pid * block + var(i)) * 4
        mask = unknown("a comparison of floats", "mask", (scene.pid, var(i)), sort="bool")
        made = access(0, offset, lanes=[i], kind="store", mask=mask)
        (one,) = races.check(scene.analysis(made))
        assert type(one.verdict).__name__ == expected
        if isinstance(one.verdict, Unproven):
            assert "a comparison of floats" in one.verdict.reason


def test_an_iteration_that_meets_another_program() -> None:
    """Program p writes row p, then, in later iterations, the rows behind it."""
    scene = Scene(grid=(10**6, 1, 1))
    scene.tensor("x", (10**7,))
    steps = loop(5)
    row = scene.pid + var(steps.counter) * 3
    made = access(0, row * 4, kind="store", loops=(steps,), value=scene.pid)
    (one,) = races.check(scene.analysis(made))
    assert isinstance(one.verdict, Violated)
    (finding,) = one.verdict.findings
    assert finding.other is not None
    assert dict(finding.place.iterations)["k"] != dict(finding.other.place.iterations)["k"]


@pytest.mark.parametrize(("rows", "columns"), list(itertools.product((1, 7, 64), (5, 33))))
def test_tiles_of_two_axes_with_any_stride(rows: int, columns: int) -> None:
    scene = Scene(grid=(12, 9, 1))
    stride = 9 * columns - 2
    scene.tensor("x", (12 * rows, stride))
    i, j = Variable("i", "lane", 0, rows - 1), Variable("j", "lane", 0, columns - 1)
    row = scene.pid * rows + var(i)
    column = var(scene.programs[1]) * columns + var(j)
    place = (row * stride + column) * 4
    masked = access(0, place, lanes=[i, j], kind="store", mask=column < stride)
    (one,) = races.check(scene.analysis(masked))
    assert one.verdict == Proved("affine")
    mask = column < stride + 1
    open_ended = access(0, place, lanes=[i, j], kind="store", mask=mask, value=var(scene.programs[1]))
    (one,) = races.check(scene.analysis(open_ended))
    assert isinstance(one.verdict, Violated)
