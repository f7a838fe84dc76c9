"""A bug report as a folder, ready to attach: the table, the reproducer, both sides of the guilty step."""

from __future__ import annotations

from pathlib import Path

from kerncap import scratch
from kerncap.api.blame.blame_result import Blame
from kerncap.api.pack.shareable import shareable
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.archive import write_archive
from kerncap.format.private import Scrubber
from kerncap.report.blame_text import table_of
from kerncap.whole_files import writing


def write_report(found: Blame, target: Path) -> Path:
    """Write report.md, reproducer.zip, and the input and output of the guilty step into the new ``target``.

    Private things are replaced as by `pack`. Raises UsageError if ``target`` is there, `sharing.Private`.
    """
    if target.exists():
        raise UsageError(f"{target}: already there; give another name with -o")
    parent = target.resolve().parent
    if not parent.is_dir():
        raise UsageError(f"{parent}: no such folder; make it, or name another with -o")
    with (
        writing(target),
        scratch.folder("blame", parent, hidden=True, mode=0o755) as made,
        shareable(found.path, (), made.path, Reproducer.open) as shared,
    ):
        with scratch.folder("report", parent, hidden=True, mode=0o755) as folder:
            write_archive(shared.reproducer, folder.path / "reproducer.zip")
            guilty = found.blamed.guilty
            files = [] if guilty is None else [one for one in (guilty.given, guilty.made) if one is not None]
            for name, text in files:
                _write(folder.path / name, text, shared.scrubber)
            _write(folder.path / "report.md", _markdown(found, [name for name, _ in files]), shared.scrubber)
            folder.name(target, replace=False)
    return target


def _write(path: Path, text: str, scrubber: Scrubber) -> None:
    data = text.encode("utf-8", "replace")
    scrubber.look(path.name, data)
    path.write_bytes(scrubber.text(path.name, data))


def _markdown(found: Blame, files: list[str]) -> str:
    run = found.blamed
    guilty = run.guilty
    lines = [f"# {found.kernel}: {run.summary}", ""]
    if guilty is not None and guilty.to:
        lines += [f"To: {guilty.to}", ""]
    for one in found.runs:
        lines += [f"{one.maker}:", "", "```", table_of(one), "```", ""]
    if guilty is not None and len(files) == 2:
        lines += [f"`{files[0]}` is the input of the guilty step, `{files[1]}` its output.", ""]
    elif files:
        lines += [f"`{files[0]}` is the input of the guilty step.", ""]
    lines += [
        "`reproducer.zip` has the launch with its memory:", "", "```sh", "pip install kerncap",
        "kerncap unpack reproducer.zip", "kerncap blame --trust FOLDER", "```",
    ]  # fmt: skip
    lines += ["", *(f"Note: {note}" for note in found.notes)]
    return "\n".join(lines).rstrip() + "\n"
