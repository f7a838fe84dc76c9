"""Verdicts of a test's own process come from workers that all tests share."""

from tests.shared_nurseries import shared_nurseries

__all__ = ["shared_nurseries"]
