"""On an NVIDIA GPU: unchanged programs under the sanitizer, their results untouched."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import CommandLine

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

ROOT = Path(__file__).parents[4]
SAMPLES = ROOT / "samples"
LIGER = ROOT / "tests" / "integration" / "triton" / "targets" / "liger_ops.py"


def sanitize(kerncap: CommandLine, *command: str | Path, options: tuple[str, ...] = ()) -> tuple[int, Any]:
    done = kerncap("sanitize", "--json", *options, "--", sys.executable, *command, timeout=400)
    assert done.status in (0, 1), done.stdout + done.stderr
    return done.status, done.document


def findings(document: Any) -> list[tuple[str, str, int, str]]:
    return [
        (launch["kernel"], one["check"], one["line"], one["message"])
        for launch in document["launches"]
        for one in launch["findings"]
    ]


@pytest.mark.parametrize(
    "sample",
    ["vector_add", "inplace_scale", "softmax", "autotuned_matmul", "layer_norm", "flash_attention", "gather",
     "atomic_histogram", "torch_compile_block"],
)  # fmt: skip
def test_samples_are_clean_and_still_agree_with_torch(kerncap: CommandLine, sample: str) -> None:
    status, document = sanitize(kerncap, SAMPLES / sample / "run.py")
    assert (status, document["target_status"], findings(document)) == (0, 0, [])
    assert document["launches"]
    assert sum(launch["proved"] for launch in document["launches"])


def test_a_store_without_a_mask_is_found_at_its_line(kerncap: CommandLine) -> None:
    status, document = sanitize(kerncap, SAMPLES / "out_of_bounds" / "run.py", options=("--bounds", "view"))
    assert (status, document["target_status"]) == (1, 0)
    lines = (SAMPLES / "out_of_bounds" / "run.py").read_text().splitlines()
    wrong = next(number for number, text in enumerate(lines, 1) if "the mask is missing" in text)
    assert [(check, line) for _, check, line, _ in findings(document)] == [("oob", wrong)]
    found = document["launches"][0]["findings"][0]
    assert (found["argument"], found["offset_bytes"], found["program_id"]) == ("scores_ptr", 4000, [3, 0, 0])


@pytest.mark.skipif(importlib.util.find_spec("liger_kernel") is None, reason="liger-kernel is not installed")
def test_liger_has_no_finding(kerncap: CommandLine) -> None:
    status, document = sanitize(kerncap, LIGER)
    assert (status, document["target_status"], findings(document)) == (0, 0, [])
    proved = sum(launch["proved"] for launch in document["launches"])
    unproven = sum(
        len({(one["file"], one["line"]) for one in launch["unproven"]}) for launch in document["launches"]
    )
    assert proved >= 0.9 * (proved + unproven), (proved, unproven)


PROGRAM = """
@triton.jit
def accumulate(x, out, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    before = tl.load(out + o, mask=o < n)  # nobody wrote it
    tl.store(out + o, before + tl.load(x + o, mask=o < n), mask=o < n)

@triton.jit
def gather(x, index, out, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    i = tl.load(index + o, mask=o < n, other=0)
    tl.store(out + o, tl.load(x + i, mask=o < n, other=0.0), mask=o < n)

n = 1000
x = torch.randn(n, device=DEVICE)
out = torch.empty(n, device=DEVICE)
accumulate[(triton.cdiv(n, 256),)](x, out, n, 256)
clean = torch.zeros(n, device=DEVICE)
accumulate[(triton.cdiv(n, 256),)](x, clean, n, 256)
assert torch.equal(clean, x)
index = torch.randperm(n, device=DEVICE).to(torch.int32)
gathered = torch.empty_like(x)
gather[(triton.cdiv(n, 256),)](x, index, gathered, n, 256)
assert torch.equal(gathered, x[index.long()])
block = torch.compile(lambda a: torch.nn.functional.gelu(a @ a.T).sum(dim=1))
a = torch.randn(64, 48, device=DEVICE)
torch.testing.assert_close(block(a), torch.nn.functional.gelu(a @ a.T).sum(dim=1), atol=1e-2, rtol=1e-2)
"""


def test_results_are_untouched_and_fresh_memory_is_known(kerncap: CommandLine) -> None:
    status, document = sanitize(kerncap, kerncap.target(PROGRAM))
    assert (status, document["target_status"]) == (1, 0)
    assert [(kernel, check) for kernel, check, _, _ in findings(document)] == [("accumulate", "uninit")]
    gathered = next(launch for launch in document["launches"] if launch["kernel"] == "gather")
    assert gathered["proved"] == 3 and gathered["proved_for_these_contents"]
    assert any("triton_" in launch["kernel"] for launch in document["launches"])


def test_a_captured_launch_gives_the_same_verdict_as_the_program(kerncap: CommandLine) -> None:
    done = kerncap(
        "capture", "-o", "out", "--", sys.executable, SAMPLES / "out_of_bounds" / "run.py", timeout=300
    )
    assert done.status == 0, done.stderr
    (repro,) = [path for path in (kerncap.folder / "out").iterdir() if not path.name.startswith(".")]
    judged = kerncap("sanitize", "--json", "--bounds", "view", repro)
    assert judged.status == 1, judged.stdout + judged.stderr
    assert [check for _, check, _, _ in findings(judged.document)] == ["oob"]


TABLE = """
@triton.jit
def fill(table, shift, n, B: tl.constexpr):
    p = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    o = tl.load(shift + tl.program_id(0)) + tl.arange(0, B)
    tl.store(p + o, 1.0, mask=tl.arange(0, B) < n)

rows = [torch.zeros(100, device=DEVICE), torch.zeros(100, device=DEVICE)]
table = torch.tensor([row.data_ptr() for row in rows], device=DEVICE)
shift = torch.zeros(2, dtype=torch.int64, device=DEVICE)
fill[(2,)](table, shift, 100, 128)
assert all(row.tolist() == [1] * 100 for row in rows)
shift[1] = 1
fill[(2,)](table, shift, 100, 128)
"""


def test_what_a_table_of_pointers_leads_to_is_known(kerncap: CommandLine) -> None:
    target = kerncap.target(TABLE)
    status, document = sanitize(kerncap, target)
    assert (status, document["target_status"]) == (1, 0)
    right, past = document["launches"]
    assert right["proved"] == 3 and not right["unproven"] and not right["findings"]
    assert [one["check"] for one in past["findings"]] == ["oob"]
    assert "just past the end of table[1] (400 bytes at" in past["findings"][0]["message"]
    [path] = kerncap.capture("-k", "fill", "--no-self-check", target=target)
    judged = kerncap("sanitize", "--json", path)
    assert judged.status == 0 and judged.document["launches"][0]["proved"] == 3, judged.stdout
