"""Reading TTIR: text in, `ir.Module` out."""

from kerncap.sanitizer.ttir.reader import read_module
from kerncap.sanitizer.ttir.tokens import TtirError

__all__ = ["TtirError", "read_module"]
