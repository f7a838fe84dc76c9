"""A launch on memory in which all that it must write, and all that it must leave alone, is poison."""

from __future__ import annotations

from collections.abc import Callable

from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.outcome import Outcome
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits

SEED_A, SEED_B = 0, 1
LARGE = 4 * 1024 * 1024  # bytes: all of a smaller region is poisoned


def poison(engine: Engine, measured: Measured, seed: int, idle: bool = True, sparing: bool = True) -> None:
    """Poison all that may be poisoned in restored memory; without ``idle`` what is written, and no more.

    ``sparing``: large stretches of idle memory that nobody has touched on the host stay as they are, and
    `strays` tells whether a launch touches them.
    """
    measured.far = _far(engine, measured) if idle and sparing else {}
    for region, size in enumerate(measured.sizes):
        mask = measured.output(region)
        if idle:
            mask = mask | measured.watched(region)
        if mask.any():
            engine.fill(region, 0, size, seed, mask)
    for region, far in measured.far.items():
        beside = far & ~engine.untouched(region)  # in a page with what was poisoned
        if beside.any():
            measured.far[region] = far & ~beside
            engine.fill(region, 0, measured.sizes[region], seed, beside)


def launch_poisoned(
    engine: Engine, measured: Measured, which: str, seed: int, launch: Callable[[], Outcome] | None = None
) -> Outcome:
    """Restore, poison what is not read, launch.

    Of the captured kernel on the host memory may hold just that already: its last run answers, once.
    """
    known, measured.ran = measured.ran, None
    mine = which == ORIGINAL and engine.choice.memory == "host"
    if known is not None and mine and known[:2] == (seed, engine.connection.changes):
        return known[2]
    for last in (False, False, True):
        engine.restore()
        poison(engine, measured, seed, sparing=not last)
        outcome = launch() if launch else engine.launch(which)
        if not outcome.ok or not strays(engine, measured):
            break
    if mine and outcome.ok:
        measured.ran = seed, engine.connection.changes, outcome
    return outcome


def _far(engine: Engine, measured: Measured) -> dict[int, Bits]:
    found = {}
    for region in measured.untouched if engine.choice.memory == "host" else ():
        if measured.sizes[region] < LARGE:
            continue
        far = bitmap.whole_pages(measured.idle(region) & engine.untouched(region))
        if region in measured.near:
            far = far & ~measured.near[region]
        if far.any():
            found[region] = far
    return found


def strays(engine: Engine, measured: Measured) -> bool:
    """Whether a launch has touched what was not poisoned. From now on that is."""
    found = False
    for region, far in measured.far.items():
        touched = far & ~engine.untouched(region)
        if touched.any():
            near = bitmap.of_ranges(measured.sizes[region], touched.pages())
            measured.near[region] = measured.near[region] | near if region in measured.near else near
            found = True
    return found
