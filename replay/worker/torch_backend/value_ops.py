"""What judges ask of a worker with torch beyond running and comparing: errors, other values, streams."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..common.error_statistics import Boxes, Errors
from ..common.failures import Fault, Refused
from ..job import Job
from ..protocol import REFERENCE, ErrorBoxes, ErrorStatistics, Limits, Spread
from .boundaries import give_boundaries
from .compare_views import ELEMENTS, Idle, never
from .redraw import redraw


class Judging:
    """Operations of a session; its memory, values and launchers are the session's."""

    job: Job
    folder: Path
    memory: Any
    values: Any
    states: Any
    _launchers: dict[str, Any]
    _expected: dict[int, Any]

    def errors(self, views: list[Limits], against: str, file: str | None) -> list[ErrorStatistics]:
        found = []
        for index, rtol, atol in views:
            shape = tuple(self.job["views"][index]["shape"])
            errors = Errors(self.job["views"][index]["dtype"], shape, rtol, atol)
            self._feed(errors, index, against, file)
            found.append(replace(errors.result(), view=index, name=self._name(index)))
        return found

    def boxes(self, views: list[Limits], against: str) -> list[ErrorBoxes]:
        found = []
        for index, rtol, atol in views:
            boxes = Boxes(tuple(self.job["views"][index]["shape"]), rtol, atol)
            self._feed(boxes, index, against, None)
            found.append(replace(boxes.result(), view=index))
        return found

    def export(self, view: int, out: str) -> None:
        tensor = self._typed(view, None)  # type: ignore[attr-defined]
        np.save(self.folder / out, tensor.to(torch.float64).cpu().contiguous().numpy())

    def redraw(self, views: list[int], seed: int, repeats: bool, spread: Spread | None) -> list[int]:
        regions = [view["region"] for view in self.job["views"]]
        return [
            index
            for index in views
            if redraw(self.values.view(index), seed, index, repeats, spread, self.states.idle(regions[index]))
        ]

    def boundaries(self, views: list[int], known: list[float], own: list[float]) -> list[int]:
        changed: list[int] = []
        given: list[Any] = []
        for index in views:
            tensor = self.values.view(index)
            others = [one for one in given if one.dtype.is_floating_point == tensor.dtype.is_floating_point]
            idle = self.states.idle(self.job["views"][index]["region"])
            if give_boundaries(tensor, others, known, own, index, idle):
                changed.append(index)
            given.append(tensor)
        return changed

    def streams(self, which: str, regions: list[int]) -> str:
        if self.memory.kind != "cuda":
            raise Refused("there are no streams on the host")
        from .streams import problem

        launcher = self._launchers[which]
        try:
            return problem(torch, self.memory, regions, launcher.run)
        except Exception as error:
            if self.memory.is_lost():
                raise Fault(str(error)) from error
            raise

    # --- common ------------------------------------------------------------------------------------

    def _feed(self, statistics: Errors | Boxes, index: int, against: str, file: str | None) -> None:
        """Add a view's values now and expected, flat, in row-major order."""
        now = self._typed(index, None)  # type: ignore[attr-defined]
        if file is not None:
            expected = torch.from_numpy(np.load(self.folder / file, allow_pickle=False))
        elif against == REFERENCE:
            expected = self._expected[index].to(now.device)
        else:
            expected = self._typed(index, against)  # type: ignore[attr-defined]
        now, expected = now.reshape(-1), expected.reshape(-1)
        equal = never if file is not None else self._equal(index, against)
        for start in range(0, now.numel(), ELEMENTS):
            block = now[start : start + ELEMENTS]
            if equal(block):
                statistics.skip_zeros(block.numel())
            else:
                wanted = expected[start : start + ELEMENTS]
                statistics.add(block.to(torch.float64).cpu().numpy(), wanted.to(torch.float64).cpu().numpy())

    def _equal(self, index: int, against: str) -> Idle:
        """What tells of a part of a view that it is equal, if that can be told without a look."""
        if against == REFERENCE:
            return never
        found: Idle = self.states.idle(self.job["views"][index]["region"], against)
        return found

    def _name(self, index: int) -> str:
        return str(self.job["views"][index].get("name", ""))
