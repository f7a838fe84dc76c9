"""What follows a claim (`claims`), proved for every order of the programs by five evaluations of one.

What an access's atomic gives back is a number between what it gives to whoever comes first and to whoever
comes last; an address that is a line in it is in bounds if both ends are. Two accesses never meet if each
stays inside its claim. Which word counted for it, and what it claimed, is seen from where the access goes
when the atomics give back 0, the number of their word, and the ends.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.bounds.bounds_watcher import BoundsWatcher
from kerncap.sanitizer.checks.bounds.extents import Extent
from kerncap.sanitizer.checks.claims import Claim, claims_of
from kerncap.sanitizer.checks.claims.claimed_words import MAX_RECORDED, Counters, Given, Mode, Words
from kerncap.sanitizer.checks.events.elements import addresses_of
from kerncap.sanitizer.checks.events.watchers import OverflowWatcher, Watcher
from kerncap.sanitizer.concrete.dataflow import ATOMICS, LOADS, MEMORY, Dataflow, alias, pointer_operand
from kerncap.sanitizer.concrete.events import AccessEvent, Ints, Observer, Results
from kerncap.sanitizer.concrete.needed_operations import decided_by_order
from kerncap.sanitizer.concrete.run import Outcome
from kerncap.sanitizer.findings import Check
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.ttir.ir import Operation

MODES: tuple[Mode, ...] = ("zero", "word", "first", "last")
Evaluate = Callable[[Observer, Results], Outcome]


class Claims:
    """Feed it every event of an evaluation of all programs, then ask what holds in any order."""

    def __init__(self, analysis: Analysis, flow: Dataflow) -> None:
        self._analysis = analysis
        self._flow = flow
        self._roots = {one: flow.roots(pointer_operand(one)) for one in flow.operations if one.name in MEMORY}
        self._claims = claims_of(flow, self._roots)
        self._adders = frozenset().union(*(claim.adders for claim in self._claims.values()))
        self._deciding: dict[Operation, bool] = {}
        beside = [one for one in self._roots if any(self._may_meet(one, other) for other in self._claims)]
        self._counters = Counters(analysis.launch, self._adders)
        self._watched = frozenset((*beside, *self._claims))
        self._recorded = _Recorder(analysis.launch, self._watched)
        self._proof: _Proof | None = None
        self._tried = False

    def access(self, event: AccessEvent) -> None:
        if self._claims:
            self._counters.access(event)
            self._recorded.access(event)

    def hold(self, operation: Operation, check: Check, evaluate: Evaluate) -> bool:
        """Whether a check that the evaluated order passed is passed in every order.

        ``evaluate`` runs all programs again, as they were, but for what atomics give back.
        """
        if not self._claims or check not in ("oob", "overflow", "race"):
            return False
        if not self._tried:
            self._tried = True
            self._proof = self._prove(evaluate)
        if self._proof is None:
            return False
        if check == "race":
            return all(self._apart(operation, other) for other in self._roots)
        return operation in self._proof.within

    def _may_meet(self, one: Operation, other: Operation) -> bool:
        if one.name in LOADS and other.name in LOADS:
            return False
        return alias(self._roots[one], self._roots[other])

    def _prove(self, evaluate: Evaluate) -> _Proof | None:
        words = self._counters.words()
        if words is None or not self._recorded.complete:
            return None
        where: dict[Mode, dict[Operation, Ints]] = {}
        within = set(self._claims)
        for mode in MODES:
            recorder = _Recorder(self._analysis.launch, self._claims)
            bounds = BoundsWatcher(self._claims, self._analysis)
            overflow = OverflowWatcher(self._claims)
            at_an_end = mode in ("first", "last")
            watchers = (recorder, bounds, overflow) if at_an_end else (recorder,)
            outcome = evaluate(_Everyone(watchers), Given(mode, words, self._adders))
            if not outcome.complete or not recorder.complete:
                return None
            where[mode] = {one: recorder.addresses(one) for one in self._claims}
            if at_an_end:
                within -= {*bounds.violations, *bounds.doubts, *overflow.violations}
                within = {one for one in within if _is_convex(bounds, recorder.arguments.get(one, ()))}
        shares = {}
        for one, claim in self._claims.items():
            share = _share(claim, words, self._recorded.addresses(one), {m: where[m][one] for m in where})
            if share is None:
                within.discard(one)
            else:
                shares[one] = share
        return _Proof(words, frozenset(within), shares)

    # --- who meets whom --------------------------------------------------------------------------------

    def _apart(self, one: Operation, other: Operation) -> bool:
        """Whether two accesses meet in no order, or as they do in any; one of them may be the other."""
        if not self._may_meet(one, other):
            return True
        if one not in self._watched or other not in self._watched:
            return False
        widths = {self._recorded.widths.get(each) for each in (one, other)}
        if None in widths or (one.name in ATOMICS and other.name in ATOMICS and len(widths) == 1):
            return True
        moving = [each for each in {one: None, other: None} if self._decided(each)]
        if not moving:
            return True
        assert self._proof is not None
        if not all(each in self._proof.shares for each in moving):
            return False
        claims = [self._claims[each] for each in moving]
        # Words are shared by all that add to them, whichever atomic of those it was.
        if claims[0].stride <= 0 or len({(each.stride, each.adders) for each in claims}) > 1:
            return False
        hulls = self._hulls(moving, claims[0].stride)
        if hulls is None:
            return False
        fixed = [each for each in (one, other) if each not in moving]
        return all(self._misses(hulls, each) for each in fixed)

    def _decided(self, operation: Operation) -> bool:
        if operation not in self._deciding:
            self._deciding[operation] = bool(decided_by_order(self._flow, operation))
        return self._deciding[operation]

    def _hulls(self, moving: Collection[Operation], stride: int) -> tuple[Ints, Ints] | None:
        """The bytes that all claims of each word lead to; None where an access leaves its claim."""
        assert self._proof is not None
        words, shares = self._proof.words, [self._proof.shares[one] for one in moving]
        origin = np.full(len(words.places), np.iinfo(np.int64).max)
        for share in shares:
            np.minimum.at(origin, share.word, share.address - stride * share.number)
        for one, share in zip(moving, shares, strict=True):
            start = origin[share.word] + stride * share.number
            end = start + stride * share.count
            if np.any(share.address + self._recorded.widths[one] > end):
                return None
        used = np.flatnonzero(origin != np.iinfo(np.int64).max)
        starts = origin[used] + stride * words.start[used]
        ends = starts + stride * words.total[used]
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
        return None if np.any(ends[:-1] > starts[1:]) else (starts, ends)

    def _misses(self, hulls: tuple[Ints, Ints], operation: Operation) -> bool:
        starts, ends = hulls
        addresses = self._recorded.addresses(operation)
        if not len(starts) or not len(addresses):
            return True
        last = np.searchsorted(starts, addresses + self._recorded.widths[operation] - 1, "right") - 1
        return not np.any((last >= 0) & (ends[np.maximum(last, 0)] > addresses))


# --- where accesses go -----------------------------------------------------------------------------------


class _Recorder:
    """The addresses of each operation's accesses, in the order of the evaluation."""

    def __init__(self, launch: Launch, operations: Collection[Operation]) -> None:
        self._launch = launch
        self._seen: dict[Operation, list[Ints]] = {one: [] for one in operations}
        self._room = MAX_RECORDED
        self.widths: dict[Operation, int] = {}
        self.arguments: dict[Operation, set[int]] = {}

    def access(self, event: AccessEvent) -> None:
        seen = self._seen.get(event.operation)
        if seen is None or not event.mask.any():
            return
        self._room -= int(event.mask.sum())
        if self.complete:
            self.widths[event.operation] = event.width_bytes
            found = self.arguments.setdefault(event.operation, set())
            found.update(np.unique(event.argument).tolist())
            seen.append(addresses_of(self._launch, event)[event.mask])

    @property
    def complete(self) -> bool:
        return self._room >= 0

    def addresses(self, operation: Operation) -> Ints:
        seen = self._seen[operation]
        return np.concatenate(seen) if seen else np.zeros(0, np.int64)


class _Everyone:
    def __init__(self, watchers: Collection[_Recorder | Watcher]) -> None:
        self._watchers = watchers

    def access(self, event: AccessEvent) -> None:
        for one in self._watchers:
            one.access(event)


def _is_convex(bounds: BoundsWatcher, arguments: Collection[int]) -> bool:
    """Whether what lies between two places in bounds is in bounds."""
    regions = [None if index < 0 else bounds.region(index) for index in arguments]
    return all(isinstance(one, Extent) and (one.view is None or not one.view.has_gaps) for one in regions)


# --- which claim is whose --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Share:
    """For each access of an operation: where it went, and what it claimed, ``count`` from ``number`` on."""

    address: Ints
    word: Ints
    number: Ints
    count: Ints


@dataclass(frozen=True)
class _Proof:
    words: Words
    within: frozenset[Operation]  # in bounds, and without an overflow, at both ends
    shares: dict[Operation, _Share]


def _share(claim: Claim, words: Words, address: Ints, where: dict[Mode, Ints]) -> _Share | None:
    """None where the evaluations do not fit together: something besides the atomic moved the access."""
    if any(len(each) != len(address) for each in where.values()):
        return None
    moved = {mode: each - where["zero"] for mode, each in where.items()}
    here = address - where["zero"]
    if any(np.any(each % claim.stride) for each in (here, *moved.values())):
        return None
    given = {mode: each // claim.stride for mode, each in moved.items()}
    word = given["word"]
    if np.any((word < 0) | (word >= len(words.places))):
        return None  # the atomic was masked off, and the access is not
    start, end = words.start[word], words.start[word] + words.total[word]
    number, count = here // claim.stride, end - given["last"]
    fits = (given["first"] == start) & (count >= 0) & (number >= start) & (number + count <= end)
    return _Share(address, word, number, count) if np.all(fits) else None
