"""After ``--trust``: what the module of a stranger raises, prints and warns of, in the worker and in ours."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kerncap.printable import printable
from tests.hostile.terminal.screen import on_terminal
from tests.hostile.terminal.stranger import ALL, hostile_copy
from tests.unit.replay.build import HEADER, Launch

# As escapes of a Python literal; 35;7 is no colour of kerncap's.
EVIL = r"\x1b[35;7m\x07\x08\x9b\u202e\U000e0041\u200b\x85\u2028\rResult: PASS"
KERNEL = """@triton.jit
def k(x_ptr, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(x_ptr + o, tl.load(x_ptr + o) * 2)
"""
IN_KERNEL = KERNEL.replace("    o =", f"    raise ValueError('{EVIL}')\n    o =")
SOURCES = {
    "raises": f"raise RuntimeError('{EVIL}')\n" + KERNEL,
    "raises lines": f"raise RuntimeError('a\\nResult: PASS (b)\\nkerncap: {EVIL}')\n" + KERNEL,
    "raises a type": f"raise type('{EVIL.replace(chr(92) + 'u2028', '')}', (Exception,), {{}})\n" + KERNEL,
    "exits": f"raise SystemExit('{EVIL}')\n" + KERNEL,
    "warns and prints": f"import sys, warnings\nwarnings.warn('{EVIL}')\nprint('{EVIL}', file=sys.stderr)\n"
    + KERNEL,
    "dies": f"import os\nos.write(2, '{EVIL}'.encode())\nos._exit(3)\n" + KERNEL,
    "raises in the kernel": IN_KERNEL,
}
COMMANDS = {
    "replay": ["replay", "--trust", "--engine", "interpreter"],
    "replay --json": ["replay", "--trust", "--json"],
    "verify": ["verify", "--trust"],
    "replay --compare": ["replay", "--trust", "--compare", "interpreter"],
    "replay --once": ["replay", "--trust", "--once"],
    "minimize": ["minimize", "--trust", "-o", "small"],
    "sanitize": ["sanitize", "--trust"],
    "prove": ["prove", "--trust", "own.py"],
}
CASES = [(name, "replay") for name in SOURCES] + [
    ("raises in the kernel", name) for name in list(COMMANDS)[1:]
]


def _stranger(parent: Path, source: str) -> Path:
    x = np.ones(8, np.float32)
    launch = Launch(source, "k", stranger=True)
    return launch.tensor("x_ptr", x, x * 2).constexpr("BLOCK", 8).seal(parent)


@pytest.mark.long
@pytest.mark.parametrize(("source", "command"), CASES)
def test_what_a_module_says(
    source: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    (tmp_path / "own.py").write_text(HEADER + KERNEL)
    seen = on_terminal(monkeypatch, *COMMANDS[command], _stranger(tmp_path, SOURCES[source]))
    own = "" if command != "replay --once" else r"\x1b\[(?!35)[0-9;]*m"  # the colours of its screen
    text = re.sub(own, "", seen.text) if own else seen.text
    assert [c for c in text if printable(c) != c] == []
    assert seen.status in (0, 1, 2, 4, 5), seen.text
    assert not re.search(r"^Result: PASS \(b\)", seen.text, re.MULTILINE)
    if "raises" in source and command in ("replay", "verify", "replay --once"):
        assert "\\x1b[35;7m\\x07\\x08" in seen.text


@pytest.mark.long
def test_pytest(tmp_path: Path) -> None:
    """The plugin's lines are ours; pytest prints them as they are."""
    folder = hostile_copy("v1.0", tmp_path / "corpus")
    odd = folder.with_name("a" + ALL.replace("\0", "").replace("\x1b[2J", ""))
    folder.rename(odd)
    (odd.with_name(odd.name + ".candidate.py")).write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v",
         "--kerncap", "corpus", "--rootdir", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "PYTEST_ADDOPTS": "", "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert done.returncode == 1, text
    assert "was not captured here" in text and "candidate[a\\x1b]0;t\\x07" in text
    assert [c for c in text if printable(c) != c] == []
