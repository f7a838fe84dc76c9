"""What a search was asked for: its options, the values that they name, who watches it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerncap.api.replay import check_numbers
from kerncap.errors import UsageError
from kerncap.replay.tuning.constraints import Legal
from kerncap.replay.tuning.executor import Executor, Sent
from kerncap.replay.tuning.launch_row import NAME
from kerncap.replay.tuning.point import Scalar
from kerncap.replay.tuning.samplers import NAMES
from kerncap.replay.tuning.search import Limits
from kerncap.replay.tuning.space import Space, Wishes
from kerncap.replay.tuning.space_file import SpaceFile, read
from kerncap.replay.tuning.trial import Trial
from kerncap.time_limits import LAUNCH_S

_TRIALS = 100
EMULATED = "the times are the emulator's, which say nothing of a GPU"


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """What `kerncap tune` takes. ``pin`` and ``bound`` as on the command line: NAME=V, NAME=LO:HI."""

    space: str | None = None
    trials: int = _TRIALS
    time_s: float | None = None
    patience: int = 60
    sampler: str = "auto"
    pin: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    forbid: tuple[str, ...] = ()
    scheduler: str | None = None
    workers: int | None = None
    resume: bool = False
    apply: bool = False
    engine: str = "auto"
    device: str = "auto"
    python: str | None = None
    timeout_s: float = LAUNCH_S
    rtol: float | None = None
    atol: float | None = None
    trust: bool = False
    hostile: bool = False
    candidate: Path | None = None  # of a range
    intermediates: tuple[str, ...] = ()  # as of `verify`

    def limits(self, compiled: bool) -> Limits:
        """When the search ends; ``compiled``: not by the interpreter, which takes long."""
        return Limits(self.trials, self.time_s, self.patience, 25 if compiled else 3)


@dataclass
class Watcher:
    """Told what goes on: the space once, each job that a worker was given, trials as they end."""

    started: Callable[[Space, Legal, Mapping[str, Any]], None] = field(default=lambda *_: None)
    sent: Sent = field(default=lambda *_: None)
    ended: Callable[[list[Trial]], None] = field(default=lambda *_: None)
    executor: Callable[[Executor], None] = field(default=lambda *_: None)


def wishes_of(options: TuneOptions) -> Wishes:
    """The options' wishes. Raises UsageError for one that can't be read."""
    if options.sampler not in NAMES:
        raise UsageError(f"--sampler {options.sampler}: expected one of {', '.join(NAMES)}")
    if options.trials < 1:
        raise UsageError(f"--trials {options.trials}: expected at least 1")
    check_numbers(options.timeout_s, options.rtol, options.atol)
    if options.time_s is not None and not options.time_s >= 0:
        raise UsageError(f"--time {options.time_s:g}: expected a number of seconds")
    bounds: dict[str, tuple[int, int]] = {}
    for text in options.bound:
        match = re.fullmatch(rf"(?P<name>{NAME})=(?P<low>\d{{1,9}}):(?P<high>\d{{1,9}})", text)
        if match is None or int(match["low"]) > int(match["high"]):
            raise UsageError(f"--bound {text}: expected NAME=LO:HI, two numbers in order")
        if match["name"] in bounds:
            raise UsageError(f"--bound {text}: {match['name']} has other bounds already; give them once")
        bounds[match["name"]] = (int(match["low"]), int(match["high"]))
    pins: dict[str, Scalar] = {}
    for text in options.pin:
        name, _, value = text.partition("=")
        if not re.fullmatch(NAME, name) or not value:
            raise UsageError(f"--pin {text}: expected NAME=VALUE")
        if name in pins:
            raise UsageError(f"--pin {text}: {name} is pinned already; pin it once")
        pins[name] = _value(value)
    file = read(options.space) if options.space is not None else SpaceFile()
    return Wishes(file, pins, bounds, options.forbid)


def _value(text: str) -> Scalar:
    known: dict[str, Scalar] = {"true": True, "false": False, "none": None}
    if text.lower() in known:
        return known[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def legal_of(space: Space, where: str, kernel: str) -> Legal:
    """The configurations that there are. Raises UsageError if there is nothing to choose from."""
    if not space.parameters:
        reasons = "; ".join(f"{name}: {why}" for name, why in list(space.pinned.items())[:6])
        raise UsageError(
            f"{where}: {kernel} has nothing to tune ({reasons or 'no parameter'}); "
            "--space names parameters and values"
        )
    legal = space.legal()
    if legal.size == 0:
        raise UsageError("the constraints leave no configuration: --forbid, --bound or --space exclude all")
    return legal
