"""NVIDIA's cuda-samples: the first launch of every kernel, captured and verified (GPU, nvcc).

CHECKOUT is a clone of github.com/NVIDIA/cuda-samples, or Debian's package nvidia-cuda-samples unpacked. Each
sample is built by its own Makefile or CMakeLists.txt for the device that is here, and run in its folder as
CHECKOUT/test_args.json says, once for each set of arguments.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from _examples import Limits, Sample, capture, every, first_error, parser_of, run, verify
from _harness import nvcc

LEAST = 180 / 185


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
            return f"does not build: {first_error(done)}"
    return program_in(made, folder.name) or "waived: its Makefile builds nothing here"


def program_in(folder: Path, name: str) -> Path | None:
    return folder / name if os.access(folder / name, os.X_OK) else None


def runs(told: dict[str, Any]) -> list[list[str]]:
    """The arguments of each run, of what test_args.json tells of a sample."""
    return [] if told.get("skip") else [each.get("args", []) for each in told.get("runs", [told])]


def samples(checkout: Path, only: str) -> dict[str, Path]:
    """Folders of samples by their names, in order."""
    found = {
        path.parent
        for pattern in ("Makefile", "CMakeLists.txt")
        for path in checkout.glob(f"Samples/*/*/{pattern}")
        if re.search(only, str(path.parent.relative_to(checkout)))
    }
    return {f"{folder.parent.name}/{folder.name}": folder for folder in sorted(found)}


def architecture_here() -> str:
    command = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit("cuda_samples: needs an NVIDIA GPU; --architecture names one all the same")
    return done.stdout.split()[0].replace(".", "")


def main() -> int:
    parser = parser_of(__doc__, "cuda-samples", run_s=90)
    parser.add_argument("--architecture", help="such as 90; that of the device that is here")
    parser.add_argument("--built", action="store_true", help="run what `make` left in the samples' folders")
    given = parser.parse_args()
    if given.checkout is None:
        print("cuda_samples: needs CHECKOUT, a folder of NVIDIA's cuda-samples, skipped")
        return 0
    chosen = samples(given.checkout.resolve(), given.only)
    if not chosen:
        raise SystemExit(f"{given.checkout}: no sample in it; a checkout has Samples/*/*/CMakeLists.txt")
    architecture = given.architecture or architecture_here()
    listed = given.checkout / "test_args.json"
    told = json.loads(listed.read_text()) if listed.exists() else {}

    def one(name: str, folder: Path, work: Path, limits: Limits) -> Sample:
        all_runs = runs(told.get(folder.name, {}))
        if not all_runs:
            return Sample(name, "test_args.json says that it is not run")
        if given.built:
            program = program_in(folder, folder.name) or "not built"
        else:
            program = build(folder, work, architecture, limits.build_s)
        if isinstance(program, str):
            return Sample(name, program)
        sample, known = Sample(name), set[str]()
        for number, arguments in enumerate(all_runs):
            out = work / f"run-{number}"
            paths = capture(sample, [str(program), *arguments], folder, out, limits, known)
            verify(sample, paths, folder, limits)
        return sample

    return every(given, "cuda_samples", chosen, LEAST, one)


if __name__ == "__main__":
    sys.exit(main())
