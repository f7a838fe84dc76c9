"""Delta debugging over bytes of memory: the largest part that nothing depends on, by halving."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits

PAGE = 4096
LINE = 64  # bytes: below it, the copy of a line saves nothing
_WORTH_LINES = 64  # lines are asked about if more than this part of all memory is needed

Masks = dict[int, Bits]


@dataclass(frozen=True)
class Piece:
    """Bytes [start, stop) of a region."""

    region: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def halves(self, unit: int) -> tuple[Piece, Piece] | None:
        """Two pieces that meet at a multiple of ``unit``; None if no multiple lies inside."""
        middle = (self.start + self.size // 2 + unit - 1) // unit * unit
        if not self.start < middle < self.stop:
            middle = (self.stop - 1) // unit * unit
        if not self.start < middle < self.stop:
            return None
        return Piece(self.region, self.start, middle), Piece(self.region, middle, self.stop)


@dataclass
class Search:
    """Grows ``free``, masks of bytes that may be anything, by what ``holds`` says of it with more added.

    ``fixed`` bytes are never asked about. ``holds`` may raise: what was found until then stands.
    """

    sizes: list[int]
    free: Masks
    fixed: Masks
    holds: Callable[[Masks], bool]
    tries: int = 0

    def run(self) -> None:
        """Whole regions first, then pages, then lines of the pages that are needed.

        A page that is needed as a whole costs two tries for each of its lines: not if all such pages
        together are next to nothing.
        """
        whole = [Piece(number, 0, size) for number, size in enumerate(self.sizes) if self._open(number).any()]
        pages = self._halve(whole, PAGE)
        if sum(page.size for page in pages) * _WORTH_LINES > sum(self.sizes):
            self._halve(pages, LINE)

    def _open(self, region: int) -> Bits:
        """Bytes of a region of which nothing is known yet."""
        size = self.sizes[region]
        known = self.free.get(region, bitmap.empty(size)) | self.fixed.get(region, bitmap.empty(size))
        found: Bits = bitmap.span(size, 0, size) & ~known
        return found

    def _halve(self, pieces: list[Piece], unit: int) -> list[Piece]:
        """Free what can be; the pieces of at most ``unit`` bytes that can't."""
        needed: list[Piece] = []
        groups = [pieces] if pieces else []
        while groups:
            group = groups.pop()
            if self._try(group):
                continue
            if len(group) > 1:
                half = len(group) // 2
                groups += [group[half:], group[:half]]
            elif (halves := group[0].halves(unit)) is not None:
                groups += [[half] for half in reversed(halves)]
            else:
                needed.append(group[0])
        return needed

    def _try(self, group: list[Piece]) -> bool:
        more: Masks = {}
        for piece in group:
            bits = self._open(piece.region) & bitmap.span(self.sizes[piece.region], piece.start, piece.stop)
            if bits.any():
                more[piece.region] = more.get(piece.region, bitmap.empty(self.sizes[piece.region])) | bits
        if not more:
            return True
        together = dict(self.free)
        for region, bits in more.items():
            together[region] = bits | self.free.get(region, bitmap.empty(self.sizes[region]))
        self.tries += 1
        if not self.holds(together):
            return False
        self.free = together
        return True
