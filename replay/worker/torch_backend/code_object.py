"""Compiles a Triton kernel's source for a GPU, which need not be here, into a folder.

Started by `bootstrap.py`. OUT may hold `request.json` (a configuration, values of numbers); it gets the image
and `facts.json`, or `error.json`. The module's own Python runs here, so before it does this process gives up
all files but OUT and what is installed, and whatever else `confine` takes away.
"""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from typing import Any

from ..common.failures import KernelError, Refused
from . import confine
from .compile_ahead import compiled_for
from .launchers.config import configured, with_scalars

_PLAIN = (str, int, float, bool, type(None))


def main(job: str, source: str, arch: str, out: str) -> None:
    """Write what the source became, or why it became nothing."""
    folder = Path(out)
    try:
        content = {**json.loads(Path(job).read_text()), "folder": str(Path(job).parent)}
        if (folder / "request.json").exists():
            request = json.loads((folder / "request.json").read_text())
            content = with_scalars(configured(content, request["config"]), request["scalars"])
        confine.use_only(Path(source), out, [f"{content['folder']}/regions", content["reproducer"]])
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

    if arch.startswith("cuda:"):
        compiled = compiled_for(GPUTarget("cuda", int(arch.removeprefix("cuda:")), 32), source, job)
        (folder / "kernel.cubin").write_bytes(compiled.asm["cubin"])
        metadata = compiled.metadata._asdict()
        return {
            "metadata": {name: value for name, value in metadata.items() if _is_plain(value)},
            "signature": dict(compiled.src.signature),
            "num_stages": metadata.get("num_stages"),
        }
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


def _is_plain(value: Any) -> bool:
    """Whether JSON holds it; of a target or a function nothing is needed."""
    if isinstance(value, dict):
        return all(_is_plain(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return isinstance(value, _PLAIN)


def _last_line(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip() if lines else ''}"[:500]


def _write(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document))
