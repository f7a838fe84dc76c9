"""What a judge asks of a worker beyond comparing: errors in ulps, where they are, other values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kerncap.format.schema import Manifest
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.memory_names import view_name
from kerncap.replay.worker.protocol import REFERENCE, Backend, ErrorStatistics, Limits, Spread
from kerncap.replay.write_set_units import units

FLOATS = ("float", "bfloat")


def errors(engine: Engine, wanted: Sequence[Limits], against: str) -> list[ErrorStatistics]:
    """Statistics of views against a state or `REFERENCE`."""
    return engine.errors(wanted, against)


def errors_against(engine: Engine, wanted: Limits, expected: npt.NDArray[np.float64]) -> ErrorStatistics:
    """The same for one view against values of its shape."""
    with engine.connection.file("expected") as name:
        np.save(engine.connection.job.folder / name, expected)
        [found] = engine.connection.call(Backend.errors, [wanted], REFERENCE, file=name)
        return found


def values(engine: Engine, view: int) -> npt.NDArray[np.float64]:
    """A view's values as they are in memory."""
    with engine.connection.file("values") as name:
        engine.connection.call(Backend.export, view, out=name)
        found: npt.NDArray[np.float64] = np.load(engine.connection.job.folder / name, allow_pickle=False)
        return found


def memory(engine: Engine, region: int, start: int, stop: int) -> npt.NDArray[np.uint8]:
    """Bytes of a region as they are in memory."""
    with engine.connection.file("memory") as name:
        engine.connection.call(Backend.read, [(region, start, stop)], out=name)
        return np.fromfile(engine.connection.job.folder / name, dtype=np.uint8)


def stream_problem(engine: Engine, which: str, regions: list[int]) -> str:
    """What is wrong with the stream that a launch on a device works in; nothing if it keeps to its own."""
    return engine.connection.call(Backend.streams, which, regions=regions)


def redrawable(manifest: Manifest, measured: Measured) -> list[int]:
    """The views whose values may be others: floats; if there are none, integers, which keep to theirs."""
    floats, integers = readable_views(manifest, measured)
    return floats or integers


def readable_views(manifest: Manifest, measured: Measured) -> tuple[list[int], list[int]]:
    """The views that are read: of floats that share their bytes with nothing else, and of no floats."""
    floats: list[int] = []
    integers: list[int] = []
    for unit in units(manifest):
        if not unit.views:
            continue
        whole = unit.bits(measured.sizes[unit.region])
        if not (whole & ~measured.poisonable(unit.region)).any():
            continue  # poison goes there
        dtypes = [manifest.views[number].dtype for number in unit.views]
        if all(dtype.startswith(FLOATS) for dtype in dtypes):
            floats += unit.views
        elif not any(dtype.startswith(FLOATS) for dtype in dtypes):
            integers += unit.views
    return floats, integers


def boundaries(engine: Engine, views: list[int], known: Sequence[float], own: Sequence[float]) -> list[int]:
    """Give ``views`` values in memory on which comparisons turn; those that changed. See `Backend`."""
    return engine.connection.call(Backend.boundaries, views, list(known), list(own))


def redraw(
    engine: Engine, views: list[int], seed: int, repeats: bool = False, spread: Spread | None = None
) -> list[int]:
    """Give other values to ``views`` in memory, of the same kind or with a ``spread``; those that changed.

    ``repeats``: integers do not just change places, each second one is given twice (not of native launches).
    """
    return engine.connection.call(Backend.redraw, views, seed=seed, repeats=repeats, spread=spread)


def where(engine: Engine, wanted: Sequence[Limits], against: str) -> dict[int, str]:
    """By view where its errors are, if that is one part of it: ``differs only in out[992:1000]``."""
    found = {}
    for boxes in engine.boxes(wanted, against):
        view = engine.manifest.views[boxes.view]
        name = view_name(engine.manifest, boxes.view)
        inside, outside = boxes.inside, boxes.outside
        if outside is None or len(outside) != len(view.shape):
            continue  # nothing, or the parts of elements that have several
        if inside is None:
            found[boxes.view] = f"no element of {name} agrees"
        elif _is_part(outside, view.shape):
            found[boxes.view] = f"differs only in {name}[{_slices(outside)}]"
        elif _is_part(inside, view.shape):
            found[boxes.view] = f"agrees only in {name}[{_slices(inside)}]"
    return found


def _is_part(box: Sequence[tuple[int, int]], shape: Sequence[int]) -> bool:
    return any(stop - start <= 0.9 * length for (start, stop), length in zip(box, shape, strict=True))


def _slices(box: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{start}:{stop}" for start, stop in box)
