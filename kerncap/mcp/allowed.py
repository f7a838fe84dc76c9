"""The folders that an agent may name paths in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kerncap.errors import UsageError


@dataclass(frozen=True)
class Allowed:
    """``roots`` are resolved; the first is where relative paths begin and where commands run."""

    roots: tuple[Path, ...]

    @staticmethod
    def of(folders: tuple[Path, ...]) -> Allowed:
        """Raises UsageError for what is no folder."""
        for folder in folders:
            if not folder.is_dir():
                raise UsageError(f"--root {folder}: no such folder")
        return Allowed(tuple(folder.resolve() for folder in folders))

    @property
    def home(self) -> Path:
        return self.roots[0]

    def path(self, text: str, name: str) -> Path:
        """The path of ``text`` with links followed; it must be inside a root. Raises UsageError."""
        if "\0" in text or not text:
            raise UsageError(f"{name}: not a path")
        try:
            found = (self.home / text).resolve()
        except (OSError, RuntimeError) as error:
            raise UsageError(f"{name} {text}: {error}") from error
        if not any(found.is_relative_to(root) for root in self.roots):
            folders = ", ".join(map(str, self.roots))
            raise UsageError(
                f"{name} {text}: outside the folders that this server may use ({folders}); "
                "the person who starts it can add one: kerncap mcp --root DIR"
            )
        return found
