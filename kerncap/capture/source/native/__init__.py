"""The source of CUDA and HIP kernels: what NVRTC was given, what line tables and the project's files say.

Only the machine that captures looks for it; who reads a reproducer follows none of its paths.
"""

from __future__ import annotations

from kerncap.capture.source.native.finder import find, source_known
from kerncap.capture.source.native.request import FoundFile, FoundSource, NativeRequest
from kerncap.capture.source.native.vendor_libraries import vendor_library

__all__ = ["FoundFile", "FoundSource", "NativeRequest", "find", "source_known", "vendor_library"]
