"""What of a Triton launch's memory and numbers steers captured kernel or candidate, from the TTIR of both."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from kerncap.api.prove.proof_launches import with_ttir
from kerncap.api.verify import candidate_ttir
from kerncap.api.verify.derived_launch import STRIDE_NAME
from kerncap.api.verify.other_sizes import untried_integers
from kerncap.api.verify.verify_result import Case
from kerncap.errors import KerncapError
from kerncap.format import schema
from kerncap.log import one_line
from kerncap.replay.boundary_values import Steered
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.judge_requests import readable_views

if TYPE_CHECKING:
    from kerncap.sanitizer.launch import Launch

_MOST_NUMBERS = 16
_COMPARE = frozenset(("maximum", "minimum", "clamp"))


def begin(case: Case, measured: Measured) -> Callable[[], Steered]:
    """Begin to compile the sources, in a thread, if they read or take integers; what this gives waits for it.

    Where one can't be compiled, the reason is in the result.
    """
    _, integers = readable_views(case.reproducer.manifest, measured)
    ttir = candidate_ttir.candidate(case) if integers and candidate_ttir.applies(case) else None
    threads = ThreadPoolExecutor(1)
    found = threads.submit(_steered, case, candidate_ttir.captured(case), ttir, bool(integers))
    threads.shutdown(wait=False)
    return found.result


def _steered(
    case: Case, captured: Callable[[], Launch], ttir: Callable[[], str] | None, integers: bool
) -> Steered:
    manifest, candidate = case.reproducer.manifest, case.options.candidate
    if not candidate_ttir.applies(case) or candidate is None:
        return Steered(why="what they decide is known from Triton's source only" if integers else "")
    found = Steered()
    try:
        if ttir is None:
            text = candidate.read_text(encoding="utf-8")
            found = _of_text(case.reproducer.source_text() or "", text, _passed(manifest))
            if all(map(STRIDE_NAME.search, untried_integers(manifest))):
                return found
        from kerncap.sanitizer.sources.reproducer import ManifestMemory
        from kerncap.sanitizer.steering_memory import steers

        first = steers(captured())
        found = replace(found, free=first.free)
        if ttir is None:
            return found
        second = steers(with_ttir(case.reproducer, ttir(), case.engine.config(CANDIDATE)))
    except (KerncapError, OSError, UnicodeDecodeError) as error:
        return replace(found, why=one_line(str(error).splitlines()[0]))
    if first.storages is None or second.storages is None:
        return replace(found, why="they may decide where memory is touched")
    memory = ManifestMemory(manifest)
    storages = first.storages | second.storages
    views = frozenset(n for n, view in enumerate(manifest.views) if memory.index(view) in storages)
    plain = (first.added & second.stored) - first.stored
    return replace(
        found, views=views, known=first.numbers, own=second.numbers, waits=first.waits or second.waits,
        unordered=tuple(dict.fromkeys(v.name for v in manifest.views if memory.index(v) in plain)),
    )  # fmt: skip


def _passed(manifest: schema.Manifest) -> dict[str, float]:
    """The floats that the launch passes, by name."""
    return {
        argument.name: float.fromhex(argument.value.value)
        for argument in manifest.arguments
        if isinstance(argument.value, schema.FloatValue)
    }


def _of_text(captured: str, candidate: str, passed: Mapping[str, float]) -> Steered:
    """Of a launch of floats, which nothing has to be compiled for: numbers that the captured source compares
    others with, ``passed`` ones among them, and those that only the candidate's has."""
    try:
        trees = ast.parse(captured), ast.parse(candidate)
    except SyntaxError:
        return Steered()
    known = dict.fromkeys(_compared(trees[0], passed))
    there = {*_numbers(trees[0], passed)}
    own = dict.fromkeys((*_compared(trees[1], passed), *_numbers(trees[1], {})))
    new = [number for number in own if number not in there]
    return Steered(known=tuple(known)[:_MOST_NUMBERS], own=tuple(new)[:_MOST_NUMBERS])


def _compared(tree: ast.AST, passed: Mapping[str, float]) -> Iterator[float]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COMPARE
        ):
            yield from _numbers(node, passed)


def _numbers(tree: ast.AST, passed: Mapping[str, float]) -> Iterator[float]:
    """The finite numbers below a node, constants and ``passed`` ones, and those with a minus before them."""
    for node in ast.walk(tree):
        sign = -1.0 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1.0
        number = node.operand if isinstance(node, ast.UnaryOp) else node
        value: object = passed.get(number.id) if isinstance(number, ast.Name) else None
        if isinstance(number, ast.Constant):
            value = number.value
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield sign * value
