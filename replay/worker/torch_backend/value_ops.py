"""What judges ask of a worker with torch beyond running and comparing: errors, other values, streams."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..common.failures import Fault, Refused
from ..common.numeric_errors import Boxes, Errors
from .compare_views import ELEMENTS
from .redraw import Spread, redraw


class Judging:
    """Operations of a session; its memory, values and launchers are the session's."""

    job: dict[str, Any]
    folder: Path
    memory: Any
    values: Any
    states: Any
    _launchers: dict[str, Any]
    _expected: dict[int, Any]

    def op_errors(self, views: list[dict[str, Any]], against: str) -> dict[str, Any]:
        """Statistics of each ``{view, rtol, atol}`` against a state, ``reference``, or a ``file``."""
        found = []
        for wanted in views:
            errors = Errors(self._dtype(wanted), self._shape(wanted), wanted["rtol"], wanted["atol"])
            for now, expected in self._blocks(wanted, against):
                errors.add(now, expected)
            found.append({"view": wanted["view"], "name": self._name(wanted), **errors.result()})
        return {"views": found}

    def op_boxes(self, views: list[dict[str, Any]], against: str) -> dict[str, Any]:
        """Where each ``{view, rtol, atol}`` differs from a state, and where it does not."""
        found = []
        for wanted in views:
            boxes = Boxes(self._shape(wanted), wanted["rtol"], wanted["atol"])
            for now, expected in self._blocks(wanted, against):
                boxes.add(now, expected)
            found.append({"view": wanted["view"], **boxes.result()})
        return {"views": found}

    def op_export(self, view: int, out: str, state: str | None = None) -> None:
        """Write a view's values, as float64 in row-major order, to a file of the job folder."""
        tensor = self._typed(view, state)  # type: ignore[attr-defined]
        np.save(self.folder / out, tensor.to(torch.float64).cpu().contiguous().numpy())

    def op_redraw(
        self, views: list[int], seed: int, repeats: bool = False, spread: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Other values for whole views, of the same kind or with a `Spread`; those that changed."""
        wider = None if spread is None else Spread(**spread)
        return {
            "changed": [
                index for index in views if redraw(self.values.view(index), seed, index, repeats, wider)
            ]
        }

    def op_streams(self, which: str, regions: list[int]) -> dict[str, Any]:
        """Whether a launch on a device keeps to its stream; memory is as after a launch."""
        if self.memory.kind != "cuda":
            raise Refused("there are no streams on the host")
        from .streams import problem

        launcher = self._launchers[which]
        try:
            return {"problem": problem(torch, self.memory, regions, launcher.run)}
        except Exception as error:
            if self.memory.is_lost():
                raise Fault(str(error)) from error
            raise

    # --- common ------------------------------------------------------------------------------------

    def _blocks(self, wanted: dict[str, Any], against: str) -> Iterator[tuple[Any, Any]]:
        """Values now and expected, flat, in row-major order."""
        index = wanted["view"]
        now = self._typed(index, None)  # type: ignore[attr-defined]
        if against == "file":
            expected = torch.from_numpy(np.load(self.folder / wanted["file"], allow_pickle=False))
        elif against == "reference":
            expected = self._expected[index].to(now.device)
        else:
            expected = self._typed(index, against)  # type: ignore[attr-defined]
        now, expected = now.reshape(-1), expected.reshape(-1)
        for start in range(0, now.numel(), ELEMENTS):
            yield (
                now[start : start + ELEMENTS].to(torch.float64).cpu().numpy(),
                expected[start : start + ELEMENTS].to(torch.float64).cpu().numpy(),
            )

    def _dtype(self, wanted: dict[str, Any]) -> str:
        return str(self.job["views"][wanted["view"]]["dtype"])

    def _shape(self, wanted: dict[str, Any]) -> tuple[int, ...]:
        return tuple(self.job["views"][wanted["view"]]["shape"])

    def _name(self, wanted: dict[str, Any]) -> str:
        return str(self.job["views"][wanted["view"]].get("name", ""))
