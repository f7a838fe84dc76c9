"""Folders and files that this user may not read or write: one line, status 2, nothing half-written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from kerncap.cli import group
from tests.hostile.consent.test_shadows import SCRIPT, ask
from tests.parameters import first_of

from .commands import ANSWERS, COMMANDS, HEAVY, READING, WRITING, Place, held, refused
from .ordinary_user import PYTEST, OrdinaryUser, lose_capabilities

DENIED = "Permission denied; change its permissions, or run as the user who owns it"
FILES = ("manifest.json", "manifest.sha256", "README.md", "memory", "memory/chunks", "memory/index", "source",
         "source/add.py")  # fmt: skip
TEMPORARY = ("unpack", "capture", "report")
ASKED = [*(name for name in READING if name != PYTEST), "seal", "arm"]


def quick(names: list[str], of: tuple[str, ...] | None = None) -> list[Any]:
    """Those of ``of``, or that run nothing, in `make test`."""
    is_quick = {name: name in of if of is not None else name not in HEAVY for name in names}
    return [pytest.param(name, marks=() if is_quick[name] else pytest.mark.long) for name in names]


def test_every_command_is_among_them() -> None:
    """A new command has to be listed in `commands.py`."""
    built = "view"  # its page is not there in every checkout: tests/unit/api/test_view.py
    known = {*group.list_commands(click.Context(group)), PYTEST} - {built}
    assert {words.split()[0] for words in COMMANDS.values()} == known


@first_of("mode", [0o000, 0o300, 0o400])
@pytest.mark.parametrize("name", ASKED)
def test_the_folder_that_is_asked_about(name: str, mode: int, made: Place, user: OrdinaryUser) -> None:
    """No engine is started for one, so that the heavy commands are cheap here, too."""
    if (name, mode) == ("arm", 0o300):
        return  # which reads a file of it and no more
    with made.closed(made.read_by(name), mode):
        done = made.run(user, COMMANDS[name])
    refused(done, f"kerncap: {made.read_by(name)}")
    refused(done, f"can't be read: {DENIED}")


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("name", quick(ASKED[:-2], of=("inspect",)))
def test_a_file_of_it(name: str, file: str, made: Place, user: OrdinaryUser) -> None:
    with made.closed(made.repro / file, 0):
        refused(made.run(user, COMMANDS[name]), f"{made.repro / file}: can't be read: {DENIED}")


@pytest.mark.parametrize(
    ("name", "file"), [("unpack", "by-hand.zip"), ("tune", "space.json"), ("diff", "root/add-500")]
)
def test_another_file_that_is_given(name: str, file: str, made: Place, user: OrdinaryUser) -> None:
    with made.closed(made.folder / file, 0):
        refused(made.run(user, COMMANDS[name]), f"{made.folder / file}: can't be read: {DENIED}")


@pytest.mark.parametrize("name", quick(READING, ("inspect", "pack")))
def test_a_reproducer_that_cannot_be_written(name: str, place: Place, user: OrdinaryUser) -> None:
    """It keeps no record of a check; the answer is the same."""
    with place.closed(place.repro, 0o500):
        done = place.run(user, COMMANDS[name])
    held(done, place)
    assert done.status == ANSWERS.get(name, 0), done.err


@first_of("how", ["the folder", "the one above"])
@pytest.mark.parametrize("name", quick(WRITING))
def test_an_output_folder(name: str, how: str, place: Place, user: OrdinaryUser) -> None:
    closed = place.out
    if how == "the one above":
        place.out.rmdir()
        closed = place.folder
    with place.closed(closed, 0o500):
        done = place.run(user, COMMANDS[name])
    held(done, place)
    assert done.status == 2 and str(place.out) in done.last, done.err
    assert how == "the one above" or "can't be written: Permission denied; " in done.last, done.err


def test_the_file_of_trusted_digests(place: Place, user: OrdinaryUser) -> None:
    for path in ("config/kerncap/trusted", "config/kerncap", "config"):
        with place.closed(place.folder / path, 0):
            done = place.run(user, COMMANDS["replay"])
        refused(done, f"{place.folder}/config/kerncap/trusted: can't be read: {DENIED}")


@pytest.mark.long
@pytest.mark.parametrize("name", ["replay {0} --trust", "limits", "minimize", "tune", "verify"])
def test_configuration_and_cache_folders(name: str, place: Place, user: OrdinaryUser) -> None:
    """Consent that can't be kept holds for this time; a cache that can't be read is none."""
    (place.folder / "cache").mkdir()
    asked = COMMANDS.get(name, name)
    closed = ("config", "cache") if "--trust" in asked else ("cache",)
    for each in closed:
        (place.folder / each).chmod(0)
    try:
        done = place.run(user, asked)
    finally:
        for each in closed:
            (place.folder / each).chmod(0o700)
    held(done, place)
    assert done.status == ANSWERS.get(name, 0), done.err


@first_of("how", ["deleted", "closed"])
@pytest.mark.parametrize("name", quick([name for name in COMMANDS if name != PYTEST], TEMPORARY))
def test_tmpdir(name: str, how: str, place: Place, user: OrdinaryUser) -> None:
    """With no other place for temporary files: what needs none does its work."""
    if how == "deleted":
        place.temporary.rmdir()
        done = place.run(user, COMMANDS[name], only_tmpdir=True)
    else:
        with place.closed(place.temporary, 0o500):
            done = place.run(user, COMMANDS[name], only_tmpdir=True)
    held(done, place)
    assert done.status == ANSWERS.get(name, 0) or (done.status == 2 and "TMPDIR" in done.last), done


@pytest.mark.long
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_the_root_of_mcp(mode: int, place: Place, tmp_path: Path) -> None:
    pytest.importorskip("mcp")
    (tmp_path / "kerncap").write_text(SCRIPT)
    calls: list[tuple[str, dict[str, Any]]] = [("inspect", {"repro": str(place.repro)})]
    place.root.chmod(mode)
    try:
        [answer] = ask(
            tmp_path / "kerncap", place.here, calls, "--root", str(place.root), before=lose_capabilities
        )
    finally:
        place.root.chmod(0o700)
    assert answer["isError"] and answer["content"][0]["text"] == (
        f"kerncap: {place.repro}: can't be read: {DENIED}"
    )


@pytest.mark.long
def test_the_pytest_plugin(place: Place, user: OrdinaryUser) -> None:
    with place.closed(place.repro / "manifest.json", 0):
        done = place.run(user, COMMANDS[PYTEST])
    assert done.status == 1 and f"{place.repro}/manifest.json: can't be read: {DENIED}" in done.out, done
    with place.closed(place.repro, 0):
        done = place.run(user, COMMANDS[PYTEST])
    assert done.status == pytest.ExitCode.USAGE_ERROR, done
    assert done.err.strip() == f"ERROR: --kerncap {place.repro}: can't be read: {DENIED}", done
