"""A call to the disk may fail in any process of a command: one line, and each output whole or as it was."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerncap.api import pack
from tests.hostile.consent.test_shadows import PROGRAM, space
from tests.unit.replay.build import add

from .targets import STATUSES

# By how a call fails: no space, quota, input/output, file too large, and a write that is not whole.
HOW = ("28", "122", "5", "27", "half", "short")
BEFORE = "{}"
LIGHT, HEAVY = 12, 6  # calls of a command that fail, each in a run of its own
# {repro}: outside of the disk, {own}: on it. On the disk before: a page, a listing and a reproducer.
COMMANDS: dict[str, tuple[str, int]] = {
    "pack": ("pack {repro} -o {out}/new.zip", 4),
    "pack, every call": ("pack {repro} -o {out}/new.zip", LIGHT),
    "unpack": ("unpack {zip} -o {out}", LIGHT),
    "report": ("report {repro} -o {out}/there.html", LIGHT),
    "export script": ("export {repro} --as script -o {out}/project", LIGHT),
    "export pytest": ("export {repro} --as pytest -o {out}/project", LIGHT),
    "inspect": ("inspect --verify {repro}", LIGHT),
    "diff": ("diff {repro} {own}", LIGHT),
    "minimize": ("minimize {repro} -o {out}", HEAVY),
    "replay": ("replay {repro}", HEAVY),
    "verify": ("verify {repro}", HEAVY),
    "edit": ("replay {repro} --edit --once --copy {out}/edit", HEAVY),
    "tune": ("tune {own} --space {space} --trials 2 --resume", HEAVY),
    "prove": ("prove {repro} {repro}", HEAVY),
    "sanitize": ("sanitize {repro}", HEAVY),
    "list": ("list --save {out}/there.json -- {program}", HEAVY),
    "sanitize program": ("sanitize -- {program}", HEAVY),
}
REPLACED = ("there.html", "there.json")
_OF_A_CHECK = re.compile(r"/(checks\.json|write_set-\w+\.bin)$")
IN_PARTS = {"edit", "tune"}  # several files, each for itself


@dataclass(frozen=True)
class Done:
    status: int
    said: str
    calls: int
    files: dict[str, bytes]


class Disk:
    """A folder whose n-th call fails, in each process that a command starts; a fresh one for each run."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.folder, self.library = folder, library
        (folder / "repros").mkdir()
        self.repro = add().seal(folder / "repros")
        self.zip = folder / "by-hand.zip"
        pack(self.repro, self.zip)
        (folder / "program.py").write_text(PROGRAM)
        self.space = space(folder)

    def run(self, words: str, number: int, how: str) -> Done:
        place = self.folder / f"disk-{number}-{how}"
        for name in ("out", "tmp"):
            (place / name).mkdir(parents=True)
        out = place / "out"
        (out / "there.html").write_text(BEFORE)
        (out / "there.json").write_text(BEFORE)
        given = words.format(
            repro=self.repro, own=add(500).seal(out), zip=self.zip, out=out, space=self.space,
            program=f"{sys.executable} {self.folder / 'program.py'}",
        )  # fmt: skip
        environment = {**os.environ, "TRITON_INTERPRET": "1", "TMPDIR": str(place / "tmp"), "EDITOR": "true"}
        environment |= {"LD_PRELOAD": str(self.library), "FAULTY_DISK": f"{number} {how}"}
        environment |= {"FAULTY_DISK_UNDER": str(place), "FAULTY_DISK_COUNT": str(self.folder / "count")}
        (self.folder / "count").unlink(missing_ok=True)
        before = files_in(out)
        done = subprocess.run(
            [sys.executable, "-m", "kerncap", *given.split()], cwd=self.folder, env=environment, text=True,
            stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        counted = self.folder / "count"
        calls = max(map(int, counted.read_text().split())) if counted.exists() else 0
        left = [one for one in (place / "tmp").iterdir() if not one.name.startswith("torchinductor_")]
        assert not left, (number, how, done.stderr)
        after = files_in(out)
        assert {name: after.get(name) for name in before if name not in REPLACED} == {
            name: data for name, data in before.items() if name not in REPLACED
        }, (number, how, done.stderr)
        made = {name: data for name, data in after.items() if before.get(name) != data}
        return Done(done.returncode, done.stderr, calls, made)


@pytest.fixture
def disk(tmp_path: Path, library: Path) -> Disk:
    return Disk(tmp_path, library)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "pack" else pytest.mark.long) for name in COMMANDS]
)
@pytest.mark.timeout(3000)
def test_a_call_fails(name: str, disk: Disk) -> None:
    words, most = COMMANDS[name]
    plain = disk.run(words, 0, "28")
    assert plain.status in (0, 1), plain.said
    numbers = sorted(
        {1 + step * plain.calls // most for step in range(most)} & set(range(1, plain.calls + 1))
    )
    statuses = []
    for step, number in enumerate(numbers):
        how = HOW[(step + number) % len(HOW)]
        done = disk.run(words, number, how)
        where = f"{name}: call {number} of {plain.calls}, {how}: {done.said}"
        statuses.append(done.status)
        assert done.status in STATUSES and "Traceback" not in done.said, where
        if how == "short":
            assert done.status == plain.status, where
        if done.status == 2:
            assert done.said.splitlines()[-1].startswith("kerncap: "), where
        for file, data in done.files.items():
            assert is_whole(file, data), (file, where)
        if name not in IN_PARTS:
            expected = plain.files if done.status == plain.status else {}
            # A reproducer is whole without what its check leaves beside the files of its manifest.
            unchecked = {file for file in plain.files if not _OF_A_CHECK.search(file)}
            assert {*done.files} in ({*expected}, {*plain.files}, unchecked), where
    print(f"{name}: {plain.calls} calls, {len(numbers)} of them failed; statuses {statuses}")


def is_whole(name: str, data: bytes) -> bool:
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return archive.testzip() is None
    if name.endswith(".json"):
        return bool(json.loads(data))
    if name.endswith(".jsonl"):
        return data.endswith(b"\n") and all(json.loads(line) for line in data.splitlines())
    if name.endswith(".html"):
        return data.rstrip().endswith(b"</html>")
    if name.endswith(".py"):
        compile(data, name, "exec")
    return bool(data)
