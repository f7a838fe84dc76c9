"""Kernels that get their tensors by a table of addresses, as grouped products do."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine
from tests.integration.triton.test_cases import edited

KERNEL = """
    import numpy as np

    @triton.jit
    def scale_rows(table, sizes, by, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        x_ptr = tl.load(table + row).to(tl.pointer_type(tl.float32))
        factor = tl.load(by.to(tl.pointer_type(tl.float32)))
        i = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < tl.load(sizes + row))
        tl.store(x_ptr + i, x * factor, mask=i < tl.load(sizes + row))

    sizes, by = torch.tensor([100, 37], dtype=torch.int32, device=DEVICE), torch.tensor([3.0], device=DEVICE)
"""
TENSORS = """
    rows = [torch.linspace(1, 2, size, device=DEVICE) for size in (100, 37)]
    table = torch.tensor([row.data_ptr() for row in rows], device=DEVICE)
    scale_rows[(2,)](table, sizes, by.data_ptr(), BLOCK=128)
    assert rows[1][0] == 3
"""
ARRAYS = """
    rows = [np.linspace(1, 2, size, dtype=np.float32) for size in (100, 37)]
    table = torch.tensor([row.ctypes.data for row in rows], device=DEVICE)
    scale_rows[(2,)](table, sizes, by.data_ptr(), BLOCK=128)
    assert rows[1][0] == 3
"""


@pytest.fixture(scope="module")
def of_tensors(kerncap_of_module: CommandLine) -> Path:
    target = kerncap_of_module.target(KERNEL + TENSORS)
    [path] = kerncap_of_module.capture("-k", "scale_rows", "--no-self-check", target=target)
    return path


def test_what_a_table_leads_to_is_captured(kerncap: CommandLine, of_tensors: Path) -> None:
    with Reproducer.open(of_tensors) as reproducer:
        names = [view.name for view in reproducer.manifest.views]
        assert names == ["table", "sizes", "table[0]", "table[1]", "by"]
        assert [region.size for region in reproducer.manifest.regions] == [16, 8, 400, 148, 4]
    assert kerncap("verify", of_tensors).result_line.startswith("Result: PASS (")


def test_a_candidate_is_judged_by_it(kerncap: CommandLine, of_tensors: Path) -> None:
    same = edited(of_tensors, "x * factor", "factor * x", kerncap.folder / "same.py")
    assert kerncap("verify", of_tensors, "--candidate", same).status == 0
    wrong = edited(of_tensors, "x * factor", "x + factor", kerncap.folder / "wrong.py")
    done = kerncap("verify", of_tensors, "--candidate", wrong)
    assert done.status == 1 and "table[0]: 100 of 100 elements differ" in done.stdout, done.stdout


def test_it_is_sanitized(kerncap: CommandLine, of_tensors: Path) -> None:
    done = kerncap("sanitize", "--trust", of_tensors)
    assert "memory operations: 5 proved (5 for these contents)" in done.result_line, done.stdout + done.stderr
    assert done.status == 0


def test_memory_that_python_does_not_know_is_named(kerncap: CommandLine) -> None:
    target = kerncap.target(KERNEL + ARRAYS)
    [path] = kerncap.capture("-k", "scale_rows", "--no-self-check", target=target)
    done = kerncap("verify", path)
    assert done.status == 5 and "byte 0 of region 0 (0x" in done.result_line, done.stdout
    assert "may be addresses of memory that is not captured" in done.result_line
