"""Options are checked before anything starts, and session.json says what was asked."""

from __future__ import annotations

from typing import Any

import pytest

from kerncap.capture.options import CaptureOptions, check_regex, parse_launch, parse_size
from kerncap.errors import UsageError


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
        {"on_fault": True, "when": "nonfinite"},
        {"last": 2, "launch": (0, 1)},
        {"kernel": "["},
    ],
)
def test_contradictions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        CaptureOptions(**{"command": ("true",), **changes})


@pytest.mark.parametrize(
    ("changes", "default"),
    [
        ({}, True),
        ({"no_values": True, "stop": True}, True),
        ({"kernel": "a"}, False),
        ({"launch": (0, 1)}, False),
        ({"where": ["name", "n"]}, False),
        ({"per_config": True}, False),
        ({"on_fault": True}, False),
        ({"when": "differs"}, False),
        ({"last": 1}, False),
    ],
)
def test_the_default_selection_is_the_one_without_a_selector(changes: dict[str, Any], default: bool) -> None:
    options = CaptureOptions(command=("true",), **changes)
    assert options.for_hook("t", "/s")["select"]["default"] is default
