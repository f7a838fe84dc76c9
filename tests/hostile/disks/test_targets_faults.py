"""Any call of the CUDA shim to the disk may fail: the program ends as it does without kerncap."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.parameters import first_of

from .targets import Ended, Run, Target, captured, check
from .test_targets_sweep import cuda, plain_of

__all__ = ["cuda", "plain_of"]

PRELOADED = ("sh", "-c", 'LD_PRELOAD="$FAULTY_LIBRARY${LD_PRELOAD:+:$LD_PRELOAD}" exec "$@"', "sh")


@pytest.fixture
def faulty(cuda: Target, library: Path, tmp_path: Path) -> Callable[..., tuple[Run, Path]]:
    """``faulty(n, how)``: a capture whose n-th call to the disk fails so; the run, and its output folder."""

    def run(number: int, how: str) -> tuple[Run, Path]:
        folder = tmp_path / f"{number}-{how}"
        (folder / "out").mkdir(parents=True)
        extra = {
            "FAULTY_LIBRARY": str(library),
            "FAULTY_DISK": f"{number} {how}",
            "FAULTY_DISK_COUNT": str(folder / "count"),
        }
        return captured(cuda, folder / "out", folder / "kept", inner=PRELOADED, extra=extra), folder / "out"

    return run


def calls(run: Callable[..., tuple[Run, Path]]) -> int:
    """How many calls there are where none fails."""
    done, output = run(0, "28")
    assert done.captured, done.said
    count = max(map(int, (output.parent / "count").read_text().split()))
    assert count > 8
    return count


def test_the_last_byte_of_a_state_finds_no_room(
    cuda: Target, plain_of: Callable[..., Ended], faulty: Callable[..., tuple[Run, Path]]
) -> None:
    run, output = faulty(9, "half")
    check(run, plain_of(cuda), output)


@pytest.mark.long
@first_of("how", ["28", "5", "122", "27", "30", "4", "short", "half"])
def test_every_call_fails_once(
    cuda: Target, plain_of: Callable[..., Ended], faulty: Callable[..., tuple[Run, Path]], how: str
) -> None:
    found = []
    for number in range(1, calls(faulty) + 1):
        run, output = faulty(number, how)
        found.append(check(run, plain_of(cuda), output))
        if how == "short":
            assert found[-1] == "captured", (number, run.said)
    print(how, found)
