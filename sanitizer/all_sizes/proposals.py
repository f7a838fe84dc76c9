"""What to state of memory that decides an address: the largest range of values that proves it right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kerncap.sanitizer.all_sizes.launches import AllSizes
from kerncap.sanitizer.all_sizes.loaded_values import Reads
from kerncap.sanitizer.all_sizes.smallest_sizes import Asker
from kerncap.sanitizer.all_sizes.stated_sizes import split
from kerncap.sanitizer.all_sizes.wrong_accesses import Wrong
from kerncap.sanitizer.findings import Unproven
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.symbolic.expr import Expr, const, land
from kerncap.sanitizer.symbolic.solve import Unsat

_MOST = 6  # ranges that are tried


def proposed(
    verdict: Unproven, wrongs: Sequence[Wrong], problem: AllSizes, launch: Launch, asker: Asker
) -> Unproven:
    """The verdict, with the range of values that would prove it if one tensor's contents decide it."""
    search = _Search(wrongs, problem, launch, asker)
    name = search.unstated()
    found = None if name is None else search.largest()
    if found is None:
        return verdict
    text, end = found
    last = str(end.value - 1) if end.value is not None else f"{text}-1"
    weakest = not search.proves(const(0), end) and not search.proves(const(-1), end - 1)
    said = ", the largest range that proves this" if weakest else ""
    return Unproven(
        f"it rests on what {name} holds; state that: --for-all {name}=0..{last}{said}, or a comment on the "
        f"line that loads it, # kerncap: 0 <= NAME < {text}"
    )


class _Search:
    def __init__(self, wrongs: Sequence[Wrong], problem: AllSizes, launch: Launch, asker: Asker) -> None:
        self._wrongs, self._problem, self._launch, self._asker = wrongs, problem, launch, asker

    def unstated(self) -> str | None:
        """The only tensor that matters and of which nothing is stated."""
        names: set[str] = set()
        for wrong in self._wrongs:
            if wrong.reason:
                return None
            reads = Reads(self._problem, self._launch)
            reads.replaced(wrong.given & wrong.condition)
            names |= reads.unstated
        return names.pop() if len(names) == 1 else None

    def proves(self, low: Expr, high: Expr) -> bool:
        """Whether nothing is wrong if all of its values are in this range."""
        for wrong in self._wrongs:
            reads = Reads(self._problem, self._launch)
            given, condition = reads.replaced(wrong.given), reads.replaced(wrong.condition)
            answer = self._asker.ask(land(given, reads.facts(), reads.within(low, high)), condition)
            if not isinstance(answer, Unsat):
                return False
        return True

    def largest(self) -> tuple[str, Expr] | None:
        """An extent of a tensor, or a size, below which values prove it; the largest that is comparable."""
        found: tuple[str, Expr] | None = None
        for text, end in [*self._ends()][:_MOST]:
            if (found is None or not self._exceeds(found[1], end)) and self.proves(const(0), end - 1):
                found = text, end
        return found

    def _exceeds(self, one: Expr, other: Expr) -> bool:
        return not isinstance(self._asker.ask(self._problem.symbols.given, one > other), Unsat)

    def _ends(self) -> Iterator[tuple[str, Expr]]:
        seen: set[Expr] = set()
        named = [
            pair
            for tensor in self._problem.tensors.values()
            for pair in zip(split(tensor.text.partition("[")[2].partition("]")[0]), tensor.shape, strict=True)
        ]
        for text, end in [*named, *self._problem.sizes.items()]:
            if end not in seen:
                seen.add(end)
                yield text.strip(), end
