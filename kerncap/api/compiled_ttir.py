"""TTIR for a reproducer that holds none, or that is asked about for another target: compiled from its source.

Compiling imports the reproducer's module, in a child process of a Python that has Triton: so the
reproducer has to be trusted, as for a replay.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kerncap import env, scratch
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer, schema
from kerncap.log import one_line
from kerncap.replay import trust, worker_process
from kerncap.replay.choose_engine import python_to_compile
from kerncap.replay.worker_environment import compilers_environment
from kerncap.replay.worker_process import Program
from kerncap.sanitizer.sources.source_lines import with_original_places

TIMEOUT_S = 180.0  # Triton from a cold disk, and one kernel
MAX_RESULT_BYTES = 256 << 20
_TARGET = re.compile(r"cuda:[0-9]{2,3}|hip:gfx[0-9a-z]{3,5}")


def check_target(target: str | None) -> str | None:
    """``target`` itself. Raises UsageError for what is no target's name."""
    if target is not None and not _TARGET.fullmatch(target):
        raise UsageError(f"--target {target}: expected cuda:N or hip:gfxN, as in cuda:90 or hip:gfx942")
    return target


class DoesNotCompile(BackendUnavailable):
    """A source that Triton read, and does not compile."""


@dataclass(frozen=True)
class Instead:
    """A text of the user's in place of a reproducer's source, with the name that its lines go by.

    ``change``: of arguments; names of files and lines are the text's own.
    """

    text: str
    name: str
    change: Callable[[schema.Argument], schema.Argument] = lambda argument: argument


def compile_source(
    reproducer: Reproducer,
    target: str,
    why: str,
    *,
    trusted: bool = False,
    python: str | None = None,
    instead: Instead | None = None,
    program: Program = worker_process.program,
) -> str:
    """Optimised TTIR of the reproducer's kernel for ``target``, with the application's places in it.

    ``program`` starts the compiler. ``why`` says in the error for a stranger's reproducer what makes this
    necessary. Raises UsageError unless it is trusted or nothing of it is compiled, DoesNotCompile, and
    BackendUnavailable without a source or Triton.
    """
    [answer] = compile_each(
        reproducer, target, why, trusted=trusted, python=python, instead=instead, program=program
    )
    if "ttir" not in answer:
        raise DoesNotCompile("TTIR", f"{reproducer.path}: {answer['error']}")
    return answer["ttir"]


def compile_each(
    reproducer: Reproducer,
    target: str,
    why: str,
    numbers: Sequence[Mapping[str, int]] | None = None,
    *,
    trusted: bool = False,
    python: str | None = None,
    instead: Instead | None = None,
    program: Program = worker_process.program,
) -> list[dict[str, str]]:
    """As `compile_source`, for each of several sets of integers in place of the captured arguments, if given.

    Each gives ``ttir``, or an ``error`` if it does not compile.
    """
    manifest, source = reproducer.manifest, reproducer.manifest.source
    if source is None or source.language != "python":
        reason = f"{reproducer.path}: {why}, and it has no Python source to compile"
        raise BackendUnavailable("TTIR", reason)
    text = reproducer.source_text() or ""
    if instead is None:
        trust.require(reproducer, trusted, f": {why}, so its source has to be compiled. That")
    else:
        text = instead.text
        file = msgspec.structs.replace(source.file, path=instead.name)
        source = msgspec.structs.replace(source, file=file, origins=())
        changed = tuple(map(instead.change, manifest.arguments))
        manifest = msgspec.structs.replace(manifest, arguments=changed)
    compiler = python_to_compile(("triton",), "Triton, which compiles the source,", python)
    with scratch.temporary("compile") as name:
        folder = Path(name)
        module = folder / "kernel.py"
        module.write_text(text, encoding="utf-8")
        job = job_of(manifest, source.entry, module, target, folder / "result.json")
        if numbers is not None:
            job["numbers"] = [dict(each) for each in numbers]
        (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
        answer = run_compiler(program, compiler, folder, target, str(reproducer.path.resolve()))
    if "refused" in answer:
        raise BackendUnavailable("TTIR", f"{reproducer.path}: {one_line(str(answer['refused']))}")
    each = [answer] if numbers is None else answer.get("each")
    if not isinstance(each, list) or len(each) != (1 if numbers is None else len(numbers)):
        raise BackendUnavailable("TTIR", f"{reproducer.path}: {one_line(str(answer.get('error')))}")
    return [
        {"ttir": with_original_places(str(one["ttir"]), str(module), source)}
        if "ttir" in one
        else {"error": one_line(str(one.get("error")))}
        for one in each
    ]


def job_of(manifest: schema.Manifest, entry: str, module: Path, target: str, result: Path) -> dict[str, Any]:
    views = []
    for view in manifest.views:
        region = manifest.regions[view.region]
        views.append(
            {
                "address": region.base + view.offset, "dtype": view.dtype, "itemsize": view.itemsize,
                "shape": view.shape, "strides": view.strides, "region_bytes": region.size,
            }
        )  # fmt: skip
    arguments = [{"name": one.name, "value": msgspec.to_builtins(one.value)} for one in manifest.arguments]
    return {
        "module": str(module),
        "entry": entry,
        "arguments": arguments,
        "views": views,
        "options": {name: msgspec.to_builtins(value) for name, value in manifest.launch.options.items()},
        "target": target,
        "result": str(result),
    }


def run_compiler(program: Program, python: str, folder: Path, target: str, hidden: str) -> Mapping[str, Any]:
    """What the child wrote, as `from_source.py` says. It can't read the reproducer."""
    script = env.triton_hook_folder() / "compile_source.py"
    words = (
        "confined",
        str(folder),
        str(folder / "kernel.py"),
        hidden,
        "--",
        str(script),
        str(folder / "job.json"),
    )
    started = program(python, words, compilers_environment(), folder.absolute() / "log", folder / "kernel.py")
    try:
        status = started.wait(TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise BackendUnavailable(
            "TTIR", f"compiling the source for {target} took longer than {TIMEOUT_S:g} s"
        ) from None
    finally:
        started.end()  # and what it may have started
    result = folder / "result.json"
    try:
        if result.stat().st_size > MAX_RESULT_BYTES:
            raise BackendUnavailable(
                "TTIR", f"the compiler's answer is larger than {MAX_RESULT_BYTES >> 20} MiB"
            )
        answer = json.loads(result.read_text(encoding="utf-8"))
        return answer if isinstance(answer, dict) else {}
    except (OSError, ValueError):
        said = one_line((folder / "log").read_text(errors="replace").strip()[-300:])
        raise BackendUnavailable(
            "TTIR",
            f"{python} ended with status {status} as it compiled the source: {said or 'it said nothing'}",
        ) from None
