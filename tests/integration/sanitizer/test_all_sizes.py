"""A captured launch for all sizes: what is taken from it, and every way that it is compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.api.sanitize import sanitize_reproducer
from kerncap.api.sanitize.all_sizes import sanitize_reproducer_for_all
from kerncap.errors import UsageError
from kerncap.report.sanitize_answer import counts_of
from tests.integration.conftest import CommandLine
from tests.parameters import first_of
from tests.unit.format.damage import GOLDEN_BLOCK

PROGRAM = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton
import triton.language as tl

@triton.jit
def rows(x_ptr, out_ptr, index_ptr, stride, columns, chosen, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    source = tl.load(index_ptr + row)
    value = tl.load(x_ptr + source * stride + offsets, mask=offsets < columns)
    tl.store(out_ptr + row * columns + offsets, value, mask=offsets < columns)

x = torch.ones(40, 128)[:, :100]
index = torch.tensor([3, 0, 39, 7, 7])
out = torch.empty(5, 100)
rows[(5,)](x, out, index, x.stride(0), 100, 5, BLOCK=128)
"""


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    program = folder / "program.py"
    program.write_text(PROGRAM)
    [path] = CommandLine(folder).capture(target=program)
    return path


OF_PARAMETERS = """
import os
os.environ["TRITON_INTERPRET"] = "1"
import kerncap, torch, triton
import triton.language as tl

@triton.jit
@kerncap.invariant("n <= 2 * m")
def first(
    x_ptr, out_ptr,
    n,  # kerncap: BLOCK <= n
    m, BLOCK: tl.constexpr,
):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))

first[(1,)](torch.ones(300), torch.empty(300), 300, M, BLOCK=128)
"""


def of_parameters(folder: Path, m: int, claim: str = "n <= 2 * m") -> Path:
    program = folder / "program.py"
    program.write_text(OF_PARAMETERS.replace("M,", f"{m},").replace("n <= 2 * m", claim))
    [path] = CommandLine(folder).capture(target=program)
    return path


def test_what_is_said_of_parameters_is_assumed_of_all_sizes(tmp_path: Path) -> None:
    """Of the texts for which it is compiled, those of n = 1 are for no sizes that are meant."""
    path = of_parameters(tmp_path, 200)
    [report] = sanitize_reproducer_for_all(path, ["n=1..9999,m=1..9999"], "1", {}, trusted=True)
    counts = counts_of(report)
    assert (counts.violated, counts.unproven) == (0, 0) and counts.proved == 2
    assert report.for_all is not None
    assert {"the comment BLOCK <= n in program.py:11", "the comment n <= 2 * m in program.py:8"} <= {
        *report.for_all.assumed
    }
    with pytest.raises(UsageError, match="no sizes of --for-all n=1..100, m=1..9999 were found"):
        sanitize_reproducer_for_all(path, ["n=1..100,m=1..9999"], "1", {}, trusted=True)


def test_what_is_said_of_parameters_was_so_in_the_captured_launch(tmp_path: Path) -> None:
    path = of_parameters(tmp_path, 100)
    said = r"program.py:8: the comment says n <= 2 \* m, and n was 300 in the captured launch"
    with pytest.raises(UsageError, match=said):
        sanitize_reproducer_for_all(path, ["n=1..9999,m=1..9999"], "1", {}, trusted=True)


@first_of("most", [299, 300])
def test_what_is_said_of_a_parameter_that_is_one(tmp_path: Path, most: int) -> None:
    """The compiled kernel has no m."""
    [report] = sanitize_reproducer(of_parameters(tmp_path, 1, f"n <= {most} * m"), trusted=True)
    said = [] if most == 300 else ["n is 300, and the source says n <= 299 * m"]
    assert [one.message for one in report.findings] == said
    assert counts_of(report).unproven == 0


SHAPE = {"x_ptr": "float32[40,columns]@strides(stride,1)"}


@pytest.mark.long
def test_rows_of_all_sizes(captured: Path) -> None:
    def judged(chosen: str) -> dict[str, tuple[int, int]]:
        stated = ["columns=1..4096", f"chosen={chosen},index_ptr=0..39"]
        reports = sanitize_reproducer_for_all(captured, stated, "chosen", SHAPE, trusted=True)
        for one in reports:
            assert one.for_all is not None
            assert {"index_ptr is int64[chosen]", "stride stays 128"} <= {*one.for_all.assumed}
        assert sum(finding.check == "overflow" for one in reports for finding in one.findings) == sum(
            bool(one.findings) for one in reports
        )
        return {one.label: (counts_of(one).proved, counts_of(one).violated) for one in reports}

    many = "a multiple of 16 or another 32-bit number"
    labels = [f"columns is {a}, chosen is {b}" for a in ("1", many) for b in ("1", many)]
    assert judged("1..500000") == dict.fromkeys(labels, (3, 0))
    # Rows of 4,096 numbers leave 32 bits from row 524,288 on.
    assert judged("1..2**31-1") == {**dict.fromkeys(labels, (3, 0)), labels[3]: (2, 1)}


def test_every_text_that_a_source_is_compiled_to() -> None:
    """A store without a mask, of a kernel that Triton compiles in one way for 1 and in one for all others."""
    reports = sanitize_reproducer_for_all(GOLDEN_BLOCK, ["n=1..2**31-1"], "cdiv(n,BLOCK)", {}, trusted=True)
    assert all(one.for_all is not None and "BLOCK stays 128" in one.for_all.assumed for one in reports)
    found = {one.label: [(finding.sizes, finding.smallest) for finding in one.findings] for one in reports}
    assert found == {
        "n is 1": [((("n", 1),), True)],
        "n is a multiple of 16 or another 32-bit number": [((("n", 2),), True)],
    }


@pytest.mark.parametrize(
    ("stated", "grid", "arguments", "message"),
    [
        ("n=1..99", None, {}, "--for-all needs --grid over the sizes"),
        ("n=-2**40..99", "2", {}, "n may be -1099511627776; state sizes that keep it in 32 bits below 0"),
        ("n=1..99", "n", {}, "--grid n: it is 250,1,1 in the captured launch, whose grid was 2,1,1"),
        ("n=1..99", "2", {"x_ptr": "f32[2*n]"}, "x_ptr=f32[2*n]: 500 elements in the captured launch"),
        ("BLOCK=1..99", "2", {}, "BLOCK is not an integer or pointer of the compiled kernel"),
    ],
)  # fmt: skip
def test_what_the_captured_launch_contradicts(
    stated: str, grid: str | None, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        sanitize_reproducer_for_all(GOLDEN_BLOCK, [stated], grid, arguments)
    assert message in str(error.value)
