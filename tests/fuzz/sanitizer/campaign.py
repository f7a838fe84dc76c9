"""Many generated kernels: ``python -m tests.fuzz.sanitizer.campaign --kernels 10000``.

``--seed N`` runs one and prints its source (``--shrink``: a smaller one); a disagreement prints the
command for it. Exit status 1 where brute force and the sanitizer differ.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tests.fuzz.sanitizer.case import Case
from tests.fuzz.sanitizer.compare import KINDS, Outcome, run
from tests.fuzz.sanitizer.shrink import shrink


def describe(case: Case) -> str:
    """The case as a reader needs it."""
    numbered = "\n".join(f"{at:3} {line}" for at, line in enumerate(case.source.splitlines(), 1))
    tensors = "\n".join(f"  {one}" for one in case.tensors)
    return f"{numbered}\ngrid {case.grid}, numbers {case.numbers}, view bounds: {case.view_bounds}\n{tensors}"


def complaint(outcome: Outcome) -> str:
    """A disagreement with everything that it takes to look into it; "" where there is none."""
    if not outcome.disagreements:
        return ""
    said = "\n".join(f"{one.kind.upper()}: {one.text}" for one in outcome.disagreements)
    again = f"python -m tests.fuzz.sanitizer.campaign --seed {outcome.case.seed}"
    return f"=== seed {outcome.case.seed}\n{describe(outcome.case)}\n{said}\nagain: {again}\n"


def outcomes(seeds: Iterable[int], processes: int) -> Iterator[Outcome]:
    """In any order."""
    if processes <= 1:
        yield from map(run, seeds)
        return
    # Fork is not safe once torch's threads run; a fresh process is, and pays its imports once.
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        yield from pool.imap_unordered(run, seeds, chunksize=16)


class Tally:
    """Sums of outcomes."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.checks: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.seconds: dict[str, float] = defaultdict(float)

    def add(self, outcome: Outcome) -> None:
        self.checks += outcome.checks
        for name, seconds in outcome.seconds.items():
            self.seconds[name] += seconds
        if outcome.skipped is not None:
            self.skipped[outcome.skipped] += 1
            self.cases["skipped"] += 1
            return
        self.reasons += outcome.reasons
        self.cases["buggy" if outcome.buggy else "clean"] += 1
        for kind in {one.kind for one in outcome.disagreements}:
            self.cases[kind] += 1

    @property
    def compared(self) -> int:
        return self.cases["buggy"] + self.cases["clean"]

    @property
    def unproven_share(self) -> float:
        return self.checks["unproven"] / max(sum(self.checks.values()), 1)

    def text(self) -> str:
        lines = [
            f"cases: {dict(self.cases)}",
            f"checks: {dict(self.checks)}, unproven {self.unproven_share:.2%}",
        ]
        lines += [f"  unproven {count:5} x {reason[:150]}" for reason, count in self.reasons.most_common(8)]
        lines += [f"  skipped  {count:5} x {reason}" for reason, count in self.skipped.most_common(5)]
        spent = ", ".join(f"{name} {s:.1f} s" for name, s in self.seconds.items())
        return "\n".join([*lines, f"seconds: {spent}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kernels", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one, with its source")
    parser.add_argument("--shrink", action="store_true", help="with --seed: make a disagreement smaller")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seed is not None:
        outcome = run(options.seed)
        if options.shrink:
            outcome = shrink(outcome)
        print(complaint(outcome) or describe(outcome.case))
        print(
            f"skipped: {outcome.skipped}"
            if outcome.skipped
            else f"{dict(outcome.checks)} {dict(outcome.reasons)}"
        )
        return 1 if outcome.disagreements else 0
    tally = Tally()
    start = time.perf_counter()
    done = 0
    try:
        for outcome in outcomes(range(options.first, options.first + options.kernels), options.processes):
            done += 1
            tally.add(outcome)
            if outcome.disagreements:
                print(complaint(outcome), flush=True)
    except KeyboardInterrupt:
        print(f"interrupted: {options.kernels - done} kernels were not run")
    spent = time.perf_counter() - start
    print(f"{done} kernels in {spent:.0f} s, {done / spent:.1f} a second\n{tally.text()}")
    return 1 if tally.cases.keys() & set(KINDS) else 0


if __name__ == "__main__":
    sys.exit(main())
