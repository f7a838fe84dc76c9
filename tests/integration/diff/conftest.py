"""What the CUDA tests run on: the stand-in driver."""

from __future__ import annotations

from tests.integration.cuda.conftest import bench, rig, shim

__all__ = ["bench", "rig", "shim"]
