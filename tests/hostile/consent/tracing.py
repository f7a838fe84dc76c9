"""What every process of a command imports, and whether its search path led to a given folder meanwhile.

A `sitecustomize` in a folder of the test's own, which PYTHONPATH names absolutely, listens to the
interpreter's own audit event of an import. What Python has imported before that is not told.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

LISTENER = """\
import posix, sys
def listen(folder={folder!r}, place={place!r}):
    def identity(entry):
        try:
            found = posix.stat(entry or ".")
        except (OSError, TypeError, ValueError):
            return None
        return found.st_dev, found.st_ino
    forbidden, flags = identity(place), posix.O_WRONLY | posix.O_CREAT | posix.O_APPEND | posix.O_CLOEXEC
    def hook(event, given):
        if event != "import":
            return
        reached = any(identity(entry) == forbidden for entry in given[2] or ())
        try:
            file = posix.open(folder + "/" + str(posix.getpid()), flags, 0o600)
        except OSError:
            return
        posix.write(file, ("!" * reached + given[0] + "\\n").encode())
        posix.close(file)
    sys.addaudithook(hook)
listen()
"""


@dataclass(frozen=True)
class Trace:
    """Where the processes of one command, started with `environment`, tell their imports."""

    listener: Path
    told: Path

    @classmethod
    def of(cls, parent: Path, place: Path) -> Trace:
        made = cls(parent / "listener", parent / "told")
        made.listener.mkdir()
        made.told.mkdir()
        text = LISTENER.format(folder=str(made.told), place=str(place))
        (made.listener / "sitecustomize.py").write_text(text)
        return made

    def environment(self, given: dict[str, str], *behind: str) -> dict[str, str]:
        return {**given, "PYTHONPATH": os.pathsep.join((str(self.listener), *behind))}

    def processes(self) -> int:
        return len([*self.told.iterdir()])

    def imported(self) -> set[str]:
        """Modules of any depth."""
        return {line.lstrip("!") for file in self.told.iterdir() for line in file.read_text().splitlines()}

    def reached(self) -> set[str]:
        """The modules at whose import the search path led to the place."""
        lines = [line for file in self.told.iterdir() for line in file.read_text().splitlines()]
        return {line[1:] for line in lines if line.startswith("!")}


def top_level(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}
