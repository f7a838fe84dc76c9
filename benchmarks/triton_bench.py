"""The files of TritonBench_G, unchanged, under `kerncap sanitize` with no GPU: which operations are settled.

They come from geak-eval on PyPI, which is fetched into build/zoo on first use.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from zoo import KERNCAP, ROOT, older_python
from zoo import PLACE as ZOO

PACKAGE = "geak-eval==0.1.5"
PLACE = ZOO / PACKAGE.replace("==", "-")
SETTLED = 0.99  # of the memory operations, at least
LIMIT_S = 120


def files() -> list[Path]:
    if not PLACE.exists():
        PLACE.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=PLACE.parent) as unfinished:
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
            subprocess.run([*pip, "--target", unfinished + "/it", PACKAGE], check=True)
            Path(unfinished, "it").rename(PLACE)
    folder = PLACE / "geak_eval/data/TritonBench/data/TritonBench_G_v1"
    return sorted(one for one in folder.glob("*.py") if one.name != "__init__.py")


def sanitized(file: Path) -> dict[str, Any] | None:
    """The document of a file's run; None at the limit of time."""
    python = older_python() if "make_block_ptr" in file.read_text() else sys.executable
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [*KERNCAP, "sanitize", "--json", "--one-config", "--", python, str(file)],
            cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            out, _ = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
    document = json.loads(out or "null")
    return document if isinstance(document, dict) else None


def counts(document: dict[str, Any]) -> Counter[str]:
    """Memory operations by how they are settled; one that several checks leave open counts once."""
    found: Counter[str] = Counter()
    for launch in document["launches"]:
        open_ones = {(one["line"], one["column"]) for one in launch["unproven"]}
        found.update(proved=launch["proved"], violated=launch["violated"], unproven=len(open_ones))
    return found


def places(document: dict[str, Any]) -> Iterable[str]:
    for launch in document["launches"]:
        for one in launch["findings"]:
            yield f"violated {launch['kernel']}:{one['line']} {one['check']}: {one['message']}"
        for one in launch["unproven"]:
            yield f"unproven {launch['kernel']}:{one['line']} {one['check']}: {one['reason']}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="names of files, without .py; default: all")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    older_python()  # before several need it
    wanted = [one for one in files() if not options.names or one.stem in options.names]
    total: Counter[str] = Counter()
    ended = 0
    with ThreadPoolExecutor(options.processes) as pool:
        for file, document in zip(wanted, pool.map(sanitized, wanted), strict=True):
            if document is None:
                print(f"{file.stem}: not ended in {LIMIT_S} s", flush=True)
                continue
            ended += 1
            total.update(counts(document))
            print(
                f"{file.stem}: {document['result']}",
                *dict.fromkeys(places(document)),
                sep="\n    ",
                flush=True,
            )
    operations = sum(total.values())
    share = 1 - total["unproven"] / max(operations, 1)
    print(
        f"{ended} of {len(wanted)} files; {operations} memory operations: {total['proved']} proved, "
        f"{total['violated']} violated, {total['unproven']} unproven: {share:.2%} settled"
    )
    return 0 if share >= SETTLED else 1


if __name__ == "__main__":
    sys.exit(main())
