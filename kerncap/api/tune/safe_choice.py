"""The choice among configurations in which the sanitizer finds nothing wrong.

Each was right on the captured memory. A larger tile may still read past a tensor, which no result shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from kerncap.api.verify.sanitizer_stage import InPlace, checked
from kerncap.replay import worker_process
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.choice import Choice, choose
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.search import Found
from kerncap.replay.tuning.space import LaunchSpace
from kerncap.replay.tuning.trial import Final

_AT_A_TIME = 4  # compilations


def safe_choice(
    found: Found, spaces: Mapping[str, LaunchSpace], author_key: Sequence[str], python: str
) -> Choice:
    """As `choose`; what is wrong with a configuration is kept in ``found`` as its problem.

    ``python`` compiles Triton's kernels; others are chosen as they are.
    """
    scalars = {digest: space.scalars for digest, space in spaces.items()}
    if any(space.manifest.kernel.language != "triton" for space in spaces.values()):
        return choose(found, scalars, author_key)
    known: dict[tuple[str, str], str] = {}
    while True:
        choice = choose(found, scalars, author_key)
        chosen = {_key(spaces[digest], digest, given): (digest, given) for digest, given in _chosen(choice)}
        with ThreadPoolExecutor(_AT_A_TIME) as threads:
            new = {key: each for key, each in chosen.items() if key not in known}
            problems = threads.map(lambda each: _problem(spaces[each[0]], each[1], python), new.values())
            known.update(zip(new, problems, strict=True))
        wrong = [(*each, known[key]) for key, each in chosen.items() if known[key]]
        if not wrong:
            return choice
        for digest, given, problem in wrong:
            _refute(found, digest, given, problem)


def _chosen(choice: Choice) -> Iterator[tuple[str, Point]]:
    for best in choice.best:
        yield best.digest, best.point
        if choice.robust is not None:
            yield best.digest, choice.robust.point
    yield from choice.by_digest.items()


def _key(space: LaunchSpace, digest: str, given: Point) -> tuple[str, str]:
    """What TTIR and grid depend on: not the options."""
    config = space.config(given)
    return digest, points.key({**config.arguments, "": str(config.grid)})


def _problem(space: LaunchSpace, given: Point, python: str) -> str:
    # Loaded late: this takes the sanitizer.
    from kerncap.api.prove.proof_launches import ttir_of_source

    reproducer, config = space.reproducer, space.config(given)
    source = space.manifest.source
    assert source is not None  # it was compiled for the trial

    def ttir() -> str:
        text = reproducer.source_text() or ""
        return ttir_of_source(reproducer, text, source.file.path, config, python=python)

    stage = checked(reproducer.path, python, worker_process.program, InPlace(ttir, config))
    return stage.reasons[0] if stage.result == "fail" else ""


def _refute(found: Found, digest: str, given: Point, problem: str) -> None:
    key = points.key(given)
    kept = [each for each in found.finals if (each.digest, points.key(each.point)) != (digest, key)]
    found.finals = [*kept, Final(given, digest, problem=problem)]
