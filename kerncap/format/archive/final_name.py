"""Giving a whole folder its final name."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from kerncap.errors import KerncapError, UsageError
from kerncap.format.reader import Reproducer
from kerncap.scratch import Scratch


def place(made: Scratch, parent: Path, stem: str, digest: str) -> Path:
    """Rename the folder to ``<parent>/<stem>-<digits of digest>`` and give that path.

    A whole reproducer with the same manifest that is there is taken as it is; more digits are used beside
    other content. Raises UsageError if all names are taken.
    """
    for digits in (8, 16, 64):
        final = parent / f"{stem}-{digest[:digits]}"
        if not os.path.lexists(final):
            made.name(final, replace=False)
            return final
        with contextlib.suppress(KerncapError), Reproducer.open(final) as there:
            if there.manifest_sha256 == digest:
                there.verify_files(memory=True)
                return final
    raise UsageError(f"{final}: already there with other content; give another folder with -o")
