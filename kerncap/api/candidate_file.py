"""A candidate's file: the launch that it asks for, and whether it stays one text while it is judged."""

from __future__ import annotations

from pathlib import Path

from kerncap.api.candidate_settings import SettingError, settings_of
from kerncap.errors import UsageError
from kerncap.printable import visible
from kerncap.replay.engine import CANDIDATE, Engine
from kerncap.replay.outcome import CandidateError
from kerncap.replay.wording import Verdict, undecided
from kerncap.search_path import inside_reproducer


def load_as_asked(engine: Engine, file: Path) -> None:
    """Load a candidate, with the configuration that a `# kerncap:` line of it asks for, as an edit has it.

    Raises CandidateError where it can't be run, UsageError for a file that the engine does not take so.
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


def text_of(file: Path | None) -> bytes:
    """What a candidate's file holds; nothing where it can't be read."""
    try:
        return b"" if file is None else file.read_bytes()
    except OSError:
        return b""


def of_one_text(file: Path, before: bytes, verdict: Verdict) -> Verdict:
    """The verdict, undecided if the candidate's file is another one than when it was begun to be judged.

    Its launches may each have loaded another text: whatever came out says nothing of the one that is there.
    """
    if text_of(file) == before:
        return verdict
    why = f"{file.name} was changed while it was judged: this is no verdict on what it holds now"
    open_ = undecided(f"{why}; judging it again would decide it", why, *verdict.reasons)
    open_.notes = verdict.notes
    return open_


def refuse_inside(option: str, file: Path) -> None:
    """A file of a reproducer is no candidate: it, and what lies beside it, would run as the user's own.

    Raises UsageError.
    """
    for place in (file.absolute(), file.resolve()):
        if inside_reproducer(str(place.parent)):
            raise UsageError(f"{option} {visible(file)}: it is inside a reproducer; copy it out first")
