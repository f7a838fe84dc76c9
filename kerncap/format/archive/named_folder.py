"""Giving a whole folder its final name."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kerncap.errors import KerncapError, UsageError
from kerncap.format.final_name import final_names
from kerncap.format.reader import OpenedFolder
from kerncap.scratch import Scratch


def place(made: Scratch, parent: Path, like: OpenedFolder) -> Path:
    """Rename the folder, which was opened as ``like``, to ``<parent>/<stem>-<digits>`` and give that path.

    A whole one with the same manifest that is there is taken as it is; more digits are used beside
    other content. Raises UsageError if all names are taken.
    """
    for final in final_names(parent, like.stem, like.manifest_sha256):
        if not os.path.lexists(final):
            made.name(final, replace=False)
            return final
        with contextlib.suppress(KerncapError), type(like).open(final) as there:
            if there.manifest_sha256 == like.manifest_sha256:
                there.verify_files(memory=True)
                return final
    raise UsageError(f"{final}: already there with other content; give another folder with -o")
