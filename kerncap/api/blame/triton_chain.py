"""The stages of one Triton in order, each compared with the one before and with the application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerncap.api.blame.blame_result import Guilty, Run, Stage
from kerncap.api.blame.evaluated_stages import GuiltyPass, NotEvaluated, evaluated, guilty_pass
from kerncap.api.blame.on_device import IMAGE, OnDevice, triton_stages
from kerncap.api.blame.stage_outputs import Outputs, compare, compared_views
from kerncap.api.blame.stages import AUTHOR, NVIDIA, Stages
from kerncap.api.compiled_stages import CompiledStages, compile_stages
from kerncap.api.replay import ReplayOptions, load_candidate, opened
from kerncap.api.sanitize import judged
from kerncap.errors import BackendUnavailable, KerncapError, ReplayError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.judge_requests import values
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.sources.reproducer import target_of

if TYPE_CHECKING:
    from kerncap.api.blame import BlameOptions

SOURCE, FRONT = "source", "TTIR before its passes"
_EVALUATED = {"source": FRONT, "ttir": "TTIR", "ttgir": "TTGIR"}
_TRITON = "Triton, https://github.com/triton-lang/triton/issues"
_LLVM = "LLIR"


class Chain(Stages):
    """Runs the stages of a source with one Python's Triton."""

    def __init__(self, reproducer: Reproducer, text: str, python: str | None, options: BlameOptions) -> None:
        super().__init__(reproducer, text, python, options)
        self._target = target_of(self._manifest.device)

    def run(self) -> Run:
        self._add(SOURCE, "Triton's interpreter", self._interpreted)
        compiled = self._compiled()
        for stage, name in _EVALUATED.items():
            self._evaluated(compiled, stage, name)
        if self._stages[-1].ended != "failed":
            self._later(compiled)
        if self._guilty is not None:
            self._guilty = self._of_race(self._guilty)
        last = self._last_compared()
        unlike = last is not None and last.application is not None and last.application.result == "differs"
        if self._guilty is None and unlike:
            self._guilty = self._of_source()
        return Run(
            compiled.python, compiled.triton, tuple(self._stages), self._guilty,
            self._open(last) if last is not None and unlike and self._guilty is None else "",
        )  # fmt: skip

    # --- stages ------------------------------------------------------------------------------------

    def _interpreted(self) -> Outputs:
        with_file = ReplayOptions(
            engine="interpreter", device="cpu", python=self._python, timeout_s=self._options.timeout_s,
            candidate=self._options.candidate,
        )  # fmt: skip
        try:
            with opened(self._reproducer.path, with_file) as (_, engine, copy):
                which = ORIGINAL if copy is None else CANDIDATE
                if copy is not None and (refused := load_candidate(engine, copy.path)) is not None:
                    raise NotEvaluated(one_line(refused.summary))
                engine.restore()
                outcome = engine.launch(which)
                if not outcome.ok:
                    raise NotEvaluated(one_line(f"{outcome.status}: {outcome.message}"))
                return {view: values(engine, view) for view in compared_views(self._manifest)}
        except (BackendUnavailable, ReplayError) as error:
            raise NotEvaluated(one_line(str(error))) from error

    def _compiled(self) -> CompiledStages:
        try:
            return compile_stages(self._reproducer, self._target, self._text, self._python)
        except KerncapError as error:
            return CompiledStages(self._python or "", "", error=one_line(str(error)))

    def _evaluated(self, compiled: CompiledStages, stage: str, name: str) -> None:
        how = f"evaluated, for {self._target}"
        if stage not in compiled.texts:
            self._missing(compiled, stage, name, how)
            return
        right = self._last
        text = compiled.texts[stage]
        self._add(name, how, lambda: evaluated(self._reproducer, text, self._target))
        guilty = self._guilty
        if guilty is None or guilty.stage != name or right is None or guilty.passes:
            return
        if (plugins := self._of_plugin(compiled, stage, guilty, text, right)) is not None:
            self._guilty = plugins
            return
        found = guilty_pass(
            self._reproducer, self._target, compiled.states[stage], text, right, self._between(False)
        )
        if found is not None:
            self._guilty = _of_pass(guilty, found, stage)
        elif stage == "source":
            self._guilty = Guilty(
                name, guilty.what, (), guilty.place, _TRITON, ("source.py", self._text), ("source.ttir", text)
            )

    def _missing(self, compiled: CompiledStages, stage: str, name: str, how: str) -> None:
        if stage == compiled.failed and not any(one.ended == "failed" for one in self._stages):
            at = f" in {compiled.last_pass}" if compiled.last_pass else ""
            self._stages.append(Stage(name, how, "failed", f"does not compile{at}: {compiled.error}"))
            if self._guilty is None:
                self._guilty = self._of_failure(compiled, stage, name, at)
            return
        why = f"{compiled.failed} does not compile" if compiled.failed else compiled.error
        self._stages.append(Stage(name, how, "not run", why or "Triton makes no such stage for this target"))

    def _later(self, compiled: CompiledStages) -> None:
        for stage, name in (("llir", _LLVM), ("ptx", "PTX")):
            if stage == compiled.failed:
                self._missing(compiled, stage, name, "compiled")
                return
        self._stages.append(Stage(_LLVM, "", "not run", "there is no evaluator of GPU code in LLVM's IR"))
        with OnDevice(self._reproducer, self._python, self._options) as device:
            for name, how, run in triton_stages(device, self._reproducer, self._options.candidate is None):
                self._add(name, how, run, on_device=True, varies=lambda: device.varies)

    # --- guilt -------------------------------------------------------------------------------------

    def _to(self, name: str, before: str) -> str:
        if name.startswith("PTX") and before.startswith("PTX") or name == IMAGE:
            return NVIDIA
        return _TRITON

    def _of_failure(self, compiled: CompiledStages, stage: str, name: str, at: str) -> Guilty:
        given = "source.py", self._text
        if compiled.texts:
            before, text = list(compiled.texts.items())[-1]
            given = "before.ttir" if before == "source" else f"before.{before}", text
        to = AUTHOR if stage == "source" else _TRITON
        what = f"{name} does not compile{at}: {compiled.error}"
        return Guilty(name, what, (compiled.last_pass,) if at else (), "", to, given)

    def _of_plugin(
        self, compiled: CompiledStages, stage: str, guilty: Guilty, text: str, right: Outputs
    ) -> Guilty | None:
        """What changes stages from outside of Triton, if the stage is right without it."""
        if stage not in compiled.plain:
            return None
        try:
            plain = evaluated(self._reproducer, compiled.plain[stage], self._target)
        except NotEvaluated:
            return None
        if compare(self._manifest, right, plain, self._between(False)).result == "differs":
            return None
        what = f"{guilty.stage}: the plugin {compiled.plugin} changes the result: {guilty.place}"
        return Guilty(
            guilty.stage, what, (), guilty.place, f"the author of {compiled.plugin}",
            (f"without.{stage}", compiled.plain[stage]), (f"with.{stage}", text),
        )  # fmt: skip

    def _of_race(self, guilty: Guilty) -> Guilty:
        """A kernel whose programs race may have another result in each stage: that is no compiler's fault."""
        if not guilty.place or not (race := race_in(self._reproducer, self._python)):
            return guilty
        what = f"the kernel races: {race}; {guilty.stage} shows it: {guilty.place}"
        return Guilty(guilty.stage, what, (), guilty.place, AUTHOR, ("source.py", self._text))

    def _of_source(self) -> Guilty | None:
        """All stages agree, and none with the application, which had a source only, or another one."""
        first = next((one for one in self._stages if one.ended == "ran"), None)
        host = self._manifest.device.kind == "cpu" or self._options.candidate is not None
        if not host or first is None or first.name != SOURCE or first.application is None:
            return None
        if first.application.result != "differs":
            return None
        place = first.application.place
        what = f"the source does not give the application's result, at no stage: {place}"
        return Guilty(SOURCE, what, (), place, AUTHOR, ("source.py", self._text))


def race_in(reproducer: Reproducer, python: str | None = None) -> str:
    """The race that the sanitizer finds in a Triton kernel with a trusted source; empty without one."""
    only = Options(checks=frozenset({"race"}))
    try:
        report = judged(reproducer, only, trusted=True, python=python)
    except KerncapError:
        return ""
    return next((one_line(found.message) for found in report.findings), "")


def _of_pass(guilty: Guilty, found: GuiltyPass, stage: str) -> Guilty:
    suffix = "ttgir" if stage == "ttgir" else "ttir"
    passes = " or ".join(found.passes)
    return Guilty(
        guilty.stage, f"{guilty.stage}: the pass {passes} changes the result: {found.comparison.place}",
        found.passes, found.comparison.place, _TRITON, (f"before.{suffix}", found.before),
        (f"after.{suffix}", found.after),
    )  # fmt: skip
