"""Compiles a Triton kernel's source for an AMD GPU, which need not be here, into a folder.

Started as `python -c TEXT FOLDER JOB SOURCE ARCH OUT`. OUT gets `kernel.hsaco` and `facts.json`, or
`error.json`.
"""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

from ..common.failures import KernelError, Refused
from .compile_ahead import compiled_for


def main(job: str, source: str, arch: str, out: str) -> None:
    """Write what the source became, or why it became nothing."""
    folder = Path(out)
    try:
        content = {**json.loads(Path(job).read_text()), "folder": str(Path(job).parent)}
        facts = _build(content, Path(source), arch, folder)
    except (KernelError, Refused) as error:
        _write(folder / "error.json", {
            "message": str(error), "detail": getattr(error, "detail", ""),
            "place": getattr(error, "place", {}),
        })  # fmt: skip
    except BaseException as error:
        from .launchers import places

        _write(folder / "error.json", {
            "message": _last_line(error), "detail": traceback.format_exc(),
            "place": places.of_error(error, Path(source)),
        })  # fmt: skip
    else:
        _write(folder / "facts.json", facts)


def _build(job: dict[str, Any], source: Path, arch: str, folder: Path) -> dict[str, Any]:
    from triton.backends.compiler import GPUTarget

    lanes = 64 if arch.startswith("gfx9") else 32
    compiled = compiled_for(GPUTarget("hip", arch, lanes), source, job)
    (folder / "kernel.hsaco").write_bytes(compiled.asm["hsaco"])
    for stage in ("ttir", "ttgir", "llir", "amdgcn"):
        if stage in compiled.asm:
            (folder / f"kernel.{stage}").write_text(compiled.asm[stage])
    warps = int(getattr(compiled.metadata, "num_warps", 4) or 4)
    return {
        "shared_bytes": int(getattr(compiled.metadata, "shared", 0) or 0),
        "block": [warps * int(getattr(compiled.metadata, "warp_size", lanes) or lanes), 1, 1],
        "num_stages": getattr(compiled.metadata, "num_stages", None),
    }


def _last_line(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"[:500]


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document))
