"""Every key of the golden manifests by wrong values, through every command that reads one.

`python -m tests.hostile.manifest.campaign SEED EVERY FIRST PARTS FOLDER` runs one part in this process, under
limits of its address space and of each command's time, and prints a JSON line: counts, and what went wrong.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import io
import json
import random
import resource
import shutil
import signal
import sys
import traceback
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from kerncap.cli import main
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.mcp import resources
from kerncap.mcp.allowed import Allowed
from tests.unit.format.damage import GOLDEN, GOLDEN_BLOCK, GOLDEN_HIP, GOLDEN_NATIVE, write_manifest

LONGEST_S = 10
MOST_BYTES = 2 << 30
INTERNAL = 70
GOLDENS = (GOLDEN, GOLDEN_NATIVE, GOLDEN_BLOCK, GOLDEN_HIP)
GONE = object()


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


WRONG: tuple[Any, ...] = (
    GONE, None, True, -1, 0, 1, 7, 2**31, 2**48, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**40, 1.5, 1e308,
    "NaN", "-inf", "0x1p+99999", "", "x" * 100_000, "\ud800", "\x1b[2J\u202e\0\b", "../../etc/passwd",
    "/dev/zero", "a\\b", [], {}, [[]], nested(900), [1, 2, 3], {"kind": "none"},
    {"kind": "tensor", "view": 0}, {"kind": "int", "value": "9" * 40},
    {"kind": "opaque", "type_name": "\x1b", "repr": "x" * 10_000},
)  # fmt: skip
Steps = tuple[str | int, ...]


def keys(node: Any, steps: Steps = ()) -> Iterator[Steps]:
    """The place of every key and of every first item of a list."""
    items = (
        node.items()
        if isinstance(node, dict)
        else list(enumerate(node))[:1]
        if isinstance(node, list)
        else ()
    )
    for key, value in items:
        yield (*steps, key)
        yield from keys(value, (*steps, key))


def changed(document: Any, steps: Steps, value: Any) -> Any:
    document = copy.deepcopy(document)
    node = document
    for step in steps[:-1]:
        node = node[step]
    if value is GONE:
        del node[steps[-1]]
    else:
        node[steps[-1]] = value
    return document


def cases() -> Iterator[tuple[int, Steps, int]]:
    """(golden, key, wrong value) of each case, by number."""
    for number, golden in enumerate(GOLDENS):
        for steps in keys(json.loads((golden / "manifest.json").read_bytes())):
            for which in range(len(WRONG)):
                yield number, steps, which


def commands(folder: Path, work: Path) -> list[tuple[str, Callable[[], int]]]:
    repro, good = str(folder), str(GOLDENS[2])
    words = {
        "inspect": ("inspect", repro),
        "inspect --json": ("inspect", "--verify", "--json", repro),
        "replay": ("replay", repro),
        "replay --limits": ("replay", "--limits", repro),
        "replay --edit": ("replay", "--edit", "--once", repro),
        "verify": ("verify", "--stages", "smoke,oracle", repro),
        "tune": ("tune", repro),
        "minimize": ("minimize", "-o", f"{work}/minimized", repro),
        "sanitize": ("sanitize", repro),
        "diff": ("diff", repro, good),
        "pack": ("pack", repro, "-o", f"{work}/packed.zip"),
        "pack --keep-private": ("pack", repro, "-o", f"{work}/kept.zip", "--keep-private", "secrets"),
        "unpack": ("unpack", f"{work}/by_hand.zip", "-o", f"{work}/unpacked"),
        "report": ("report", repro, "-o", f"{work}/page.html"),
        "export script": ("export", "--as", "script", repro, "-o", f"{work}/script"),
        "export cmake": ("export", "--as", "cmake", repro, "-o", f"{work}/cmake"),
        "export pytest": ("export", "--as", "pytest", repro, "-o", f"{work}/pytest"),
    }  # fmt: skip
    found: list[tuple[str, Callable[[], int]]] = [
        (name, lambda line=line: main(line))  # type: ignore[misc]
        for name, line in words.items()
    ]
    return [*found, ("mcp", lambda: _mcp(folder))]


def _mcp(folder: Path) -> int:
    """What the server answers of a reproducer itself; its tools are the commands above."""
    allowed = Allowed((folder.parent.resolve(),))
    for part in resources.PARTS:
        with contextlib.suppress(KerncapError):
            resources.read(f"kerncap://{part}/{folder.name}", allowed, 1 << 16)
    return 0


class TooLong(BaseException):
    pass


def _too_long(*_: object) -> None:
    raise TooLong


def run(command: Callable[[], int]) -> str:
    """``ok``, ``refused`` or what went wrong with a command."""
    out, err = io.StringIO(), io.StringIO()
    signal.alarm(LONGEST_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = command()
    except TooLong:
        return f"took more than {LONGEST_S} s"
    except (Exception, SystemExit, click.exceptions.Exit) as error:
        return "raised " + "".join(traceback.format_exception(error)[-3:])
    finally:
        signal.alarm(0)
    said = err.getvalue()
    if status == INTERNAL or "Traceback" in said:
        return f"status {status}: {said[-1500:]}"
    if status not in (0, 1, 2, 3, 4, 5):
        return f"status {status}"
    return "ok" if status == 0 else "refused"


def by_hand(folder: Path, target: Path) -> None:
    """An archive of the folder as it is: `pack` would refuse to make one."""
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(path, f"repro/{path.relative_to(folder)}")


def part(seed: int, every: int, first: int, parts: int, parent: Path) -> dict[str, Any]:
    """Each ``every``th case (by ``seed``), of them the ``first`` of ``parts``."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    signal.signal(signal.SIGALRM, _too_long)
    chosen = [case for case in cases() if random.Random(f"{seed} {case}").randrange(every) == 0][first::parts]
    documents = [json.loads((golden / "manifest.json").read_bytes()) for golden in GOLDENS]
    counts: collections.Counter[str] = collections.Counter()
    wrong = []
    for golden, steps, which in chosen:
        shutil.rmtree(parent, ignore_errors=True)
        folder = Path(shutil.copytree(GOLDENS[golden], parent / "repro"))
        document = changed(documents[golden], steps, WRONG[which])
        write_manifest(folder, json.dumps(document).encode())
        by_hand(folder, parent / "by_hand.zip")
        counts["cases"] += 1
        with contextlib.suppress(KerncapError), Reproducer.open(folder):
            counts["read"] += 1
        for name, command in commands(folder, parent):
            told = run(command)
            counts["runs"] += 1
            counts["ok" if told == "ok" else "refused" if told == "refused" else "wrong"] += 1
            if told not in ("ok", "refused"):
                wrong.append(f"{GOLDENS[golden].name} {'.'.join(map(str, steps))} [{which}] {name}: {told}")
    shutil.rmtree(parent, ignore_errors=True)
    counts["keys"] = len({(golden, steps) for golden, steps, _ in chosen})
    counts["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"counts": dict(counts), "wrong": wrong}


if __name__ == "__main__":
    print(json.dumps(part(*map(int, sys.argv[1:5]), Path(sys.argv[5]))))
