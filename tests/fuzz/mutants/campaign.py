"""Mutants for verify: ``python -m tests.fuzz.mutants.campaign --mutants 2000``.

Captures kernels of the samples and of Liger-Kernel under Triton's interpreter, changes each source in one
place, and asks verify and an independent judge. A mutant whose result is another one must FAIL, one that
computes the same must not. What is done is kept in a journal, FOLDER/SEED.jsonl: the same command goes on
where it ended, on another machine too.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import multiprocessing
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzz.mutants.judge import DIFFERS, ENDED, EQUAL, Judge
from tests.fuzz.mutants.mutate import Mutant, mutants

ROOT = Path(__file__).parents[3]
TARGETS = (
    ROOT / "tests/fuzz/mutants/small_samples.py",
    ROOT / "tests/integration/triton/targets/liger_ops.py",
)
_SLICE = 32  # mutants of a kernel before the next kernel's turn: each turn starts two processes with torch
_OUTSIDE = "equal, out of bounds"  # near memory is guarded by the judge; farther on a process dies
_ELSEWHERE = "differs elsewhere"  # equal as it was captured, and not in the launch that verify names
_SIZES = re.compile(r"on ((?:\w+ = -?\d+(?:, )?)+): ")
_INTERPRETED = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}


def captured(folder: Path) -> list[Path]:
    """Reproducers of every kernel of the targets, each with its script beside it."""
    if not (folder / "done").exists():
        (folder / "scripts").mkdir(parents=True, exist_ok=True)
        program = [sys.executable, "-W", "ignore", "-m", "kerncap"]
        environment = {**os.environ, **_INTERPRETED}
        for target in TARGETS:
            command = [*program, "capture", "-o", str(folder / "kernels"), "-k", ".", "--launch", "0:1"]
            command += ["--no-self-check", "--"]
            subprocess.run([*command, sys.executable, str(target)], env=environment, check=False)
        for path in sorted((folder / "kernels").iterdir()):
            script = folder / "scripts" / path.name
            subprocess.run(
                [*program, "export", str(path), "--as", "script", "-o", str(script)],
                env=environment,
                check=True,
            )
        (folder / "done").touch()
    return sorted(path for path in (folder / "kernels").iterdir() if path.is_dir() and path.name[0] != ".")


def chosen(path: Path, count: int, seed: int) -> list[tuple[int, Mutant]]:
    """Some of a kernel's mutants, by their number."""
    from kerncap.format import Reproducer

    with Reproducer.open(path) as reproducer:
        every = list(enumerate(mutants(reproducer.source_text() or "")))
    random.Random(f"{seed} {_kernel(path)}").shuffle(every)
    return every[:count]


def _kernel(path: Path) -> str:
    """The same for captures of one kernel: a journal goes on with those of another machine."""
    return path.name.rpartition("-")[0]


def judge_kernel(path: Path, *, count: int, seed: int, done: frozenset[tuple[str, int]]) -> list[list[Any]]:
    """Of one kernel: [kernel, number, what was changed, the judge's word, verify's, verify's summary]."""
    from kerncap.answer import Answer
    from kerncap.api.replay import opened
    from kerncap.api.verify import VerifyOptions, sanitizer_stage
    from kerncap.api.verify.stage_order import judged
    from kerncap.api.verify.verify_result import Case
    from kerncap.replay import trust
    from kerncap.replay.engine import CANDIDATE

    os.environ.update(_INTERPRETED)
    wanted = [one for one in chosen(path, count, seed) if (_kernel(path), one[0]) not in done]
    if not wanted:
        return []
    [script] = (path.parents[1] / "scripts" / path.name).glob("*.py")
    judge, options, found = Judge(script), VerifyOptions(trust=True, timeout_s=60.0), []
    with opened(path, options) as (reproducer, engine, _), tempfile.TemporaryDirectory() as folder:
        case = Case(reproducer, engine, CANDIDATE, options, Path(folder))
        name = reproducer.manifest.kernel.name
        for number, mutant in wanted:
            file = Path(folder) / f"m{number}.py"
            file.write_text(mutant.source)
            word = judge.answer(file, name)
            trust.agree(reproducer.manifest_sha256)
            case.options = dataclasses.replace(options, candidate=file)
            case.verdict, case.judged_by = None, ""
            result = judged(case, ("oracle",))
            sizes = _SIZES.match(result.verdict.summary)
            if word == EQUAL and result.verdict.answer is Answer.NO and sizes is not None:
                numbers = {key: int(n) for key, n in re.findall(r"(\w+) = (-?\d+)", sizes[1])}
                # Any byte is enough there: what a store too many leaves may be near what was there.
                word = _ELSEWHERE if judge.answer(file, name, numbers) != EQUAL else word
            if word == EQUAL and "died with SIG" in result.verdict.summary:
                word = _OUTSIDE if sanitizer_stage.stage(case).result == "fail" else word
            found.append(
                [_kernel(path), number, f"line {mutant.line}: {mutant.what}", word,
                 result.verdict.answer.value, result.verdict.summary]
            )  # fmt: skip
    judge.close()
    return found


def is_wrong(line: list[Any]) -> bool:
    word, answer = line[3], line[4]
    return (
        word == DIFFERS
        and answer != "fail"
        or word == EQUAL
        and answer == "fail"
        or word == ENDED
        and answer == "pass"
    )


def results(paths: Iterable[Path], work: Any, processes: int) -> Iterator[list[list[Any]]]:
    if processes <= 1:
        yield from map(work, paths)
        return
    # The judge is a child of each, so these are no daemons' pool.
    from concurrent.futures import ProcessPoolExecutor, as_completed

    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        for one in as_completed([pool.submit(work, path) for path in paths]):
            yield one.result()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="which mutants of each kernel")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=Path("build/mutants"))
    options = parser.parse_args()
    start = time.perf_counter()
    paths = captured(options.folder.resolve())
    journal = options.folder / f"{options.seed}.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = frozenset((line[0], line[1]) for line in lines)
    available = {path: len(chosen(path, 1 << 30, options.seed)) for path in paths}
    share = _share(list(available.values()), options.mutants)
    # In slices, so that kernels with many mutants are shared between processes and little is lost at an end.
    with journal.open("a") as file:
        for count in range(min(_SLICE, share), share + _SLICE, _SLICE):
            work = partial(judge_kernel, count=min(count, share), seed=options.seed, done=done)
            for found in results(paths, work, options.processes):
                for line in found:
                    print(json.dumps(line), file=file, flush=True)
                    lines.append(line)
                    if is_wrong(line):
                        print("WRONG:", *line, flush=True)
            done = frozenset((line[0], line[1]) for line in lines)
            if len(lines) >= options.mutants:
                break
    wrong = sum(map(is_wrong, lines))
    print(
        f"{len(lines)} mutants of {len(paths)} kernels in {time.perf_counter() - start:.0f} s; wrong: {wrong}"
    )
    for (word, answer), count in sorted(Counter((line[3], line[4]) for line in lines).items()):
        print(f"  {word}: verify says {answer}: {count}")
    return 1 if wrong else 0


def _share(available: list[int], wanted: int) -> int:
    """How many mutants of each kernel give the wanted total."""
    share = 1
    while sum(min(count, share) for count in available) < wanted and share < max(available, default=1):
        share += 1
    return share


if __name__ == "__main__":
    sys.exit(main())
