"""Folders that are deleted before a command starts, or while it works: one line, and nothing half-written."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.consent.test_shadows import SCRIPT
from tests.hostile.disks.test_commands_faults import files_in

from .commands import ANSWERS, COMMANDS, HEAVY, LIGHT, READING, WRITING, Place, held, refused
from .ordinary_user import PYTEST, OrdinaryUser, Vanishing

GONE = "kerncap: the working folder: it was deleted; change to one that exists"
# Words that mean the working folder, or something in it.
RELATIVE = (
    "inspect .", "diff . .", "pack {0}", "report {0}", "export {0} --as script", "unpack {zip}", "seal .",
    "capture -- true", "list --save made.json -- true", "arm . --last 1", "mcp",
)  # fmt: skip
FEW = 4  # moments of a heavy command, from its first call to its last


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in HEAVY else ())
        for name in COMMANDS
        if name != PYTEST
    ],
)
def test_the_working_folder(name: str, place: Place, user: OrdinaryUser) -> None:
    """Absolute paths mean the same without one. (Without one pytest does not start.)"""
    done = place.run(user, COMMANDS[name], has_cwd=False)
    held(done, place)
    assert done.status == ANSWERS.get(name, 0), done.err


@pytest.mark.parametrize(
    "words", [*RELATIVE, pytest.param("replay {0} --edit --once", marks=pytest.mark.long)]
)
def test_a_relative_path(words: str, made: Place, user: OrdinaryUser) -> None:
    refused(made.run(user, words, has_cwd=False), GONE)


def test_a_python_that_starts_in_it(made: Place, tmp_path: Path) -> None:
    (tmp_path / "kerncap").write_text(SCRIPT)
    (tmp_path / "gone").mkdir()
    line = f'rmdir ../gone && exec "{sys.executable}" "{tmp_path}/kerncap" inspect "$0"'
    for asked, status in ((str(made.repro), 0), (".", 2)):
        (tmp_path / "gone").mkdir(exist_ok=True)
        done = subprocess.run(
            ["sh", "-c", line, asked], cwd=tmp_path / "gone", capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (status, f"{GONE}\n" if status else ""), done


def moments(most: int, calls: int) -> list[int]:
    """``most`` of the numbers of a command's calls, the last of all among them."""
    return sorted({step * (calls - 1) // max(1, most - 1) for step in range(most)} if calls else set())


def vanishes(
    name: str, folder: str, most: int | None, fresh: Callable[[], Place], user: OrdinaryUser
) -> list[int]:
    """The command, with ``folder`` of its place deleted at its calls; the statuses."""
    place = fresh()
    plain = place.run(user, COMMANDS[name], vanishing=Vanishing(str(place.folder / folder), -1))
    held(plain, place)
    assert plain.status == ANSWERS.get(name, 0) and plain.calls, plain
    whole = {file for file in files_in(place.out) if not file.startswith("copy")}
    statuses = []
    for call in range(plain.calls) if most is None else moments(most, plain.calls):
        place = fresh()
        done = place.run(user, COMMANDS[name], vanishing=Vanishing(str(place.folder / folder), call))
        held(done, place)
        left = {file for file in files_in(place.out) if not file.startswith("copy")}
        assert left in (set(), whole) or done.status == plain.status, (call, left, done)
        statuses.append(done.status)
    return statuses


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("pack", 3),
        *(pytest.param(name, None, marks=pytest.mark.long) for name in ("pack", "unpack", "export",
                                                                     "export-pytest", "report", "seal")),
        *(pytest.param(name, FEW, marks=pytest.mark.long) for name in ("minimize", "edit", "sanitize-sarif")),
    ],
)  # fmt: skip
def test_the_output_folder_meanwhile(
    name: str, most: int | None, fresh: Callable[[], Place], user: OrdinaryUser
) -> None:
    assert name in WRITING
    statuses = vanishes(name, "out", most, fresh, user)
    print(f"{name}: {len(statuses)} moments, statuses {statuses}")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("inspect", None),
        ("pack", 3),
        *(
            pytest.param(name, None, marks=pytest.mark.long)
            for name in LIGHT
            if name in READING and name != PYTEST
        ),
        *(
            pytest.param(name, FEW, marks=pytest.mark.long)
            for name in HEAVY
            if name in READING and name != PYTEST
        ),
    ],
)
def test_the_reproducer_meanwhile(
    name: str, most: int | None, fresh: Callable[[], Place], user: OrdinaryUser
) -> None:
    statuses = vanishes(name, "root", most, fresh, user)
    print(f"{name}: {len(statuses)} moments, statuses {statuses}")


@pytest.mark.long
@pytest.mark.parametrize("name", ["replay", "verify", "edit", "minimize", "sanitize", "tune", "doctor"])
def test_the_folder_for_temporary_files_meanwhile(
    name: str, fresh: Callable[[], Place], user: OrdinaryUser
) -> None:
    statuses = vanishes(name, "temporary", FEW, fresh, user)
    print(f"{name}: {len(statuses)} moments, statuses {statuses}")


@pytest.mark.parametrize(
    "words", ["capture -o {out}/made", "capture -o {out}", "list --save {out}/made.json"]
)
def test_a_program_deletes_the_output_folder(words: str, place: Place, user: OrdinaryUser) -> None:
    done = place.run(user, f"{words} -- rm -r {{out}}")
    held(done, place)
    assert done.status == (2 if words.startswith("list") else 1) and not place.out.exists(), done
    assert str(place.out) in done.last and "eleted" in done.err or "something removed it" in done.last, (
        done.err
    )


@pytest.mark.long
@pytest.mark.parametrize("words", ["capture -o {out}", "list --save {out}/made.json", "sanitize"])
def test_a_program_that_launches_and_deletes_it(words: str, place: Place, user: OrdinaryUser) -> None:
    program = place.folder / "program.py"
    text = program.read_text().replace(
        "double[(1,)]", f"import shutil; shutil.rmtree({str(place.out)!r}); double[(1,)]"
    )
    program.write_text(text + "print('the program has done its work')\n")
    done = place.run(user, f"{words} -- {sys.executable} {program}")
    held(done, place)
    assert "the program has done its work" in done.out, done
    assert done.status == {"capture": 1, "list": 2, "sanitize": 0}[words.split()[0]], done
