"""NVIDIA's cuda-samples: the first launch of every kernel, captured and verified (GPU, nvcc).

CHECKOUT is a clone of github.com/NVIDIA/cuda-samples, or Debian's package nvidia-cuda-samples unpacked. Each
sample is built by its own Makefile or CMakeLists.txt for the device that is here, and run once without and
once under kerncap, in its folder. What does not build, or fails without kerncap, is left out and named. A
sample that is in the journal is not run again; reproducers that did not pass stay in --output.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from _harness import KERNCAP, ROOT, Row, arguments, finish, nvcc

LEAST = 180 / 185
_WAIVED = 2  # EXIT_WAIVED of the samples: not for this device
_SHOWN = 160


@dataclass
class Sample:
    """``left_out``: why nothing of it was tried. The others are lines about kernels, each with its reason."""

    name: str
    left_out: str = ""
    verified: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

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


def run(command: Sequence[str], folder: Path, limit_s: float) -> subprocess.CompletedProcess[str]:
    """One process, ended with all that it started."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise TooLong(f"more than {limit_s:g} s") from None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def build(folder: Path, work: Path, architecture: str, limit_s: float) -> Path | str:
    """The sample's program, or why there is none."""
    toolkit = Path(nvcc()).resolve().parents[1]
    if (folder / "Makefile").is_file():
        steps = [["make", "-s", "-B", f"SMS={architecture}", f"CUDA_PATH={toolkit}"]]
        made = folder
    else:
        made = work / "build"
        options = [f"-DCMAKE_CUDA_ARCHITECTURES={architecture}", f"-DCMAKE_CUDA_COMPILER={nvcc()}"]
        steps = [["cmake", "-S", str(folder), "-B", str(made), *options], ["cmake", "--build", str(made)]]
    for step in steps:
        done = run(step, folder, limit_s)
        if done.returncode:
            errors = [line for line in (done.stderr + done.stdout).splitlines() if "rror" in line]
            return f"does not build: {(errors or ['no message'])[0][:_SHOWN]}"
    program = made / folder.name
    return program if os.access(program, os.X_OK) else "waived: its Makefile builds nothing here"


def capture(sample: Sample, program: Path, folder: Path, out: Path, limits: Limits) -> list[Path]:
    """The reproducers of one run; what was refused goes into ``sample``."""
    plain = run([str(program)], folder, limits.run_s)
    if plain.returncode:
        what = "waived: not for this device" if plain.returncode == _WAIVED else f"status {plain.returncode}"
        sample.left_out = f"without kerncap: {what}"
        return []
    options = ["--json", "--no-self-check", "-k", ".", "--launch", "0", "-o", str(out)]
    try:
        done = run([*KERNCAP, "capture", *options, "--", str(program)], folder, limits.run_s)
    except TooLong as error:
        sample.failed.append(f"capture takes {error}")
        return []
    try:
        document = json.loads(done.stdout)
    except ValueError:
        sample.failed.append(f"capture ended with {done.returncode}: {done.stderr.strip()[-_SHOWN:]}")
        return []
    if document["target_status"] != plain.returncode:
        sample.failed.append(f"under kerncap the program ended with {document['target_status']}")
    sample.refused += document["failed"]
    if not document["kernels"] and not sample.tried:
        sample.left_out = f"no launch was seen: {document['reason']}"
    return [Path(path) for path in document["captured"]]


def verify(sample: Sample, paths: list[Path], folder: Path, limits: Limits) -> None:
    """Sort the reproducers by their verdicts; those that passed are removed."""
    for path in paths:
        name = path.name.rsplit("-", 1)[0]
        try:
            done = run([*KERNCAP, "verify", "--json", str(path)], folder, limits.verify_s)
            document = json.loads(done.stdout)
        except (TooLong, ValueError) as error:
            sample.failed.append(f"{name}: verify gave no answer ({error})")
            continue
        place = {"pass": sample.verified, "undecided": sample.undecided}.get(
            document["result"], sample.failed
        )
        place.append(f"{name}: {document['summary'][:_SHOWN]}")
        if document["result"] == "pass":
            shutil.rmtree(path)


def one(folder: Path, out: Path, architecture: str, limits: Limits) -> Sample:
    sample = Sample(f"{folder.parent.name}/{folder.name}")
    work = out / folder.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        program = build(folder, work, architecture, limits.build_s)
        if isinstance(program, str):
            sample.left_out = program
        else:
            verify(sample, capture(sample, program, folder, work / "reproducers", limits), folder, limits)
    except TooLong as error:
        sample.left_out = f"without kerncap, or to build, it takes {error}"
    return sample


def samples(checkout: Path, only: str) -> list[Path]:
    """Folders of samples, in order."""
    found = [
        path.parent
        for pattern in ("Makefile", "CMakeLists.txt")
        for path in checkout.glob(f"Samples/*/*/{pattern}")
    ]
    return sorted({path for path in found if re.search(only, str(path.relative_to(checkout)))})


def known(journal: Path) -> dict[str, Sample]:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {each["name"]: Sample(**each) for each in map(json.loads, lines)}


def table(found: Sequence[Sample]) -> Iterator[str]:
    yield f"{'sample':56} {'tried':>6} {'verified':>9} {'undecided':>10} {'failed':>7} {'refused':>8}"
    for sample in found:
        if sample.tried:
            counts = (sample.verified, sample.undecided, sample.failed, sample.refused)
            numbers = " ".join(f"{len(each):>{w}}" for each, w in zip(counts, (9, 10, 7, 8), strict=True))
            yield f"{sample.name:56} {sample.tried:>6} {numbers}"
    for what in ("failed", "refused", "undecided"):
        for sample in found:
            yield from (f"{what}: {sample.name}: {line}" for line in getattr(sample, what))
    reasons = Counter(sample.left_out for sample in found if sample.left_out)
    yield from (f"left out, {count}: {reason}" for reason, count in reasons.most_common())


def rows(found: Sequence[Sample]) -> Iterator[Row]:
    tried = sum(sample.tried for sample in found)
    programs = sum(sample.tried > 0 for sample in found)
    baseline = f"{tried} kernels of {programs} programs"
    for name in ("verified", "undecided", "failed", "refused"):
        count = sum(len(getattr(sample, name)) for sample in found)
        yield Row(name, count, "kernels", baseline, count / max(1, tried))
    decided = sum(len(sample.verified) + len(sample.undecided) for sample in found)
    yield Row("verified or undecided", decided, "kernels", baseline, decided / max(1, tried), least=LEAST)


def architecture_here() -> str:
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit("cuda_samples: needs an NVIDIA GPU; --architecture names one all the same")
    return done.stdout.split()[0].replace(".", "")


def main() -> int:
    """The table of all samples, and the share that holds."""
    parser = arguments(__doc__)
    parser.add_argument("checkout", nargs="?", type=Path)
    parser.add_argument("--only", default="", help="samples whose path has this regular expression")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "cuda-samples")
    parser.add_argument("--jobs", type=int, default=4, help="samples at once")
    parser.add_argument("--architecture", help="such as 90; that of the device that is here")
    parser.add_argument("--build-s", type=float, default=180)
    parser.add_argument("--run-s", type=float, default=90)
    parser.add_argument("--verify-s", type=float, default=90)
    given = parser.parse_args()
    if given.checkout is None:
        print("cuda_samples: needs CHECKOUT, a folder of NVIDIA's cuda-samples, skipped")
        return 0
    chosen = samples(given.checkout.resolve(), given.only)
    if not chosen:
        raise SystemExit(f"{given.checkout}: no sample in it; a checkout has Samples/*/*/CMakeLists.txt")
    architecture = given.architecture or architecture_here()
    limits = Limits(given.build_s, given.run_s, given.verify_s)
    out = given.output.resolve()
    out.mkdir(parents=True, exist_ok=True)
    journal = out / "journal.jsonl"
    done = known(journal)
    names = [f"{folder.parent.name}/{folder.name}" for folder in chosen]
    with ThreadPoolExecutor(given.jobs) as pool, journal.open("a") as lines:
        left = [folder for folder, name in zip(chosen, names, strict=True) if name not in done]
        running = [pool.submit(one, folder, out, architecture, limits) for folder in left]
        for each in as_completed(running):
            sample = each.result()
            done[sample.name] = sample
            print(json.dumps(asdict(sample)), file=lines, flush=True)
            print(f"{sample.name}: {sample.tried} tried {sample.left_out}", file=sys.stderr, flush=True)
    found = [done[name] for name in names]
    if not given.json:
        print("\n".join(table(found)), flush=True)
    return finish("cuda_samples", rows(found), given.json)


if __name__ == "__main__":
    sys.exit(main())
