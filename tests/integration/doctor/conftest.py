"""The stand-in driver, and the emulated AMD GPU where it was built."""

from __future__ import annotations

from tests.integration.cuda.conftest import bench, rig, shim

__all__ = ["bench", "rig", "shim"]
