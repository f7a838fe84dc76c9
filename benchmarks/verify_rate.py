"""What one `kerncap verify` of a small launch takes: as commands, by `--resident`, and in one process.

A Triton launch (the interpreter if there is no GPU), the same with a candidate that has to be compiled,
and a CUDA launch. The baseline is a command that does all by itself; with `--against FOLDER` it is that of
another checkout, whose commands run in turns with this one's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from _harness import PROGRAMS, ROOT, Row, arguments, build, capture, finish, has_gpu

SAMPLE = ROOT / "samples" / "vector_add" / "run.py"


@dataclass(frozen=True)
class Budget:
    """Milliseconds on the reference GPU: a command, one by `--resident`, a verdict in one process."""

    first_ms: float
    next_ms: float
    together_ms: float

    def row(self, name: str, ms: float, limit_ms: float) -> list[Row]:
        """How much of a limit was needed; limits are for GPUs only."""
        if not has_gpu():
            return []
        return [Row(f"{name}, of its budget", ms, "ms", f"{limit_ms:g} ms", ms / limit_ms, most=1.0)]


TRITON = Budget(1500.0, 100.0, 100.0)
CUDA = Budget(500.0, 150.0, 20.0)


def command_ms(checkout: Path, *words: str | Path) -> float:
    """Wall milliseconds of one `verify` by a checkout's own modules."""
    command = [sys.executable, checkout / "kerncap" / "start.py", "kerncap.__main__", "verify", *words]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    spent = (time.perf_counter() - start) * 1e3
    if done.returncode:
        raise SystemExit(f"verify {' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return spent


def commands_ms(checkouts: Sequence[Path], rounds: int, *words: str | Path) -> list[float]:
    """The median of each checkout's commands, in turns."""
    times: list[list[float]] = [[] for _ in checkouts]
    for _ in range(rounds):
        for checkout, found in zip(checkouts, times, strict=True):
            found.append(command_ms(checkout, *words))
    return list(map(statistics.median, times))


def in_one_process_ms(path: Path, candidate: Path | None, rounds: int) -> float:
    """The median of verdicts out of one pool, the first left out."""
    from kerncap.api.verify import VerifyOptions, verify
    from kerncap.replay.pool import Pool

    times = []
    with Pool(keep=1) as pool:
        for _ in range(rounds + 1):
            start = time.perf_counter()
            if not verify(path, VerifyOptions(candidate=candidate), pool).passed:
                raise SystemExit(f"{path}: it does not pass")
            times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times[1:])


def rows_of(
    name: str, path: Path, candidate: Path | None, against: Path | None, rounds: int, budget: Budget
) -> Iterator[Row]:
    """``budget`` is that of this checkout's commands on the reference GPU."""
    words: list[str | Path] = [path]
    if candidate is not None:
        words += ["--candidate", candidate]
    command_ms(ROOT, *words)  # measures the write set, and fills the compilers' caches
    checkouts = [ROOT] if against is None else [against, ROOT]
    plain, *own = commands_ms(checkouts, rounds, *words)
    baseline = f"{'the other' if against is not None else 'a plain'} command ({plain:.0f} ms)"
    yield from (Row(f"{name}: a plain command", ms, "ms", baseline, ms / plain) for ms in own)
    yield from budget.row(f"{name}: a plain command", own[0] if own else plain, budget.first_ms)
    first = command_ms(ROOT, "--resident", *words)
    yield Row(f"{name}: --resident, the first", first, "ms", baseline, first / plain)
    [next_] = commands_ms([ROOT], 2 * rounds, "--resident", *words)
    yield Row(f"{name}: --resident, the next", next_, "ms", baseline, next_ / plain, most=0.5)
    yield from budget.row(f"{name}: --resident, the next", next_, budget.next_ms)
    together = in_one_process_ms(path, candidate, 3 * rounds)
    yield Row(f"{name}: in one process", together, "ms", baseline, together / plain, most=0.5)
    yield from budget.row(f"{name}: in one process", together, budget.together_ms)


def all_rows(folder: Path, against: Path | None, rounds: int) -> Iterator[Row]:
    """Captures what is then judged into ``folder``."""
    [path] = capture(
        folder / "triton", ["-k", "^add_kernel$", "--launch", "0:1"], [sys.executable, str(SAMPLE)]
    )
    kind = "Triton" if has_gpu() else "interpreter"
    yield from rows_of(kind, path, None, against, rounds, TRITON)
    candidate = folder / "candidate.py"
    candidate.write_text(next((path / "source").glob("*.py")).read_text())
    yield from rows_of(f"{kind}, a candidate", path, candidate, against, rounds, TRITON)
    if has_gpu():
        [path] = capture(folder / "cuda", ["-k", "kc_megabyte"], [str(build(PROGRAMS / "megabyte.cu"))])
        yield from rows_of("CUDA", path, None, against, rounds, CUDA)


def main() -> int:
    """Lines for each kind of launch; the status is 1 where a bound is missed."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="another checkout, as the baseline")
    options = parser.parse_args()
    against = None if options.against is None else options.against.resolve()
    with tempfile.TemporaryDirectory() as made:
        os.environ["XDG_RUNTIME_DIR"] = made
        try:
            return finish("verify_rate", all_rows(Path(made), against, options.rounds), options.json)
        finally:
            subprocess.run(
                [sys.executable, ROOT / "kerncap" / "start.py", "kerncap.__main__", "verify", "--stop"],
                stdout=subprocess.DEVNULL, check=False,
            )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
