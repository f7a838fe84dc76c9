"""Libraries from PyPI, at several versions, under `kerncap sanitize` with no GPU.

Each public operation is called forward and backward at awkward sizes (zoo/*_calls.py). A version is installed
into a folder of its own in build/zoo, on first use; a call that is in the journal there is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _harness import KERNCAP, ROOT

from kerncap.sanitizer.findings import NOT_SANITISED

sys.path.insert(0, str(Path(__file__).resolve().parent / "zoo"))
from mended_bugs import PAIRS, Pair

FOLDER = Path(__file__).resolve().parent / "zoo"
PLACE = ROOT / "build" / "zoo"
JOURNAL = PLACE / "journal.jsonl"
TOGETHER = 100  # calls in one process, to import torch once for them
LIMIT_S = 900  # for these
BY_TURNS = 25  # calls, where two trees take turns
MOST = 1.1  # times the analysis of an earlier tree
# Triton 3.9 has no block pointers, which older versions of some libraries use.
OLDER = ("triton==3.6.0", "torch==2.13.0", "numpy", "packaging", "pyyaml", "sqlalchemy")

# What unsloth imports, and what these import, but for packages that are here anyway.
UNSLOTH = """
    unsloth_zoo==2026.10.9 transformers==5.17.0 huggingface-hub==1.33.0 trl==1.15.0 peft accelerate
    datasets==4.8.5 tokenizers safetensors regex protobuf sentencepiece pillow pyarrow dill multiprocess
    xxhash pandas bitsandbytes torchao einops cut_cross_entropy tyro hf_transfer nest_asyncio structlog json5
    diffusers docstring_parser typeguard httpx httpcore typer shellingham annotated-doc
"""


@dataclass(frozen=True)
class Library:
    """``packages``: names on PyPI, with the first version that each is for (none: torch), and ``needs``, what
    these import.
    Versions before ``newer_triton`` are for `OLDER`."""

    packages: tuple[tuple[str, str], ...]
    versions: str  # the newest last
    needs: Sequence[str] = ()
    newer_triton: str = "0"
    environment: tuple[tuple[str, str], ...] = ()


LIBRARIES = {
    "fla": Library(
        (("flash-linear-attention", "0"), ("fla-core", "0.3.2")),
        "0.2.0 0.2.1 0.2.2 0.3.0 0.3.1 0.3.2 0.4.0 0.4.1 0.4.2 0.5.0 0.5.1 0.5.2 0.6.0",
        needs=("einops",),
        newer_triton="0.5.2",
    ),
    "liger": Library(
        (("liger-kernel", "0"),),
        "0.1.0 0.2.0 0.3.0 0.3.1 0.4.0 0.4.2 0.5.0 0.5.2 0.5.3 0.5.5 0.5.8 0.5.10 0.6.0 0.6.2 0.6.4 0.6.5 "
        "0.7.0 0.8.0 0.8.2 0.8.4 0.8.5",
    ),
    "gems": Library(
        (("flag_gems", "0"),), "4.2.0 5.0.0 5.0.2", newer_triton="6", environment=(("GEMS_VENDOR", "nvidia"),)
    ),
    "torchao": Library((("torchao", "0"),), "0.18.0", newer_triton="6"),
    "xformers": Library((("xformers", "0"),), "0.0.35", newer_triton="1"),
    "bitsandbytes": Library((("bitsandbytes", "0"),), "0.50.2"),
    "inductor": Library((), "2.13.0"),  # of the torch that is here
    "cce": Library((("cut-cross-entropy", "0"),), "25.1.1"),
    "unsloth": Library(
        (("unsloth", "0"),),
        "2026.10.9",
        needs=UNSLOTH.split(),
        environment=(
            ("UNSLOTH_NVFP4_FUSED", "1"),  # else its kernel is for GPUs that it was measured on
            ("UNSLOTH_COMPILE_LOCATION", str(PLACE / "unsloth_compiled")),
        ),
    ),
}


@dataclass(frozen=True)
class Row:
    """One call. ``errors`` and ``notes`` count causes (a check at a line), the others memory operations."""

    library: str
    version: str
    call: str
    outcome: str  # "made", "absent" (not in this version), "raised", "stopped" (at the limit of time)
    error: str
    seconds: float
    launches: int
    operations: int
    unproven: int
    undecided: int  # launches that could not be examined
    errors: tuple[str, ...]
    notes: tuple[str, ...]
    reasons: tuple[str, ...]  # of what is unproven or undecided

    def line(self) -> str:
        outcome = "" if self.outcome == "made" else f"  {self.outcome}: {self.error[:90]}"
        return (
            f"{self.version:9} {self.call:52.52} {self.launches:4} {self.seconds:7.1f} {len(self.errors):6} "
            f"{len(self.notes):5} {self.unproven:8} {self.undecided:9}{outcome}"
        )


HEADER = f"{'version':9} {'call':52} runs seconds errors notes unproven undecided"


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def installed(name: str, version: str) -> Path:
    """The folder of one version of a library."""
    if not LIBRARIES[name].packages:
        return PLACE / "nothing"
    package = next(
        one for one, first in reversed(LIBRARIES[name].packages) if number(version) >= number(first)
    )
    folder = PLACE / f"{package}-{version}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=PLACE) as unfinished:
            subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target",
                 unfinished + "/it", f"{package}=={version}", *LIBRARIES[name].needs],
                check=True,
            )  # fmt: skip
            for module in Path(unfinished, "it").glob("*/"):  # else one that is installed here is imported
                if any(module.glob("*.py")) or any(module.glob("*/__init__.py")):
                    (module / "__init__.py").touch()
            Path(unfinished, "it").rename(folder)
    return folder


def python_of(name: str, version: str) -> str:
    """The interpreter that runs the calls."""
    if number(version) >= number(LIBRARIES[name].newer_triton):
        return sys.executable
    return older_python()


def older_python() -> str:
    """One with `OLDER`."""
    folder = PLACE / "triton-3.6"
    if not (folder / ".ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder)], check=True)
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "--quiet"]
        subprocess.run([*pip, *OLDER], check=True)
        (folder / ".ready").touch()
    return str(folder / "bin" / "python")


def names_of(name: str, version: str) -> list[str]:
    """All calls of a library's file."""
    done = subprocess.run(
        [python_of(name, version), str(FOLDER / "run.py"), f"{name}_calls.py", "-"],
        env=environment(name, version), capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split("\n")[:-1]


def environment(name: str, version: str, tree: Path = ROOT) -> dict[str, str]:
    path = os.pathsep.join(map(str, [tree] * (tree != ROOT) + [installed(name, version)]))
    return {**os.environ, "PYTHONPATH": path, **dict(LIBRARIES[name].environment)}


@dataclass(frozen=True)
class Ended:
    """Of calls in one process: what kerncap said (None at the limit of time), the calls that ended, and the
    processor time of kerncap itself: reading, analysis, report."""

    document: dict[str, Any] | None
    calls: dict[str, dict[str, Any]]
    analysis_s: float


def sanitized(name: str, version: str, calls: list[str], tree: Path = ROOT) -> Ended:
    """``tree``: the checkout of kerncap."""
    with tempfile.TemporaryDirectory() as folder:
        said, out = Path(folder, "said"), Path(folder, "out")
        command = [python_of(name, version), str(FOLDER / "run.py"), f"{name}_calls.py", str(said), *calls]
        with out.open("w") as stdout:
            process = subprocess.Popen(
                [*KERNCAP, "sanitize", "--json", "--one-config", "--", *command],
                cwd=tree, env=environment(name, version, tree), stdout=stdout, stderr=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        limit = threading.Timer(LIMIT_S, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        limit.cancel()
        spent = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]  # of it alone
        document = json.loads(out.read_text() or "null") if process.wait() >= 0 else None
        lines = [json.loads(line) for line in said.read_text().splitlines()] if said.exists() else []
    ended = {line["call"]: line for line in lines if "outcome" in line}
    return Ended(document, ended, sum(map(int, spent)) / os.sysconf("SC_CLK_TCK"))


def rows_of(name: str, version: str, calls: list[str]) -> Iterator[Row]:
    """Makes calls in one process; one that does not end is left out of the next."""
    while calls:
        started = time.perf_counter()
        done = sanitized(name, version, calls)
        document, ended = done.document, done.calls
        if document is not None and len(ended) == len(calls):
            yield from (row_of(name, version, ended[call], document) for call in calls)
            return
        unfinished = next((call for call in calls if call not in ended), calls[-1])
        seconds = time.perf_counter() - started
        yield Row(name, version, unfinished, "stopped", "", round(seconds, 2), 0, 0, 0, 0, (), (), ())
        calls = [call for call in calls if call != unfinished]


def row_of(name: str, version: str, said: dict[str, Any], document: dict[str, Any]) -> Row:
    """The launches of a call have its name in their stack; equal ones belong to the first."""
    call = said["call"]
    launches = [one for one in document["launches"] if is_of(call, one["python_stack"])]
    errors = [cause(one) for launch in launches for one in launch["findings"]]
    errors += [
        read_by_host(one) for one in document.get("host_reads", ()) if is_of(call, one["python_stack"])
    ]
    notes = [f"{one['note']} {cause(one)}" for launch in launches for one in launch["noted"]]
    missed = [launch for launch in launches if any(n.startswith(NOT_SANITISED) for n in launch["notes"])]
    unproven = [one for launch in launches for one in launch["unproven"]]
    reasons = [f"{place(one)}: {one['check']}: {one['reason']}" for one in unproven]
    reasons += [f"{launch['kernel']}: {note}" for launch in missed for note in launch["notes"]]
    proved = sum(launch["proved"] + launch["violated"] for launch in launches)
    open_ones = len(
        {(id(launch), one["line"], one["column"]) for launch in launches for one in launch["unproven"]}
    )
    return Row(
        name, version, call, said["outcome"], said["error"], round(said["seconds"], 2),
        sum(1 + launch["repeats"] for launch in launches), proved + open_ones, open_ones, len(missed),
        tuple(dict.fromkeys(errors)), tuple(dict.fromkeys(notes)), tuple(dict.fromkeys(reasons)),
    )  # fmt: skip


def is_of(call: str, stack: list[list[Any]]) -> bool:
    return any(frame[2] == call for frame in stack)


def place(found: dict[str, Any]) -> str:
    """The last two parts of the file, and the line."""
    return f"{'/'.join(Path(found['file'] or '?').parts[-2:])}:{found['line']}"


def cause(found: dict[str, Any]) -> str:
    return f"{found['check']} {place(found)} {found['argument'] or ''}".strip()


def read_by_host(read: dict[str, Any]) -> str:
    file, line, _ = read["python_stack"][-1]
    return f"uninit {place({'file': file, 'line': line})} {read['operation']}"


def journal() -> list[Row]:
    if not JOURNAL.exists():
        return []
    return [Row(**json.loads(line, object_hook=_with_tuples)) for line in JOURNAL.read_text().splitlines()]


def _with_tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def run(name: str, version: str, only: str, again: bool) -> Iterator[Row]:
    """Rows of the chosen calls, those in the journal first."""
    done = (
        {} if again else {row.call: row for row in journal() if (row.library, row.version) == (name, version)}
    )
    calls = [call for call in names_of(name, version) if re.search(only, call)]
    yield from (done[call] for call in calls if call in done)
    wanted = [call for call in calls if call not in done]
    for start in range(0, len(wanted), TOGETHER):
        for row in rows_of(name, version, wanted[start : start + TOGETHER]):
            with JOURNAL.open("a") as file:
                print(json.dumps(asdict(row)), file=file)
            yield row


def pairs_of(pairs: list[Pair], again: bool) -> Iterator[tuple[Pair, bool, tuple[str, ...], str]]:
    """Each pair with whether its error is there before, the call's errors after, and how that call ended."""
    calls: dict[tuple[str, str], set[str]] = {}
    for pair in pairs:
        for version in (pair.before, pair.after):
            calls.setdefault((pair.library, version), set()).add(pair.call)
    rows = {}
    for (name, version), wanted in calls.items():
        for row in run(name, version, "^(" + "|".join(map(re.escape, sorted(wanted))) + ")$", again):
            rows[name, version, row.call] = row
    for pair in pairs:
        before = rows[pair.library, pair.before, pair.call]
        after = rows[pair.library, pair.after, pair.call]
        yield pair, any(e.startswith(pair.error) for e in before.errors), after.errors, after.outcome


def against(revision: str, options: argparse.Namespace) -> int:
    """The same calls under an earlier kerncap and this one, taking turns: 1 if this one's analysis takes over
    `MOST` times as long; kerncap's start is left out, and so are calls that only one of them lets end well.
    Errors of only one are printed, + if it is this one."""
    tree = PLACE / f"tree-{revision}"
    if not tree.exists():
        with tempfile.TemporaryDirectory(dir=PLACE) as unfinished:
            archive = Path(unfinished, "it.tar")
            subprocess.run(["git", "archive", "--output", str(archive), revision], cwd=ROOT, check=True)
            shutil.unpack_archive(archive, Path(unfinished, "it"))
            Path(unfinished, "it").rename(tree)
    worst = 0.0
    for name in options.library or LIBRARIES:
        version = options.versions or LIBRARIES[name].versions.split()[-1]
        calls = [call for call in names_of(name, version) if re.search(options.only, call)]
        start_s = [sanitized(name, version, [], side).analysis_s for side in (tree, ROOT)]
        left_out: list[str] = []
        seconds, rows = [0.0, 0.0], [dict[str, Row](), dict[str, Row]()]
        for turn, start in enumerate(range(0, len(calls), BY_TURNS)):
            wanted = calls[start : start + BY_TURNS]
            while True:
                done = {
                    which: sanitized(name, version, wanted, (tree, ROOT)[which])
                    for which in ((0, 1) if turn % 2 else (1, 0))
                }
                ends = {call: (ending(done[0], call), ending(done[1], call)) for call in wanted}
                wanted = [call for call, (old, new) in ends.items() if old == new]
                if len(wanted) == len(ends):
                    break
                left_out += [f"{call}: {old}, now {new}" for call, (old, new) in ends.items() if old != new]
            for which, ended in done.items():
                seconds[which] += ended.analysis_s - start_s[which]
                if ended.document is not None:
                    for call, said in ended.calls.items():
                        rows[which][call] = row_of(name, version, said, ended.document)
        worst = max(worst, seconds[1] / max(seconds[0], 0.01))
        print(
            f"{name} {version}: {len(rows[1])} of {len(calls)} calls, "
            f"{sum(row.launches for row in rows[1].values())} launches; analysis {seconds[1]:.1f} s, "
            f"at {revision} {seconds[0]:.1f} s: {seconds[1] / max(seconds[0], 0.01):.2f} times"
        )
        print("".join(f"    left out: {call}\n" for call in left_out), end="")
        for call in (one for one in calls if one in rows[0] and one in rows[1]):
            old, new = (set(side[call].errors) for side in rows)
            print("".join(f"    {'+' if e in new else '-'} {call}: {e}\n" for e in sorted(old ^ new)), end="")
            changes = [
                f"{w} {getattr(rows[0][call], w)}, now {getattr(rows[1][call], w)}"
                for w in ("unproven", "undecided")
                if getattr(rows[0][call], w) != getattr(rows[1][call], w)
            ]
            print("".join(f"    {call}: {change}\n" for change in changes), end="", flush=True)
    return 0 if worst <= MOST else 1


def ending(done: Ended, call: str) -> str:
    return str(done.calls[call]["outcome"]) if call in done.calls else "stopped"


def summary(rows: list[Row]) -> str:
    made = [row for row in rows if row.outcome == "made"]
    places = {(row.library, error) for row in rows for error in row.errors}
    operations, unproven = sum(row.operations for row in made), sum(row.unproven for row in made)
    median = statistics.median([row.seconds for row in made] or [0])
    return (
        f"{len(made)} calls made, {len(rows) - len(made)} not; errors at {len(places)} places in "
        f"{sum(bool(row.errors) for row in rows)} calls; {unproven} of {operations} operations unproven "
        f"({unproven / max(operations, 1):.2%}), {sum(row.undecided for row in rows)} launches undecided; "
        f"{median:.1f} s a call (median)"
    )


def show_pairs(options: argparse.Namespace) -> int:
    """1 if a bug is not an error before, or anything is one after."""
    chosen = [
        pair
        for pair in PAIRS
        if pair.library in (options.library or LIBRARIES) and re.search(options.only, pair.call)
    ]
    shown = list(pairs_of(chosen, options.again))
    hold = sum(
        found and not after and ending == ("raised" if pair.refused else "made")
        for pair, found, after, ending in shown
    )
    if options.json:
        document = [
            {**asdict(pair), "found": found, "errors_after": after, "call_after": ending}
            for pair, found, after, ending in shown
        ]
        print(json.dumps({"benchmark": "zoo --pairs", "pairs": document}))
        return 0 if hold == len(shown) else 1
    for pair, found, after, ending in shown:
        print(f"{pair.library} {pair.before} -> {pair.after}: {pair.call}: {pair.change}")
        print(f"    before: {pair.error if found else 'NOT FOUND'}")
        ended = "" if ending == "made" else f" (the call {ending})"
        print(f"    after:  {'; '.join(after) or 'no error'}{ended}")
    print(f"{hold} of {len(shown)} pairs: an error before, and none after")
    return 0 if hold == len(shown) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--library", choices=LIBRARIES, action="append", help="default: all")
    parser.add_argument("--versions", help="A,B,C or all; default: the newest")
    parser.add_argument("--only", default="", metavar="REGEX", help="calls whose name it is found in")
    parser.add_argument("--again", action="store_true", help="also the calls that are in the journal")
    parser.add_argument(
        "--pairs", action="store_true", help="bugs that a later version mended (zoo/mended_bugs.py)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document in place of the table")
    parser.add_argument(
        "--against",
        metavar="COMMIT",
        help="verdicts and processor time beside an earlier kerncap's, taking turns",
    )
    options = parser.parse_args()
    PLACE.mkdir(parents=True, exist_ok=True)
    if options.against:
        return against(options.against, options)
    if options.pairs:
        return show_pairs(options)
    rows: list[Row] = []
    for name in options.library or LIBRARIES:
        known = LIBRARIES[name].versions.split()
        versions = known if options.versions == "all" else (options.versions or known[-1]).split(",")
        for version in versions:
            if not options.json:
                print(f"{name} {version}\n{HEADER}")
            for row in run(name, version, options.only, options.again):
                rows.append(row)
                if not options.json:
                    print("\n".join([row.line(), *(f"    {error}" for error in row.errors)]), flush=True)
    if options.json:
        print(json.dumps({"benchmark": "zoo", "rows": [asdict(row) for row in rows]}))
    else:
        print(summary(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
