"""The machine code of an image as text, by whichever of NVIDIA's disassemblers is here."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kerncap.replay.candidates import tools
from kerncap.replay.candidates.tools import Tool

_TIMEOUT_S = 120.0


def sass(image: Path, python: str | None = None) -> str | None:
    """SASS of a cubin; None where there is no disassembler, or it does not take the image.

    ``python``: whose site-packages may hold one (Triton brings one along).
    """
    for tool, words in ((tools.nvdisasm(python), ["-c"]), (tools.cuobjdump(python), ["-sass"])):
        if not isinstance(tool, Tool):
            continue
        try:
            done = subprocess.run(
                [str(tool.path), *words, str(image)],
                capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=True,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            continue
        return done.stdout
    return None
