"""Samples of a vendor: each built, run once plain and once under `kerncap capture`, its launches verified.

What does not build, or fails without kerncap, is left out and named. A sample that is in the journal is not
run again; reproducers that did not pass stay in the output.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _harness import KERNCAP, ROOT, Row, arguments, finish

SHOWN = 160
_WAIVED = 2  # EXIT_WAIVED of NVIDIA's samples: not for this device


@dataclass
class Sample:
    """``left_out``: why it, or one of its runs, was not tried. The others are lines about kernels, each with
    its reason."""

    name: str
    left_out: str = ""
    verified: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)  # passed with their own source as a candidate
    not_same: list[str] = field(default_factory=list)

    @property
    def tried(self) -> int:
        return len(self.verified) + len(self.undecided) + len(self.failed) + len(self.refused)


@dataclass(frozen=True)
class Limits:
    build_s: float
    run_s: float
    verify_s: float


class TooLong(Exception):
    """A process that was ended for its time."""


def run(
    command: Sequence[str], folder: Path, limit_s: float, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """One process, ended with all that it started. ``more``: of its environment."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True,
        errors="replace", start_new_session=True, env={**os.environ, **(more or {})},
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise TooLong(f"more than {limit_s:g} s") from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def first_error(done: subprocess.CompletedProcess[str]) -> str:
    errors = [line for line in (done.stderr + done.stdout).splitlines() if "rror" in line]
    return (errors or ["no message"])[0][:SHOWN]


def capture(
    sample: Sample, program: Sequence[str], folder: Path, out: Path, limits: Limits, known: set[str]
) -> list[Path]:
    """The reproducers of one run; what was refused goes into ``sample``. ``known``: the kernels of earlier
    runs, which are not taken again; this run's are added."""
    try:
        plain = run(program, folder, limits.run_s)
    except TooLong as error:
        sample.left_out = f"without kerncap it takes {error}"
        return []
    if plain.returncode:
        what = f"status {plain.returncode}: {first_error(plain)}"
        sample.left_out = f"without kerncap: {'not for this device' if plain.returncode == _WAIVED else what}"
        return []
    options = ["--json", "--no-self-check", "-k", ".", "--launch", "0", "-o", str(out)]
    try:
        done = run([*KERNCAP, "capture", *options, "--", *program], folder, limits.run_s)
    except TooLong as error:
        sample.failed.append(f"capture takes {error}")
        return []
    try:
        document = json.loads(done.stdout)
    except ValueError:
        sample.failed.append(f"capture ended with {done.returncode}: {done.stderr.strip()[-SHOWN:]}")
        return []
    if document["target_status"] != plain.returncode:
        sample.failed.append(f"under kerncap the program ended with {document['target_status']}")
    sample.refused += [line for line in document["failed"] if line not in sample.refused]
    if not document["kernels"] and not sample.tried:
        sample.left_out = f"no launch was seen: {document['reason']}"
    kernels = {Path(each["path"]): each["qualified_name"] for each in document["reproducers"]}
    again = [path for path, kernel in kernels.items() if kernel in known]
    for path in again:
        shutil.rmtree(path)
    known.update(kernels.values())
    return [path for path in kernels if path not in again]


def verify(
    sample: Sample, paths: list[Path], folder: Path, limits: Limits, source: Path | None = None
) -> None:
    """Sort the reproducers by their verdicts, and by those on their source as a candidate: ``source``, or
    the stored one where that is another file, as of a library or for HIPRTC. What passed is removed."""
    for path in paths:
        result, line = _verdict(path, folder, limits)
        {"pass": sample.verified, "undecided": sample.undecided}.get(result, sample.failed).append(line)
        edited = "pass"
        if source is not None:
            own = str(_own_source(path, source, folder))
            edited, line = _verdict(path, folder, limits, "--candidate", own)
            (sample.same if edited == "pass" else sample.not_same).append(line)
        if result == edited == "pass":
            shutil.rmtree(path)


def _own_source(path: Path, source: Path, folder: Path) -> Path:
    stored = json.loads((path / "manifest.json").read_text())["source"]["file"]["path"]
    if Path(stored).name == source.name:
        return source
    copy = folder / f"{path.name}-source" / Path(stored).name
    copy.parent.mkdir(exist_ok=True)
    shutil.copyfile(path / stored, copy)
    return copy


def _verdict(path: Path, folder: Path, limits: Limits, *options: str) -> tuple[str, str]:
    name = path.name.rsplit("-", 1)[0]
    try:
        done = run([*KERNCAP, "verify", "--json", *options, str(path)], folder, limits.verify_s)
        document = json.loads(done.stdout)
    except (TooLong, ValueError) as error:
        return "", f"{name}: verify gave no answer ({error})"
    return document["result"], f"{name}: {document['summary'][:SHOWN]}"


def known(journal: Path) -> dict[str, Sample]:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {each["name"]: Sample(**each) for each in map(json.loads, lines)}


def table(found: Sequence[Sample]) -> Iterator[str]:
    columns = ("tried", "verified", "undecided", "failed", "refused", "same")
    shown = [name for name in columns if name != "same" or any(s.same or s.not_same for s in found)]
    yield " ".join([f"{'sample':56}", *(f"{name:>9}" for name in shown)])
    for sample in found:
        if sample.tried:
            counts = [getattr(sample, name) for name in shown]
            numbers = [each if isinstance(each, int) else len(each) for each in counts]
            yield " ".join([f"{sample.name:56}", *(f"{number:>9}" for number in numbers)])
    for what in ("failed", "refused", "undecided", "not_same"):
        for sample in found:
            yield from (f"{what}: {sample.name}: {line}" for line in getattr(sample, what))
    reasons = Counter(sample.left_out for sample in found if sample.left_out)
    for reason, count in reasons.most_common():
        names = ", ".join(sample.name for sample in found if sample.left_out == reason)
        yield f"left out, {count}: {reason} ({names})"


def rows(found: Sequence[Sample], least: float) -> Iterator[Row]:
    """``least``: of the kernels that are tried, verified or undecided."""
    tried = sum(sample.tried for sample in found)
    programs = sum(sample.tried > 0 for sample in found)
    baseline = f"{tried} kernels of {programs} programs"
    for name in ("verified", "undecided", "failed", "refused", "same", "not_same"):
        count = sum(len(getattr(sample, name)) for sample in found)
        if count or "same" not in name:
            yield Row(name.replace("_", " "), count, "kernels", baseline, count / max(1, tried))
    decided = sum(len(sample.verified) + len(sample.undecided) for sample in found)
    yield Row("verified or undecided", decided, "kernels", baseline, decided / max(1, tried), least=least)


def parser_of(description: str | None, output: str, run_s: float) -> argparse.ArgumentParser:
    parser = arguments(description)
    parser.add_argument("checkout", nargs="?", type=Path)
    parser.add_argument("--only", default="", help="samples whose path has this regular expression")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / output)
    parser.add_argument("--build-s", type=float, default=180)
    parser.add_argument("--run-s", type=float, default=run_s)
    parser.add_argument("--verify-s", type=float, default=90)
    parser.add_argument("--jobs", type=int, default=4, help="samples at once")
    return parser


def every(
    given: argparse.Namespace, name: str, samples: dict[str, Path], least: float,
    one: Callable[[str, Path, Path, Limits], Sample],
) -> int:  # fmt: skip
    """The table of all ``samples``, folders by their names, and the share that holds."""
    limits = Limits(given.build_s, given.run_s, given.verify_s)
    out = given.output.resolve()
    out.mkdir(parents=True, exist_ok=True)
    journal = out / "journal.jsonl"
    done = known(journal)

    def tried(each: str, folder: Path) -> Sample:
        work = out / each.replace("/", "-")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            return one(each, folder, work, limits)
        except TooLong as error:
            return Sample(each, f"to build it takes {error}")

    with ThreadPoolExecutor(given.jobs) as pool, journal.open("a") as lines:
        running = [pool.submit(tried, each, folder) for each, folder in samples.items() if each not in done]
        for ended in as_completed(running):
            sample = ended.result()
            done[sample.name] = sample
            print(json.dumps(asdict(sample)), file=lines, flush=True)
            ends = ("verified", "undecided", "failed", "refused")
            counts = [f"{len(some)} {end}" for end in ends if (some := getattr(sample, end))]
            said = ", ".join([*counts, *filter(None, [sample.left_out])])
            print(f"{sample.name}: {said}", file=sys.stderr, flush=True)
    found = [done[each] for each in samples]
    if not given.json:
        print("\n".join(table(found)), flush=True)
    return finish(name, rows(found, least), given.json)
