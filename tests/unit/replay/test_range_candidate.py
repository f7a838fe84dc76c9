"""What a module for several launches says of itself is read as data, and wrong data end in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kerncap.errors import UsageError
from kerncap.replay.byte_effects import Measured
from kerncap.replay.ranges.as_one import measured_as_one
from kerncap.replay.ranges.candidate import CandidateLaunch, read
from kerncap.replay.ranges.joined_memory import Place
from kerncap.replay.worker.common import bitmap

ONE = '{"kernel": "k", "grid": [4], "arguments": {"x": "0.x", "n": 3}}'


def module(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "fused.py"
    path.write_text(text)
    return path


def test_what_it_launches(tmp_path: Path) -> None:
    text = (
        'REPLACES: str = "1:3"\n'
        'LAUNCHES = [{"kernel": "k", "grid": 4, "options": {"num_warps": 8},'
        ' "arguments": {"x": "1.x", "n": 3, "mode": "mean", "none": None}}]\n'
    )
    found = read(module(tmp_path, text), 5)
    assert (found.first, found.last) == (1, 2)
    arguments = {"x": "1.x", "n": 3, "mode": "mean", "none": None}
    assert found.launches == (CandidateLaunch("k", (4, 1, 1), arguments, {"num_warps": 8}),)


def test_all_launches_are_replaced_unless_it_says_which(tmp_path: Path) -> None:
    found = read(module(tmp_path, f"LAUNCHES = ({ONE},)"), 5)
    assert (found.first, found.last) == (0, 4)


def test_it_is_not_executed(tmp_path: Path) -> None:
    left = tmp_path / "left"
    path = module(tmp_path, f"open({str(left)!r}, 'w')\nLAUNCHES = [{ONE}]\nimport nothing_of_this_name")
    assert read(path, 1).launches[0].kernel == "k"
    assert not left.exists()


@pytest.mark.parametrize(
    "text, said",
    [
        ("x = 1", "no LAUNCHES"),
        ("LAUNCHES = [", "line 1: not Python"),
        ("LAUNCHES = '\0'", "not Python"),
        (f"LAUNCHES = {'[' * 5000}{']' * 5000}", "fused.py"),
        ("LAUNCHES = []", "1 to 1,024 launches"),
        ("LAUNCHES = made()", "line 1: LAUNCHES is not a literal"),
        ("LAUNCHES: list", "LAUNCHES is not a literal"),
        (f"LAUNCHES = [{ONE}]\nLAUNCHES = []", "line 2: LAUNCHES is assigned twice"),
        (f"LAUNCHES = [{ONE}]\nREPLACES = '0:9'", "REPLACES '0:9'"),
        (f"LAUNCHES = [{ONE}]\nREPLACES = '2:2'", "launches N to M-1 of 5"),
        (f"LAUNCHES = [{ONE}]\nREPLACES = 3", "REPLACES 3"),
        ("LAUNCHES = ['k']", "LAUNCHES[0]: expected a dict"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1}]", "expected a dict of kernel, grid, arguments"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {}, 'block': 3}]", "expected a dict of kernel"),
        ("LAUNCHES = [{'kernel': 'a b', 'grid': 1, 'arguments': {}}]", "the name of a function"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': [1, 1, 1, 1], 'arguments': {}}]", "one to three integers"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': [True], 'arguments': {}}]", "one to three integers"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': [0], 'arguments': {}}]", "programs"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': [65536, 65536], 'arguments': {}}]", "programs"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {1: 2}}]", "values by parameter"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {'x': [1]}}]", "argument x"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {}, 'options': {'warps': 1}}]", "num_warps"),
        ("LAUNCHES = [{'kernel': 'k', 'grid': 1, 'arguments': {}, 'options': {'num_warps': 0}}]", "integers"),
    ],
)  # fmt: skip
def test_what_is_said_wrongly(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(module(tmp_path, text), 5)
    assert said in str(raised.value) and "\n" not in str(raised.value), raised.value


def test_what_a_launch_rewrites_is_its_result() -> None:
    """A launch in place reads what the one before left; nothing reads what it leaves itself."""
    first, second = Measured([8]), Measured([8])
    first.add(0, bitmap.span(8, 0, 8))
    second.add(0, bitmap.span(8, 0, 4), also_input=bitmap.span(8, 0, 4))
    place = [Place(0, 0)]
    whole = SimpleNamespace(
        manifest=SimpleNamespace(regions=[SimpleNamespace(size=8)]), places=[place, place],
        replaced=[SimpleNamespace(number=0), SimpleNamespace(number=1)],
    )  # fmt: skip
    found = measured_as_one(cast("Any", whole), [first, second])
    assert found.results()[0] == bitmap.span(8, 0, 8)
    assert found.perhaps_dead()[0] == bitmap.span(8, 4, 8)
