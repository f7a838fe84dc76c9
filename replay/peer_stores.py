"""One rank of a collective launch by itself: what the others store in its memory while it runs.

The capture has all memory before the launch and after it. Of the words that differ in memory that ranks
share, some are written by this launch, the others by its peers. Launches tell them apart: a word without
which a launch does not end is one that it waits for; a word that is poison after a launch is a peer's. In a
replay the peers' words are put there while the launch waits: the values first, what it waits for last.

A signal that is taken back is the same before and after. It shows in a window while the launch waits: then it
is taken back there, and given to the launch as the other rank's (`Mirror`). Whether that was so the
application's results say.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Protocol

from kerncap.answer import Answer
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from kerncap.replay.choose_engine import Choice
from kerncap.replay.outcome import Outcome
from kerncap.replay.variants import ORIGINAL
from kerncap.replay.verdict_words import Verdict, undecided
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Mirror, Range, Stores

_WORD = 4
_SEEDS = (0, 1)  # complements: a sum in place that is one of its large summands is another's next time
_MOST_RANGES = 1 << 16
_MOST_TRIES, _LOST = 256, 8
# What a launch does before it waits has to be done when stores come: twice the time of a whole launch.
_LEAST_DELAY_S = 0.01
_SLOWER = (1, 4)  # a busy machine takes longer than it did
_LEAST_LIMIT_S = 2.0
_BEFORE = "before a trial"
_SIGNALS = (1, 0)  # words from one rank's signals to the next one's
_MOST_WATCHED = 64 << 20  # bytes of windows, read again and again while a launch runs


class OneRank(Protocol):
    """What is asked of an `Engine`."""

    manifest: Manifest
    reproducer: Reproducer
    choice: Choice
    timeout_s: float

    def launch_among(
        self, which: str, limit: float, stores: list[Stores] | None
    ) -> tuple[Outcome, int]: ...  # fmt: skip
    def restore(self, state: str = "pre") -> None: ...
    def snapshot(self, name: str) -> None: ...
    def drop(self, name: str) -> None: ...
    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits | None = None) -> None: ...
    def differing(self, state: str) -> list[int]: ...
    def diff(self, region: int, against: str, seed: int = 0, mask: Bits | None = None) -> Bits: ...


class PeerStores:
    """The stores of one engine's peers; `launch` is a launch among them.

    ``of_peers``, by region, are the bytes that peers store. If ``unserved`` is not None, no launch can be
    given what it waits for, and that is how each of them ends.
    """

    def __init__(self, engine: OneRank) -> None:
        self._engine = engine
        self.of_peers: dict[int, Bits] = {}
        self.unserved: Outcome | None = None
        self._values: list[Range] = []
        self._waited_for: list[Range] = []
        self._mirrors: list[Mirror] = []
        self._delays_s: dict[str, float] = {}

    def launch(self, which: str, limit_s: float) -> Outcome:
        """One launch in memory as it is."""
        if self.unserved is not None:
            return self.unserved
        if which not in self._delays_s and not (trial := self._time(which, limit_s)).ok:
            return trial
        return self._launch(which, limit_s)[0]

    def forget(self, which: str) -> None:
        """Another kernel has this name now."""
        self._delays_s.pop(which, None)

    def of_one_rank(self, verdict: Verdict, which: str) -> Verdict:
        """``verdict``, with what one rank alone can't show of a variant."""
        if which != ORIGINAL and verdict.passed:
            return undecided(
                f"one rank does not show in what order others see its stores, nor all that it waits for; "
                f"{_decides(self._engine)}"
            )
        if which != ORIGINAL and self._mirrors and verdict.answer is Answer.NO:
            why = f"its signals were answered as the captured kernel's are; {_decides(self._engine)}"
            return undecided(f"{verdict.summary}: {why}", *verdict.reasons, why)
        if not verdict.passed:
            return verdict
        count = sum(map(bitmap.count, self.of_peers.values()))
        waited = sum(stop - start for _, start, stop in self._waited_for)
        verdict.notes.append(
            f"other ranks store {count:,} bytes of its memory, which were put there while it ran; it waits "
            f"for {waited:,} of them"
        )
        if self._mirrors:
            verdict.notes.append(
                "its signals to other ranks, which are taken back during the launch, were taken back and "
                "given to it as theirs"
            )
        return verdict

    def _launch(self, which: str, limit_s: float) -> tuple[Outcome, int]:
        delay_s = self._delays_s.get(which, _LEAST_DELAY_S)
        stores = Stores(delay_s, self._values, self._waited_for, self._mirrors)
        return self._engine.launch_among(which, limit_s, [stores])

    def _time(self, which: str, limit_s: float) -> Outcome:
        """A trial, which is taken back unless it ends badly."""
        engine = self._engine
        engine.snapshot(_BEFORE)
        outcome, _ = self._launch(which, limit_s)
        if outcome.ok:
            engine.restore(_BEFORE)
            engine.drop(_BEFORE)
            # If stores come too early, the captured kernel leaves other bytes; of another, nothing shows it.
            self._delays_s[which] = _SLOWER[-1] * _delay_s(outcome)
        return outcome

    # --- learning ------------------------------------------------------------------------------------

    def learn(self, words: _Words) -> bool:
        """Find whose each of the words is that differ after the launch. False: it waits for none of them."""
        engine = self._engine
        for slower in _SLOWER:
            outcome, steps = self._among_all(words, slower * _LEAST_DELAY_S)
            if not outcome.ok:
                return self._give_up(outcome)
            if not steps:
                return False
            trials = _Trials(engine, words, slower * _delay_s(outcome), self._mirrors)
            found = trials.waited_for(0, words.count) if words.count else []
            if not found and not self._mirrors:
                return False
            waited_for = [each for part in found for each in words.between(*part)]
            own = trials.own(waited_for)
            if own is None:
                self._nothing_known("which words it writes itself could not be found out")
                return True
            self._delays_s[ORIGINAL] = trials.delay_s
            self._waited_for = waited_for
            self.of_peers = {region: bits & ~own[region] for region, bits in words.bits.items()}
            values = {
                region: bits & ~_bits(engine, waited_for, region) for region, bits in self.of_peers.items()
            }
            self._values = _ranges(values) or []
            engine.restore()
            ended, _ = self._launch(ORIGINAL, engine.timeout_s)
            if ended.ok and not words.bits.keys() & set(engine.differing("post")):
                break
        return True

    def _among_all(self, words: _Words, delay_s: float) -> tuple[Outcome, int]:
        """A launch among all stores, and how many steps it waited for; it shows whether there are signals."""
        engine = self._engine
        limit_s = engine.timeout_s
        for words_on in _SIGNALS:
            mirrors = _mirrors(engine.manifest, words_on)
            for _ in range(2):  # the first launch of a process takes longer than any other
                engine.restore()
                stores = Stores(delay_s, words.all, [], mirrors)
                outcome, steps = engine.launch_among(ORIGINAL, limit_s, [stores])
                if not outcome.ok:
                    break
            if outcome.status != "timeout":
                self._mirrors = mirrors if outcome.signals else []
                break
            limit_s = min(limit_s, _LEAST_LIMIT_S)
        return outcome, steps

    def _give_up(self, outcome: Outcome) -> bool:
        if outcome.status != "timeout":
            return False  # whatever it is, it is that of a launch without stores too, or it is judged there
        self._nothing_known(
            "all that other ranks leave in its memory was put there, so it waits for what is there neither "
            "before nor after the launch, such as an earlier value of a flag",
            outcome,
        )
        return True

    def _nothing_known(self, why: str, outcome: Outcome | None = None) -> None:
        ended = outcome or Outcome("timeout", "the kernel waits for other ranks")
        self.unserved = dataclasses.replace(ended, doubt=f"{why}; {_decides(self._engine)}")


class _Words:
    """Words of memory, in order: a range of them is [first, last)."""

    def __init__(self, bits: dict[int, Bits], ranges: list[Range]) -> None:
        self.bits = bits
        self.all = ranges
        self._ends = list(itertools.accumulate(-(-(stop - start) // _WORD) for _, start, stop in ranges))
        self.count = self._ends[-1] if self._ends else 0

    def between(self, first: int, last: int) -> list[Range]:
        """Where words [first, last) are."""
        found = []
        for number in range(bisect.bisect_right(self._ends, first), len(self.all)):
            region, start, stop = self.all[number]
            begin = self._ends[number - 1] if number else 0
            if begin >= last:
                break
            low, high = max(first - begin, 0), last - begin
            found.append((region, start + low * _WORD, min(start + high * _WORD, stop)))
        return found


class _Trials:
    """Launches of the captured kernel among some of its peers' stores."""

    def __init__(self, engine: OneRank, words: _Words, delay_s: float, mirrors: list[Mirror]) -> None:
        self._engine = engine
        self._mirrors = mirrors
        self._words = words
        self.delay_s = delay_s
        self._limit_s = min(engine.timeout_s, max(_LEAST_LIMIT_S, 20 * delay_s))
        self._left = _MOST_TRIES

    def waited_for(self, first: int, last: int, known: bool = False) -> list[tuple[int, int]]:
        """The words in [first, last) without which the launch does not end; ``known``: there are some."""
        if not known and not self._is_held_up_without(first, last):
            return []
        if last - first == 1 or self._left <= 0:
            return [(first, last)]
        middle = (first + last) // 2
        lower = self.waited_for(first, middle)
        return lower + self.waited_for(middle, last, known=not lower)

    def _is_held_up_without(self, first: int, last: int) -> bool:
        if self._left <= 0:
            return True
        self._left -= 1
        words, engine = self._words, self._engine
        others = words.between(0, first) + words.between(last, words.count)
        late = Stores(self.delay_s, words.between(first, last), [], self._mirrors)
        engine.restore()
        outcome, steps = engine.launch_among(
            ORIGINAL, self._limit_s, [Stores(self.delay_s, others, [], self._mirrors), late]
        )
        if not outcome.ok:  # a worker is gone, and more trials are likely to cost one each
            self._left //= _LOST
        return not outcome.ok or steps == 2

    def own(self, waited_for: list[Range]) -> dict[int, Bits] | None:
        """By region, the words that the launch itself writes; None if that can't be found out."""
        engine = self._engine
        masks = {
            region: bits & ~_bits(engine, waited_for, region) for region, bits in self._words.bits.items()
        }
        own = {region: bitmap.empty(mask.size) for region, mask in masks.items()}
        stores = Stores(self.delay_s, [], waited_for, self._mirrors)
        for seed in _SEEDS:
            engine.restore()
            for region, mask in masks.items():
                if mask.any():
                    engine.fill(region, 0, engine.manifest.regions[region].size, seed, mask)
            if not engine.launch_among(ORIGINAL, self._limit_s, [stores])[0].ok:
                return None
            for region, mask in masks.items():
                own[region] |= bitmap.widened(engine.diff(region, "poison", seed, mask), _WORD) & mask
        return own


def of_engine(engine: OneRank) -> PeerStores | None:
    """Those of an engine that has one rank of a collective launch alone, if the launch waits for others."""
    manifest = engine.manifest
    is_served = engine.choice.memory == "cuda" and engine.choice.launcher == "native"
    shared = [number for number, region in enumerate(manifest.regions) if region.shared]
    if manifest.collective is None or manifest.oracle.kind != "trusted" or not is_served or not shared:
        return None
    changed = {}
    engine.restore("post")
    for region in shared:
        if engine.reproducer.chunks_changed(region):
            bits = bitmap.widened(engine.diff(region, "pre"), _WORD)
            changed.update({region: bits} if bits.any() else {})
    ranges = _ranges(changed)
    if ranges is None:
        return None
    found = PeerStores(engine)
    return found if found.learn(_Words(changed, ranges)) else None


def _mirrors(manifest: Manifest, words_on: int) -> list[Mirror]:
    """Each window with the memory of this rank that has its place here; none if they are too large to watch.

    Ranks run the same program: what this one stores into another's memory that one stores into this one's,
    at the same place or, if each rank has words of its own there, that many words further on for each rank.
    """
    collective = manifest.collective
    of_rank: dict[tuple[int, int], list[tuple[int, int]]] = {}  # by rank and size: base there, number
    for number, region in enumerate(manifest.regions):
        if collective is not None and region.shared and region.kind == "device":
            rank, base = collective.rank, region.base
            if region.owner is not None:
                rank, base = region.owner.rank, region.owner.base
            of_rank.setdefault((rank, region.size), []).append((base, number))
    found = []
    for (rank, size), windows in of_rank.items():
        if collective is None or rank == collective.rank:
            continue
        own = of_rank.get((collective.rank, size), [])
        shift = _WORD * words_on * (rank - collective.rank)
        pairs = zip(sorted(windows), sorted(own), strict=False)
        found += [Mirror(window, mine, shift) for (_, window), (_, mine) in pairs]
    watched = sum(manifest.regions[mirror.theirs].size for mirror in found)
    return found if watched <= _MOST_WATCHED else []


def _ranges(bits: dict[int, Bits]) -> list[Range] | None:
    """The runs of bytes in the sets, by region; None if they are too many."""
    found: list[Range] = []
    for region, of_region in sorted(bits.items()):
        runs = bitmap.runs(of_region, _MOST_RANGES)
        if of_region.any() and not runs or len(found) + len(runs) > _MOST_RANGES:
            return None
        found += [(region, start, stop) for start, stop in runs]
    return found


def _bits(engine: OneRank, ranges: Sequence[Range], region: int) -> Bits:
    size = engine.manifest.regions[region].size
    return bitmap.of_ranges(size, [(start, stop) for number, start, stop in ranges if number == region])


def _delay_s(outcome: Outcome) -> float:
    return max(_LEAST_DELAY_S, 2 * outcome.ns / 1e9)


def _decides(engine: OneRank) -> str:
    collective = engine.manifest.collective
    ranks = collective.ranks if collective is not None else 0
    return f"kerncap verify --together, with all {ranks} ranks, would decide it"
