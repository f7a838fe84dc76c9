"""uninit, alignment and descriptor on accesses made by hand; the evaluator's say is taken for granted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks import alignment, descriptor, make_finding, uninit
from kerncap.sanitizer.diagnose.confirm import Confirmation
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Violated
from kerncap.sanitizer.launch import Unwritten
from kerncap.sanitizer.symbolic.expr import TRUE, Buffer, Expr, boolean, const, eq, read, var
from kerncap.sanitizer.ttir.ir import Frame, IntType, Location, Operation, Value
from kerncap.sanitizer.walk.access import Access, DescriptorUse, Target
from tests.unit.sanitizer.checks.hand_made import Scene, access, lane


@pytest.fixture(autouse=True)
def confirmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every witness is confirmed, unless the test puts a reason into the list."""
    reasons: list[str] = []

    def say(*_: object) -> Confirmation:
        return Confirmation(not reasons, "evaluator", reasons[0] if reasons else "")

    monkeypatch.setattr(make_finding, "confirm", say)
    monkeypatch.setattr(make_finding, "_confirm_undefined", lambda *_: (say(), None))
    yield reasons


class Fresh:
    """Contents of which only the freshness is known; everything is written but the given ranges of bytes."""

    def __init__(self, sizes: list[int], fresh: dict[int, list[tuple[int, int]] | None]) -> None:
        self._sizes, self._fresh = sizes, fresh

    def read(self, storage: int) -> None:
        return None

    def unwritten(self, storage: int) -> Unwritten | None:
        ranges = self._fresh.get(storage, [])
        if ranges is None:
            return None
        mask = np.ones(self._sizes[storage], np.bool_)
        for low, high in ranges:
            mask[low:high] = False
        return Unwritten.of(mask)


def with_fresh(scene: Scene, fresh: dict[int, list[tuple[int, int]] | None], *accesses: Access) -> Analysis:
    analysis = scene.analysis(*accesses)
    contents = Fresh([one.size_bytes for one in scene.storages], fresh)
    return replace(analysis, launch=replace(analysis.launch, contents=contents))


def finding_of(verdict: object) -> Finding:
    assert isinstance(verdict, Violated), verdict
    (finding,) = verdict.findings
    return finding


LANE = lane(64)


def tile(scene: Scene, **more: Any) -> Access:
    """Element pid * 64 + lane of argument 0, masked by n where given."""
    index = scene.pid * 64 + var(LANE)
    limit = more.pop("below", None)
    mask = TRUE if limit is None else index < limit
    shift = more.pop("shift", 0)
    return access(0, 4 * (index + shift), lanes=(LANE,), mask=mask, **more)


# --- fresh memory ----------------------------------------------------------------------------------


def test_written_memory_is_proved() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("x", (1024,))
    load = tile(scene)
    assert isinstance(uninit.check(with_fresh(scene, {}, load), load), Proved)


def test_without_freshness_the_reason_is_the_one_that_is_said_once() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("x", (1024,))
    load = tile(scene)
    assert uninit.check(with_fresh(scene, {0: None}, load), load) == Unproven(uninit.NOT_KNOWN)


def test_stores_read_nothing() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("x", (1024,))
    store = tile(scene, kind="store")
    assert uninit.check(with_fresh(scene, {0: None}, store), store) is None


def test_a_load_of_a_fresh_tail() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("x", (1024,))
    fresh: dict[int, list[tuple[int, int]] | None] = {0: [(4000, 4096)]}
    load = tile(scene)
    finding = finding_of(uninit.check(with_fresh(scene, fresh, load), load))
    assert (finding.check, finding.argument) == ("uninit", "x")
    assert finding.place.program_id == (15, 0, 0)
    assert finding.place.lane == (40,)
    assert finding.place.offset_bytes == 4000
    assert "unwritten since it was allocated" in finding.message
    masked = tile(scene, below=1000)
    assert isinstance(uninit.check(with_fresh(scene, fresh, masked), masked), Proved)
    half = tile(scene, below=1001)
    assert finding_of(uninit.check(with_fresh(scene, fresh, half), half)).place.element == 1000


def test_one_fresh_byte_inside_of_an_element() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("x", (1024,))
    load = tile(scene)
    finding = finding_of(uninit.check(with_fresh(scene, {0: [(403, 404)]}, load), load))
    assert finding.place.element == 100


def test_many_runs_are_left_to_the_concrete_tier_unless_all_are_out_of_reach() -> None:
    scene = Scene(grid=(8, 1, 1))
    scene.tensor("x", (1024,))
    runs: dict[int, list[tuple[int, int]] | None] = {0: [(i, i + 4) for i in range(2048, 4096, 8)]}
    load = tile(scene)
    assert isinstance(uninit.check(with_fresh(scene, runs, load), load), Proved)
    further = tile(scene, shift=64)
    assert uninit.check(with_fresh(scene, runs, further), further) == Unproven(uninit.MANY_RUNS)


def test_what_the_launch_may_write_first_is_left_to_the_concrete_tier() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("x", (1024,))
    load, store = tile(scene), tile(scene, kind="store")
    fresh: dict[int, list[tuple[int, int]] | None] = {0: [(0, 4096)]}
    assert uninit.check(with_fresh(scene, fresh, store, load), load) == Unproven(uninit.WRITTEN_BY_LAUNCH)


def test_a_store_to_other_bytes_excuses_nothing() -> None:
    scene = Scene(grid=(8, 1, 1))
    scene.tensor("x", (1024,))
    load, store = tile(scene), tile(scene, kind="store", shift=512)
    finding = finding_of(uninit.check(with_fresh(scene, {0: [(0, 4096)]}, store, load), load))
    assert finding.place.element == 0


def test_an_accumulator_that_nobody_zeroed() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("total", (1,))
    count, again = (access(0, const(0), kind="atomic") for _ in range(2))
    fresh: dict[int, list[tuple[int, int]] | None] = {0: [(0, 4)]}
    analysis = with_fresh(scene, fresh, count, again)
    assert finding_of(uninit.check(analysis, count)).access == "atomic"
    zero = access(0, const(0), kind="store", path=eq(scene.pid, 0))
    assert isinstance(uninit.check(with_fresh(scene, fresh, zero, count), count), Unproven)


def test_an_exchange_reads_only_where_its_result_is_used() -> None:
    scene = Scene()
    scene.tensor("lock", (1,))
    free = access(0, const(0), kind="atomic")
    free.operation.attributes["rmw_op"] = "exch"
    free.operation.results = (Value("%old", IntType(32)),)
    fresh: dict[int, list[tuple[int, int]] | None] = {0: [(0, 4)]}
    assert uninit.check(with_fresh(scene, fresh, free), free) is None
    user = access(0, const(0), kind="store")
    user.operation.operands = free.operation.results
    assert uninit.check(with_fresh(scene, fresh, free, user), free) is not None


def test_a_pointer_without_a_tensor_is_asked_of_every_storage() -> None:
    scene = Scene()
    scene.tensor("x", (16,))
    scene.tensor("y", (16,))
    load = access(None, const(scene.storages[1].address + 8))
    assert isinstance(uninit.check(with_fresh(scene, {0: [(0, 64)]}, load), load), Proved)
    assert isinstance(uninit.check(with_fresh(scene, {1: [(8, 9)]}, load), load), Violated)


def test_a_descriptor_reads_only_inside_of_its_shape() -> None:
    scene = Scene()
    scene.tensor("x", (8, 64))
    rows, columns = lane(16, 0), lane(64, 1)
    offset = 4 * (64 * var(rows) + var(columns))
    use = DescriptorUse(
        Target(TRUE, 0, const(0)),
        (const(8), const(64)),
        (const(64), const(1)),
        (var(rows), var(columns)),
        (16, 64),
        4,
        host=False,
    )
    load = access(0, offset, lanes=(rows, columns), descriptor=use)
    outside_only = with_fresh(scene, {0: [(2047, 2048)]}, load)
    assert finding_of(uninit.check(outside_only, load)).place.lane == (7, 63)
    scene.storages[0] = replace(scene.storages[0], size_bytes=4096)
    assert isinstance(uninit.check(with_fresh(scene, {0: [(2048, 4096)]}, load), load), Proved)


def test_a_witness_that_is_not_confirmed_is_no_finding(confirmed: list[str]) -> None:
    confirmed.append("the evaluator does not reach it")
    scene = Scene()
    scene.tensor("x", (64,))
    load = tile(scene)
    verdict = uninit.check(with_fresh(scene, {0: [(0, 4)]}, load), load)
    assert isinstance(verdict, Unproven) and "not confirmed" in verdict.reason


# --- undefined lanes ---------------------------------------------------------------------------------


def test_an_undefined_lane_that_is_stored() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("x", (1024,))
    index = scene.pid * 64 + var(LANE)
    undefined = index >= 1000
    store = replace(tile(scene, kind="store"), undefined=undefined)
    analysis = with_fresh(scene, {}, store)
    finding = finding_of(uninit.check(analysis, store))
    assert (finding.check, finding.access) == ("uninit", "store")
    assert finding.place.program_id == (15, 0, 0) and finding.place.element == 1000
    masked = replace(tile(scene, kind="store", below=1000), undefined=undefined)
    assert isinstance(uninit.check(with_fresh(scene, {}, masked), masked), Proved)


def test_the_message_names_the_load_that_leaves_lanes_undefined() -> None:
    pointer, mask, loaded, doubled = (Value(f"%{name}", IntType(32)) for name in ("p", "m", "x", "y"))
    loaded.location = Location(name="x")
    load = Operation("tt.load", (pointer, mask), (loaded,), {"operand_segments": {"ptr": 0, "mask": 1}})
    load.location = Location((Frame("kernel.py", 3, 9),))
    double = Operation("arith.addi", (loaded, loaded), (doubled,))
    loaded.owner, doubled.owner = load, double
    scene = Scene()
    scene.tensor("x", (64,))
    store = replace(tile(scene, kind="store"), undefined=TRUE)
    store.operation.operands = (pointer, doubled)
    store.operation.attributes["operand_segments"] = {"ptr": 0, "value": 1}
    finding = finding_of(uninit.check(with_fresh(scene, {}, store), store))
    assert "the masked load of x at line 3" in finding.message


def test_an_undefined_address_matters_only_where_it_is_used() -> None:
    scene = Scene()
    scene.tensor("x", (64,))
    undefined = var(LANE) >= 60
    used = replace(tile(scene), steered_by_undefined=undefined)
    assert finding_of(uninit.check(with_fresh(scene, {}, used), used)).place.lane == (60,)
    unused = replace(tile(scene, below=60), steered_by_undefined=undefined)
    assert isinstance(uninit.check(with_fresh(scene, {}, unused), unused), Proved)


def test_an_undefined_mask_matters_whatever_it_says() -> None:
    scene = Scene()
    scene.tensor("x", (64,))
    undefined = var(LANE) >= 60
    load = replace(tile(scene, below=60), steered_by_undefined=undefined, mask_undefined=undefined)
    assert finding_of(uninit.check(with_fresh(scene, {}, load), load)).place.lane == (60,)


# --- alignment -------------------------------------------------------------------------------------------


def aligned(scene: Scene, *, offset: Expr, **more: Any) -> object:
    one = access(0, offset, lanes=(LANE,), **more)
    return alignment.check(scene.analysis(one), one)


def test_alignment_of_the_address_counts() -> None:
    scene = Scene(grid=(16, 1, 1))
    scene.tensor("x", (1024,))
    steps = 4 * var(LANE)
    assert isinstance(aligned(scene, offset=steps), Proved)
    assert isinstance(aligned(scene, offset=steps + 2), Violated)
    crooked = Scene(grid=(16, 1, 1))
    crooked.tensor("x", (1024,), storage_offset=2)
    assert isinstance(aligned(crooked, offset=steps), Violated)
    assert isinstance(aligned(crooked, offset=steps + 2), Proved)


def test_alignment_of_masked_lanes_does_not_matter() -> None:
    scene = Scene()
    scene.tensor("x", (1024,))
    odd = 2 * var(LANE)
    even = eq(var(LANE) % 2, 0)
    assert isinstance(aligned(scene, offset=odd, mask=even), Proved)
    finding = finding_of(aligned(scene, offset=odd))
    assert (finding.check, finding.place.lane, finding.argument) == ("alignment", (1,), "x")


def test_single_bytes_and_descriptors_have_no_alignment_check() -> None:
    scene = Scene()
    scene.tensor("x", (1024,), dtype="int8")
    assert aligned(scene, offset=var(LANE), width=1) is None


def test_alignment_that_depends_on_memory() -> None:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("x", (1024,))
    scene.tensor("at", (4,), dtype="int32", contents=np.array([0, 8, 16, 22], np.int32))
    start = read(Buffer(1, 32), scene.pid * 4)
    finding = finding_of(aligned(scene, offset=start + 4 * var(LANE)))
    assert finding.contents and finding.place.program_id == (3, 0, 0)


# --- descriptors -----------------------------------------------------------------------------------------


def described(
    *,
    shape: tuple[int, ...] = (256, 256),
    strides: tuple[int, ...] = (256, 1),
    block: tuple[int, ...] = (16, 64),
    offset: int = 0,
    host: bool = False,
    name: str = "tt.descriptor_load",
    rows: int | None = None,
    path: Expr = TRUE,
) -> object:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("x", (256, 256), dtype="float16")
    lanes = [lane(n, i) for i, n in enumerate(block)]
    if rows is not None:
        lanes[0] = lane(rows, 0)
    base = Target(TRUE, 0, const(offset))
    use = DescriptorUse(
        base,
        tuple(map(const, shape)),
        tuple(map(const, strides)),
        tuple(map(var, lanes)),
        block,
        2,
        host=host,
    )
    one = access(0, const(offset), lanes=lanes, width=2, descriptor=use, path=path)
    one.operation.name = name
    return descriptor.check(scene.analysis(one), one)


def test_a_descriptor_that_keeps_its_contract() -> None:
    assert isinstance(described(), Proved)
    assert isinstance(described(host=True), Proved)
    assert isinstance(described(shape=(0, 256)), Proved)  # sizes are documented as not negative
    assert isinstance(described(strides=(0, 1)), Proved)
    assert isinstance(described(block=(512, 512)), Proved)


@pytest.mark.parametrize(
    "broken, said",
    [
        ({"offset": 8}, "8 bytes past a multiple of 16"),
        ({"strides": (250, 1)}, "500 bytes, not a multiple of 16"),
        ({"strides": (256, 2)}, "last stride is 2 elements"),
        ({"strides": (-256, 1)}, "negative: -512 bytes"),
        ({"strides": (1 << 40, 1)}, "2**40 or more"),
        ({"shape": (-1, 256)}, "size along axis 0 is -1"),
        ({"shape": (0, 256), "host": True}, "size along axis 0 is 0"),
        ({"shape": (1 << 31, 256), "host": True}, "over 2**31 - 1"),
        ({"block": (64, 4), "host": True}, "8 bytes in its last dimension"),
        ({"name": "tt.descriptor_gather", "rows": 4}, "of 4 rows"),
        ({"name": "tt.descriptor_scatter", "rows": 8, "block": (1, 8)}, "rows of 16 bytes"),
    ],
)
def test_every_clause_of_the_contract(broken: dict[str, Any], said: str) -> None:
    finding = finding_of(described(**broken))
    assert finding.check == "descriptor"
    assert said in finding.message


def test_all_broken_clauses_are_reported() -> None:
    verdict = described(offset=2, strides=(250, 1))
    assert isinstance(verdict, Violated) and len(verdict.findings) == 2


def test_an_access_that_never_happens_breaks_nothing() -> None:
    assert isinstance(described(offset=8, path=boolean(False)), Proved)


def test_accesses_without_descriptor_have_no_contract() -> None:
    scene = Scene()
    scene.tensor("x", (64,))
    one = tile(scene)
    assert descriptor.check(scene.analysis(one), one) is None
