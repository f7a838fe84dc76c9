"""What torch itself reads: memory that a program allocated and nobody wrote is a finding where it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap.api.sanitize.program import SanitizeResult
from tests.integration.sanitizer.live.conftest import PRELUDE, analysed, run_script

# Eight of ten rows are stored. Lines that end with "# used" use the others' memory.
PROGRAM = """
@triton.jit
def rows(o, C: tl.constexpr):
    c = tl.arange(0, C)
    tl.store(o + tl.program_id(0) * C + c, c.to(tl.float32))

def fresh(dtype=torch.float32):
    return torch.empty(10, 64, dtype=dtype)

def stored(o):
    rows[(8,)](o, C=64)
    return o

whole = torch.empty(8, 64)
stored(whole).sum()
stored(torch.empty(10, 64))[:8].sum()
stored(torch.empty(10, 64)).clone()[:8].sum()
stored(torch.empty(10, 64)).to(torch.bfloat16)[:8].sum()
stored(torch.empty(10, 64)).double()[:8].sum()
stored(torch.empty(10, 64)).t().contiguous()[:, :8].sum()
kept = torch.arange(10)[:, None] < 8
torch.where(kept, stored(torch.empty(10, 64)), 0.0).sum()
stored(torch.empty(10, 64)).masked_fill(~kept, 0.0).sum()
torch.cat([stored(torch.empty(10, 64)), torch.ones(1, 64)])[:8].sum()
torch.empty(10, 64).zero_().sum(), torch.empty(10, 64).normal_().sum()
torch.add(whole, 1, out=torch.empty(8, 64)).sum()
later = torch.empty(10, 64)
later[:8], later[8:] = 1.0, 2.0
later.sum()
torch.nn.Linear(64, 64)(torch.ones(2, 64)).sum().backward()
torch.zeros_like(torch.empty(10, 64)).sum(), torch.empty(10, 64).shape
torch.empty(10, 64).new_zeros(3).sum()
adopted = torch.empty(0).set_(torch.ones(64).untyped_storage(), 0, (64,), (1,))
assert adopted.eq(1).all()  # memory that a tensor takes over keeps what it holds
torch.save(adopted, "adopted.pt")
assert torch.load("adopted.pt").eq(1).all()

stored(torch.empty(10, 64)).sum()  # used
a = stored(torch.empty(10, 64))
a.clone().mean()  # used
b = stored(torch.empty(10, 64))
b.to(torch.bfloat16).float().sum()  # used
c = stored(torch.empty(10, 64))
torch.where(~kept, c, 0.0).sum()  # used
d = stored(torch.empty(10, 64))
torch.cat([d, torch.ones(1, 64)]).relu()  # used
e = stored(torch.empty(10, 64))
e[9, 0].item()  # used
f = stored(torch.empty(10, 64))
f.add_(1)  # used
g = torch.zeros(4)
g.resize_(100).sum()  # used
h = torch.empty(64)
(torch.ones(64, requires_grad=True) * h).sum()  # used
i = stored(torch.empty(10, 64))
i.t().contiguous()[:, 8:].amax()  # used
class Late(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, gradient):
        unwritten = torch.empty_like(gradient)
        return unwritten * gradient  # used
Late.apply(torch.ones(64, requires_grad=True)).sum().backward()
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> SanitizeResult:
    folder = tmp_path_factory.mktemp("reads")
    return run_script(folder, f"os.chdir({str(folder)!r})" + PROGRAM, analysed())


def test_uses_are_found_and_moves_are_not(result: SanitizeResult) -> None:
    assert result.target_status == 0
    expected = [n for n, line in enumerate((PRELUDE + PROGRAM).splitlines(), 1) if line.endswith("# used")]
    assert [read.python_stack[-1][1] for read in result.host_reads] == expected


def test_both_places_are_said(result: SanitizeResult) -> None:
    lines = (PRELUDE + PROGRAM).splitlines()
    by_line = {lines[read.python_stack[-1][1] - 1]: read for read in result.host_reads}
    mean = by_line["a.clone().mean()  # used"]
    assert lines[mean.allocated[-1][1] - 1] == "a = stored(torch.empty(10, 64))"
    assert (mean.operation, mean.unwritten, mean.first, mean.shape) == ("aten::mean", 128, (8, 0), (10, 64))


@pytest.mark.long
def test_what_is_compiled_is_watched_too(tmp_path: Path) -> None:
    program = """
compiled = torch.compile(lambda x: x * 2, backend="aot_eager", fullgraph=True)
assert compiled(torch.ones(64)).eq(2).all()
compiled(torch.empty(64))
"""
    result = run_script(tmp_path, program, analysed())
    assert result.target_status == 0
    assert [read.operation for read in result.host_reads] == ["aten::mul"]


def test_nothing_is_looked_at_where_unwritten_memory_is_not_asked_for(tmp_path: Path) -> None:
    result = run_script(tmp_path, "torch.empty(10, 64).sum()", analysed(), fresh=False)
    assert (result.target_status, result.host_reads) == (0, ())
