"""All ranks of a collective launch in one engine: a worker for each, whose windows are the others' memory.

The memory of all of them is that of the engine: its regions are those of rank 0, then those of rank 1, …,
less the windows, which are the same memory again. A launch of a variant is one in each worker, at the same
time. If one of them does not end well all workers are replaced, as a kernel that waits for another one never
ends without it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

from kerncap import scratch
from kerncap.errors import ReplayError
from kerncap.format import Reproducer
from kerncap.replay import doubts
from kerncap.replay.choose_engine import Choice
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.handle_exchange import HandleExchange
from kerncap.replay.joined_ranks import AllReproducers, choices_of, given_windows, in_order, joined
from kerncap.replay.outcome import Facts, Outcome
from kerncap.replay.staging import Job, stage
from kerncap.replay.worker import job, protocol
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Backend, Difference, ErrorBoxes, ErrorStatistics, Limits, Nonfinite

T = TypeVar("T")

_WORST = ("fault", "error", "refused", "killed", "timeout")  # what is said of a launch, first of all
_REGION = re.compile(r"\bregion (\d+)\b")


class RankEngine(Engine):
    """One rank's: its worker is replaced with the others' only."""

    def __init__(self, reproducer: Reproducer, choice: Choice, ranks: job.JobRanks, timeout_s: float) -> None:
        self._ranks = ranks
        super().__init__(reproducer, choice=choice, timeout_s=timeout_s)

    def _staged(self, choice: Choice) -> Job:
        return stage(
            self.reproducer, choice.launcher, choice.memory, choice.device, choice.hostile, choice.stranger,
            self._ranks,
        )  # fmt: skip

    def _learn(self) -> None:
        pass  # the others are there

    def _restart(self) -> None:
        self.connection.close()

    def _doubt_of_ending(self, which: str, ending: str) -> str:
        return ""  # which one rank can't say: see `Together.launch`


class Together(Engine):
    """An `Engine` for all ranks of one collective launch; their reproducers are closed with it."""

    def __init__(
        self, reproducers: Sequence[Reproducer], device: str = "auto", python: str | None = None,
        timeout_s: float = 60.0,
    ) -> None:  # fmt: skip
        """Raises UsageError for reproducers that are not all ranks of one launch, and as `Engine`."""
        of_rank = in_order(reproducers)
        self.timeout_s = timeout_s
        given = given_windows(of_rank)
        self._regions, self._views, self.manifest, shared = joined(of_rank, given)
        self.reproducer = cast("Reproducer", AllReproducers(of_rank, self.manifest, self._regions))
        self.never_poisoned = frozenset(shared)
        self._snapshots = set()
        self._ran_python = False
        self._generation = 1
        self._of_places = {}
        self._engines: list[RankEngine] = []
        self._threads = ThreadPoolExecutor(len(of_rank))
        # A socket's path is no longer than some hundred characters.
        self._folder = scratch.folder(
            "ranks", scratch.SHARED_MEMORY if scratch.SHARED_MEMORY.is_dir() else None
        )
        self._exchange = HandleExchange(self._folder.path)
        choices = choices_of(of_rank, device, python)

        def opened(rank: int) -> Callable[[], RankEngine]:
            ranks: job.JobRanks = {"rank": rank, "handles": str(self._exchange.path), "given": given[rank]}
            return lambda: RankEngine(of_rank[rank], choices[rank], ranks, timeout_s)

        try:
            self._engines = self._all_start([opened(rank) for rank in range(len(of_rank))])
            self.choice, self.connection = self._engines[0].choice, self._engines[0].connection
            self._refuse_moved()
            self._refuse_crowded(ORIGINAL)
        except BaseException:
            self.close()
            raise

    def _all_start(self, starts: Sequence[Callable[[], T]]) -> list[T]:
        """What each gives; when one fails, none waits for it any longer."""

        def started(start: Callable[[], T]) -> T:
            try:
                return start()
            except BaseException:
                self._exchange.give_up()
                raise

        futures = [self._threads.submit(started, start) for start in starts]
        errors = [future.exception() for future in futures]
        for future, error in zip(futures, errors, strict=True):
            if error is None and isinstance(found := future.result(), RankEngine) and any(errors):
                found.close()
        # The first that failed by itself: the others say that its memory did not come.
        failed = [error for error in errors if error is not None]
        for error in sorted(failed, key=lambda error: "another rank" in str(error)):
            raise error
        return [future.result() for future in futures]

    def _refuse_moved(self) -> None:
        for rank, engine in enumerate(self._engines):
            if engine.facts.relocated:
                where = ", ".join(map(str, engine.facts.relocated))
                raise ReplayError(
                    f"the captured address of region {where} of rank {rank} is in use here, and pointers of "
                    "other ranks lead there: run it again"
                )

    def _refuse_crowded(self, which: str) -> None:
        """Raises ReplayError for kernels of ranks that don't take turns, and have no room at once."""
        shares: dict[int, list[float]] = {}
        for engine in self._engines:
            compiled, processors = engine.compiled(which), engine.facts.at_once
            if processors and compiled.grid is not None and compiled.blocks_per_sm:
                share = math.prod(compiled.grid) / (compiled.blocks_per_sm * processors)
                shares.setdefault(engine.choice.device, []).append(share)
        for device, of_ranks in shares.items():
            if len(of_ranks) > 1 and sum(of_ranks) > 1:
                raise ReplayError(
                    f"CUDA device {device}: the kernels of {len(of_ranks)} ranks need {sum(of_ranks):.3g} "
                    "times its multiprocessors at once, and under MPS processes take no turns; stop MPS, "
                    "or use more devices"
                )

    def close(self) -> None:
        self._exchange.give_up()
        for engine in self._engines:
            engine.close()
        self._threads.shutdown()
        self._exchange.close()
        self._folder.remove()

    # --- what is said of it ------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:  # type: ignore[override]
        first = self._engines[0].facts
        devices = dict.fromkeys(engine.facts.device for engine in self._engines)
        notes = [f"rank {n}: {note}" for n, engine in enumerate(self._engines) for note in engine.facts.notes]
        return replace(first, device=", ".join(devices), notes=notes)

    @property
    def generation(self) -> int:
        return self._generation

    def named(self, text: str) -> str:
        """``text`` with each region called by its rank and its number there."""

        def name(match: re.Match[str]) -> str:
            part = self._regions[int(match[1])]
            return f"region {part.number} of rank {part.rank}"

        return _REGION.sub(name, text)

    @property
    def pointed_at(self) -> list[range]:
        """The windows, which are regions of other ranks at other addresses."""
        every = [region for engine in self._engines for region in engine.manifest.regions]
        return [range(region.base, region.base + region.size) for region in every if region.owner is not None]

    def pre_files(self) -> list[list[Path]]:
        files = [engine.pre_files() for engine in self._engines]
        return [files[part.rank][part.number] for part in self._regions]

    def log_tail(self) -> str:
        return "\n".join(filter(None, (engine.log_tail() for engine in self._engines)))

    # --- variants ----------------------------------------------------------------------------------

    def load_candidate(self, path: Path) -> None:
        for engine in self._engines:
            engine.load_candidate(path)
        self._refuse_crowded(CANDIDATE)

    def unload(self, name: str) -> None:
        for engine in self._engines:
            engine.unload(name)

    def is_loaded(self, name: str) -> bool:
        return self._engines[0].is_loaded(name)

    def loadable(self, which: str) -> tuple[Path, Any]:
        return self._engines[0].loadable(which)

    def config(self, which: str) -> Any:
        return self._engines[0].config(which)

    def variant(self, which: str, scalars: dict[str, str]) -> str:
        if scalars:
            raise ReplayError("all ranks together have the numbers that they were captured with")
        return which

    # --- running -----------------------------------------------------------------------------------

    def plain(self, which: str = ORIGINAL, timeout_s: float | None = None, shared: bool = False) -> Outcome:
        self.restore()
        return self.launch(which, timeout_s)

    def launch(self, which: str = ORIGINAL, timeout_s: float | None = None) -> Outcome:
        self._finish()
        outcomes: list[Outcome] = list(
            self._threads.map(lambda engine: engine.launch(which, timeout_s), self._engines)
        )
        bad = [(rank, outcome) for rank, outcome in enumerate(outcomes) if not outcome.ok]
        if not bad:
            return max(outcomes, key=lambda outcome: outcome.ns)
        self._replace_workers()
        rank, worst = min(bad, key=lambda each: _WORST.index(each[1].status))
        doubt = doubts.of_shared(self.manifest) if worst.status == "timeout" else ""
        if worst.status in ("fault", "error"):
            doubt = self._doubt_of_ending(which, worst.message)
        return replace(worst, message=f"rank {rank}: {worst.message}", doubt=doubt)

    def printed(self, which: str, limit: int) -> tuple[Outcome, bytes]:
        raise ReplayError("what the kernels of several ranks print is not compared")

    def _replace_workers(self) -> None:
        for engine in self._engines:
            engine.connection.close()
        self._exchange.clear()
        self._generation += 1
        self._snapshots.clear()
        self._all_start([engine.connection.start for engine in self._engines])
        self._refuse_moved()

    # --- memory ------------------------------------------------------------------------------------

    def _at(self, region: int) -> tuple[RankEngine, int]:
        part = self._regions[region]
        return self._engines[part.rank], part.number

    def _each(self, operation: Callable[[RankEngine], T]) -> list[T]:
        return [operation(engine) for engine in self._engines]

    def _finish(self) -> None:
        """What one worker has queued is done before another one looks at the same memory."""
        self._each(lambda engine: engine.connection.call(Backend.finish))

    def restore(self, state: str = "pre") -> None:
        self._finish()
        self._each(lambda engine: engine.restore(state))

    def snapshot(self, name: str) -> None:
        self._snapshots.add(name)
        self._each(lambda engine: engine.snapshot(name))
        self._finish()

    def drop(self, name: str) -> None:
        self._snapshots.discard(name)
        self._each(lambda engine: engine.drop(name))

    def reload(self) -> None:
        self._each(lambda engine: engine.reload())

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits | None = None) -> None:
        engine, number = self._at(region)
        engine.fill(number, start, stop, seed, mask)

    def put(self, state: str, region: int, mask: Bits) -> None:
        engine, number = self._at(region)
        engine.put(state, number, mask)

    def differing(self, state: str) -> list[int]:
        by_rank = self._each(lambda engine: set(engine.differing(state)))
        return [region for region, part in enumerate(self._regions) if part.number in by_rank[part.rank]]

    def diff(self, region: int, against: str, seed: int = 0, mask: Bits | None = None) -> Bits:
        engine, number = self._at(region)
        return engine.diff(number, against, seed, mask)

    def untouched(self, region: int) -> Bits:
        engine, number = self._at(region)
        return engine.untouched(number)

    def gap_writes(self) -> list[tuple[int, int, int]]:
        return [found for each in self._each(lambda engine: engine.gap_writes()) for found in each]

    def infer(self, region: int, start: int, stop: int, mask: Bits, against: str) -> protocol.View | None:
        engine, number = self._at(region)
        found = engine.infer(number, start, stop, mask, against)
        if found is None:
            return None
        name = found.name.replace(f"region {number}", f"region {region}")
        return replace(found, region=region, name=name)

    def compare(
        self, views: Sequence[tuple[int | protocol.View, float, float]], against: str
    ) -> list[Difference]:
        found = []
        for view, rtol, atol in views:
            number = -1 if isinstance(view, protocol.View) else view
            if isinstance(view, protocol.View):
                engine, own = self._at(view.region)
                [stats] = engine.compare([(replace(view, region=own), rtol, atol)], against)
            else:
                part = self._views[view]
                [stats] = self._engines[part.rank].compare([(part.number, rtol, atol)], against)
                stats = replace(stats, name=self.manifest.views[view].name)
            found.append(replace(stats, view=number))
        return found

    def errors(self, views: Sequence[Limits], against: str) -> list[ErrorStatistics]:
        return [
            replace(found, view=view, name=self.manifest.views[view].name)
            for view, engine, limits in self._own(views)
            for found in engine.errors([limits], against)
        ]

    def boxes(self, views: Sequence[Limits], against: str) -> list[ErrorBoxes]:
        return [
            replace(found, view=view)
            for view, engine, limits in self._own(views)
            for found in engine.boxes([limits], against)
        ]

    def _own(self, views: Sequence[Limits]) -> Iterator[tuple[int, RankEngine, Limits]]:
        """Each view, with its rank's engine, and what is asked of that."""
        for view, rtol, atol in views:
            part = self._views[view]
            yield view, self._engines[part.rank], (part.number, rtol, atol)

    def within(self, views: Sequence[tuple[int | protocol.View, float, float]], against: str) -> bool:
        return not any(stats.outside for stats in self.compare(views, against))

    def nonfinite(self, views: list[int], written: dict[int, Bits]) -> list[Nonfinite]:
        raise ReplayError("the values of several ranks are not searched for NaN")
