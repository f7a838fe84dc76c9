"""Options are checked before anything starts, and session.json says what was asked."""

from __future__ import annotations

from typing import Any

import pytest

from kerncap.capture.options import check_regex, parse_launch, parse_ranks, parse_size
from kerncap.capture.session_file import SessionFile
from kerncap.errors import UsageError
from tests.session_options import capture_options


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GiB", 8 << 30),
        ("512M", 512 << 20),
        ("1.5g", 3 << 29),
        ("4096", 4096),
        ("8GB", 8 * 10**9),
        ("1 kib", 1024),
        ("7B", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "0", "1e3", "8 XB", "nan", "99999999TiB", "1GiBs"])
def test_sizes_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="size"):
        parse_size(text)


@pytest.mark.parametrize(("text", "launch"), [("0", (0, 1)), ("3:7", (3, 7)), ("12", (12, 13))])
def test_launches(text: str, launch: tuple[int, int]) -> None:
    assert parse_launch(text) == launch


@pytest.mark.parametrize("text", ["", "-1", "a", "1:", ":2", "3:3", "5:2", "1:2:3", "1.0"])
def test_launches_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="--launch"):
        parse_launch(text)


def test_a_bad_regex_names_the_place() -> None:
    with pytest.raises(UsageError, match="column 4"):
        check_regex("abc(")


@pytest.mark.parametrize(
    "changes",
    [
        {"command": ()},
        {"last": 0},
        {"fault_timeout_s": 0},
        {"self_check_timeout_s": 0},
        {"on_fault": True, "when": "nonfinite"},
        {"last": 2, "launch": (0, 1)},
        {"no_values": True, "when": "nonfinite"},
        {"kernel": "["},
        {"collective": 2},  # of which kernel?
        {"collective": 1, "kernel": "a"},
        {"collective": 49, "kernel": "a"},
        {"collective": 2, "kernel": "a", "ranks": (0,)},
        {"collective": 2, "kernel": "a", "when": "nonfinite"},
        {"collective": 2, "kernel": "a", "on_fault": True},
        {"collective": 2, "kernel": "a", "last": 1},
        {"collective": 2, "kernel": "a", "collective_timeout_s": 0},
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        capture_options(**{"command": ("true",), **changes})


@pytest.mark.parametrize(
    ("changes", "default"),
    [
        ({}, True),
        ({"no_values": True, "stop": True}, True),
        ({"kernel": "a"}, False),
        ({"launch": (0, 1)}, False),
        ({"where": [["name", "n"]]}, False),
        ({"per_config": True}, False),
        ({"on_fault": True}, False),
        ({"when": "differs"}, False),
        ({"last": 1}, False),
    ],
)
def test_the_default_selection_is_the_one_without_a_selector(changes: dict[str, Any], default: bool) -> None:
    assert SessionFile.of(capture_options(**changes), "t", "/s").by_default is default


def test_ranks_are_numbers_with_commas() -> None:
    assert parse_ranks("3") == (3,) and parse_ranks(" 2,0, 2") == (0, 2)
    for text in ("", "a", "1,", "-1", "1.5", "9" * 10):
        with pytest.raises(UsageError, match="--rank"):
            parse_ranks(text)


def test_a_range_is_a_selector_and_a_rank_is_none() -> None:
    assert not capture_options(range="step").selection.is_default
    assert capture_options(ranks=(0,)).selection.is_default
    with pytest.raises(UsageError, match=r"--range '\(': .* column 1"):
        capture_options(range="(")


@pytest.mark.parametrize("changes", [{"kernel": "add"}, {"ranks": (0,)}, {"on_fault": True}, {"stop": True}])
def test_dormant_takes_no_selector(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="--dormant"):
        capture_options(dormant=True, **changes)
