"""The sample `softmax` with few rows: a verdict launches it often, and the interpreter is slow with each."""

from __future__ import annotations

import shutil
from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "samples" / "softmax"


def small_softmax(folder: Path) -> Path:
    """Its `run.py` in ``folder``, beside its candidates."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in SAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    text = (SAMPLE / "run.py").read_text()
    assert "rows, columns = 64, 100" in text
    program = folder / "run.py"
    program.write_text(text.replace("rows, columns = 64, 100", "rows, columns = 4, 100"))
    return program
