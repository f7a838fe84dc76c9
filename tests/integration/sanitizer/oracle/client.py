"""Asks the oracle, in a process where Triton interprets its kernels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[4]

Key = tuple[str, int, "str | None"]
Pair = tuple[tuple[Any, ...], tuple[Any, ...]]


@dataclass(frozen=True)
class Answer:
    """The oracle's verdict on one case; ``failure``: why it has none.

    ``violations``: by (check, line, argument), the points (program id, lane, offset in bytes).
    """

    case: str
    seconds: float
    failure: str | None
    violations: dict[Key, set[tuple[Any, ...]]]
    races: set[Pair]
    identical: set[Pair]
    events: int = 0

    @property
    def found(self) -> set[Key]:
        return set(self.violations)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list) else value


def ask(modules: Iterable[str], cases: Iterable[str], timeout_s: float = 600) -> dict[str, Answer]:
    """Brute force over the named cases, which importing ``modules`` registers; answers by name."""
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.integration.sanitizer.oracle.worker"],
        input=json.dumps({"modules": sorted(set(modules)), "cases": list(cases)}),
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    if finished.returncode:
        raise RuntimeError(finished.stderr[-4000:])
    answers = {}
    for line in finished.stdout.splitlines():
        one = json.loads(line)
        answers[one["case"]] = Answer(
            one["case"],
            one["seconds"],
            one.get("failure"),
            {
                (each["check"], each["line"], each["argument"]): set(_tuples(each["points"]))
                for each in one.get("violations", ())
            },
            set(_tuples(one.get("races", []))),
            set(_tuples(one.get("identical", []))),
            one.get("events", 0),
        )
    return answers
