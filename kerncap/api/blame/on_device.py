"""Images of a kernel on a GPU: PTX at each level of ptxas, builds, and the captured one."""

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
from kerncap.api.blame.evaluated_stages import NotEvaluated
from kerncap.api.blame.stage_outputs import Outputs, compared_views
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
ON_GPU = "on the GPU"
_RUNS = 3  # in which one that varies shows it, more often than not
_PTXAS_TIMEOUT_S = 120.0


class OnDevice(contextlib.ExitStack):
    """Runs images of the kernel. ``varies``: whether runs of the last one gave different outputs; ``folder``:
    for what is built; ``compiler``: of the last build."""

    def __init__(self, reproducer: Reproducer, python: str | None, options: BlameOptions) -> None:
        super().__init__()
        self._reproducer, self._python, self._options = reproducer, python, options
        self._problem = ""
        self._started: Engine | None = None
        self.varies = False
        self.compiler = ""
        self.folder = Path(self.enter_context(scratch.temporary("levels")))

    def image(self, path: Path) -> Outputs:
        """What an image in a file leaves. Raises NotEvaluated."""
        engine = self._engine()
        if (refused := load_candidate(engine, path)) is not None:
            raise NotEvaluated(one_line(refused.summary))
        return self._outputs(engine, CANDIDATE)

    def require(self) -> None:
        """Raises NotEvaluated if nothing can be run here."""
        self._engine()

    def captured(self) -> Outputs:
        """What the captured image leaves. Raises NotEvaluated."""
        return self._outputs(self._engine(), ORIGINAL)

    def level(self, ptx: bytes | None, level: int) -> Outputs:
        """What PTX leaves that ptxas assembles at a level. Raises NotEvaluated."""
        if ptx is None:
            raise NotEvaluated("the reproducer has no PTX")
        self.require()
        return self.image(assembled(ptx, level, self.folder, tools.ptxas(self._python)))

    def _engine(self) -> Engine:
        if self._problem:
            raise NotEvaluated(self._problem)
        if self._started is not None:
            return self._started
        asked = ReplayOptions(
            engine="binary",
            device=self._options.device,
            python=self._python,
            timeout_s=self._options.timeout_s,
        )
        try:
            _, engine, _ = self.enter_context(opened(self._reproducer.path, asked))
        except KerncapError as error:
            self._problem = one_line(str(error))
            raise NotEvaluated(self._problem) from error
        if engine.choice.memory != "cuda":
            self._problem = "there is no NVIDIA GPU here"
            raise NotEvaluated(self._problem)
        self._started = engine
        return engine

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


def triton_stages(
    device: OnDevice, reproducer: Reproducer, is_captured: bool
) -> Iterator[tuple[str, str, Callable[[], Outputs]]]:
    """Name, how it is run, and what runs it (raises NotEvaluated), in order."""
    kind = reproducer.manifest.device.kind
    if kind != "cuda":
        why = f"the launch was captured on {'the CPU' if kind == 'cpu' else kind}"
        yield "PTX", "", lambda: _refuse(why)
        return
    if is_captured:
        for level in LEVELS:
            yield f"PTX -O{level}", ON_GPU, partial(device.level, reproducer.code("ptx"), level)
        yield IMAGE, ON_GPU, device.captured


def assembled(ptx: bytes, level: int, folder: Path, tool: tools.Tool | str, arch: str = "") -> Path:
    """The image for ``arch``, or the PTX's own target, that ptxas makes at a level. Raises NotEvaluated."""
    if isinstance(tool, str):
        raise NotEvaluated(tool)
    found = re.search(rb"^\.target\s+(sm_\w+)", ptx, re.MULTILINE)
    if found is None:
        raise NotEvaluated("the PTX names no target")
    own = found[1].decode()
    target = own if own.startswith(arch) else arch  # sm_90a for sm_90; sm_90 for PTX of sm_80
    source, image = folder / f"O{level}.ptx", folder / f"O{level}-{tool.version}.cubin"
    source.write_bytes(ptx)
    words = [str(tool.path), f"-O{level}", f"--gpu-name={target}", str(source), "-o", str(image)]
    try:
        done = child.run(words, timeout=_PTXAS_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotEvaluated(one_line(f"{tool.path}: {error}")) from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").replace(f"{folder}/", "").strip()
        raise NotEvaluated(one_line(said[-300:]))
    return image


def _refuse(why: str) -> Outputs:
    raise NotEvaluated(why)
