"""The ceilings of ``--ceilings FILE|NAME``."""

from __future__ import annotations

import os
from pathlib import Path

from kerncap.errors import UsageError
from kerncap.replay.limits import published
from kerncap.replay.limits.ceilings import Ceilings, kept, read


def named(name: str) -> Ceilings:
    """A file, or the part of a measured device's name, or the name of one with published ceilings.

    Raises UsageError, which lists both.
    """
    if os.sep in name or Path(name).is_file():
        return read(Path(name))
    known = kept()
    found = [one for one in known if name.lower() in one.device.lower()]
    if len({one.device for one in found}) == 1:
        return max(found, key=lambda one: one.measured_at)
    if not found and (public := published.of(name.upper())) is not None:
        return public
    devices = ", ".join(sorted({one.device for one in known})) or "none"
    what = "several measured devices have that name" if found else "no file and no known device"
    raise UsageError(
        f"--ceilings {name}: {what}; measured here: {devices}; published: {', '.join(published.names())}"
    )
