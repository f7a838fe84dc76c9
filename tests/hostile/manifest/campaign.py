"""Every key of the golden manifests by wrong values, through every command that reads one.

The golden manifests are filled up first, so that they have every key of the schema between them. A key that
two of one kind (Triton, native) have in the same place is changed in the first.

`python -m tests.hostile.manifest.campaign VALUES FIRST PARTS FOLDER` runs one part of the cases in this
process, each key by so many values, under limits of its address space and of each command's time, and prints
a JSON line: counts, and what went wrong.
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
from kerncap.format.schema import FORMAT_MAJOR, FORMAT_MINOR
from kerncap.mcp import resources
from kerncap.mcp.allowed import Allowed
from tests.unit.format.damage import GOLDEN, GOLDEN_BLOCK, GOLDEN_HIP, GOLDEN_NATIVE, write_manifest

LONGEST_S = 10  # of this process's own time: a busy machine is no fault of a command
LONGEST_WAIT_S = 120
MOST_BYTES = 2 << 30
INTERNAL = 70
NEWER = tuple(
    GOLDEN.with_name(name)
    for name in ("v1.7", "v1.9", "v1.9-ranks", "v1.11", "v1.12", "v1.14", "v1.15", "v1.16", "v1.17")
)
GOLDENS = (GOLDEN, GOLDEN_NATIVE, GOLDEN_BLOCK, GOLDEN_HIP, *NEWER)
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


def filled_up() -> list[Any]:
    """The manifests of the golden reproducers, readable still, with the optional keys that they lack."""
    documents = [json.loads((golden / "manifest.json").read_bytes()) for golden in GOLDENS]
    plain, native, _, _, textured, *_ = documents
    for document in documents:
        document["version"] = {"major": FORMAT_MAJOR, "minor": FORMAT_MINOR}
        document["oracle"] |= {"error": "none", "condition": "differs", "detail": "0 of 8 bytes"}
    plain["views"][0]["requires_grad"] = True
    hook = {"source": "lambda args: None", "bindings": {}, "unresolved": ["state"]}
    plain["autotune"]["configs"][0]["pre_hook"] = hook
    plain["autotune"]["restore_value"] = ["x_ptr"]
    descriptor = {"shape": [64, 128], "strides": [128, 1], "block_shape": [16, 16], "padding": "nan"}
    values: list[dict[str, Any]] = [
        {"kind": "descriptor", "view": 0, **descriptor},
        {"kind": "tensor", "view": 0, "wrapped_dtype": "int32"},
        {"kind": "pointer", "address": 0, "dtype": "float32"},
        {"kind": "function", "name": "helper"},
        {"kind": "str", "value": "fast"},
        {"kind": "bool", "value": True},
        {"kind": "opaque", "type_name": "app.Table", "repr": "<Table>"},
        {"kind": "sequence", "type": "namedtuple", "type_name": "Pair", "fields": ["left"],
         "items": [{"kind": "none"}]},
    ]  # fmt: skip
    plain["arguments"] += [
        {"name": f"more_{number}", "role": "runtime", "value": value} for number, value in enumerate(values)
    ]
    plain["arguments"][-1]["keyword_only"] = True
    native["zeros"] = [{"base": 0x7FE000000000, "size": 4 << 20, "device": 1}]
    native["source"]["build"] |= {
        "external": ["cuda_runtime.h"],
        "name_expressions": ["scale"],
        "directory": "/app",
        "compiler": "ptxas 13.0",
    }
    textured["regions"][0]["array"]["depth"] = 0
    textured["launch"]["textures"][0]["level"] = 0
    [linear] = [one for one in textured["launch"]["textures"] if one["resource"] == "linear"]
    rows = {"resource": "pitch2d", "width": 4, "height": 2, "pitch": 32}
    textured["launch"]["textures"].append({**linear, **rows, "handle": linear["handle"] + 1})
    return documents


def keys(node: Any, steps: Steps = ()) -> Iterator[Steps]:
    """The place of every key, in lists of the first item of each kind."""
    items: list[tuple[str | int, Any]] = []
    if isinstance(node, dict):
        items = list(node.items())
    elif isinstance(node, list):
        items = list({_kind(item): (number, item) for number, item in reversed([*enumerate(node)])}.values())
    for key, value in items:
        yield (*steps, key)
        yield from keys(value, (*steps, key))


def _kind(item: Any) -> tuple[Any, ...]:
    """What tells items of a list apart: their keys, and which value an argument has."""
    if not isinstance(item, dict):
        return (type(item),)
    return (*sorted(item), item.get("kind"), _kind(item.get("value")))


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


def cases(values: int = len(WRONG)) -> Iterator[tuple[int, Steps, int]]:
    """(golden, key, wrong value) of each case, by number: each key by ``values`` that differ by the key."""
    seen: set[tuple[str, Steps]] = set()
    for number, document in enumerate(filled_up()):
        family = "triton" if document["kernel"]["language"] == "triton" else "native"
        for steps in keys(document):
            if (family, steps) in seen:
                continue
            seen.add((family, steps))
            chosen = random.Random(f"{family} {steps}").sample(range(len(WRONG)), values)
            yield from ((number, steps, which) for which in sorted(chosen))


def commands(folder: Path, work: Path) -> list[tuple[str, Path | None, Callable[[], int]]]:
    """(name, what it makes, call) of every command that reads a manifest."""
    repro, good = str(folder), str(GOLDENS[2])
    words: dict[str, tuple[str, ...]] = {
        "inspect": ("inspect", repro),
        "inspect --json": ("inspect", "--verify", "--json", repro),
        "replay": ("replay", repro),
        "replay --limits": ("replay", "--limits", repro),
        "replay --edit": ("replay", "--edit", "--once", repro),
        "verify": ("verify", "--stages", "smoke,oracle", repro),
        "profile": ("profile", repro),
        "tune": ("tune", repro),
        "minimize": ("minimize", repro, "-o", f"{work}/minimized"),
        "sanitize": ("sanitize", repro),
        "prove": ("prove", repro, good),
        "prove --stages": ("prove", repro, "--stages"),
        "diff": ("diff", repro, good),
        "pack": ("pack", repro, "-o", f"{work}/packed.zip"),
        "pack --show-private": ("pack", "--show-private", repro, "-o", f"{work}/shown.zip"),
        "pack --keep-private": ("pack", repro, "--keep-private", "secrets", "-o", f"{work}/kept.zip"),
        "unpack": ("unpack", f"{work}/by_hand.zip", "-o", f"{work}/unpacked"),
        "report": ("report", repro, "-o", f"{work}/page.html"),
        "export script": ("export", "--as", "script", repro, "-o", f"{work}/script"),
        "export cmake": ("export", "--as", "cmake", repro, "-o", f"{work}/cmake"),
        "export pytest": ("export", "--as", "pytest", repro, "-o", f"{work}/pytest"),
    }
    found: list[tuple[str, Path | None, Callable[[], int]]] = [
        (name, Path(line[-1]) if "-o" in line else None, lambda line=line: main(line))  # type: ignore[misc]
        for name, line in words.items()
    ]
    return [*found, ("mcp", None, lambda: _mcp(folder))]


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
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    signal.alarm(LONGEST_WAIT_S)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = command()
    except TooLong:
        return f"took more than {LONGEST_S} s, or hung"
    except (Exception, SystemExit, click.exceptions.Exit) as error:
        return "raised " + "".join(traceback.format_exception(error)[-3:])
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
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


def part(values: int, first: int, parts: int, parent: Path) -> dict[str, Any]:
    """Each key by ``values``, of these cases the ``first`` of ``parts``."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _too_long)
    chosen = [*cases(values)][first::parts]
    documents = filled_up()
    counts: collections.Counter[str] = collections.Counter()
    wrong, there = [], None
    for golden, steps, which in chosen:
        folder = parent / "repro"
        if there != golden:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(GOLDENS[golden], folder)
            there = golden
        document = changed(documents[golden], steps, WRONG[which])
        write_manifest(folder, json.dumps(document).encode())
        by_hand(folder, parent / "by_hand.zip")
        counts["cases"] += 1
        with contextlib.suppress(KerncapError), Reproducer.open(folder):
            counts["read"] += 1
        for name, made, command in commands(folder, parent):
            told = run(command)
            if made is not None and removed(made) and told == "refused":
                told = f"refused, and left {made.name}"
            counts["runs"] += 1
            counts["ok" if told == "ok" else "refused" if told == "refused" else "wrong"] += 1
            if told not in ("ok", "refused"):
                wrong.append(f"{GOLDENS[golden].name} {'.'.join(map(str, steps))} [{which}] {name}: {told}")
    left = sorted(path.name for path in parent.iterdir())
    if left != ["by_hand.zip", "repro"]:
        wrong.append(f"left behind: {left}")
    shutil.rmtree(parent, ignore_errors=True)
    counts["keys"] = len({(golden, steps) for golden, steps, _ in chosen})
    counts["peak MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"counts": dict(counts), "wrong": wrong}


def removed(made: Path) -> bool:
    """Whether there was a file, or a folder with something in it; neither is there any more."""
    if made.is_dir():
        found = any(made.iterdir())
        shutil.rmtree(made)
        return found
    found = made.exists()
    made.unlink(missing_ok=True)
    return found


if __name__ == "__main__":
    print(json.dumps(part(*map(int, sys.argv[1:4]), Path(sys.argv[4]))))
