"""Stages in order, each compared with the one before it and with the application."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kerncap.api.blame.blame_result import Guilty, Stage
from kerncap.api.blame.evaluated_stages import NotEvaluated
from kerncap.api.blame.stage_outputs import Limits, Outputs, compare, compared_views, of_application
from kerncap.api.verify.numerics_stage import rounding_limits
from kerncap.format import Reproducer
from kerncap.replay.judge_requests import FLOATS

if TYPE_CHECKING:
    from kerncap.api.blame import BlameOptions

AUTHOR = "the author of the kernel"
NVIDIA = "NVIDIA (ptxas), https://developer.nvidia.com/bugs"
_RACE = "the kernel races, or needs its programs in an order; `kerncap sanitize` checks Triton's for races"


class DoesNotCompile(NotEvaluated):
    """A stage that the compiler refuses."""


class Stages:
    """The first stage whose output differs from the one before is guilty; `_to` says of whose making."""

    def __init__(self, reproducer: Reproducer, text: str, python: str | None, options: BlameOptions) -> None:
        """``text``: the source, from which follows what rounding may change; empty: not read."""
        self._reproducer, self._manifest = reproducer, reproducer.manifest
        self._text, self._python, self._options = text, python, options
        self._stages: list[Stage] = []
        self._last: Outputs | None = None
        self._last_on_device = False
        self._guilty: Guilty | None = None
        self._application: Outputs | None = None
        if self._manifest.oracle.kind not in ("fault", "timeout"):
            self._application = of_application(reproducer)
        self._host, self._device = (self._limits(on_device) for on_device in (False, True))

    def _limits(self, on_device: bool) -> Limits:
        return {
            view: rounding_limits(self._manifest, self._text, view, on_device)[:2]
            for view in compared_views(self._manifest)
            if self._manifest.views[view].dtype.startswith(FLOATS[:2])
            and not self._manifest.views[view].dtype.startswith("float8")
        }

    def _add(
        self, name: str, how: str, run: Callable[[], Outputs], on_device: bool = False,
        varies: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        try:
            now = run()
        except NotEvaluated as error:
            has_failed = isinstance(error, DoesNotCompile)
            self._stages.append(Stage(name, how, "failed" if has_failed else "not run", str(error)))
            return
        limits = self._between(on_device)
        before = None if self._last is None else compare(self._manifest, self._last, now, limits)
        captured_there = self._manifest.device.kind != "cpu"
        application = None
        if self._application is not None:
            to_application = self._device if on_device or captured_there else self._host
            application = compare(self._manifest, self._application, now, to_application)
        self._stages.append(Stage(name, how, "ran", "", before, application, varies()))
        if before is not None and before.result == "differs" and self._guilty is None:
            self._guilty = self._of_stage(name, before.place, varies())
        self._last, self._last_on_device = now, on_device

    def _between(self, on_device: bool) -> Limits:
        if on_device or self._last_on_device:
            return self._device
        return {} if self._options.exact else self._host

    def _of_stage(self, name: str, place: str, varies: bool) -> Guilty:
        before = [one.name for one in self._stages if one.ended == "ran"][-2]
        if varies:
            return Guilty(name, f"{name} varies from run to run: {_RACE}; {place}", (), place, AUTHOR)
        return Guilty(name, f"{name} differs from {before}: {place}", (), place, self._to(name, before))

    def _to(self, name: str, before: str) -> str:
        raise NotImplementedError

    def _last_compared(self) -> Stage | None:
        """The last stage that was compared with the application."""
        return next((one for one in reversed(self._stages) if one.application is not None), None)

    def _open(self, last: Stage) -> str:
        assert last.application is not None
        after = [one.name for one in self._stages[self._stages.index(last) + 1 :] if one.ended == "not run"]
        between = f"what follows {last.name} ({', '.join(after)})" if after else "the application's own run"
        return (
            f"{last.name} is as all stages before it, and the application's result differs: "
            f"{last.application.place}; {between} was not run here or does not show it"
        )
