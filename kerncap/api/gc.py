"""Which of a folder's reproducers are old or take too much space, and their removal."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import log, unexpected_error
from kerncap.errors import UsageError
from kerncap.format.find_reproducers import Found, looked_at, reproducers_in
from kerncap.report.documents.sharing import CollectedReproducer, GcDocument, LeftAlone

_AGE = re.compile(r"^\s*([0-9]{1,6})\s*([hdw])\s*$")
_HOURS = {"h": 1, "d": 24, "w": 168}


@dataclass(frozen=True)
class Collected:
    """What goes, what stays, and what is left alone with the reason. ``removed``: it is gone."""

    going: Sequence[Found]
    staying: Sequence[Found]
    left_alone: Sequence[tuple[Path, str]]
    removed: bool

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        return GcDocument(
            removed=self.removed,
            reproducers=tuple(
                CollectedReproducer(
                    path=str(each.path), size_bytes=each.size_bytes, sealed_s=int(each.sealed_s)
                )
                for each in self.going
            ),
            size_bytes=sum(each.size_bytes for each in self.going),
            kept=len(self.staying),
            left_alone=tuple(LeftAlone(path=str(path), reason=why) for path, why in self.left_alone),
        ).as_dict()


def parse_age(text: str) -> float:
    """``12h``, ``30d``, ``2w`` in seconds. Raises UsageError."""
    match = _AGE.match(text)
    if match is None:
        raise UsageError(f"--older-than {text!r}: expected an age such as 12h, 30d or 2w")
    return float(match[1]) * _HOURS[match[2]] * 3600


def collect(
    folders: Sequence[Path], older_than_s: float | None, keep_bytes: int | None, remove: bool
) -> Collected:
    """Reproducers in ``folders`` that are older, or do not fit into ``keep_bytes`` with all newer ones.

    Without ``remove`` they are only named. Only a folder that is ours, that reads as a whole reproducer and
    holds nothing else, goes; links are not followed. Raises UsageError.
    """
    if older_than_s is None and keep_bytes is None:
        raise UsageError("gc: neither an age nor a size; give --older-than or --keep-size")
    for folder in folders:
        if not folder.is_dir() or folder.is_symlink():
            raise UsageError(f"{folder}: not a folder; name the one that holds reproducers")
    now_s, kept_bytes = time.time(), 0
    going, staying, left_alone = [], [], []
    for each in looked_at(reproducers_in(folders)):
        reason = _why_not(each)
        is_old = older_than_s is not None and now_s - each.sealed_s > older_than_s
        is_too_much = keep_bytes is not None and kept_bytes + each.size_bytes > keep_bytes
        if reason is not None:
            left_alone.append((each.path, reason))
        elif is_old or is_too_much:
            going.append(each)
        else:
            kept_bytes += each.size_bytes
            staying.append(each)
    for each in going if remove else ():
        _remove(each.path)
    return Collected(going, staying, left_alone, remove)


def _why_not(found: Found) -> str | None:
    """Why a folder is left alone."""
    if found.manifest is None:
        return log.one_line(found.problem)
    status = os.lstat(found.path)
    return None if status.st_uid == os.geteuid() else "it belongs to another user"


def _remove(path: Path) -> None:
    """Under another name first: what is half gone is not taken for a reproducer."""
    aside = path.with_name(f".{path.name}.removed")
    try:
        path.rename(aside)
        shutil.rmtree(aside)  # by descriptors: a link that comes in the way is not followed
    except OSError as error:
        raise unexpected_error.about(path, error, "can't be removed") from error
