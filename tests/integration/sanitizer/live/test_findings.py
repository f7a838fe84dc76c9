"""The whole way with the analysis itself: programs, Python calls, the samples."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from kerncap.api.sanitize.python_call import sanitize_call
from kerncap.sanitizer.findings import LaunchReport, Proved, Unproven
from tests.integration.sanitizer.live.conftest import of, run_script

SAMPLES = Path(__file__).parents[4] / "samples"
# torch_compile_block needs a GPU
NOT_ON_CPU = {
    "torch_compile_block", "numba_axpy", "cuda_python_axpy", "cutile_scaled_add", "cute_dsl_scaled_add",
    "hip_python_axpy",
}  # fmt: skip
ON_CPU = sorted({path.parent.name for path in SAMPLES.glob("*/run.py")} - NOT_ON_CPU)


@triton.autotune([triton.Config({"B": 16}), triton.Config({"B": 128})], key=[])
@triton.jit
def shift(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o + 1, mask=o < n), mask=o < n)


def found(report: LaunchReport) -> list[tuple[str, str, str | None]]:
    return [(finding.check, finding.access, finding.argument) for finding in report.findings]


def test_a_python_call() -> None:
    x, y = torch.zeros(100), torch.zeros(100)
    grid = lambda meta: (triton.cdiv(100, meta["B"]),)  # noqa: E731
    bad = sanitize_call(shift, x, y, 100, grid=grid)
    assert [report.grid[0] for report in bad] == [1, 7]
    assert [found(report) for report in bad] == [[("oob", "load", "x")]] * 2
    assert [found(report) for report in sanitize_call(shift, x, y, 99, grid=grid)] == [[], []]
    (first,) = sanitize_call(shift, x, y, 99, grid=grid, every_configuration=False)
    assert first.label == "configuration 1 of 2"
    assert not y.any()


def test_a_program_with_findings(tmp_path: Path) -> None:
    result = run_script(
        tmp_path,
        """
        @triton.jit
        def shift(x, y, n, B: tl.constexpr):
            o = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(y + o, tl.load(x + o + 1, mask=o < n), mask=o < n)

        @triton.jit
        def pick(x, index, y, B: tl.constexpr):
            o = tl.arange(0, B)
            tl.store(y + o, tl.load(x + tl.load(index + o)))

        x, y = torch.ones(100), torch.empty(100)
        shift[(4,)](x, y, 100, B=32)
        assert y.tolist() == [1] * 99 + [0]  # what lies outside reads as zero, and nothing is harmed
        shift[(4,)](torch.empty(100), y, 99, B=32)
        index = torch.arange(16)
        pick[(1,)](x, index, y, B=16)
        index[3] = 100
        pick[(1,)](x, index, y, B=16)
        """,
    )
    assert result.target_status == 0
    outside, unwritten = of(result, "shift")
    assert found(outside) == [("oob", "load", "x")]
    assert outside.findings[0].location.frames[0].line == 9
    assert found(unwritten) == [("uninit", "load", "x")]
    first, second = of(result, "pick")
    assert not first.findings and found(second) == [("oob", "load", "x")]
    assert second.findings[0].contents and second.findings[0].place.lane == (3,)


@pytest.mark.long
def test_samples(tmp_path: Path) -> None:
    """One process for all of them, each as `python run.py` would run it."""
    result = run_script(
        tmp_path,
        f"""
        import runpy
        for name in {ON_CPU!r}:
            runpy.run_path(os.path.join({str(SAMPLES)!r}, name, "run.py"), run_name="__main__")
        """,
    )
    assert result.target_status == 0
    kernels = {report.kernel for report in result.reports}
    assert len(kernels) >= len(ON_CPU)  # one each at least
    assert [found(report) for report in result.reports if report.findings] == []
    settled = [one.verdict for report in result.reports for one in report.settled]
    assert settled and not any(isinstance(verdict, Unproven) for verdict in settled)


def test_tables_of_pointers(tmp_path: Path) -> None:
    result = run_script(
        tmp_path,
        """
        @triton.jit
        def fill(table, shift, n, B: tl.constexpr):
            p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
            o = tl.load(shift + tl.program_id(0)) + tl.arange(0, B)
            tl.store(p + o, 1.0, mask=tl.arange(0, B) < n)

        rows = [torch.zeros(100), torch.zeros(100)]
        table = torch.tensor([row.data_ptr() for row in rows])
        shift = torch.zeros(2, dtype=torch.int64)
        fill[(2,)](table, shift, 100, B=128)
        assert all(row.tolist() == [1] * 100 for row in rows)
        shift[1] = 1
        fill[(2,)](table, shift, 100, B=128)
        between = (rows[1].data_ptr() - rows[0].data_ptr()) // 4
        shift[:] = torch.tensor([between, -between])  # each row's program stores to the other row
        fill[(2,)](table, shift, 100, B=128)
        """,
    )
    assert result.target_status == 0 and not result.notes
    right, past, other = result.reports
    assert all(isinstance(one.verdict, Proved) for one in right.settled)
    assert found(past) == found(other) == [("oob", "store", None)]
    assert "just past the end of table[1] (400 bytes at" in past.findings[0].message
    assert other.findings[0].lands_in in ("table[0]", "table[1]")
