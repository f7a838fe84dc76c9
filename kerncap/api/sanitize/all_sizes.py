"""`sanitize --for-all`: a kernel with sizes in place of numbers. Nothing of it is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kerncap.api.compiled_ttir import check_target, compile_each
from kerncap.api.sanitize import MAX_TTIR_BYTES
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.schema import IntValue
from kerncap.regular_file import read_regular_text
from kerncap.replay import worker_process
from kerncap.replay.worker_process import Program
from kerncap.sanitizer.all_sizes.captured_sizes import (
    captured_grid,
    check_contents,
    check_preconditions,
    described,
    numbers_of,
)
from kerncap.sanitizer.all_sizes.launches import all_sizes
from kerncap.sanitizer.all_sizes.sizes_engine import CHECKS, NoSizes, sanitize_all_sizes
from kerncap.sanitizer.all_sizes.specialised import Compiled, Kind, classes_of, without_promises
from kerncap.sanitizer.all_sizes.stated_sizes import Statement, parse, split
from kerncap.sanitizer.findings import CHECKS as EVERY_CHECK
from kerncap.sanitizer.findings import NOT_SANITISED, LaunchReport
from kerncap.sanitizer.launch import PointerArgument, ScalarArgument, TensorArgument
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.sources.reproducer import (
    ManifestMemory,
    launch_from_reproducer,
    named_arguments,
    target_of,
)
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import IntType, PointerType


def sanitize_ttir_for_all(
    path: Path, stated: Sequence[str], grid: str, arguments: Mapping[str, str], options: Options | None = None
) -> list[LaunchReport]:
    """The kernel of a ``.ttir`` file for all sizes that ``stated`` names (`all_sizes.stated_sizes`).

    ``grid`` and the shapes in ``arguments`` are arithmetic over the sizes: ``cdiv(n, 1024)``, ``f32[n]``.
    Checks out-of-bounds accesses, overflow and races. Raises UsageError for what is not stated as it must be.
    """
    text = read_regular_text(path, MAX_TTIR_BYTES)
    kinds = {one.source_name: one.type for one in read_module(text).kernel.arguments}
    integers = [name for name, kind in kinds.items() if isinstance(kind, IntType) and kind.width > 1]
    pointers = [name for name, kind in kinds.items() if isinstance(kind, PointerType)]
    for name in arguments:
        if name not in kinds:
            raise UsageError(f"{path.name}: no parameter is called {name}; it has {', '.join(kinds)}")
    statement = parse(stated, integers, pointers)
    problem = all_sizes(text, statement, split(grid), arguments, {}, path.name)
    return [sanitize_all_sizes(problem, asked(options or Options()))]


def sanitize_reproducer_for_all(
    path: Path | str,
    stated: Sequence[str],
    grid: str | None,
    arguments: Mapping[str, str],
    options: Options | None = None,
    *,
    target: str | None = None,
    trusted: bool = False,
    python: str | None = None,
    program: Program = worker_process.program,
) -> list[LaunchReport]:
    """A reproducer's kernel for all sizes that ``stated`` names; what is not stated stays as captured.

    Triton compiles a kernel for each kind of integer (1, a multiple of 16, another one, of 32 bits or more),
    so the source is compiled for all of them, and each text that comes out has a report. Raises as
    `kerncap.api.sanitize.sanitize_reproducer` does, and UsageError for a statement that the captured launch
    contradicts.
    """
    check_target(target)
    asked_for = asked(options or Options())
    with Reproducer.open(path) as reproducer:
        manifest = reproducer.manifest
        if manifest.kernel.language != "triton":
            raise UsageError(
                f"{path}: --for-all is for Triton kernels; it is a {manifest.kernel.language} kernel"
            )
        named = dict(named_arguments(manifest, ManifestMemory(manifest)))
        constants = {
            one.name: int(one.value.value)
            for one in manifest.arguments
            if one.role == "constexpr" and isinstance(one.value, IntValue)
        }
        integers = [
            name
            for name, one in named.items()
            if isinstance(one, ScalarArgument) and type(one.value) is int and "." not in name
        ]
        pointers = [name for name, one in named.items() if isinstance(one, TensorArgument | PointerArgument)]
        statement = parse(stated, integers, pointers)
        texts = described(named, statement, arguments, constants)
        extents = captured_grid(grid, manifest.launch.grid, {**constants, **numbers_of(named)})
        classes = classes_of(statement, {**constants, **numbers_of(named)})
        used = target or target_of(manifest.device)
        why = "--for-all is about sizes that were not captured"
        answers = compile_each(
            reproducer, used, why, [values for _, values in classes],
            trusted=trusted, python=python, program=program,
        )  # fmt: skip
        problems = _Problems(
            reproducer, statement, extents, texts, constants, numbers_of(named), used, asked_for
        )
        return problems.all_judged(_distinct([kinds for kinds, _ in classes], answers))


def _distinct(classes: Sequence[Mapping[str, Kind]], answers: Sequence[Mapping[str, str]]) -> list[Compiled]:
    """The texts that differ, each with its classes; what does not compile by its error."""
    found: dict[tuple[str, str], list[Mapping[str, Kind]]] = {}
    for kinds, answer in zip(classes, answers, strict=True):
        key = without_promises(answer.get("ttir", "")), answer.get("error", "")
        found.setdefault(key, []).append(kinds)
    return [
        Compiled(text, tuple(own), tuple(one for one in classes if one not in own), error)
        for (text, error), own in found.items()
    ]


@dataclass(frozen=True)
class _Problems:
    """All sizes of one reproducer, but for what each class of them was compiled to."""

    reproducer: Reproducer
    statement: Statement
    grid: Sequence[str]
    texts: Mapping[str, str]
    constants: Mapping[str, int]
    numbers: Mapping[str, int]  # of the captured launch
    target: str
    options: Options

    def all_judged(self, texts: Sequence[Compiled]) -> list[LaunchReport]:
        """Raises NoSizes if what is stated leaves sizes for none of them."""
        found: list[LaunchReport] = []
        for number, one in enumerate(texts):
            try:
                found.append(self.judged(one))
            except NoSizes:
                if not found and number == len(texts) - 1:
                    raise
        return found

    def judged(self, compiled: Compiled) -> LaunchReport:
        label = compiled.named()
        if compiled.error:
            manifest = self.reproducer.manifest
            note = f"{NOT_SANITISED}: {compiled.error}"
            return LaunchReport(manifest.kernel.name, manifest.launch.grid, (), (note,), label)
        like = launch_from_reproducer(self.reproducer, compiled.ttir, self.target)
        stated = compiled.classes[0]
        ones = (name for name in stated if compiled.kinds(name) == {"one"})
        like = replace(like, ones=frozenset((*(like.ones - stated.keys()), *ones)))
        problem = all_sizes(
            compiled.ttir, self.statement, self.grid, self.texts, self.constants,
            str(self.reproducer.path), like, compiled,
        )  # fmt: skip
        numbers = numbers_of({one.name: one for one in like.arguments})
        check_contents(problem.statement, like, {**self.constants, **numbers})
        check_preconditions(problem.preconditions, {**self.constants, **self.numbers})
        kept = (
            f"{one.name} stays {like.configuration[one.name]}"
            for one in self.reproducer.manifest.arguments
            if one.role == "constexpr" and one.name in like.configuration
        )
        problem = replace(problem, given=(*problem.given, *kept))
        return replace(sanitize_all_sizes(problem, self.options), label=label)


def asked(options: Options) -> Options:
    """The checks that are made for all sizes. Raises UsageError for another that was asked for by name."""
    if options.bounds != "storage":
        raise UsageError(
            f"--bounds {options.bounds}: with --for-all an access stays inside its tensor; leave --bounds out"
        )
    others = sorted(options.checks - frozenset(CHECKS))
    if others and options.checks != frozenset(EVERY_CHECK):
        raise UsageError(
            f"--check {','.join(others)}: --for-all checks {', '.join(CHECKS)}; leave out the others"
        )
    return replace(options, checks=options.checks & frozenset(CHECKS))
