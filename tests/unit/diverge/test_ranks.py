"""Which processes of two distributed runs are compared."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kerncap.api.diverge import DivergeOptions, Side, diverge
from kerncap.api.diverge.ranks import matched, of_rank
from kerncap.capture import trace_file
from kerncap.capture.trace_file import Trace, TracedProcess
from kerncap.errors import UsageError
from tests.unit.diverge.launches import launch


def run(*processes: tuple[int | None, str, object]) -> Trace:
    """A process each: its rank, the kernel that it launched, and what that left."""
    return Trace(
        processes=tuple(
            TracedProcess(pid=number + 1, rank=rank, launches=(launch(name, 0, after),))
            for number, (rank, name, after) in enumerate(processes)
        )
    )


def shape(a: Trace, b: Trace) -> list[tuple[int | None, list[str], list[str]]]:
    both = matched(a, b)
    assert len(both[0].processes) == len(both[1].processes)
    found = []
    for one, other in zip(both[0].processes, both[1].processes, strict=True):
        assert one.rank == other.rank
        names = [[each.kernel.name for each in side.launches] for side in (one, other)]
        found.append((one.rank, names[0], names[1]))
    return found


def test_rank_stands_beside_rank() -> None:
    a = run((None, "main", 1), (0, "f", 1), (2, "g", 1), (2, "loader", 1))
    b = run((0, "f", 1), (1, "new", 1), (2, "g", 1))
    assert shape(a, b) == [
        (None, ["main"], []), (0, ["f"], ["f"]), (2, ["g"], ["g"]), (2, ["loader"], []), (1, [], ["new"])
    ]  # fmt: skip
    assert [one.launches for one in matched(a, b)[0].processes[:4]] == [one.launches for one in a.processes]


def test_processes_without_ranks_are_in_their_order() -> None:
    assert shape(run((None, "f", 1), (None, "g", 1)), run((None, "f", 1))) == [
        (None, ["f"], ["f"]), (None, ["g"], [])
    ]  # fmt: skip


def test_a_rank_that_is_not_there() -> None:
    whole = run((0, "f", 1), (2, "f", 1))
    assert [one.rank for one in of_rank(whole, 2, "A").processes] == [2]
    with pytest.raises(UsageError, match="A: rank 1 launched nothing that was traced; ranks 0, 2 did"):
        of_rank(whole, 1, "A")
    with pytest.raises(UsageError, match="no process has a rank"):
        of_rank(run((None, "f", 1)), 0, "B")


def compared(
    folder: Path, first: Trace, second: Trace, ranks: tuple[int, int] | None
) -> tuple[str, str | None]:
    sides = []
    for number, (name, one) in enumerate((("A", first), ("B", second))):
        path = folder / f"{name}.json"
        trace_file.write(path, msgspec.structs.replace(one, command=("train",)))
        sides.append(Side(name, recorded=path, rank=None if ranks is None else ranks[number]))
    found = diverge(DivergeOptions(sides[0], sides[1], output=folder))
    return found.answer.name, found.named.kind if found.named is not None else None


def test_ranks_of_recorded_runs(tmp_path: Path) -> None:
    one = run((0, "f", 1), (1, "f", 1), (2, "f", 2))
    same, other = compared(tmp_path, one, one, (0, 1)), compared(tmp_path, one, one, (0, 2))
    assert same == ("YES", None)
    assert other[0] != "YES", "they differ, and a recorded side can't be captured to see in what"
    later = run((0, "f", 1), (2, "f", 2))
    assert compared(tmp_path, one, later, None)[1] == "only", (
        "rank 1 is missing, and not compared with rank 2"
    )
    assert compared(tmp_path, later, later, None) == ("YES", None)
