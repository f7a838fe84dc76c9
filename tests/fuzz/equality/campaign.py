"""Mutants of the kernels of `integration/equality`: a proof of one that differs on float64 inputs is wrong.

python -m tests.fuzz.equality.campaign --mutants 1000 --seed 1
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.util
import inspect
import multiprocessing
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kerncap.sanitizer.equality.kernel_runs import Budget, CannotRun, Kernel, kernel_of, run
from kerncap.sanitizer.equality.numbers import NotModelled
from kerncap.sanitizer.equality.proof import LIMITS, prove
from kerncap.sanitizer.equality.readable_inputs import INPUTS, Reals
from kerncap.sanitizer.equality.witness import results_differ
from tests.fuzz.mutants.mutate import Mutant, mutants
from tests.integration.equality.pairs import EQUAL, Run, launched

RUNS = 100
_IMPORTS = ("import triton", "import triton.language as tl", "from triton.language.extra import libdevice")


@dataclass(frozen=True)
class Mutated:
    """A kernel with the arguments of its pair, and one of its mutants."""

    pair: str
    run: Run
    mutant: Mutant

    @property
    def name(self) -> str:
        return str(self.run.kernel.__name__)

    def __str__(self) -> str:
        return f"{self.name}:{self.mutant.line}: {self.mutant.what}"


def _functions_beside(kernel: Any) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(Path(inspect.getfile(kernel.fn)).read_text(encoding="utf-8"))
    return {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}


@functools.cache
def chosen(count: int, seed: int) -> list[Mutated]:
    """Of all mutants of all kernels that are proved equal to another."""
    found, seen = [], set()
    for pair, (_, *both) in EQUAL.items():
        for one in both:
            if one.kernel.__name__ in seen:
                continue
            seen.add(one.kernel.__name__)
            functions = _functions_beside(one.kernel)
            body = functions[one.kernel.__name__]
            called = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)} & set(functions)
            needed = [ast.unparse(functions[name]) for name in sorted(called - {body.name})]
            text = "\n".join([*_IMPORTS, *needed, ast.unparse(body)])
            found += [Mutated(pair, one, mutant) for mutant in mutants(text)]
    random.Random(seed).shuffle(found)
    return found[:count]


def _loaded(path: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def differs(first: Kernel, second: Kernel, runs: int) -> bool:
    budget = Budget(LIMITS)
    usual = [one for one in INPUTS if "times" not in one.words]
    for seed in range(runs):
        numbers = Reals(usual[seed % len(usual)], 1000 + seed)
        if results_differ(first, second, run(first, numbers, budget), run(second, numbers, budget)):
            return True
    return False


def answer(first: Kernel, second: Kernel, runs: int) -> str:
    """What the proof says of two kernels; `WRONG` if it proves what differs."""
    found = prove(first, second)
    if found.equal is None:
        return "not proved"
    if found.witness is not None:
        return "shown to differ"
    try:
        return "WRONG" if differs(first, second, runs) else "proved"
    except (CannotRun, NotModelled):
        return "WRONG"


def judge(one: Mutated, path: Path, runs: int = RUNS) -> str:
    """What the proof says of a mutant; `WRONG` for one that is proved and differs."""
    path.write_text(one.mutant.source, encoding="utf-8")
    arguments = EQUAL[one.pair][0]()
    try:
        second = kernel_of(launched(arguments, replace(one.run, kernel=_loaded(path, one.name))))
    except Exception:
        return "does not compile"
    first = kernel_of(launched(arguments, one.run))
    return answer(first, second, runs)


def judged(number: int, count: int, seed: int, runs: int = RUNS) -> tuple[str, str]:
    """A mutant as text, and what the proof says of it."""
    one = chosen(count, seed)[number]
    with tempfile.TemporaryDirectory() as folder:
        return f"{one}\n{one.mutant.source}", judge(one, Path(folder) / f"mutant_{number}.py", runs)


def main(
    about: str | None, chosen: Callable[..., Sequence[Any]], judged: Callable[..., tuple[str, str]]
) -> int:
    """``chosen``: the mutants; ``judged``: one by its number, as text, and what the proof says."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    one = functools.partial(judged, count=given.mutants, seed=given.seed)
    tally: Counter[str] = Counter()
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn")) as pool:
        for text, found in pool.map(one, range(len(chosen(given.mutants, given.seed)))):
            tally[found] += 1
            if found == "WRONG":
                print(f"=== {text}", flush=True)
    print(f"{sum(tally.values())} mutants: {dict(tally)}; wrong: {tally['WRONG']}")
    return bool(tally["WRONG"])


if __name__ == "__main__":
    sys.exit(main(__doc__, chosen, judged))
