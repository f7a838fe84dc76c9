"""Compiles a Triton kernel's source for a GPU, which need not be here, into a folder.

Started by `bootstrap.py`. OUT may hold a `protocol.Variation`; it gets the image and a `TritonImage`, or a
`Failure`, in the files that `protocol` names. The module's own Python runs here, so before it does this
process gives up all files but OUT and what is installed, and whatever else `confine` takes away.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import traceback
from pathlib import Path
from typing import Any, Literal

from .. import protocol, typed_json
from ..common.failures import KernelError, Refused
from ..job import Job
from ..protocol import MADE_FILE, VARIATION_FILE, Failure, TritonImage, Variation
from ..triton_launch.config import varied
from . import confine, warm_triton
from .launchers import places

_PLAIN = (str, int, float, bool, type(None))


def main(job: str, source: str, arch: str, out: str) -> None:
    """Write what the source became, or why it became nothing."""
    folder = Path(out)
    try:
        loaded: Job = json.loads(Path(job).read_text())
        content: Job = {**loaded, "folder": str(Path(job).parent)}
        if (folder / VARIATION_FILE).exists():
            content = varied(content, typed_json.read(Variation, (folder / VARIATION_FILE).read_text()))
        confine.use_only(Path(source), out, [f"{content['folder']}/regions", content["reproducer"]])
        found: TritonImage | Failure = _build(content, Path(source), arch, folder)
    except BaseException as error:
        found = _failure(error, Path(source))
    (folder / MADE_FILE).write_bytes(protocol.reply(found))


def _build(job: Job, source: Path, arch: str, folder: Path) -> TritonImage:
    from triton.backends.compiler import GPUTarget

    from .compile_source import compiled_for

    _skip_key()
    stage: Literal["cubin", "hsaco"]
    if arch.startswith("sm_"):
        target, stage = GPUTarget("cuda", int(arch.removeprefix("sm_")), 32), "cubin"
    else:
        target, stage = GPUTarget("hip", arch, 64 if arch.startswith("gfx9") else 32), "hsaco"
    compiled = compiled_for(target, source, job)
    (folder / f"kernel.{stage}").write_bytes(compiled.asm[stage])
    for text in ("ttir", "ttgir", "llir", "amdgcn") if stage == "hsaco" else ():
        if text in compiled.asm:
            (folder / f"kernel.{text}").write_text(compiled.asm[text])
    metadata = {name: value for name, value in compiled.metadata._asdict().items() if _is_plain(value)}
    return TritonImage(stage, {"warp_size": target.warp_size, **metadata}, dict(compiled.src.signature))


def _skip_key() -> None:
    """The cache is empty, and this process's own: no key of it needs a hash of all of Triton's files."""
    for place in warm_triton.KEY_PLACES:
        with contextlib.suppress(ImportError):
            module: Any = importlib.import_module(place)
            if hasattr(module, "triton_key"):
                module.triton_key = lambda: "of one process"


def _failure(error: BaseException, source: Path) -> Failure:
    """Why there is no image; ``refused`` if that may be for what is given up here."""
    causes = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None and cause not in causes:
        causes.append(cause)
    kind: Literal["refused", "error"] = (
        "refused" if any(isinstance(each, OSError | ImportError) for each in causes) else "error"
    )
    if isinstance(error, KernelError | Refused):
        return Failure(kind, str(error), getattr(error, "detail", ""), getattr(error, "place", None))
    message = f"{source.name} does not compile: {places.said(error)}"
    return Failure(kind, message, traceback.format_exc(), places.of_error(error, source))


def _is_plain(value: Any) -> bool:
    """Whether JSON holds it; of a target or a function nothing is needed."""
    if isinstance(value, dict):
        return all(_is_plain(item) for item in value.values())
    if isinstance(value, list | tuple):
        return all(_is_plain(item) for item in value)
    return isinstance(value, _PLAIN)
