"""Candidates in source form: an edited CUDA C++ or HIP file, compiled as the application did the original."""

from __future__ import annotations

from kerncap.replay.candidates.build import SUFFIXES, Built, build, compile_candidate, compile_new, suffixes
from kerncap.replay.candidates.compilers import first_place
from kerncap.replay.candidates.errors import BuildError
from kerncap.replay.candidates.tools import Tool, available

__all__ = [
    "SUFFIXES", "BuildError", "Built", "Tool", "available", "build", "compile_candidate", "compile_new",
    "first_place", "suffixes",
]  # fmt: skip
