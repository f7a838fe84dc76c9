"""The one error of this package."""

from __future__ import annotations

from kerncap.errors import CaptureError


class ImageProblem(CaptureError):
    """An image that is malformed, or larger than what is read here."""
