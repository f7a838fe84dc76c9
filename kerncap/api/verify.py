"""Verify: is a kernel, or a candidate for it, correct? In stages; and the self-check after a capture."""

from __future__ import annotations

from kerncap.api.verifying.judges import by_agreement, by_finiteness, by_reference
from kerncap.api.verifying.result import StageResult, VerifyOptions, VerifyResult, parse_stages
from kerncap.api.verifying.run import verify
from kerncap.api.verifying.self_check import self_check

__all__ = [
    "StageResult",
    "VerifyOptions",
    "VerifyResult",
    "by_agreement",
    "by_finiteness",
    "by_reference",
    "parse_stages",
    "self_check",
    "verify",
]
