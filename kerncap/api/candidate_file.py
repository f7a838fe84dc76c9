"""A candidate's file: the launch that it asks for, and whether it stays one text while it is judged."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kerncap import scratch
from kerncap.api.candidate_settings import SettingError, settings_of
from kerncap.errors import UsageError
from kerncap.printable import visible
from kerncap.replay.engine import CANDIDATE, Engine
from kerncap.replay.outcome import CandidateError
from kerncap.replay.variants import CODE_OBJECTS, IMAGES, TRITON_STAGES
from kerncap.replay.verdict_words import Verdict, undecided
from kerncap.search_path import inside_reproducer

_COPIED = frozenset((".py", *IMAGES, *CODE_OBJECTS, *TRITON_STAGES))
_MOST_COPIED = 64 << 20  # bytes, with the modules beside a candidate


def load_as_asked(engine: Engine, file: Path) -> None:
    """Load a candidate, with the configuration that a `# kerncap:` line of it asks for, as an edit has it.

    Raises CandidateError if it can't be run, UsageError for a file that the engine does not take so.
    """
    text = file.read_text(encoding="utf-8", errors="replace") if file.suffix == ".py" else ""
    try:
        config, _ = settings_of(text)
    except SettingError as error:
        raise CandidateError(f"{file.name}, line {error.line}: {error}") from error
    if config is None:
        engine.load_candidate(file)
    else:
        engine.load_configured(CANDIDATE, config, file)


@dataclass(frozen=True)
class Kept:
    """A candidate's file as it was when it began to be judged: it is read from ``path``, and nowhere else."""

    given: Path
    path: Path
    text: bytes
    note: str = ""

    def close(self, verdict: Verdict, *lists: list[str]) -> Verdict:
        """The verdict by the file's own name; undecided if another text is there now.

        ``lists`` of what is said are changed in place.
        """
        verdict.notes += [self.note] if self.note else []
        if self.path != self.given:
            for each in (verdict.reasons, verdict.notes, *lists):
                each[:] = map(self.named, each)
            verdict.summary = self.named(verdict.summary)
        if _text_of(self.given) == self.text:
            return verdict
        why = f"{self.given.name} was changed while it was judged: this is not a verdict on what it holds now"
        open_ = undecided(f"{why}; judging it again would decide it", why, *verdict.reasons)
        open_.notes = verdict.notes
        return open_

    def named(self, text: str) -> str:
        """A text with the file's own place in it."""
        text = text.replace(str(self.path), str(self.given))
        return text.replace(str(self.path.parent), str(self.given.parent))


@contextmanager
def kept(file: Path | None, hostile: bool = False) -> Iterator[Kept | None]:
    """A private copy of a candidate, of a module with the modules beside it, which it may import.

    Sources of CUDA and HIP are read once anyway, with what lies around them. Of more modules than are copied
    a file is judged in place, which is noted; if it is ``hostile``, UsageError is raised.
    """
    if file is None:
        yield None
    elif file.suffix not in _COPIED:
        yield Kept(file, file, _text_of(file))
    else:
        with scratch.temporary("candidate") as folder:
            beside = _modules_beside(file) if file.suffix == ".py" else []
            if sum(each.stat().st_size for each in beside) > _MOST_COPIED:
                where, most = visible(file.parent), f"{_MOST_COPIED >> 20} MiB"
                many = f"{where}: more than {most} of modules next to the candidate"
                if hostile:
                    raise UsageError(f"{many}; move it to a folder with only what it imports")
                yield Kept(file, file, _text_of(file), f"{many}: it was judged in place, not from a copy")
                return
            copy = Path(folder) / file.name
            shutil.copyfile(file, copy)
            for each in beside:
                target = Path(folder) / each.relative_to(file.parent)
                target.parent.mkdir(parents=True, exist_ok=True)
                with suppress(PermissionError):  # nor can it be imported
                    shutil.copyfile(each, target)
            made = Kept(file, copy, copy.read_bytes())
            try:
                yield made
            except UsageError as error:  # which names the copy
                raise UsageError(made.named(str(error))) from error


def _modules_beside(file: Path) -> list[Path]:
    """The other modules of a file's folder, and the packages in it with all that they hold."""
    packages = (each.parent for each in file.parent.glob("*/__init__.py"))
    found = [each for ending in ("*.py", "*.so") for each in file.parent.glob(ending)]
    found += [each for package in packages for each in package.rglob("*") if "__pycache__" not in each.parts]
    return [each for each in found if each != file and each.is_file()]


def _text_of(file: Path) -> bytes:
    """What a file holds; nothing if it can't be read."""
    try:
        return file.read_bytes()
    except OSError:
        return b""


def refuse_inside(option: str, file: Path) -> None:
    """A file of a reproducer is no candidate: it, and what lies beside it, would run as the user's own.

    Raises UsageError.
    """
    for place in (file.absolute(), file.resolve()):
        if inside_reproducer(str(place.parent)):
            raise UsageError(f"{option} {visible(file)}: it is inside a reproducer; copy it out first")
