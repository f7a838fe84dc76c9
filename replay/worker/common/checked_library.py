"""A library of a driver, with every status checked."""

from __future__ import annotations

import ctypes
from typing import Any

from .failures import Refused


class CallFailed(Exception):
    """A call that returned another status than 0."""

    def __init__(self, call: str, status: int, name: str) -> None:
        super().__init__(f"{call}: {name}")
        self.status = status
        self.name = name


class CheckedLibrary:
    """Loaded by ``file``; ``title`` is how messages call it, ``failed`` what a call raises."""

    file: str
    title: str
    failed: type[CallFailed]

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(self.file)
        except OSError as error:
            raise Refused(f"there is no {self.title}: {error}") from error
        self._functions: dict[str, Any] = {}

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``name`` with ctypes values. Raises ``failed``, or Refused if the library lacks it."""
        status = self.function(name)(*arguments)
        if status:
            raise self.failed(name, status, self.error_name(status))

    def status(self, name: str, *arguments: Any) -> int:
        """The status of a call, unchecked."""
        return int(self.function(name)(*arguments))

    def has(self, name: str) -> bool:
        """Whether the library exports ``name``."""
        return hasattr(self._library, name)

    def function(self, name: str, result: Any = ctypes.c_int) -> Any:
        """The call itself, for loops in which each microsecond counts. Raises Refused if it is missing."""
        found = self._functions.get(name)
        if found is None:
            try:
                found = getattr(self._library, name)
            except AttributeError as error:
                raise Refused(f"this {self.title} has no {name}") from error
            found.restype = result
            self._functions[name] = found
        return found

    def error_name(self, status: int) -> str:
        """The library's own name of a status."""
        raise NotImplementedError
