"""checks.json: what kerncap found out about a reproducer after it was sealed."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from kerncap.format import schema
from kerncap.format.documents import canonical_json, decode_json
from kerncap.format.stored_files import format_error

CheckResult = Literal["pass", "fail", "undecided", "skipped"]


class SelfCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One replay right after the capture."""

    result: CheckResult  # undecided: since version 1.4
    reason: schema.Text = ""
    engine: schema.Name = ""


class Checks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tied to one manifest. ``digest`` is filled in by the writer: SHA-256 of the rest."""

    manifest_sha256: schema.Sha256
    self_check: SelfCheck | None = None
    write_set: schema.StoredFile | None = None
    digest: Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?$")] = ""


def encode_checks(checks: Checks) -> bytes:
    """Exact bytes of checks.json."""
    return canonical_json(msgspec.structs.replace(checks, digest=_digest(checks)))


def decode_checks(data: bytes, where: Path) -> Checks:
    """Raises FormatError."""
    checks: Checks = decode_json(data, where, Checks)
    expected = _digest(checks)
    if checks.digest != expected:
        message = f"damaged: its content has SHA-256 {expected[:16]}…, it says {checks.digest[:16]}…"
        raise format_error(where, 0, message)
    return checks


def _digest(checks: Checks) -> str:
    bare = msgspec.structs.replace(checks, digest="")
    return hashlib.sha256(canonical_json(bare)).hexdigest()
