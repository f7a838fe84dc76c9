"""The saves that passed: numbered copies, and which of them was the best."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from kerncap import whole_files
from kerncap.api.edit.working_copy import WorkingCopy
from kerncap.report.documents.edit_and_compare import BestSave


@dataclass(frozen=True)
class Kept:
    """A save that passed. ``ratio`` is its time by the original's; None if it was not timed."""

    number: int
    digest: str
    ratio: float | None
    path: str  # below the state's folder


class History:
    """Of one working copy; it outlives the session."""

    def __init__(self, copy: WorkingCopy) -> None:
        self._copy = copy
        self._kept = [
            Kept(**each) for each in copy.remembered("kept", []) if set(each) == set(Kept.__annotations__)
        ]
        self.saves = int(copy.remembered("saves", 0))

    def next_number(self) -> int:
        self.saves += 1
        self._copy.remember(saves=self.saves)
        return self.saves

    def keep(self, number: int, digest: str, files: dict[str, bytes], ratio: float | None) -> Kept:
        """Keep the files of a save that passed; the same text again changes its time alone."""
        known = next((each for each in self._kept if each.digest == digest), None)
        if known is not None:
            kept = Kept(known.number, digest, known.ratio if ratio is None else ratio, known.path)
            self._kept[self._kept.index(known)] = kept
        else:
            kept = Kept(number, digest, ratio, f"kept/{number:04d}")
            self._write(kept, files)
            self._kept.append(kept)
        self._copy.remember(kept=[asdict(each) for each in self._kept])
        return kept

    def passed(self, digest: str) -> bool:
        """Whether this very text passed."""
        return any(each.digest == digest for each in self._kept)

    @property
    def best(self) -> Kept | None:
        """The fastest that was timed."""
        timed = [each for each in self._kept if each.ratio is not None]
        return min(timed, key=lambda each: (each.ratio or 0.0, each.number), default=None)

    @property
    def count(self) -> int:
        return len(self._kept)

    def where(self, kept: Kept) -> Path:
        """The kept copy of the file that is edited, or its folder."""
        folder = self._copy.state_folder / kept.path
        file = folder / self._copy.unit.main
        return file if file.is_file() else folder

    def document(self, kept: Kept) -> BestSave:
        return BestSave(number=kept.number, ratio=kept.ratio, path=str(self.where(kept)))

    def _write(self, kept: Kept, files: dict[str, bytes]) -> None:
        for name, data in files.items():
            target = self._copy.state_folder / kept.path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            whole_files.write(target, data, durable=False)
