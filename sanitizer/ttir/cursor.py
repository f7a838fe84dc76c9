"""What the readers of single operations may ask of the reader of the whole text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kerncap.sanitizer.ttir.attributes import Stream
from kerncap.sanitizer.ttir.ir import Block, Location, Region, Value


class Cursor(Protocol):
    """A place in the text, with the values and blocks that are in scope there."""

    stream: Stream

    def region(self, arguments: Sequence[Value] = (), terminator: str | None = None) -> Region: ...

    def block(self, label: str) -> Block: ...

    def use(self, name: str) -> Value: ...

    def next_value(self) -> Value: ...

    def check_forward(self) -> None: ...

    def location(self) -> Location: ...
