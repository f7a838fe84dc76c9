"""An archive of HIP's record and replay: calls of a program, by which `hrr-playback` runs it again.

It has what the host copied to the device, but not what kernels wrote there. Played back under
`kerncap capture`, every launch can be captured with its memory.

Source: rocm-systems, projects/hrr/README.md and include/hrr/hrr_api_args.h (`hrr_file_header`), version 7.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from kerncap.errors import UsageError

_MAGIC = b"EHRR"
_HEADER_BYTES = 8
_MAX_PROCESSES = 4096


def processes(path: Path) -> list[Path]:
    """The folders of an archive that hold a process's calls; none if it is something else."""
    folders = [path, *sorted(path.glob("pid-*"))[:_MAX_PROCESSES]]
    return [each for each in folders if _is_recorded(each / "events.bin")]


def _is_recorded(events: Path) -> bool:
    if not events.is_file():
        return False
    with events.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    return len(header) == _HEADER_BYTES and header[:4] == _MAGIC


def refuse(path: Path, found: list[Path]) -> UsageError:
    """What to do instead, for the first of its processes."""
    more = f" (and for {len(found) - 1} more processes)" if len(found) > 1 else ""
    return UsageError(
        f"{path}: an archive of HIP's record and replay has the program's calls, not the memory that its "
        "kernels wrote; on a machine with its GPU: kerncap capture -- hrr-playback "
        f"{shlex.quote(str(found[0]))}{more}"
    )
