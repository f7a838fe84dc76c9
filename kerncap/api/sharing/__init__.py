"""Giving a reproducer away: what is in it that should not go, and how large it gets."""

from kerncap.api.sharing.private import KINDS, Private

__all__ = ["KINDS", "Private"]
