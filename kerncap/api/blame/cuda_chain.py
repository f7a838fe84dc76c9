"""Builds of a CUDA kernel's source, from a strict one to the captured image, in order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap.api.blame.blame_result import Guilty, Run, Stage
from kerncap.api.blame.cuda_builds import Build, builds
from kerncap.api.blame.evaluated_stages import NotEvaluated
from kerncap.api.blame.on_device import IMAGE, ON_GPU, OnDevice, assembled
from kerncap.api.blame.stage_outputs import Outputs
from kerncap.api.blame.stages import AUTHOR, NVIDIA, DoesNotCompile, Stages
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.replay.candidates import tools
from kerncap.replay.candidates.build import compile_candidate
from kerncap.replay.candidates.errors import BuildError

if TYPE_CHECKING:
    from kerncap.api.blame import BlameOptions

_DRIVER = "the driver's ptxas"


class CudaChain(Stages):
    """Runs the builds of a source with the compilers of this machine, or of one Python's wheels."""

    def __init__(self, reproducer: Reproducer, text: str, python: str | None, options: BlameOptions) -> None:
        super().__init__(reproducer, "", python, options)  # how far rounding goes is not read in C++
        self._source = text

    def run(self) -> Run:
        """The stages, each with what changed since the one before."""
        compiler = "nothing built"
        with OnDevice(self._reproducer, self._python, self._options) as device:
            try:
                device.require()
            except NotEvaluated as error:
                missing = Stage("builds and captured image", ON_GPU, "not run", str(error))
                return Run(self._python or "", "", (missing,), compiler=compiler)
            for each in self._builds():
                self._on(device, each.name, partial(self._built, device, each))
                compiler = device.compiler or compiler
                if self._stages[-1].ended == "failed":
                    break
            for name, image in self._other_assemblers(device):
                self._on(device, name, image)
            if self._options.candidate is None:
                self._on(device, IMAGE, device.captured)
        last = self._last_compared()
        unlike = last is not None and last.application is not None and last.application.result == "differs"
        if self._guilty is None and unlike and self._options.candidate is not None:
            assert last is not None and last.application is not None
            place = last.application.place
            what = f"the source does not give the application's result, in any build: {place}"
            self._guilty = Guilty("source", what, (), place, AUTHOR)
        if self._guilty is not None:
            self._guilty = dataclasses.replace(self._guilty, given=("source.cu", self._source))
        is_open = last is not None and unlike and self._guilty is None
        left = self._open(last) if is_open and last is not None else ""
        return Run(self._python or "", "", tuple(self._stages), self._guilty, left, compiler)

    def _builds(self) -> list[Build]:
        """Those of the candidate or of the stored source; PTX is what it is."""
        source, candidate = self._manifest.source, self._options.candidate
        if candidate is not None and candidate.suffix == ".ptx":
            return [Build("the candidate's PTX", ())]
        if source is not None and source.build is not None and not source.file.path.endswith(".ptx"):
            return builds(source.build.options)
        why = "the reproducer has no CUDA C++ with the options that it was compiled with"
        self._stages.append(Stage("builds of the source", "", "not run", why))
        return []

    def _on(self, device: OnDevice, name: str, run: Callable[[], Outputs]) -> None:
        self._add(name, ON_GPU, run, on_device=True, varies=lambda: device.varies)

    def _between(self, on_device: bool) -> dict[int, tuple[float, float]]:
        return {} if self._options.exact else dict(super()._between(on_device))

    def _to(self, name: str, before: str) -> str:
        if name.startswith("--"):
            return f"the author of the kernel: it is compiled with {name}"
        if name == IMAGE:
            return "the author of the program: what it ran is not what this machine makes of the source"
        return f"{NVIDIA}, if `compute-sanitizer --tool racecheck` finds no race"

    def _file(self, folder: Path) -> Path:
        """The source under the name that it has in the unit, alone in a folder."""
        if self._options.candidate is not None:
            return self._options.candidate
        source = self._manifest.source
        if source is None:
            raise NotEvaluated("the reproducer has no source")
        path = folder / Path(source.file.path).name
        path.write_bytes(self._reproducer.file(source.file))
        return path

    def _built(self, device: OnDevice, build: Build) -> Outputs:
        arch = self._manifest.device.arch or ""
        try:
            made = compile_candidate(
                self._reproducer, self._file(device.folder), arch, device.folder, self._python,
                options=build.options,
            )  # fmt: skip
        except BuildError as error:
            what = one_line(str(error))
            if self._options.candidate is None:  # it was compiled elsewhere, with headers that may be missing
                raise NotEvaluated(what) from error
            if self._guilty is None:
                self._guilty = Guilty(build.name, f"the source does not compile: {what}", (), "", AUTHOR)
            raise DoesNotCompile(what) from error
        except KerncapError as error:
            raise NotEvaluated(one_line(str(error))) from error
        device.compiler = made.tool
        return device.image(made.path)

    def _other_assemblers(self, device: OnDevice) -> list[tuple[str, Callable[[], Outputs]]]:
        """The captured PTX, if there is one: by each ptxas of the machine, and by the driver."""
        ptx = self._reproducer.code("ptx")
        if ptx is None or self._options.candidate is not None:
            return []
        arch = self._manifest.device.arch or ""

        def by(tool: tools.Tool, text: bytes = ptx) -> Outputs:
            return device.image(assembled(text, 3, device.folder, tool, arch))

        found: list[tuple[str, Callable[[], Outputs]]] = [
            (f"ptxas {tool.version}", partial(by, tool)) for tool in tools.every_ptxas(self._python)
        ]
        path = device.folder / "captured.ptx"
        path.write_bytes(ptx)
        return [*found, (_DRIVER, partial(device.image, path))]
