"""`export`: a reproducer as a project that runs without kerncap. Nothing of the reproducer is executed."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from kerncap import scratch
from kerncap.api.export.project_kinds import Project, make_project, make_range_project
from kerncap.api.export.script import make_script
from kerncap.api.output_place import beside
from kerncap.api.pack.shareable import Shareable, shareable
from kerncap.errors import UsageError
from kerncap.format import LaunchRange, Reproducer
from kerncap.format.expanded_size import require_expandable
from kerncap.format.folder import is_range
from kerncap.format.private import Finding
from kerncap.report.documents.sharing import ExportDocument, ExportedFile
from kerncap.whole_files import new_file, writing

Kind = Literal["script", "cmake", "pytest", "kernelbench", "flashinfer-trace", "pygpubench"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Exported:
    """What was written: ``path`` is a folder, or for a script with its data inside a file."""

    kind: Kind
    path: Path
    files: tuple[tuple[str, int], ...]  # relative path, bytes
    run: tuple[str, ...]  # commands that run it
    notes: tuple[str, ...]
    findings: tuple[Finding, ...]  # private places, and what became of them

    @property
    def size(self) -> int:
        return sum(size for _, size in self.files)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return ExportDocument(
            kind=self.kind,
            path=str(self.path),
            size_bytes=self.size,
            files=tuple(ExportedFile(name=name, bytes=size) for name, size in self.files),
            run=self.run,
            notes=self.notes,
            findings=self.findings,
        ).as_dict()


def export(
    path: Path | str,
    kind: Kind,
    output: Path | str | None = None,
    *,
    keep_private: Collection[str] = (),
    max_size: int | None = None,
) -> Exported:
    """Write a project of the reproducer at ``path`` that runs its launch and judges it, without kerncap,
    or a task for those who write kernels.

    ``output`` is a folder that is not there yet (by default the reproducer's name and ``kind`` in the working
    directory), or for a script a .py file, which then holds its data. ``keep_private`` as for `pack`;
    ``max_size``: bytes that the captured memory may take, written out.
    Raises UsageError, naming what can't be exported or written; Private, FormatError.
    """
    if kind not in KINDS:
        raise UsageError(f"--as {kind}: expected one of {', '.join(KINDS)}")
    path = Path(path)
    target = beside(path, output, f"{path.resolve().name}-{kind}")
    if os.path.lexists(target):
        raise UsageError(f"{target}: already there; give another name with -o")
    inline = kind == "script" and target.suffix == ".py"
    parent = target.resolve().parent
    if not parent.is_dir():
        raise UsageError(f"{parent}: no such folder; make it, or name another with -o")
    if is_range(path):
        if inline:
            raise UsageError(f"{path}: a range is exported as a folder; give one with -o")
        with shareable(path, keep_private, parent, LaunchRange.open) as of_range:
            opened = of_range.reproducer
            return _folder(kind, of_range, target, lambda to: make_range_project(kind, opened, to, max_size))
    with shareable(path, keep_private, parent, Reproducer.open) as shared:
        shared.reproducer.max_expanded = max_size
        require_expandable(shared.reproducer)
        if inline:
            return _file(shared, target)
        return _folder(kind, shared, target, lambda to: make_project(kind, shared.reproducer, to))


def _files(target: Path) -> tuple[tuple[str, int], ...]:
    return tuple(
        (str(file.relative_to(target)), file.stat().st_size)
        for file in sorted(target.rglob("*"))
        if file.is_file()
    )


def _file(shared: Shareable[Reproducer], target: Path) -> Exported:
    script = make_script(shared.reproducer, inline=True, file=target.name)
    data = script.text.encode()

    with new_file(target, replace=False) as file:
        file.write(data)
    run = (f"python {target}", f"TRITON_INTERPRET=1 python {target}")
    return Exported("script", target, ((target.name, len(data)),), run, script.notes, shared.findings)


def _folder(kind: Kind, shared: Shareable[Any], target: Path, make: Callable[[Path], Project]) -> Exported:
    # Beside the final name, then one rename: what is there under it is complete.
    with writing(target), scratch.folder("export", target.resolve().parent, hidden=True, mode=0o755) as made:
        project = make(made.path)
        made.name(target, replace=False)
    run = tuple(command.replace("@FOLDER@", str(target)) for command in project.run)
    return Exported(kind, target, _files(target), run, project.notes, shared.findings)


__all__ = ["KINDS", "Exported", "export"]
