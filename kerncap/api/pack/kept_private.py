"""What private things may stay, by the words of ``--keep-private``; what stops a packing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from kerncap.errors import KerncapError, UsageError
from kerncap.format.private import Finding, Kind

# As options call them -> as findings do. The variables of an environment go with its secrets.
KINDS: dict[str, tuple[Kind, ...]] = {
    "users": ("user",), "hosts": ("host",), "secrets": ("secret", "variable"),
}  # fmt: skip


class Private(KerncapError):
    """Something private could not be taken out; ``findings`` says what and where."""

    def __init__(self, path: Path, findings: Sequence[Finding]) -> None:
        super().__init__(
            f"{path}: {findings[0].what} in {findings[0].file} could not be taken out; remove it there, "
            "or keep it with --keep-private if it is not private"
        )
        self.findings = tuple(findings)


def kept_kinds(keep: Collection[str]) -> frozenset[Kind]:
    """The kinds of findings that the words of ``--keep-private`` leave. Raises UsageError."""
    for name in keep:
        if name not in KINDS:
            raise UsageError(f"{name}: expected one of {', '.join(KINDS)}")
    return frozenset(kind for name in keep for kind in KINDS[name])
