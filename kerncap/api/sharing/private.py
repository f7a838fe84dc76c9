"""What of a reproducer is private, and what the user said about it. Used by all that gives one away."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap.errors import KerncapError, UsageError
from kerncap.format import Reproducer
from kerncap.format.names import CHUNKS_PATH, INDEX_PATH, MANIFEST_PATH
from kerncap.format.private import Finding, Scanner
from kerncap.format.validate import stored_files

KINDS = {"paths": "path", "secrets": "secret"}  # as options call them -> as findings do


class Private(KerncapError):
    """Something in the reproducer should not leave the machine; ``findings`` says what and where."""

    exit_status = 1

    def __init__(self, path: Path, findings: Sequence[Finding]) -> None:
        kinds = [option for option, kind in KINDS.items() if any(one.kind == kind for one in findings)]
        what = " and ".join(kinds)
        options = " ".join(f"--redact {kind}" for kind in kinds)
        count = f"{len(findings)} place" + ("s" if len(findings) > 1 else "")
        super().__init__(
            f"{path}: {what} in {count}, the first {findings[0]}; "
            f"{options} fills them up, {options.replace('redact', 'allow')} leaves them as they are"
        )
        self.findings = tuple(findings)


@dataclass(frozen=True)
class Asked:
    """``--redact`` and ``--allow``, checked: kinds as `Finding.kind` has them."""

    redact: frozenset[str]
    allow: frozenset[str]

    @classmethod
    def of(cls, redact: Collection[str], allow: Collection[str]) -> Asked:
        for name in (*redact, *allow):
            if name not in KINDS:
                raise UsageError(f"{name}: expected one of {', '.join(KINDS)}")
        both = set(redact) & set(allow)
        if both:
            raise UsageError(f"--redact and --allow {', '.join(sorted(both))} contradict each other")
        return cls(frozenset(KINDS[n] for n in redact), frozenset(KINDS[n] for n in allow))


def scanner() -> Scanner:
    """With the home folder of who runs this: it may lie anywhere."""
    try:
        return Scanner([Path.home()])
    except (OSError, RuntimeError):
        return Scanner()


def private_parts(reproducer: Reproducer) -> list[Finding]:
    """All findings in the manifest and every file but the memory. Raises FormatError."""
    look = scanner()
    return [one for name, data in texts(reproducer) for one in look.scan(name, data)]


def texts(reproducer: Reproducer) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file that is looked at; one at a time."""
    yield MANIFEST_PATH, reproducer.manifest_bytes
    seen = {CHUNKS_PATH, INDEX_PATH}
    for _, stored in stored_files(reproducer.manifest):
        if stored.path not in seen:
            seen.add(stored.path)
            yield stored.path, reproducer.file(stored)
