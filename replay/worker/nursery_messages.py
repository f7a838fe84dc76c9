"""What a nursery is asked, and what it answers; see `nursery`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Asked:
    """``load``: what forks need, by its kind; not answered. Of a nursery that has begun with a fork it is
    loaded when a second one is asked for.
    ``fork``: the words of `bootstrap`, and the file that takes what it prints; with the message come the
    descriptors that go behind the words, and what ties the fork to the process that asked. ``reap``: a
    fork's number.
    """

    what: Literal["load", "fork", "reap"]
    words: list[str]


@dataclass(frozen=True)
class Told:
    """The number of a fork's process; of one that has ended its status, minus the number of a signal."""

    number: int
