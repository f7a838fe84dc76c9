"""The machine code of an image as text, by whichever of NVIDIA's disassemblers is here."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kerncap import child
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
            command = [str(tool.path), *words, str(image.absolute())]
            done = child.run_text(command, timeout=_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        return done.stdout
    return None
