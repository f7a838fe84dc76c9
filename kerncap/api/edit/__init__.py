"""Edit: a working copy of a reproducer's source, judged after every save by one resident engine."""

from __future__ import annotations

from pathlib import Path

from kerncap.api.edit import editor
from kerncap.api.edit.application_files import patch_of
from kerncap.api.edit.edit_result import EditResult
from kerncap.api.edit.loop import Loop, Screen, apply_words
from kerncap.api.edit.patch import Patch
from kerncap.api.edit.resident_engine import EditOptions, EditSession, copy_of
from kerncap.api.edit.working_copy import STAGES
from kerncap.format import Reproducer
from kerncap.report.documents.edit_and_compare import FirstWrong, Times

__all__ = [
    "STAGES", "EditOptions", "EditResult", "EditSession", "FirstWrong", "Patch", "Times", "apply",
    "apply_words", "edit",
]  # fmt: skip


def edit(
    repro: Path, options: EditOptions, screen: Screen, open_editor: bool = False, once: bool = False
) -> int:
    """The loop that a user sits in; ``once``: one judgement. 0 if the last judgement passed, else 1."""
    chosen = editor.chosen() if open_editor and not once else None
    with EditSession(repro, options) as session:
        loop = Loop(session, screen, chosen)
        return loop.once() if once else loop.run()


def apply(repro: Path, options: EditOptions) -> Patch:
    """The edits of a working copy as a patch against the application's files; nothing is run.

    Raises UsageError for a stage that no file of the application holds.
    """
    with Reproducer.open(repro) as reproducer:
        return patch_of(reproducer, copy_of(reproducer, options))
