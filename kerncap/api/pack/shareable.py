"""A reproducer as it may leave the machine: a copy without what is private, if anything is."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kerncap import scratch
from kerncap.api.pack.kept_private import Private, kept_kinds
from kerncap.format import Reproducer
from kerncap.format.archive.redact import look_at, redact, texts
from kerncap.format.private import KEPT, Finding, Scrubber, of_this_machine
from kerncap.format.private.manifest_facts import scrub_facts
from kerncap.format.validate import stored_files
from kerncap.time_left import TimeLeft
from kerncap.whole_files import writing


@dataclass(frozen=True)
class Shareable:
    """``reproducer`` is the one at the path, or a copy of it without what is private."""

    reproducer: Reproducer
    findings: tuple[Finding, ...]  # what was found, and what became of it
    scrubber: Scrubber  # for what else goes along


@contextlib.contextmanager
def shareable(path: Path, keep: Collection[str], parent: Path) -> Iterator[Shareable]:
    """The reproducer at ``path`` without private things but those of ``keep``; a copy lies in ``parent``
    meanwhile, on the file system of what will be written: it is as large as the reproducer.

    Raises Private if something private could not be taken out, FormatError, UsageError, KerncapError.
    """
    scrubber = Scrubber(of_this_machine(), kept_kinds(keep))
    with contextlib.ExitStack() as stack:
        reproducer = stack.enter_context(Reproducer.open(path))
        reproducer.verify_files(memory=True)
        sizes = {stored.path: stored.size for _, stored in stored_files(reproducer.manifest)}
        total = sum(size for name, size in sizes.items() if not name.startswith("memory/"))
        left = TimeLeft("private things: read", in_bytes=True)
        look_at(reproducer, scrubber, lambda done: left(done, total))
        with writing(parent):
            made = stack.enter_context(scratch.folder("shared", parent, hidden=True))
        copy = redact(reproducer, made.path, scrubber)
        findings = tuple(scrubber.findings)
        if any(one.became != KEPT for one in findings):
            reproducer = stack.enter_context(Reproducer.open(copy))
            _check(path, reproducer, scrubber)
        yield Shareable(reproducer, findings, scrubber)


def _check(path: Path, reproducer: Reproducer, scrubber: Scrubber) -> None:
    """Look at the copy as if it were somebody's: nothing may be found any more."""
    before = list(scrubber.findings)
    scrubber.findings = []
    try:
        scrub_facts(msgspec.to_builtins(reproducer.manifest), scrubber)
        for name, data in texts(reproducer):
            scrubber.file(name, data)
        left = [one for one in scrubber.findings if one.became != KEPT]
    finally:
        scrubber.findings = before
    if left:
        raise Private(path, left)
