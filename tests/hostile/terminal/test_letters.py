"""Kernels, arguments and functions whose names have letters outside of ASCII, as Python allows."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kerncap.sanitizer.ttir.reader import read_module
from tests.hostile.terminal.stranger import GOLDEN
from tests.integration.conftest import CommandLine

TARGET = """
@triton.jit
def удвоить(x):
    return x * 2

@triton.jit
def масштаб(вход, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(вход + offs, удвоить(tl.load(вход + offs, mask=offs < n)), mask=offs < n)

масштаб[(4,)](torch.ones(100), 100, BLOCK=32)
"""


@pytest.mark.parametrize(
    "symbol", ['"scale"', '"масштаб"', '"\\D0\\BA核"', '"a b"', '"\\22"', '"é\\0A"'], ids=ascii
)
def test_symbols_in_quotes(symbol: str) -> None:
    """As MLIR writes names that are no identifiers: the letters themselves, or their bytes in hexadecimal."""
    text = (GOLDEN / "v1.2/code/kernel.ttir").read_text()
    module = read_module(text.replace("@scale", f"@{symbol}"))
    expected = {'"\\D0\\BA核"': "к核", '"\\22"': '"', '"é\\0A"': "é\n"}.get(symbol, symbol[1:-1])
    assert list(module.functions) == [expected]


@pytest.mark.long
def test_captured_replayed_and_sanitized(tmp_path: Path) -> None:
    kerncap = CommandLine(tmp_path)
    target = kerncap.target(TARGET)
    (folder,) = kerncap.capture("--no-self-check", target=target)
    shown = kerncap("inspect", folder)
    assert "масштаб" in shown.stdout and "вход" in shown.stdout
    assert kerncap("replay", folder).result_line.startswith("Result: PASS")
    for words in ([folder], ["--target", "hip:gfx942", folder], ["--", sys.executable, target]):
        judged = kerncap("sanitize", *words)
        assert judged.status == 0, judged.stderr
        assert "масштаб[4, 1, 1]" in judged.stdout
        assert "2 proved" in judged.result_line
