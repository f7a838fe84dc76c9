"""Python of a user's file, as the file is now."""

from __future__ import annotations

import importlib.machinery
from types import CodeType


class Fresh(importlib.machinery.SourceFileLoader):
    """Compiles the text each time. Python compares its cached bytecode with a file by whole seconds and size,
    and a file may be saved twice within a second with the same length."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)
