"""What a program under `kerncap sanitize` and kerncap say to each other; both ends, and mypy, read it here.

A message is one line of JSON, ``{"<its class>": {its fields}}``; each process of the program has its
connection. It says `Hello`, then `Launch`, `Missed`, `HostRead` or `Note`. For a launch kerncap then asks, as
often as it likes, `Read` (answered by `Size`), `Backed` (by `Runs`) or `Write` (by `Written`), until it says
`Done`. Bytes go through a memfd that comes with the hello.
Standard library only; sanitizer/sources/hook_messages.py is a link to this file.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple, Union

Run = Tuple[int, int]  # [start, end) of a storage's bytes
Frame = Tuple[str, int, str]  # file, line, function
Change = Tuple[int, int, int, int]  # storage, offset in it, bytes, offset in the memfd


@dataclass(frozen=True)
class Session:
    """sanitize.json. ``target``: for which a launch is compiled, None for the GPU at hand; ``fresh``: fill
    what `torch.empty` gives with a pattern; ``allocations``: bounds are those of the allocator's blocks."""

    socket: str
    token: str
    target: Optional[str]
    every_configuration: bool
    fresh: bool
    allocations: bool


# --- what the program says ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """``notes``: for the user, of the program's Triton."""

    token: str
    pid: int
    notes: List[str]


@dataclass(frozen=True)
class Text:
    """A text by its digest; ``text`` is None if this connection has had it before."""

    sha: str
    text: Optional[str] = None


@dataclass(frozen=True)
class Storage:
    """Memory behind tensors, and the allocator's block around it. ``name``: of the first argument in it."""

    address: int
    size: int
    allocation_address: int
    allocation_bytes: int
    name: str


@dataclass
class Tensor:
    """A window on a storage, by its index. Shape and strides are in elements, of ``itemsize`` bytes."""

    storage: int
    address: int
    dtype: str
    itemsize: int
    shape: List[int]
    strides: List[int]


@dataclass(frozen=True)
class Descriptor:
    """Shape and strides are the descriptor's own, not its tensor's."""

    tensor: Tensor
    shape: List[int]
    strides: List[int]
    block_shape: List[int]
    padding: str
    round_f32_to_tf32: bool


@dataclass(frozen=True)
class Argument:
    """One of the four is set; ``address``: a pointer with no tensor behind it."""

    name: str
    number: Union[bool, int, float, None] = None
    address: Optional[int] = None
    tensor: Optional[Tensor] = None
    descriptor: Optional[Descriptor] = None


@dataclass(frozen=True)
class Facts:
    """What is known of a launch besides its texts and contents. ``target``: as "cuda:90"."""

    kernel: str
    grid: Tuple[int, int, int]
    arguments: List[Argument]
    storages: List[Storage]
    stack: List[Frame]
    configuration: Dict[str, str]
    target: str
    triton: str  # its version
    label: str


@dataclass(frozen=True)
class Launch:
    """``carry_out``: on the CPU, where kerncap runs it; ``sources``: by the names in TTIR's locations.

    ``fresh``: of each storage the pattern (hexadecimal) that its unwritten bytes hold, if there is one.
    """

    facts: Facts
    ttir: Text
    sources: Dict[str, Text]
    carry_out: bool
    fresh: List[Optional[str]]


@dataclass(frozen=True)
class Missed:
    """A launch that can't be described."""

    kernel: str
    reason: str


@dataclass(frozen=True)
class HostRead:
    """An operation of torch that reads ``unwritten`` elements; ``first``: the index of the first of them."""

    operation: str
    argument: str
    dtype: str
    shape: List[int]
    unwritten: int
    first: List[int]
    stack: List[Frame]
    allocated: List[Frame]


@dataclass(frozen=True)
class Note:
    """What the user should know of the run as a whole."""

    text: str


@dataclass(frozen=True)
class Size:
    """How many bytes are in the memfd; None if they can't be read."""

    size: Optional[int]


@dataclass(frozen=True)
class Runs:
    runs: List[Run]


@dataclass(frozen=True)
class Written:
    pass


# --- what kerncap says -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Read:
    """Put these bytes of a storage into the memfd, one run behind the other."""

    storage: int
    runs: List[Run]


@dataclass(frozen=True)
class Backed:
    """Which runs of a storage's bytes memory backs."""

    storage: int


@dataclass(frozen=True)
class Write:
    """The launch was carried out: take these bytes over."""

    changes: List[Change]


@dataclass(frozen=True)
class Done:
    """``reason``: why the launch was not carried out, if it was to be."""

    carried: bool
    reason: str = ""


Said = Union[Hello, Launch, Missed, HostRead, Note, Size, Runs, Written]
Asked = Union[Read, Backed, Write, Done]
_SAID = (Hello, Launch, Missed, HostRead, Note, Size, Runs, Written)
_ASKED = (Read, Backed, Write, Done)
_KINDS: Dict[str, Any] = {kind.__name__: kind for kind in (*_SAID, *_ASKED)}


def line(message: Union[Said, Asked]) -> bytes:
    text = json.dumps({type(message).__name__: message}, default=vars, separators=(",", ":"))
    return text.encode() + b"\n"


def split(text: bytes) -> Tuple[Any, Dict[str, Any]]:
    """A message's class and its unchecked fields. Raises ValueError if ``text`` is not a message."""
    message = json.loads(text)
    if not isinstance(message, dict) or len(message) != 1:
        raise ValueError("not a message")
    [(name, fields)] = message.items()
    if name not in _KINDS or not isinstance(fields, dict):
        raise ValueError("an unknown message")
    return _KINDS[name], fields
