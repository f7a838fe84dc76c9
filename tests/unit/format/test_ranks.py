"""What must fit together of a launch that several ranks made, in one part and between the parts."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.inspect import inspect
from kerncap.cli import main
from kerncap.errors import KerncapError, ReplayError, UsageError
from kerncap.format import Reproducer
from kerncap.replay.all_ranks_engine import Together
from kerncap.report.inspect_text import render
from tests.unit.format.damage import GOLDEN_NATIVE, GOLDEN_RANKS, damaged, edit_manifest, put

OWNER = ("regions", 1, "owner")
Edit = Callable[[Any], None]


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put("collective", "rank")(2), "rank 2 of only 2"),
        (put("collective", "rank")(-1), ">= 0"),
        (put("collective", "ranks")(1), ">= 2"),
        (put("collective", "ranks")(2**31), "<= 4096"),
        (put("collective", "id")("../../ranks"), "matching regex"),
        (put("collective")(None), "only device memory of a collective launch has an owner"),
        (put("regions", 1, "kind")("host"), "only device memory of a collective launch has an owner"),
        (put(*OWNER, "rank")(0), "rank 0 is not another one of the 2"),
        (put(*OWNER, "rank")(2), "rank 2 is not another one of the 2"),
        (put(*OWNER, "base")(2**63 - 1), "it ends beyond address 2^63 there"),
        (put(*OWNER, "base")(-1), ">= 0"),
    ],
)
def test_rules(tmp_path: Path, edit: Edit, message: str) -> None:
    folder = Path(shutil.copytree(GOLDEN_RANKS[0], tmp_path / "rank0"))
    edit_manifest(folder, edit)
    damaged(folder, "manifest.json", re.escape(message))


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (put("collective", "id")("0" * 16), UsageError, "of another launch than"),
        (put("collective", "ranks")(3), UsageError, "of 3 ranks"),
        (put("collective", "rank")(0), None, None),  # and so is the owner of its window: refused as damaged
        (put("regions", 1, "base")(0x7F4000400000), ReplayError, "memory that rank 1 did not keep"),
        (put("regions", 1, "size")(262144), None, None),  # the views reach beyond it
    ],
)
def test_parts_that_do_not_fit(
    tmp_path: Path, edit: Edit, error: type[KerncapError] | None, message: str | None
) -> None:
    folder = Path(shutil.copytree(GOLDEN_RANKS[1], tmp_path / "rank1"))
    edit_manifest(folder, edit)
    with contextlib.ExitStack() as stack:
        if error is None:
            with pytest.raises(KerncapError, match=re.escape("manifest.json")):
                stack.enter_context(Reproducer.open(folder))
            return
        parts = [stack.enter_context(Reproducer.open(path)) for path in (GOLDEN_RANKS[0], folder)]
        with pytest.raises(error, match=message):
            Together(parts)


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        ([GOLDEN_RANKS[0]], "one of 2 ranks; give rank 1 too"),
        ([GOLDEN_RANKS[1]], "one of 2 ranks; give rank 0 too"),
        ([GOLDEN_RANKS[0], GOLDEN_RANKS[0]], "rank 0 is given twice"),
        ([GOLDEN_NATIVE], "not captured with --collective"),
        ([GOLDEN_RANKS[0], GOLDEN_NATIVE], "not captured with --collective"),
    ],
)
def test_parts_that_are_not_all(folders: list[Path], message: str) -> None:
    with contextlib.ExitStack() as stack:
        parts = [stack.enter_context(Reproducer.open(path)) for path in folders]
        with pytest.raises(UsageError, match=message):
            Together(parts)


def test_inspect_names_the_rank_and_the_owner() -> None:
    text = render(inspect(GOLDEN_RANKS[1]))
    assert "ranks        rank 1 of 2 that made launch 5eed0fa11ece0001 together" in text
    assert "argument at 0 (rank 0's, at 0x7f4000000000)" in text


@pytest.mark.parametrize(
    "options",
    [
        ("--stages", "all"), ("--launch", "0"), ("--intermediate", "0.x"), ("--expect", "finite"),
        ("--reference", "r.py"), ("--prove",), ("--hostile",), ("--engine", "jit"), ("--emulator", "gpu"),
    ],
)  # fmt: skip
def test_what_judges_one_launch_does_not_go_with_all_ranks(
    options: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    ranks = [str(folder) for folder in GOLDEN_RANKS]
    assert main(["verify", "--together", *options, *ranks]) == 2
    assert f"{options[0]}" in (said := capsys.readouterr().err) and "with --together" in said, said
