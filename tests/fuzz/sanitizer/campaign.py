"""The hunt for wrong words: ``python -m tests.fuzz.sanitizer.campaign --launches 10000``.

Each kernel is launched several times. What is done is kept in a journal: the same command goes on where it
ended. ``--seed N`` (or N.VARIANT) runs one launch and prints its source (``--shrink``: a smaller one); a
disagreement prints the command for it. Exit status 1 if brute force and the sanitizer differ.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.sanitizer.case import Case
from tests.fuzz.sanitizer.compare import KINDS, Outcome, run
from tests.fuzz.sanitizer.shrink import shrink

LAUNCHES_OF_A_KERNEL = 4


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
    again = f"python -m tests.fuzz.sanitizer.campaign --seed {outcome.case.name}"
    return f"=== seed {outcome.case.name}\n{describe(outcome.case)}\n{said}\nagain: {again}\n"


class Tally:
    """Sums of outcomes; as JSON, the journal's lines."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.checks: Counter[str] = Counter()
        self.reasons: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.complaints: list[str] = []
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
        truth = "unsafe" if outcome.buggy else "safe" if outcome.decided else "open"
        truth = "safe by zeros" if outcome.zeros else truth
        self.answers[f"{truth}: {outcome.answer or 'none'}"] += 1
        self.cases["buggy" if outcome.buggy else "clean"] += 1
        for kind in {one.kind for one in outcome.disagreements}:
            self.cases[kind] += 1
        if outcome.disagreements:
            self.complaints.append(complaint(outcome))

    def merge(self, other: Tally) -> None:
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if name == "seconds":
                for key, seconds in value.items():
                    mine[key] += seconds
            else:
                mine += value

    def document(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value}

    @classmethod
    def read(cls, document: dict[str, Any]) -> Tally:
        found = cls()
        for name, value in document.items():
            kind = type(getattr(found, name))
            setattr(found, name, defaultdict(float, value) if kind is defaultdict else kind(value))
        return found

    @property
    def compared(self) -> int:
        return self.cases["buggy"] + self.cases["clean"]

    @property
    def unproven_share(self) -> float:
        return self.checks["unproven"] / max(sum(self.checks.values()), 1)

    @property
    def undecided_share(self) -> float:
        """Of the launches that brute force decides."""
        decided = {name: count for name, count in self.answers.items() if not name.startswith("open")}
        left = sum(count for name, count in decided.items() if name.endswith((" undecided", " none")))
        return left / max(sum(decided.values()), 1)

    def text(self) -> str:
        wrong = sum(self.cases[kind] for kind in KINDS)
        lines = [
            f"launches: {dict(self.cases)}; wrong: {wrong}",
            f"answers: {dict(sorted(self.answers.items()))}; undecided {self.undecided_share:.2%}",
            f"checks: {dict(self.checks)}, unproven {self.unproven_share:.2%}",
        ]
        lines += [f"  unproven {count:5} x {reason[:150]}" for reason, count in self.reasons.most_common(8)]
        lines += [f"  skipped  {count:5} x {reason}" for reason, count in self.skipped.most_common(5)]
        spent = ", ".join(f"{name} {s:.1f} s" for name, s in self.seconds.items())
        return "\n".join([*lines, f"seconds: {spent}"])


def kernel(seed: int) -> tuple[int, Tally]:
    """All launches of one kernel."""
    tally = Tally()
    for variant in range(LAUNCHES_OF_A_KERNEL):
        outcome = run(seed, variant)
        tally.add(outcome)
        if outcome.skipped is not None and outcome.skipped.startswith("not compiled"):
            break
    return seed, tally


def tallies(seeds: Iterable[int], processes: int) -> Iterator[tuple[int, Tally]]:
    """In any order."""
    if processes <= 1:
        yield from map(kernel, seeds)
        return
    # Fork is not safe once torch's threads run; a fresh process is, and pays its imports once.
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) as pool:
        yield from pool.imap_unordered(kernel, seeds, chunksize=4)


def hunt(launches: int, first: int, processes: int, journal: Path) -> Tally:
    """Until that many launches were compared, including those in the journal; disagreements are printed."""
    whole, done = Tally(), set()
    if journal.exists():
        for line in journal.read_text().splitlines():
            try:
                seed, document = json.loads(line)
            except ValueError:  # the line that was being written when it ended
                continue
            done.add(seed)
            whole.merge(Tally.read(document))
    journal.parent.mkdir(parents=True, exist_ok=True)
    with journal.open("a") as file:
        seed = first
        while whole.compared < launches:
            batch: list[int] = []
            wanted = -(-(launches - whole.compared) // LAUNCHES_OF_A_KERNEL)
            while len(batch) < wanted:
                if seed not in done:
                    batch.append(seed)
                seed += 1
            for number, tally in tallies(batch, processes):
                print(json.dumps([number, tally.document()]), file=file, flush=True)
                whole.merge(tally)
                for one in tally.complaints:
                    print(one, flush=True)
    return whole


def one_launch(name: str, smaller: bool) -> int:
    seed, _, variant = name.partition(".")
    outcome = run(int(seed), int(variant or 0))
    if smaller:
        outcome = shrink(outcome)
    print(complaint(outcome) or describe(outcome.case))
    counted = f"{outcome.answer}: {dict(outcome.checks)} {dict(outcome.reasons)}"
    print(f"skipped: {outcome.skipped}" if outcome.skipped else counted)
    return 1 if outcome.disagreements else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--launches", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", metavar="N[.VARIANT]", help="only this launch, with its source")
    parser.add_argument("--shrink", action="store_true", help="with --seed: make a disagreement smaller")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--journal", type=Path, help="what is done (default: build/hunt/FIRST.jsonl)")
    options = parser.parse_args()
    if options.seed is not None:
        return one_launch(options.seed, options.shrink)
    journal = options.journal or Path(f"build/hunt/{options.first}.jsonl")
    start = time.perf_counter()
    try:
        tally = hunt(options.launches, options.first, options.processes, journal)
    except KeyboardInterrupt:
        print(f"interrupted: the same command goes on ({journal})")
        return 1
    print(f"{tally.compared} launches, {time.perf_counter() - start:.0f} s this time\n{tally.text()}")
    return 1 if tally.cases.keys() & set(KINDS) else 0


if __name__ == "__main__":
    sys.exit(main())
