"""Memory that `torch.empty` gives is known as unwritten; what a program does with it works as before."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from kerncap.sanitizer.launch import Unwritten
from kerncap.sanitizer.sources import fetched_contents
from kerncap.sanitizer.sources.fetched_contents import unwritten_of
from tests.integration.sanitizer.live.conftest import PRELUDE, analysed, of, run_script

PATTERN = bytes(range(1, 9))


def runs(found: Unwritten | None) -> list[tuple[int, int]]:
    assert found is not None
    return list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))


@pytest.mark.parametrize("at_once", [8, 16, 4096])  # runs go on from one piece to the next
def test_words_that_hold_the_pattern_are_unwritten(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(fetched_contents, "_AT_ONCE", at_once)
    data = np.frombuffer(PATTERN * 3 + PATTERN[:5], np.uint8).copy()
    assert runs(unwritten_of(PATTERN, data)) == [(0, 29)]
    data[9] = 0
    assert runs(unwritten_of(PATTERN, data)) == [(0, 8), (16, 29)]  # less the word
    data[24] = 0
    assert runs(unwritten_of(PATTERN, data)) == [(0, 8), (16, 24)]
    data[:] = 0
    assert runs(unwritten_of(PATTERN, data)) == []


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_few_bytes_could_be_any_value(size: int) -> None:
    assert runs(unwritten_of(PATTERN, np.frombuffer(PATTERN[:size], np.uint8))) == []


@pytest.mark.long
def test_allocations_of_a_program(tmp_path: Path) -> None:
    result = run_script(
        tmp_path,
        """
        import pickle

        @triton.jit
        def touch(x, B: tl.constexpr):
            tl.store(x + tl.arange(0, B), tl.zeros((B,), tl.float32), mask=tl.arange(0, B) < 0)

        like = torch.zeros(8, 4)
        def launch(x, number):
            touch[(number,)](x, B=16)

        launch(torch.empty(100), 1)
        launch(torch.empty_like(like), 2)
        launch(torch.empty_strided((8, 4), (4, 1)), 3)
        launch(like.new_empty(16, 2), 4)
        launch(torch.zeros(32), 5)
        launch(torch.empty(8, 4, out=torch.zeros(8, 4)), 6)
        launch(torch.randn(32), 7)
        half = torch.empty(32)
        half[8:24] = 1
        launch(half, 8)
        view = torch.empty(64)[32:]
        launch(view, 9)  # the storage is fresh, whatever the window
        for _ in range(6000):
            torch.empty(4)  # the memory of some of these comes again, written
        launch(torch.ones(32), 10)
        launch(torch.nn.Linear(4, 8).weight, 11)

        # Whoever knows these functions by name or by identity finds them.
        assert pickle.loads(pickle.dumps(torch.empty)) is torch.empty
        with torch.device("meta"):
            assert torch.empty(3).device.type == "meta"
        def both(x):
            a = torch.empty(4, 4)
            a.copy_(x)
            return a + x.new_empty(4, 4).zero_() + torch.empty_like(x).zero_()
        ones = torch.ones(4, 4)
        assert torch.compile(both, backend="aot_eager", fullgraph=True)(ones).eq(1).all()
        @torch.jit.script
        def scripted(x: torch.Tensor):
            return torch.empty([2]).zero_() + x
        assert scripted(torch.ones(2)).eq(1).all()
        """,
        analysed(touch=["x"]),
    )
    assert result.target_status == 0
    notes = {report.grid[0]: report.notes[0].removeprefix("x: ") for report in of(result, "touch")}
    assert notes == {
        1: "0 of 400 bytes written",
        2: "0 of 128 bytes written",
        3: "0 of 128 bytes written",
        4: "0 of 128 bytes written",
        5: "128 of 128 bytes written",
        6: "128 of 128 bytes written",
        7: "128 of 128 bytes written",
        8: "64 of 128 bytes written",
        9: "0 of 256 bytes written",
        10: "128 of 128 bytes written",
        11: "128 of 128 bytes written",
    }


LARGE = """
    @triton.jit
    def first_bytes(x, out, B: tl.constexpr):
        at = tl.arange(0, B)
        tl.store(out + at, tl.load(x + at).to(tl.int32))

    x = torch.empty(1 << 31, dtype=torch.uint8)
    x[:64] = 1
    first_bytes[(1,)](x, torch.zeros(64, dtype=torch.int32), B=64)
"""


@pytest.mark.long
def test_a_large_reservation_is_not_committed(tmp_path: Path) -> None:
    path = tmp_path / "large.py"
    path.write_text(PRELUDE + textwrap.dedent(LARGE), encoding="utf-8")
    command = [sys.executable, "-m", "kerncap", "sanitize", "--", sys.executable, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        said = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
    assert status == 0, said
    assert "Result: PASS" in said
    assert used.ru_maxrss < 1 << 20  # KiB; of the largest of its processes, the program among them


BY_PAGE = """
    @triton.jit
    def copy_bytes(x, out, at, B: tl.constexpr):
        tl.store(out + tl.arange(0, B), tl.load(x + at + tl.arange(0, B)))

    out = torch.zeros(64, dtype=torch.uint8)
    for number, at in enumerate((0, 40 << 20, 60 << 20, (64 << 20) - 64)):
        x = torch.empty(64 << 20, dtype=torch.uint8)
        x[:64] = 1
        x[40 << 20:(40 << 20) + 64] = 1
        copy_bytes[(1,)](x, out, at, B=64)
    x[:32 << 20].sum()
    assert int(x[40 << 20]) == 1
"""


@pytest.mark.long
def test_of_a_large_tensor_pages_that_nothing_backs_are_unwritten(tmp_path: Path) -> None:
    result = run_script(tmp_path, BY_PAGE)
    assert [len(report.findings) for report in of(result, "copy_bytes")] == [0, 0, 1, 1]
    assert [read.operation for read in result.host_reads] == ["aten::sum"]
    assert result.host_reads[0].unwritten == (32 << 20) - 64
