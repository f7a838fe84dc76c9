"""The machine code of an image as text, by whichever of NVIDIA's disassemblers is here."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from kerncap import child
from kerncap.replay.candidates import tools
from kerncap.replay.candidates.tools import Tool

_TIMEOUT_S = 120.0


def sass(image: Path, python: str | None = None) -> str | None:
    """SASS of a cubin; None if there is no disassembler, or it does not take the image.

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


def instruction(text: str, kernel: str, offset: int) -> str | None:
    """The instruction ``offset`` bytes from the beginning of a kernel (mangled), of what `sass` gives."""
    start = re.search(rf"^(?:\.text\.|\s*Function : ){re.escape(kernel)}:?\s*$", text, re.MULTILINE)
    if start is None:
        return None
    after = re.compile(r"^(?:\.text\.|\s*Function : )", re.MULTILINE).search(text, start.end())
    body = text[start.end() : after.start() if after is not None else None]
    found = re.search(rf"/\*0*{offset:x}\*/\s+([^;]+);", body)
    return " ".join(found[1].split()) if found is not None else None
