"""From a save to its verdict in a resident session, against a new `kerncap replay` of the same candidate.

Compilation is left out of the first and told beside it. Triton: the vector_add sample (the interpreter where
there is no GPU); CUDA: a kernel of a .cu file. Every save is another text, so every save is compiled.
"""

from __future__ import annotations

import ast
import statistics
import sys
import tempfile
import time
from pathlib import Path

from _harness import PROGRAMS, ROOT, Row, arguments, build, capture, finish, has_gpu, replay

BUDGET_MS = 150.0  # of a small kernel on the reference GPU, the H200
SAMPLE = ROOT / "samples" / "vector_add" / "run.py"


def with_remark(path: Path, text: str, number: int) -> str:
    """``text`` with a remark inside of its last function, so that a compiler that caches sees another one."""
    remark = f"save {number}"
    if path.suffix != ".py":
        return f"{text}\n// {remark}\n"
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    first = functions[-1].body[0]
    lines = text.split("\n")
    lines.insert(first.lineno - 1, f"{' ' * first.col_offset}# {remark}")
    return "\n".join(lines)


def saves(path: Path, folder: Path, number: int) -> tuple[list[float], list[float], Path]:
    """Milliseconds from save to verdict, and of compiling, of each save; the last candidate."""
    from kerncap.api.edit import EditOptions, EditSession
    from kerncap.api.replay import ReplayOptions

    options = EditOptions(replay=ReplayOptions(timed_runs=0), folder=folder / "copy")
    verdicts, compiling = [], []
    with EditSession(path, options) as session:
        text = session.working_copy.read_text()
        for turn in range(number + 2):
            session.working_copy.write_text(with_remark(session.working_copy, text, turn))
            result = session.judge(saved=True)
            if not result.passed:
                raise SystemExit(f"save {turn} fails: {result.verdict.summary}")
            if turn > 1:  # the first ones load what every later one finds
                verdicts.append(float(result.save_to_verdict_ms or 0.0))
                compiling.append(float(result.compile_ms or 0.0))
        return verdicts, compiling, session.working_copy


def rows_of(name: str, path: Path, folder: Path, number: int, bounded: bool) -> list[Row]:
    verdicts, compiling, candidate = saves(path, folder, number)
    fresh = []
    for turn in range(3):
        start = time.perf_counter()
        document = replay(path, "--candidate", str(candidate), "-n", "0")
        fresh.append((time.perf_counter() - start) * 1e3)
        if document["result"] != "pass":
            raise SystemExit(f"the candidate fails alone: {document['reasons']}, turn {turn}")
    middle, alone = statistics.median(verdicts), statistics.median(fresh)
    worst = f"(at most {max(verdicts):.1f} ms in {number} saves)"
    rows = [
        Row(f"{name}: save to verdict", middle, "ms", f"a new replay ({alone:.0f} ms)", middle / alone,
            most=0.5, note=worst),
        Row(f"{name}: compiling it", statistics.median(compiling), "ms", f"a new replay ({alone:.0f} ms)",
            statistics.median(compiling) / alone),
    ]  # fmt: skip
    if bounded:
        rows.append(
            Row(f"{name}: of its budget", middle, "ms", f"{BUDGET_MS:g} ms", middle / BUDGET_MS, most=1.0)
        )
    return rows


def main() -> int:
    """Lines for each kind of kernel; the status is 1 where a bound is missed."""
    parser = arguments(__doc__)
    parser.add_argument("--saves", type=int, default=20)
    options = parser.parse_args()
    gpu = has_gpu()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        [path] = capture(
            folder / "triton", ["-k", "^add_kernel$", "--launch", "0:1"], [sys.executable, str(SAMPLE)]
        )
        (folder / "a").mkdir()
        rows += rows_of("Triton" if gpu else "interpreter", path, folder / "a", options.saves, gpu)
        if gpu:
            program = build(PROGRAMS / "megabyte.cu")
            [path] = capture(folder / "cuda", ["-k", "kc_megabyte"], [str(program)])
            (folder / "b").mkdir()
            rows += rows_of("CUDA", path, folder / "b", options.saves, gpu)
    return finish("edit_loop", rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
