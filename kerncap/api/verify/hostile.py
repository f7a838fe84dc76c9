"""What `verify --hostile` did about a candidate that attacks its judge, and what it could not do here."""

from __future__ import annotations

from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.replay.candidates import SUFFIXES

_SANDBOX = "no file of others, no connection, no other process"


def say(case: Case, stage: StageResult) -> None:
    """Add it to what a stage shows and does not show."""
    engine = case.engine
    candidate = case.options.candidate
    assert candidate is not None
    choice, missing = engine.choice, engine.facts.unconfined
    if candidate.suffix == ".py" and choice.memory == "host":
        stage.shown.append(
            f"its Python ran in a separate process ({_SANDBOX}) that never had the result in its memory"
        )
    elif candidate.suffix == ".py" and choice.launcher != "native":
        stage.shown.append(
            f"its Python ran where it was compiled ({_SANDBOX}), and not where its image was launched; the "
            "result stayed on the host"
        )
    elif candidate.suffix == ".py":
        stage.shown.append(
            f"its Python ran where it was compiled ({_SANDBOX}), and not where it was launched"
        )
    elif candidate.suffix in SUFFIXES - {".ptx"}:
        stage.shown.append(
            f"it has no code that runs on the host, and its compiler was confined ({_SANDBOX})"
        )
    else:
        stage.shown.append("it has no code that runs on the host")
    if choice.launcher == "native":
        stage.not_shown.append("that the device's memory holds no result while it runs")
    if missing:
        stage.not_shown.append(
            f"the kernel of this system lacks {' and '.join(missing)}: what ran could do more"
        )
