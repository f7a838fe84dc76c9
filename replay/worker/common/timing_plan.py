"""How often launches are timed, and in which order variants take turns: the same for all backends."""

from __future__ import annotations

from collections.abc import Iterator

LAUNCHES = 20  # in one graph
GRAPHS = 15
COLD_RUNS = 30
CACHES = 4  # the size of what fills the cache: no cache of a GPU forgets strictly the oldest


def turns(variants: int, rounds: int) -> Iterator[list[int]]:
    """The order of variants in each round: everyone comes first, and behind every other, equally often."""
    for number in range(rounds):
        first = number % variants
        order = [*range(first, variants), *range(first)]
        yield order[::-1] if (number // variants) % 2 else order
