"""What follows from trials: sets, keys, code; and trials that outlive the process."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.errors import FormatError, UsageError
from kerncap.format import Reproducer
from kerncap.replay.tuning import choice as choosing
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.executor import Executor
from kerncap.replay.tuning.journal import Journal, identity
from kerncap.replay.tuning.point import Parameter, Point
from kerncap.replay.tuning.samplers import InOrder
from kerncap.replay.tuning.search import Found, Limits, Search
from kerncap.replay.tuning.shipping import Shipment, pack, unpack
from kerncap.replay.tuning.space import Space
from kerncap.replay.tuning.trial import WITHIN, Final, Trial
from kerncap.replay.tuning.writeback import _retuned, decorator
from tests.unit.replay.build import add

SCALARS = {"small": {"M": 64, "K": 8}, "middle": {"M": 512, "K": 8}, "large": {"M": 4096, "K": 8}}


def found(times: dict[int, tuple[float, float, float]], finals: list[Final] | None = None) -> Found:
    result = Found()
    for block, row in times.items():
        point = {"BLOCK": block}
        result.trials[points.key(point)] = {
            digest: Trial(point, digest, "timed", ms=ms, runs=5)
            for digest, ms in zip(SCALARS, row, strict=True)
        }
    result.finals = finals or []
    return result


def test_best_robust_and_smallest_set() -> None:
    tried = found({16: (1.0, 2.0, 9.0), 64: (1.02, 1.0, 4.0), 256: (3.0, 1.5, 1.0)})
    choice = choosing.choose(tried, SCALARS, ())
    assert [best.point["BLOCK"] for best in choice.best] == [16, 64, 256]
    assert sorted(int(point["BLOCK"] or 0) for point in choice.selected) == [64, 256]
    assert choice.by_digest["small"] == {"BLOCK": 64}  # within 3 %
    assert choice.robust is not None and choice.robust.point == {"BLOCK": 64}
    assert choice.robust.worst == pytest.approx(4.0)
    assert choice.key == ["M"]


def test_the_author_s_key_is_kept_where_it_serves() -> None:
    tried = found({16: (1.0, 2.0, 9.0), 256: (3.0, 1.0, 1.0)})
    assert choosing.choose(tried, SCALARS, ("K", "M")).key == ["K", "M"]
    assert choosing.choose(tried, SCALARS, ("K",)).key == ["M"]


def test_what_the_complete_verdict_refutes_is_no_best() -> None:
    final = Final({"BLOCK": 16}, "small", problem="2 bytes outside the write set were changed")
    timed = Final({"BLOCK": 64}, "small", [1.0, 1.1, 1.0], [2.0, 2.2, 2.0])
    choice = choosing.choose(found({16: (1.0, 2.0, 9.0), 64: (1.2, 1.0, 4.0)}, [final, timed]), SCALARS, ())
    best = choice.best[0]
    assert best.point == {"BLOCK": 64}
    assert best.speedup is not None and best.speedup.median == pytest.approx(2.0)
    assert any("outside the write set" in note for note in choice.notes)


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(*[st.floats(1, 2)] * 3), min_size=1))
def test_a_smallest_set_covers_every_launch(ratios: dict[str, tuple[float, float, float]]) -> None:
    digests = ["x", "y", "z"]
    least = [min(row[i] for row in ratios.values()) for i in range(3)]
    by = {key: {d: row[i] / least[i] for i, d in enumerate(digests)} for key, row in ratios.items()}
    chosen = choosing.smallest_set(by, digests)
    assert all(any(by[key][d] <= WITHIN for key in chosen) for d in digests)
    if any(all(by[key][d] <= WITHIN for d in digests) for key in by):
        assert len(chosen) == 1


def test_the_decorator_is_python() -> None:
    text = decorator([{"BLOCK": 64, "num_warps": 8}], ["M"])
    tree = ast.parse(text + "def f(): pass")
    assert '{"BLOCK": 64}, num_warps=8' in text and isinstance(tree.body[0], ast.FunctionDef)


FILE = """import triton

@triton.autotune(
    configs=[triton.Config({"BLOCK": b}) for b in (16, 32)],
    key=["N"],  # é
    reset_to_zero=["out"],
)
@triton.jit
def kernel(x):
    pass
"""


def test_the_author_s_decorator_is_changed_in_place() -> None:
    changed, note = _retuned(FILE, "kernel", 3, [{"BLOCK": 128, "num_warps": 4}], ["M", "N"])
    assert changed is not None and note == ""
    ast.parse(changed)
    assert 'triton.Config({"BLOCK": 128}, num_warps=4)' in changed and 'key=["M", "N"],  # é' in changed
    assert 'reset_to_zero=["out"]' in changed and "for b in" not in changed


def test_a_kernel_without_one_gets_one() -> None:
    text = "import triton as t\n\n@t.jit\ndef kernel(x):\n    pass\n"
    changed, note = _retuned(text, "kernel", 3, [{"BLOCK": 128}], ["N"])
    assert changed is not None and "@t.autotune(" in changed and "t.Config(" in changed
    assert "no longer pass BLOCK" in note
    ast.parse(changed)


def test_a_journal_is_of_one_environment(tmp_path: Path) -> None:
    facts = {"device": "cpu", "triton": "3.9"}
    key = identity(["a", "b"], facts)
    assert key == identity(["b", "a"], facts) != identity(["a"], facts)
    path = tmp_path / "k.tune.jsonl"
    journal = Journal(path, key, resume=False)
    trial = Trial({"BLOCK": 16, "EVEN": True}, "a", "timed", ms=1.5, runs=3)
    journal.add(trial)
    journal.close()
    path.write_text(path.read_text() + '{"point": {"BLOCK"')  # cut while it was written
    again = Journal(path, key, resume=True)
    assert again.found == [trial]
    again.close()
    other = Journal(path, identity(["a", "b"], {"device": "gpu"}), resume=True)
    assert other.found == []
    other.close()


class _Idle:
    """An executor that is asked for nothing."""

    capacity = 1

    def facts(self) -> dict[str, Any]:
        return {"original_ms": {"a": 1.0}}

    def finals(self, *_: object) -> list[Final]:
        return []


def test_what_an_earlier_search_tried_outside_of_the_space_is_left_out(tmp_path: Path) -> None:
    tried: list[Point] = [
        {"BLOCK": 16}, {"BLOCK": 32}, {"BLOCK": 64}, {"BLOCK": 128}, {"BLOCK": 32, "num_warps": 4}, {}
    ]  # fmt: skip
    path = tmp_path / "k.tune.jsonl"
    journal = Journal(path, "0" * 64, resume=False)
    for each in tried:
        journal.add(Trial(each, "a", "timed", ms=1.0, runs=3))
    journal.close()
    space = Space([Parameter("BLOCK", "argument", (32, 64), 32, given=True)], [], [{"BLOCK": 128}], {}, [])
    again = Journal(path, "0" * 64, resume=True)
    executor = cast(Executor, _Idle())
    found = Search(space, InOrder("grid", []), executor, ["a"], Limits(9), again).run()
    again.close()
    assert [next(iter(by.values())).point for by in found.trials.values()] == tried[1:4]
    space.only_listed = True
    assert [space.holds(each) for each in tried] == [False, False, False, True, False, False]


def test_a_shipment_arrives_whole_or_not_at_all(tmp_path: Path) -> None:
    with Reproducer.open(add().seal(tmp_path / "out")) as reproducer:
        shipment = pack(reproducer, trusted=True)
    there = tmp_path / "there"
    there.mkdir()
    with Reproducer.open(unpack(shipment, there)) as arrived:
        assert arrived.manifest_sha256 == shipment.digest
    for number, (files, error) in enumerate(
        [
            ((*shipment.files, ("../evil", b"")), FormatError),
            (tuple(f for f in shipment.files if f[0] != "memory/chunks"), FormatError),
            (tuple((n, d + b" " if n.startswith("source/") else d) for n, d in shipment.files), FormatError),
        ]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.raises(error):
            unpack(Shipment(shipment.digest, files, True), place)
    with pytest.raises(UsageError, match="trust"):
        unpack(Shipment(shipment.digest, shipment.files, False), tmp_path)
    assert not (tmp_path / "evil").exists()
