"""Reproducers of native kernels, as the tests of candidates make them."""

from tests.unit.replay.candidates.conftest import make

__all__ = ["make"]
