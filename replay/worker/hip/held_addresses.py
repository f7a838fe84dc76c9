"""Address ranges kept free while ROCr starts, which maps a lot of memory anywhere that is free."""

from __future__ import annotations

import mmap

from ..common.address_layout import Span
from ..common.libc import MAP_FAILED, libc

_PROT_NONE = 0
_MAP_NORESERVE = 0x4000
_MAP_FIXED_NOREPLACE = 0x100000  # Linux 4.17; older kernels take the address as a hint only


def unmap(span: Span) -> None:
    """Give pages back that were mapped at a span."""
    libc().munmap(span.start, span.size)


class Hold:
    """Ranges that nothing else can take until they are released."""

    def __init__(self, spans: list[Span]) -> None:
        self._held = [span for span in spans if self._take(span)]

    def release(self, inside: Span | None = None) -> None:
        """Let go of the ranges within ``inside``, or of all."""
        kept = []
        for span in self._held:
            if inside is None or (inside.start <= span.start and span.stop <= inside.stop):
                unmap(span)
            else:
                kept.append(span)
        self._held = kept

    def _take(self, span: Span) -> bool:
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE | _MAP_FIXED_NOREPLACE
        got = libc().mmap(span.start, span.size, _PROT_NONE, flags, -1, 0)
        if got == MAP_FAILED:
            return False
        if got != span.start:
            unmap(Span(got, got + span.size))
        return bool(got == span.start)
