"""What a worker of a Dask cluster is asked to do: it has one resident bench for each search.

Several threads may be in here at once: one has the device, the others have told what they need compiled.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from dataclasses import dataclass
from typing import Any

from kerncap import scratch
from kerncap.errors import KerncapError
from kerncap.replay.choose_engine import probe
from kerncap.replay.tuning.bench_process import BenchApart
from kerncap.replay.tuning.executor import Job, run_job
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.shipping import Shipment, unpack
from kerncap.replay.tuning.trial import Final, Trial
from kerncap.replay.tuning.trial_launch import BenchOptions


@dataclass
class _Resident:
    """A bench, the reproducers that it was opened for, and where they lie."""

    bench: BenchApart
    digests: list[str]
    folder: scratch.Scratch

    def close(self) -> None:
        self.bench.close()
        self.folder.remove()


_BENCHES: dict[str, _Resident] = {}


def open_bench(
    session: str, shipments: list[Shipment], options: BenchOptions, place: int, share: int, ahead: list[Point]
) -> dict[str, Any]:
    """Unpack, start the engines. An error is data: an exception might not survive the way back.

    ``place``: this worker's number among the ``share`` workers of its host, each with a device of its own.
    ``ahead``: what it will try first, compiled while the engines start.
    """
    close_bench(session)
    made = scratch.folder("tune")
    folder = made.path
    try:
        found = {each.digest: unpack(each, folder) for each in shipments}
        if options.processes is None:
            options = dataclasses.replace(options, processes=max(1, (os.cpu_count() or 1) // share))
        if options.device == "auto" and share > 1:
            count = probe(options.python or sys.executable).cuda_devices
            if count > 1:
                options = dataclasses.replace(options, device=f"cuda:{place % count}")
        bench = BenchApart(found, options, ahead)
    except KerncapError as error:
        made.remove()
        return {"error": str(error)}
    except BaseException:
        made.remove()
        raise
    _BENCHES[session] = _Resident(bench, list(found), made)
    return bench.facts()


def try_job(session: str, job: Job, ahead: list[Point], worker: str) -> list[Trial]:
    """Run a job's trials; ``ahead``: what it may compile meanwhile."""
    found = _BENCHES[session]
    # Its own first: what is asked first is compiled first.
    found.bench.announce(found.digests, [job.point, *ahead])
    return run_job(found.bench, job, found.digests, worker)


def finals(session: str, some: dict[str, list[Point]], rounds: int) -> list[Final]:
    """Re-measure the finalists of some launches."""
    return _BENCHES[session].bench.finals(some, rounds)


def close_bench(session: str) -> None:
    """End what `open_bench` started; nothing happens the second time."""
    found = _BENCHES.pop(session, None)
    if found is not None:
        found.close()
