"""Trials in the workers of a Dask cluster, a resident bench in each: one worker for each device.

Jobs are given to a worker by name, so that its bench can compile ahead of them. A worker that is lost costs
the trial that it ran: that one is tried elsewhere, and marked if it takes a second worker with it; what only
waited there goes back to the queue.
"""

from __future__ import annotations

import contextlib
import queue
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kerncap import child
from kerncap.errors import BackendUnavailable, ReplayError
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning import worker_tasks as tasks
from kerncap.replay.tuning.constraints import INSTALL
from kerncap.replay.tuning.executor import Job, Sent
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.shipping import Shipment
from kerncap.replay.tuning.trial import Final, Trial
from kerncap.replay.tuning.trial_launch import BenchOptions

_AT_WORKER = 3  # one runs, one waits for it to end, one is on its way: nothing is waited for between them
_AHEAD = 32  # that a worker compiles meanwhile
_LOOK_S = 0.5  # how often it is asked who is still there, while nothing ends
_KILLS = 2  # workers that a trial may take with it before it is given up
_START_S = 60.0


@dataclass
class _Worker:
    """One worker: what it was sent, in order, and what waits for it here."""

    address: str
    name: str
    sent: dict[int, tuple[Job, Any]] = field(default_factory=dict)  # by number; the first one runs
    opening: Any = None
    facts: dict[str, Any] | None = None
    told: set[str] = field(default_factory=set)  # the configurations that it compiles


class Cluster:
    """An executor over the Dask cluster whose scheduler is at ``address``."""

    def __init__(
        self,
        shipments: Sequence[Shipment],
        options: BenchOptions,
        address: str,
        workers: int | None = None,
        sent: Sent | None = None,
        ahead: Sequence[Point] = (),
    ) -> None:
        """``workers``: at most; ``ahead``: what will be tried first, in order."""
        try:
            with child.protected():
                import distributed
        except ImportError as error:
            raise BackendUnavailable("a Dask cluster", f"{error}; {INSTALL}") from None
        self._distributed: Any = distributed
        self._shipments = list(shipments)
        self._options = options
        self._sent = sent
        self._session = uuid.uuid4().hex
        self._queue: deque[Job] = deque()
        self._done: queue.SimpleQueue[tuple[str, int, Any]] = queue.SimpleQueue()
        self._ahead = {points.key(each): each for each in ahead}
        # By configuration: whose it is, and compiles it ahead.
        self._turns = {key: turn for turn, key in enumerate(self._ahead)}
        self._workers: dict[str, _Worker] = {}
        self._refused: dict[str, str] = {}
        self._kills: dict[str, int] = {}
        self._given_up: deque[list[Trial]] = deque()
        self._notes: list[str] = []
        self._numbers = iter(range(10**9))
        self._limit = workers
        self._client = self._connected(address)
        try:
            self._await_first()
        except BaseException:
            self.close()
            raise

    @property
    def capacity(self) -> int:
        """Enough for every worker to compile ahead."""
        return max(1, len(self._workers)) * _AHEAD

    def facts(self) -> dict[str, Any]:
        open_ones = [each for each in self._workers.values() if each.facts is not None]
        first = open_ones[0].facts or {}
        return {**first, "workers": len(open_ones)}

    def notes(self) -> list[str]:
        return self._notes

    def submit(self, job: Job) -> None:
        """Queue a job: `wait` sends it, with what came after it to compile meanwhile."""
        self._turns.setdefault(job.key, len(self._turns))
        self._queue.append(job)

    def wait(self) -> list[Trial]:
        self._feed()
        while True:
            if self._given_up:
                return self._given_up.popleft()
            try:
                address, number, future = self._done.get(timeout=_LOOK_S)
            except queue.Empty:
                self._look()
                continue
            worker = self._workers.get(address)
            if worker is None:
                continue
            if future is worker.opening:
                self._opened(worker, future)
                continue
            if number not in worker.sent:
                continue
            if future.status != "finished":
                self._lost(worker, self._why(future))
                if address in self._there():  # only what runs its trials is gone
                    self._look()
                continue
            job, _ = worker.sent.pop(number)
            trials: list[Trial] = future.result()
            self._feed()
            return trials if trials else [Trial(job.point, "", "failed", "no result")]

    def finals(self, points: Mapping[str, Sequence[Point]], rounds: int) -> list[Final]:
        """Each launch's on one worker, so that its times are of one device."""
        found: list[Final] = []
        waiting = {digest: list(some) for digest, some in points.items() if some}
        for _ in range(_KILLS + 1):
            self._look()
            ready = [address for address, each in self._workers.items() if each.facts is not None]
            if not ready or not waiting:
                break
            shares: dict[str, dict[str, list[Point]]] = {}
            for number, (digest, some) in enumerate(waiting.items()):
                shares.setdefault(ready[number % len(ready)], {})[digest] = some
            running = {
                address: self._client.submit(
                    tasks.finals, self._session, share, rounds, workers=[address], pure=False
                )
                for address, share in shares.items()
            }
            for address, future in running.items():
                while not future.done() and address in self._there():
                    with contextlib.suppress(Exception):
                        self._distributed.wait([future], timeout=_LOOK_S)
                if future.status == "finished":
                    found += future.result()
                    for digest in shares[address]:
                        del waiting[digest]
                else:
                    future.cancel()
        for digest in waiting:
            self._notes.append(f"the finalists of {digest[:12]} were not re-measured: every worker was lost")
        return found

    def close(self) -> None:
        with contextlib.suppress(Exception):
            addresses = [each.address for each in self._workers.values()]
            self._client.run(tasks.close_bench, self._session, workers=addresses, on_error="ignore")
        self._client.close(timeout=10)

    # --- workers -------------------------------------------------------------------------------------

    def _connected(self, address: str) -> Any:
        try:
            client = self._distributed.Client(address, timeout=_START_S, set_as_default=False)
            try:
                client.wait_for_workers(1, timeout=_START_S)
            except BaseException:
                client.close()
                raise
            return client
        except (OSError, TimeoutError, ValueError) as error:
            where = f"the Dask scheduler {address}"
            raise BackendUnavailable(where, str(error) or type(error).__name__) from error

    def _await_first(self) -> None:
        """Until every worker that is there answered, and one can work."""
        self._look()
        while any(each.facts is None for each in self._workers.values()):
            with contextlib.suppress(queue.Empty):
                address, _, future = self._done.get(timeout=_LOOK_S)
                worker = self._workers.get(address)
                if worker is not None and future is worker.opening:
                    self._opened(worker, future)
            self._look()
        if not self._workers:
            self._no_workers()

    def _look(self) -> None:
        """Who is there: those that are gone are lost, those that came are opened."""
        there = self._there()
        for address in [each for each in self._workers if each not in there]:
            self._lost(self._workers[address], "its process is gone")
        for number, (address, about) in enumerate(sorted(there.items())):
            if address in self._workers or address in self._refused:
                continue
            if self._limit is not None and len(self._workers) >= self._limit:
                break
            self._open_worker(address, str(about.get("name", number)), about, there)
        if not self._workers and (self._queue or not there):
            self._no_workers()
        self._feed()

    def _there(self) -> Mapping[str, Any]:
        """The scheduler's workers by address.

        Asked of it: `Client.scheduler_info` may return what its own timer fetched, with no workers in it.
        """
        workers: Mapping[str, Any] = self._client.sync(self._client.scheduler.identity)["workers"]
        return workers

    def _no_workers(self) -> None:
        reasons = list(dict.fromkeys(self._refused.values())) or ["no worker is left"]
        raise BackendUnavailable("tuning on the cluster", "; ".join(reasons[:3]))

    def _open_worker(
        self, address: str, name: str, about: Mapping[str, Any], there: Mapping[str, Any]
    ) -> None:
        same = sorted(a for a, other in there.items() if other.get("host") == about.get("host"))
        count = min(len(there), self._limit or len(there))
        place = sorted(there).index(address)
        its = {key: each for key, each in self._ahead.items() if self._turns[key] % count == place}
        [shipped] = self._client.scatter([self._shipments], workers=[address], hash=False)
        worker = self._workers[address] = _Worker(address, name, told=set(its))
        worker.opening = self._client.submit(
            tasks.open_bench, self._session, shipped, self._options, same.index(address), len(same),
            list(its.values()), workers=[address], pure=False,
        )  # fmt: skip
        self._heard(worker, -1, worker.opening)

    def _heard(self, worker: _Worker, number: int, future: Any) -> None:
        future.add_done_callback(lambda done: self._done.put((worker.address, number, done)))

    def _opened(self, worker: _Worker, future: Any) -> None:
        worker.opening = None
        if future.status != "finished":
            self._refuse(worker, self._why(future))
            return
        facts = future.result()
        if "error" in facts:
            self._refuse(worker, str(facts["error"]))
            return
        worker.facts = facts
        self._feed()

    def _refuse(self, worker: _Worker, why: str) -> None:
        self._refused[worker.address] = why
        self._notes.append(f"worker {worker.name} can't take part: {why}")
        del self._workers[worker.address]

    @staticmethod
    def _why(future: Any) -> str:
        try:
            error = future.exception(timeout=1)
        except Exception as raised:
            error = raised
        return f"{type(error).__name__}: {error}"

    def _lost(self, worker: _Worker, why: str) -> None:
        """What it ran is tried elsewhere, unless it takes worker after worker with it."""
        del self._workers[worker.address]
        jobs = [worker.sent[number] for number in sorted(worker.sent)]
        for _, future in jobs:
            with contextlib.suppress(Exception):
                future.cancel()
        self._notes.append(f"worker {worker.name} was lost ({why}); its trial is run again")
        for position, (job, _) in enumerate(reversed(jobs)):
            if position == len(jobs) - 1:  # the first that was sent: it ran
                self._kills[job.key] = self._kills.get(job.key, 0) + 1
                if self._kills[job.key] >= _KILLS:
                    reason = f"{_KILLS} workers were lost while they ran it"
                    self._given_up.append(
                        [Trial(job.point, s.digest, "lost", reason) for s in self._shipments]
                    )
                    continue
            self._queue.appendleft(job)
        self._feed()

    def _feed(self) -> None:
        """Keep every worker busy, the least laden first, with what it may compile ahead."""
        while self._queue:
            ready = [w for w in self._workers.values() if w.facts is not None and len(w.sent) < _AT_WORKER]
            if not ready:
                return
            worker = min(ready, key=lambda each: len(each.sent))
            its = self._share(worker)
            job = its.pop(0) if its else self._queue[0]
            self._queue.remove(job)
            ahead = {each.key: each.point for each in its[:_AHEAD] if each.key not in worker.told}
            worker.told.update(ahead, (job.key,))
            number = next(self._numbers)
            try:
                future = self._client.submit(
                    tasks.try_job, self._session, job, list(ahead.values()), worker.name,
                    workers=[worker.address], pure=False, retries=0,
                )  # fmt: skip
            except Exception as error:
                raise ReplayError(f"the Dask scheduler takes no more work: {error}") from error
            worker.sent[number] = (job, future)
            self._heard(worker, number, future)
            if self._sent is not None:
                self._sent(worker.name, job.point)

    def _share(self, worker: _Worker) -> list[Job]:
        """What of the queue is this worker's to compile: no two compile the same."""
        addresses = sorted(self._workers)
        place = addresses.index(worker.address)
        return [job for job in self._queue if self._turns.get(job.key, 0) % len(addresses) == place]
