"""A tuning result as one HTML file: every trial as a point, no script, no network, for light and dark."""

from __future__ import annotations

from typing import Any

from kerncap.report.html.figure_geometry import scatter
from kerncap.report.html.filled_page import filled
from kerncap.report.html.results import checked


def render(result: Any) -> bytes:
    """The whole page of a `TuneResult`."""
    tune = checked("tune", result.as_dict())
    shapes = [
        {
            "label": shape.label,
            "scatter": scatter(tune, shape.digest),
            "best": result.best_of(shape.digest),
            **_trials(result, shape.digest),
        }
        for shape in result.shapes
    ]
    return filled("tune.html", result=result, shapes=shapes, notes=dict.fromkeys(result.notes))


def _trials(result: Any, digest: str) -> dict[str, Any]:
    """The fastest right ones first, and the names of what was tuned in them."""
    trials = [by[digest] for by in result.found.trials.values() if digest in by]
    names = [parameter.name for parameter in result.parameters]
    names += sorted({name for trial in trials for name in trial.point} - set(names))
    trials.sort(key=lambda trial: (trial.state != "timed", trial.ms is None, trial.ms or 0.0))
    return {"trials": trials, "names": names}
