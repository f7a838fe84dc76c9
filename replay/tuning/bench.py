"""One process's part of tuning: resident engines, compilation ahead, trials one at a time.

The same in kerncap's own process and in a worker of a cluster.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kerncap.format import Reproducer
from kerncap.replay.choose_engine import Choice, choose
from kerncap.replay.pool import Asked, Pool
from kerncap.replay.tuning.attempts import Attempts
from kerncap.replay.tuning.builds import Builds
from kerncap.replay.tuning.builds_ahead import BuildsAhead
from kerncap.replay.tuning.finals import Finals
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.trial import Final, Trial
from kerncap.replay.tuning.trial_launch import BenchOptions, OpenLaunch, open_launch


class Bench:
    """Runs trials of launches that are open; a context manager.

    One thread asks for trials; another may announce what comes.
    """

    def __init__(self, launches: Mapping[str, OpenLaunch], builds: Builds, options: BenchOptions) -> None:
        self._launches = launches
        self._builds = builds
        self._threads = ThreadPoolExecutor(len(launches))
        self._attempts = Attempts(launches, builds, options.slow)
        self._finals = Finals(launches, builds, self._threads, options.tolerance)

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End what this one started."""
        self._threads.shutdown()

    def facts(self) -> dict[str, Any]:
        """What runs where: ``device`` (its model), ``place`` (which one), ``engine``, ``triton``, ``python``,
        ``original_ms`` by digest."""
        first = next(iter(self._launches.values())).engine
        return {
            "device": first.facts.device or "cpu",
            "place": f"{first.choice.memory}:{first.choice.device}",
            "engine": first.choice.name,
            "triton": first.facts.triton,
            "torch": first.facts.torch,
            "python": first.choice.python,
            "compiled": first.choice.launcher != "interpreter",
            "unconfined": first.facts.unconfined,
            "original_ms": {digest: each.original_ms for digest, each in self._launches.items()},
        }

    def announce(self, digests: Sequence[str], points: Sequence[Point]) -> None:
        """These will be tried: compile them meanwhile."""
        for given in points:
            for digest in digests:
                self._builds.announce(self._launches[digest], digest, given)

    def trials(
        self, digests: Sequence[str], given: Point, best_ms: Mapping[str, float], listed: bool = False
    ) -> list[Trial]:
        """Try one configuration on each launch. ``best_ms``: the fastest so far, by digest, to give up early
        what is clearly slower.

        Loading and verifying go on side by side; what is timed has the device for itself.
        """
        attempts = self._attempts
        ready = list(self._threads.map(lambda digest: attempts.ready(digest, given, listed), digests))
        return [
            each if isinstance(each, Trial) else attempts.timed(each, best_ms.get(each.digest))
            for each in ready
        ]

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        """Time each launch's ``points`` in turns with the original; what may be chosen is verified again."""
        return self._finals.measure(points, rounds)


class ReproducerBench(Bench):
    """The bench of several reproducers, which its maker trusts, each with an engine that is closed here.

    ``choice``: the engine's, if it is known; ``ahead``: configurations of the application's own list,
    compiled from the start; ``pool``: what its workers are forks of, if that was begun already; it is closed
    here. ``beside``: a bench of the same reproducers on a device of the same model, which is closed later;
    what forks and what compiles is shared with it.
    """

    def __init__(
        self, reproducers: Mapping[str, Path], options: BenchOptions, choice: Choice | None = None,
        ahead: Sequence[Point] = (), pool: Pool | None = None, beside: ReproducerBench | None = None,
    ) -> None:  # fmt: skip
        self._opened = {digest: Reproducer.open(path) for digest, path in reproducers.items()}
        self._ends: list[Callable[[], None]] = []
        self._stack = contextlib.ExitStack()
        try:
            first = next(iter(self._opened.values())).manifest
            if beside is None:
                self._pool = self._stack.enter_context(pool or Pool(lasting=True))
                asked = Asked(engine=options.engine, device=options.device, python=options.python)
                self._pool.begin(first, asked)
            else:
                self._pool = beside._pool
            if choice is None:
                choice = choose(first, options.engine, options.device, options.python)
            if beside is None or options.hostile:  # then each engine has its confined compilers
                # It starts with the engines, and forks from what they fork from: that imports torch once.
                ahead_of_trials = BuildsAhead(self._opened, choice, options, ahead, self._pool)
                self._ends.append(ahead_of_trials.close)
                launches = self._open(options, choice)
                ahead_of_trials.await_target()
                builds: Builds = ahead_of_trials
            else:
                launches, builds = self._open(options, choice), beside._builds
        except BaseException:
            self._close()
            raise
        super().__init__(launches, builds, options)

    def close(self) -> None:
        """End the engines and what still compiles."""
        self._close()
        super().close()

    def _close(self) -> None:
        if self._ends:
            with ThreadPoolExecutor(len(self._ends)) as ending:  # each waits for a process that ends
                for end in [ending.submit(each) for each in self._ends]:
                    end.result()
        self._ends.clear()
        for reproducer in self._opened.values():
            reproducer.close()
        self._stack.close()

    def _open(self, options: BenchOptions, choice: Choice) -> dict[str, OpenLaunch]:
        """Start an engine for each launch, side by side. Raises the first error that one of them met."""
        first = next(iter(self._opened.values()))
        with ThreadPoolExecutor(len(self._opened)) as starting:
            waiting = {
                digest: starting.submit(
                    open_launch,
                    reproducer,
                    options,
                    choice if _are_alike(reproducer, first) else None,
                    self._pool,
                )
                for digest, reproducer in self._opened.items()
            }
            problem: BaseException | None = None
            launches: dict[str, OpenLaunch] = {}
            for digest, future in waiting.items():
                try:
                    launches[digest] = launch = future.result()
                    self._ends.append(launch.engine.close)
                except BaseException as error:
                    problem = problem or error
        if problem is not None:
            raise problem
        return launches


def _are_alike(one: Reproducer, other: Reproducer) -> bool:
    """Whether the same engine is chosen for both."""
    a, b = one.manifest, other.manifest
    return (a.launch.mode, a.device) == (b.launch.mode, b.device)
