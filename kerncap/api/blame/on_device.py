"""PTX at each level of ptxas, and the captured image, on a GPU."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kerncap import child, scratch
from kerncap.api.blame.evaluation import NotEvaluated
from kerncap.api.blame.outputs import Outputs, compared_views
from kerncap.api.replay import ReplayOptions, load_candidate, opened
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.replay.candidates import tools
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.judge_requests import values

if TYPE_CHECKING:
    from kerncap.api.blame import BlameOptions

LEVELS = (0, 1, 2, 3)
IMAGE = "captured image"
_RUNS = 3  # in which one that varies shows it, more often than not
_PTXAS_TIMEOUT_S = 120.0


class OnDevice:
    """The stages that need a GPU. ``varies``: whether runs of the last one gave different outputs."""

    def __init__(self, reproducer: Reproducer, python: str | None, options: BlameOptions) -> None:
        self._reproducer, self._python, self._options = reproducer, python, options
        self._problem = ""
        self.varies = False

    def stages(self) -> Iterator[tuple[str, str, Callable[[], Outputs]]]:
        """Name, how it is run, and what runs it (raises NotEvaluated), in order."""
        kind = self._reproducer.manifest.device.kind
        if kind != "cuda":
            why = f"the launch was captured on {'the CPU' if kind == 'cpu' else kind}"
            yield "PTX", "", lambda: _refuse(why)
            return
        ptx = self._reproducer.code("ptx")
        how = "on the GPU"
        with contextlib.ExitStack() as stack:
            engine: list[Engine] = []

            def started() -> Engine:
                if not engine:
                    engine.append(self._engine(stack))
                return engine[0]

            folder = Path(stack.enter_context(scratch.temporary("levels")))
            if self._options.candidate is None:
                for level in LEVELS:
                    yield f"PTX -O{level}", how, partial(self._level, started, ptx, level, folder)
                yield IMAGE, how, lambda: self._outputs(started(), ORIGINAL)

    def _engine(self, stack: contextlib.ExitStack) -> Engine:
        if self._problem:
            raise NotEvaluated(self._problem)
        asked = ReplayOptions(
            engine="binary",
            device=self._options.device,
            python=self._python,
            timeout_s=self._options.timeout_s,
        )
        try:
            _, engine, _ = stack.enter_context(opened(self._reproducer.path, asked))
        except KerncapError as error:
            self._problem = one_line(str(error))
            raise NotEvaluated(self._problem) from error
        if engine.choice.memory != "cuda":
            self._problem = "there is no NVIDIA GPU here"
            raise NotEvaluated(self._problem)
        return engine

    def _level(self, started: Callable[[], Engine], ptx: bytes | None, level: int, folder: Path) -> Outputs:
        if ptx is None:
            raise NotEvaluated("the reproducer has no PTX")
        engine = started()
        image = _assembled(ptx, level, folder, self._python)
        if (refused := load_candidate(engine, image)) is not None:
            raise NotEvaluated(one_line(refused.summary))
        return self._outputs(engine, CANDIDATE)

    def _outputs(self, engine: Engine, which: str) -> Outputs:
        runs = []
        for _ in range(_RUNS):
            engine.restore()
            outcome = engine.launch(which)
            if not outcome.ok:
                raise NotEvaluated(one_line(f"{outcome.status}: {outcome.message}"))
            runs.append({view: values(engine, view) for view in compared_views(self._reproducer.manifest)})
        first = runs[0]
        self.varies = any(
            not np.array_equal(first[view], run[view], equal_nan=True) for run in runs[1:] for view in first
        )
        return first


def _assembled(ptx: bytes, level: int, folder: Path, python: str | None) -> Path:
    """The image of the captured PTX that ptxas makes at a level."""
    tool = tools.ptxas(python)
    if isinstance(tool, str):
        raise NotEvaluated(tool)
    found = re.search(rb"^\.target\s+(sm_\w+)", ptx, re.MULTILINE)
    if found is None:
        raise NotEvaluated("the PTX names no target")
    source, image = folder / f"O{level}.ptx", folder / f"O{level}.cubin"
    source.write_bytes(ptx)
    words = [str(tool.path), f"-O{level}", f"--gpu-name={found[1].decode()}", str(source), "-o", str(image)]
    try:
        done = child.run(words, timeout=_PTXAS_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotEvaluated(one_line(f"{tool.path}: {error}")) from error
    if done.returncode:
        raise NotEvaluated(one_line(done.stderr.decode(errors="replace").strip()[-300:]))
    return image


def _refuse(why: str) -> Outputs:
    raise NotEvaluated(why)
