"""Candidates of later stages: TTIR, TTGIR, LLIR, PTX or a cubin, compiled on from there by Triton.

Nothing of this needs a device. It runs in a forked child: LLVM ends its process over text that it can't read.
"""

from __future__ import annotations

import faulthandler
import inspect
import json
import os
import re
import select
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...common.failures import KernelError, Refused
from . import places

STAGES = ("ttir", "ttgir", "llir", "ptx", "cubin")
_LIMIT_S = 240.0
_FRAMES = (
    "Internal Triton PTX codegen error",
    "`ptxas` failed",
    "`ptxas` raised",
)  # around ptxas's own words
_LAST_WORDS = 16 * 1024
_WARP = 32
# Of what was captured, what says how to compile; the rest follows from the compiler that is here.
_OPTIONS = (
    "num_warps", "num_ctas", "num_stages", "maxnreg", "ptx_options", "enable_fp_fusion", "enable_reflect_ftz",
    "launch_cooperative_grid", "launch_pdl", "debug", "sanitize_overflow", "default_dot_input_precision",
)  # fmt: skip


@dataclass(frozen=True)
class Made:
    """An image, what its compiler says of it, and the stages that it went through (text, or bytes)."""

    image: bytes
    metadata: dict[str, Any]
    stages: dict[str, Any]
    compile_ms: float = 0.0


def make(path: Path, captured: dict[str, Any], arch: int, folder: Path) -> Made:
    """The image of ``path`` for compute capability ``arch`` (90), ``captured`` facts where they hold.

    ``folder`` is where the compiler works. Raises KernelError with the compiler's own words and their place.
    """
    stage = path.suffix[1:]
    if stage == "cubin":
        data = path.read_bytes()
        if not data.startswith(b"\x7fELF"):
            raise Refused(f"{path.name} is not a cubin: it is not an ELF file")
        return Made(data, captured, {"cubin": data})
    if stage == "ptx":
        _check_ptx(path, captured)
    started = time.perf_counter()
    folder.mkdir(exist_ok=True)
    log = folder / "compiler.log"
    status, answer = _in_child(path, captured, arch, folder, log)
    said = log.read_text(errors="replace")[-_LAST_WORDS:].replace(f"{path.parent}/", "")
    if status or answer is None or "error" in answer:
        problem = (answer or {}).get("error") or _end(status)
        text = f"{problem}\n{said}".strip()
        detail = f"{text}\n{(answer or {}).get('trace', '')}".strip()
        raise KernelError(
            f"{path.name} does not compile: {_first_error(text)}", detail, places.of_log(text, path)
        )
    stages: dict[str, Any] = {stage: path.read_text(errors="replace")}
    for name in answer["stages"]:
        data = (folder / f"made.{name}").read_bytes()
        stages[name] = data if name == "cubin" else data.decode(errors="replace")
    return Made(stages["cubin"], answer["metadata"], stages, (time.perf_counter() - started) * 1e3)


def _check_ptx(path: Path, captured: dict[str, Any]) -> None:
    """PTX says how many threads it was made for; a launch of as many as captured must be the same."""
    text = path.read_text(errors="replace")
    name = captured.get("name")
    entries = re.findall(r"\.entry\s+([\w$]+)", text)
    if name and name not in entries:
        raise Refused(f"{path.name} has no .entry {name}; it has {', '.join(entries[:4]) or 'none'}")
    found = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)", text)
    threads = int(captured.get("num_warps") or 0) * _WARP
    if found and threads and int(found[1]) < threads:
        raise Refused(f"{path.name} is made for {found[1]} threads per block, the launch has {threads}")


def _in_child(
    path: Path, captured: dict[str, Any], arch: int, folder: Path, log: Path
) -> tuple[int, dict[str, Any] | None]:
    read_fd, write_fd = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _child(path, captured, arch, folder, log, write_fd)
    os.close(write_fd)
    data, deadline = b"", time.monotonic() + _LIMIT_S
    while True:
        ready, _, _ = select.select([read_fd], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(read_fd, 1 << 16) if ready else b""
        data += part
        if not part:
            break
    os.close(read_fd)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    try:
        return status, dict(json.loads(data))
    except ValueError:
        return status, None


def _child(path: Path, captured: dict[str, Any], arch: int, folder: Path, log: Path, write_fd: int) -> None:
    try:
        faulthandler.disable()  # what ends here has its own words
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 1)
        os.dup2(out, 2)  # MLIR, LLVM and ptxas say there what is wrong and where
        try:
            answer = _compile(path, captured, arch, folder)
        except BaseException as error:
            answer = {"error": str(error) or type(error).__name__, "trace": traceback.format_exc()}
        sys.stdout.flush()
        sys.stderr.flush()
        data = json.dumps(answer).encode()
        while data:
            data = data[os.write(write_fd, data) :]
    finally:
        os._exit(0)


def _compile(path: Path, captured: dict[str, Any], arch: int, folder: Path) -> dict[str, Any]:
    """Triton's own pipeline from the stage after that of ``path`` on.

    Source: `compile` in triton/compiler/compiler.py of Triton 3.6 and 3.9.
    """
    from triton._C.libtriton import ir, llvm
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    backend = make_backend(GPUTarget("cuda", arch, _WARP))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    stage = path.suffix[1:]
    given = {name: captured[name] for name in _OPTIONS if captured.get(name) is not None}
    module: Any
    if stage in ("ttir", "ttgir"):
        module = ir.parse_mlir_module(str(path), context)
        module.context = context
        if stage == "ttgir":
            for name, attribute in (("num_warps", "ttg.num-warps"), ("num_ctas", "ttg.num-ctas")):
                number = module.get_int_attr(attribute)
                if number is not None:
                    given[name] = number
    else:
        llvm.init_targets()  # else done by the stage that makes LLIR
        module = path.read_text()
    options = backend.parse_options(given)
    stages: dict[str, Any] = {}
    _add_stages(backend, stages, options)
    names = list(stages)
    rest = names[names.index(stage) + 1 :]
    metadata = {**captured, **{k: v for k, v in vars(options).items() if k in _OPTIONS}}
    for name in rest:
        module = stages[name](module, metadata)
        data = module if isinstance(module, bytes) else str(module).encode()
        (folder / f"made.{name}").write_bytes(data)
    return {"stages": rest, "metadata": json.loads(json.dumps(metadata, default=_jsonable))}


def _add_stages(backend: Any, stages: dict[str, Any], options: Any) -> None:
    if len(inspect.signature(backend.add_stages).parameters) > 2:
        from triton.backends.compiler import Language

        backend.add_stages(stages, options, Language.TRITON)
    else:
        backend.add_stages(stages, options)


def _jsonable(value: Any) -> Any:
    return getattr(value, "__dict__", None) or repr(value)


def _end(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"the compiler died with {signal.Signals(os.WTERMSIG(status)).name}"
    return "the compiler ended without an answer"


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for mark in ("error:", "error ", "fatal"):
        for line in lines:
            if mark in line.lower() and not any(frame in line for frame in _FRAMES):
                return line[:400]
    return lines[0][:400] if lines else "no reason was given"


def write_stages(stages: dict[str, Any], folder: Path) -> dict[str, str]:
    """The stages of a compilation as files in ``folder``; their paths relative to the folder above."""
    found = {}
    for stage in STAGES:
        if stage in stages:
            folder.mkdir(exist_ok=True)
            path = folder / f"kernel.{stage}"
            text = stages[stage]
            path.write_bytes(text if isinstance(text, bytes) else str(text).encode())
            found[stage] = f"{folder.name}/{path.name}"
    return found
