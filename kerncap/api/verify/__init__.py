"""Verify: is a kernel, or a candidate for it, correct? In stages; and the self-check after a capture."""

from __future__ import annotations

from kerncap.api.verify.judges import by_agreement, by_finiteness, by_reference
from kerncap.api.verify.self_check import self_check
from kerncap.api.verify.stage_order import verify
from kerncap.api.verify.verify_result import StageResult, VerifyOptions, VerifyResult, parse_stages

__all__ = [
    "StageResult", "VerifyOptions", "VerifyResult", "by_agreement", "by_finiteness", "by_reference",
    "parse_stages", "self_check", "verify",
]  # fmt: skip
