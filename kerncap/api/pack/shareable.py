"""A reproducer or range as it may leave the machine: a copy without what is private, if anything is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from kerncap import scratch
from kerncap.api.pack.kept_private import Private, kept_kinds
from kerncap.format.archive.redact import look_at, redact, scrub_manifests, texts
from kerncap.format.private import KEPT, Finding, Scrubber, of_this_machine
from kerncap.format.reader import OpenedFolder
from kerncap.time_left import TimeLeft
from kerncap.whole_files import writing

Opened = TypeVar("Opened", bound=OpenedFolder)


@dataclass(frozen=True)
class Shareable(Generic[Opened]):
    """``reproducer`` is the one at the path, or a copy of it without what is private."""

    reproducer: Opened
    findings: tuple[Finding, ...]  # what was found, and what became of it
    scrubber: Scrubber  # for what else goes along


@contextlib.contextmanager
def shareable(
    path: Path, keep: Collection[str], parent: Path, opener: Callable[[Path], Opened]
) -> Iterator[Shareable[Opened]]:
    """What ``opener`` opens at ``path``, a reproducer or range, without private things but those of ``keep``.

    A copy lies in ``parent`` meanwhile, on the file system of what will be written: it is as large.

    Raises Private if something private could not be taken out, FormatError, UsageError, KerncapError.
    """
    scrubber = Scrubber(of_this_machine(), kept_kinds(keep))
    with contextlib.ExitStack() as stack:
        reproducer = opener(path)
        stack.callback(reproducer.close)
        reproducer.verify_files(memory=True)
        sizes = {name: stored.size for name, stored in reproducer.listed().items()}
        total = sum(size for name, size in sizes.items() if not name.startswith("memory/"))
        left = TimeLeft("private things: read", in_bytes=True)
        look_at(reproducer, scrubber, lambda done: left(done, total))
        with writing(parent):
            made = stack.enter_context(scratch.folder("shared", parent, hidden=True))
        copy = redact(reproducer, made.path, scrubber)
        findings = tuple(scrubber.findings)
        if any(one.became != KEPT for one in findings):
            reproducer = opener(copy)
            stack.callback(reproducer.close)
            _check(path, reproducer, scrubber)
        yield Shareable(reproducer, findings, scrubber)


def _check(path: Path, reproducer: OpenedFolder, scrubber: Scrubber) -> None:
    """Look at the copy as if it were somebody's: nothing may be found any more."""
    before = list(scrubber.findings)
    scrubber.findings = []
    try:
        for _ in scrub_manifests(reproducer, scrubber):
            pass
        for name, data in texts(reproducer):
            scrubber.file(name, data)
        left = [one for one in scrubber.findings if one.became != KEPT]
    finally:
        scrubber.findings = before
    if left:
        raise Private(path, left)
