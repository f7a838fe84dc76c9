"""A launch's source as Triton compiles it here: the text of each stage, and what each MLIR pass was given."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from kerncap import scratch
from kerncap.api.compiled_ttir import job_of, run_compiler
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.replay.choose_engine import python_to_compile
from kerncap.replay.worker_process import program

STAGES = ("source", "ttir", "ttgir", "llir", "ptx")  # "source": TTIR before any pass
MAX_TEXT_BYTES = 64 << 20  # of one stage
MAX_PASSES_BYTES = 512 << 20  # that the passes of one stage print
_DUMP = re.compile(
    r"^// -----// IR Dump Before (\w+): ?(.*?) \('[^']*' operation.*\) //----- //\n", re.MULTILINE
)
_OTHER = re.compile(r"^// -----// (?!IR Dump Before )", re.MULTILINE)
_LOCATIONS = re.compile(r"\s*loc\([^\n]*$|^#loc.*\n", re.MULTILINE)


@dataclass(frozen=True)
class State:
    """The module before a pass: ``passed`` is that pass as MLIR spells it."""

    passed: str
    text: str


@dataclass(frozen=True)
class CompiledStages:
    """``texts`` by stage, in order; ``states``: before each of the passes that make a stage.

    ``failed``: the stage that does not compile, with ``error`` and the pass that ran last. ``plugin``: a hook
    of that Triton that changes stages, by its name; ``plain``: what they would be without it.
    """

    python: str
    triton: str
    texts: dict[str, str] = field(default_factory=dict)
    states: dict[str, list[State]] = field(default_factory=dict)
    failed: str = ""
    error: str = ""
    last_pass: str = ""
    plugin: str = ""
    plain: dict[str, str] = field(default_factory=dict)


def compile_stages(reproducer: Reproducer, target: str, text: str, python: str | None) -> CompiledStages:
    """Compile ``text`` in place of the reproducer's source, with its arguments and options, for ``target``.

    The caller has asked for trust. Raises BackendUnavailable without a Python that has Triton, or for a
    source that is not Python.
    """
    manifest, source = reproducer.manifest, reproducer.manifest.source
    if source is None or source.language != "python":
        raise BackendUnavailable("the stages of the compiler", f"{reproducer.path} has no Python source")
    compiler = python_to_compile(("triton",), "Triton, which compiles the source,", python)
    with scratch.temporary("stages") as name:
        folder = Path(name)
        module, stages = folder / "kernel.py", folder / "stages"
        stages.mkdir()
        module.write_text(text, encoding="utf-8")
        job = {
            **job_of(manifest, source.entry, module, target, folder / "result.json"), "stages": str(stages)
        }  # fmt: skip
        (folder / "job.json").write_text(json.dumps(msgspec.to_builtins(job)), encoding="utf-8")
        try:
            answer = run_compiler(program, compiler, folder, target, str(reproducer.path.resolve()))
            error = str(answer.get("error", ""))
        except BackendUnavailable as died:
            error = died.reason
            answer = {}
        found = _read(stages, compiler, str(answer.get("triton", "")), error)
        return replace(found, plugin=str(answer.get("plugin", "")))


@dataclass(frozen=True)
class Change:
    """``passes``: one; several if nothing is known of the texts between them."""

    passes: tuple[str, ...]
    before: str
    after: str


def change_between(
    states: Sequence[State], after: str, is_wrong: Callable[[str], bool | None]
) -> Change | None:
    """Bisect the passes from the first state to ``after`` for the one that makes the kernel wrong.

    ``is_wrong``: None for a text of which that is not known. None unless ``after`` is wrong and the first
    known text is right. Texts that differ only in locations are checked once.
    """
    texts = [*(state.text for state in states), after]
    known: dict[str, tuple[str, bool | None]] = {}

    def answer(number: int) -> bool | None:
        key = _LOCATIONS.sub("", texts[number])
        if key not in known:
            known[key] = texts[number], is_wrong(texts[number])
        return known[key][1]

    first = next((number for number in range(len(texts)) if answer(number) is not None), None)
    if first is None or answer(first) or not answer(len(texts) - 1):
        return None
    low, high = first, len(texts) - 1
    while between := [number for number in range(low + 1, high) if answer(number) is not None]:
        middle = between[len(between) // 2]
        low, high = (low, middle) if answer(middle) else (middle, high)
    asked = known[_LOCATIONS.sub("", texts[high])][0]
    return Change(tuple(dict.fromkeys(one.passed for one in states[low:high])), texts[low], asked)


def _read(folder: Path, python: str, triton: str, error: str) -> CompiledStages:
    texts, states, failed, last = {}, {}, "", ""
    for stage in STAGES:
        printed = _states(_text(folder / f"{stage}.passes", MAX_PASSES_BYTES))
        if (file := folder / f"{stage}.txt").exists():
            texts[stage], states[stage] = _text(file, MAX_TEXT_BYTES), printed
        elif error:
            failed, last = stage, printed[-1].passed if printed else ""
            break
    plain = {
        stage: _text(file, MAX_TEXT_BYTES)
        for stage in STAGES
        if (file := folder / f"plain-{stage}.txt").exists()
    }
    error = one_line(error) if failed else ""
    return CompiledStages(python, triton, texts, states, failed, error, last, plain=plain)


def _text(file: Path, limit: int) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(limit).decode("utf-8", "replace")
    except FileNotFoundError:
        return ""


def _states(printed: str) -> list[State]:
    """The module before each pass; what passes on functions print of each function counts, too."""
    found = list(_DUMP.finditer(printed))
    ends = [one.start() for one in found[1:]] + [len(printed)] * bool(found)
    made = []
    for one, end in zip(found, ends, strict=True):
        text = printed[one.end() : end]
        if other := _OTHER.search(text):  # a pass's own print
            text = text[: other.start()]
        made.append(State(one[2].partition("{")[0].strip() or one[1], text))
    return made
