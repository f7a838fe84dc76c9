"""A range of three of Liger-Kernel's launches: replayed, fused, and verified elsewhere."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import CommandLine

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        importlib.util.find_spec("liger_kernel") is None,
        reason="liger-kernel is not installed (make setup brings it)",
    ),
]

TARGET = Path(__file__).parent / "targets" / "liger_chain.py"
KERNELS = [
    "_relu_squared_forward_kernel",
    "_softmax_single_block_forward_kernel",
    "_relu_squared_forward_kernel",
]
NEEDED_NO_MORE = ("--intermediate", "0.Y_ptr", "--intermediate", "1.Y_ptr")
FUSED = """
import triton
import triton.language as tl

LAUNCHES = [
    {"kernel": "fused", "grid": [16], "arguments": {"x": "0.X_ptr", "out": "2.Y_ptr", "n": "0.n_cols"}},
]

@triton.jit
def fused(x, out, n, BLOCK: tl.constexpr = 64):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.maximum(tl.load(x + row * n + at, mask=at < n, other=0.0), 0.0)
    values = tl.where(at < n, values * values, -float("inf"))
    weights = tl.exp(values - tl.max(values, axis=0))
    weights = weights / tl.sum(weights, axis=0)
    tl.store(out + row * n + at, weights * weights, mask=at < n)
"""


ON_THE_HOST = {"CUDA_VISIBLE_DEVICES": "", "TRITON_INTERPRET": "1"}


@pytest.fixture(scope="module", params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def chain(request: pytest.FixtureRequest, kerncap_of_module: CommandLine) -> Path:
    """Captured from the script as it is: what it prints is what it prints without kerncap."""
    env = ON_THE_HOST if request.param == "cpu" else {}
    plain = subprocess.run(
        [sys.executable, TARGET], env={**os.environ, **env}, capture_output=True, text=True, timeout=200,
        check=True,
    )  # fmt: skip
    options = ("-o", f"out-{request.param}", "-k", r"^liger_kernel\.", "--launches", "0:3")
    done = kerncap_of_module(
        "capture", "--json", *options, "--", sys.executable, TARGET, env=env, timeout=300
    )
    document = done.document
    assert plain.stdout in done.stderr and document["target_status"] == 0, done.stderr
    assert [check["result"] for check in document["self_checks"].values()] == ["pass"], document
    [path] = document["captured"]
    return kerncap_of_module.folder / path


def verified(kerncap: CommandLine, path: Path, text: str, *options: str) -> dict[str, Any]:
    candidate = kerncap.folder / "candidate.py"
    candidate.write_text(text)
    return kerncap("verify", "--json", path, "--candidate", candidate, *NEEDED_NO_MORE, *options).judged


def test_it_is_replayed_to_the_applications_outputs(kerncap: CommandLine, chain: Path) -> None:
    document = kerncap("verify", "--json", chain).judged
    assert document["result"] == "pass" and document["exact"], document
    assert [step["kernel"] for step in document["steps"]] == KERNELS
    flows = kerncap("inspect", "--json", chain).document["flows"]
    assert [(flow["from"], flow["to"], flow["bytes"]) for flow in flows] == [(0, 1, 3072), (1, 2, 3072)]


def test_a_fused_kernel_passes_and_a_wrong_one_fails(kerncap: CommandLine, chain: Path) -> None:
    found = verified(kerncap, chain, FUSED)
    assert found["result"] == "pass", found
    wrong = verified(
        kerncap, chain, FUSED.replace("weights * weights, mask=at < n", "weights * weights, mask=at < n - 1")
    )
    assert wrong["result"] == "fail" and "2.Y_ptr" in wrong["summary"], wrong
    wrong = verified(kerncap, chain, FUSED.replace("values - tl.max(values, axis=0)", "values - 2 * values"))
    assert wrong["result"] == "fail" and "2.Y_ptr" in wrong["summary"], wrong


@pytest.mark.long
def test_a_fused_kernel_is_proved(kerncap: CommandLine, chain: Path) -> None:
    """That weights of a softmax are not negative is not known to a proof: Liger's square takes their maximum
    with zero."""
    text = FUSED.replace("    tl.store(", "    weights = tl.maximum(weights, 0.0)\n    tl.store(")
    found = verified(kerncap, chain, text, "--prove")
    assert found["result"] == "pass", found
    assert found["stages"][-1]["shown"][0].startswith("PROVED equal over the reals"), found["stages"][-1]
    found = verified(kerncap, chain, FUSED, "--prove")
    assert found["result"] == "undecided" and "proof: not proved" in found["summary"], found


def test_packed_opened_elsewhere_and_verified(kerncap: CommandLine, chain: Path, tmp_path: Path) -> None:
    packed = tmp_path / "chain.zip"
    assert kerncap("pack", chain, "-o", packed).status == 0
    elsewhere = {"XDG_CONFIG_HOME": str(tmp_path / "config")}  # where nothing was captured
    there = kerncap("unpack", "--json", packed, "-o", tmp_path / "there", env=elsewhere).document["path"]
    assert kerncap("verify", there, env=elsewhere).status == 2
    assert kerncap("verify", "--trust", "--json", there, env=elsewhere).judged["exact"]
