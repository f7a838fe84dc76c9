"""What kerncap asks of a replay worker and what it answers; both ends, and mypy, read it here.

An operation is a method of `Backend`. Its arguments travel as ``{"operation": …, "arguments": {…}}`` and what
it returns as ``{"result": …}``, or the reason why there is no result as ``{"failure": …}``; one line
each, by the annotations (`typed_json`). Bitmaps go through files of the job folder, by name.
Standard library only: the worker runs in the target's Python.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar

from . import typed_json
from .typed_json import Unreadable

VERSION = 12  # of all that is in this file; a worker refuses the job of another one

Scalar = int | float | bool | str | None
Limits = tuple[int, float, float]  # view, rtol, atol
Three = tuple[int, int, int]  # x, y, z
Range = tuple[int, int, int]  # region, start, stop
REFERENCE = "reference"  # in place of a state: what the user's file expects
VARIATION_FILE, MADE_FILE = "request.json", "made.json"  # of a compilation in a folder of its own


def three(numbers: Iterable[int]) -> Three:
    """The dimensions of a grid or a block. Raises ValueError for other than three."""
    x, y, z = numbers
    return int(x), int(y), int(z)


# --- the start -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hello:
    """A worker's first line: the regions whose addresses are ``taken``, or why the job is ``refused``."""

    taken: list[int] = field(default_factory=list)
    refused: str | None = None


@dataclass(frozen=True)
class Failure:
    """Why an operation has no result.

    refused: it can't be done here as asked; error: the kernel or a user's file raised; fault, timeout: the
    worker ends; killed: the system ended a process that was needed; internal: a defect of ours. ``detail`` is
    a traceback.
    """

    kind: Literal["refused", "error", "fault", "timeout", "killed", "internal"]
    message: str
    detail: str = ""
    place: Place | None = None


@dataclass(frozen=True)
class Place:
    """Where in a user's file an error is, from 1, as far as that is known."""

    file: str | None = None
    line: int | None = None
    column: int | None = None


# --- what operations take ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Config:
    """How a Triton launch is compiled and launched other than as it was captured.

    ``arguments`` are values of constexpr (or scalar) parameters by name, ``options`` the compiler's
    (num_warps, num_stages, num_ctas, maxnreg); what is not named stays as captured, and so does the grid if
    it is None.
    """

    arguments: dict[str, Scalar] = field(default_factory=dict)
    options: dict[str, int] = field(default_factory=dict)
    grid: Three | None = None


@dataclass(frozen=True)
class Variation:
    """A launch other than as it was captured: a configuration, values of numeric arguments by name.

    ``launch``: another one of the job's range.
    """

    config: Config | None = None
    scalars: dict[str, str] = field(default_factory=dict)
    launch: int | None = None


@dataclass(frozen=True)
class TritonImage:
    """What Triton's compiler says of an image: its stage, its metadata, the signature of its parameters."""

    stage: Literal["cubin", "hsaco"]
    metadata: dict[str, Any]
    signature: dict[str, Any]


@dataclass(frozen=True)
class KernelOfSource:
    """A kernel of a source that the launch was not captured with: its name in the image, mangled, how it is
    launched, and its parameters.

    ``parameters``: (name, type) of each as the source has them: the dtype of a number, ``*`` for a pointer,
    "" if it is not known; None if nothing is.
    """

    name: str
    parameters: list[tuple[str, str]] | None
    grid: Three
    block: Three
    shared_bytes: int


Image = TritonImage | KernelOfSource


# Hidden arguments that lead to the application's HIP runtime: a launch that uses one may not be replayed.
RUNTIMES_OWN = {
    "hidden_hostcall_buffer": "calls to the host (printf, assert) as another ROCm answers them",
    "hidden_printf_buffer": "printf through a buffer",
    "hidden_default_queue": "launches by the kernel",
    "hidden_completion_action": "launches by the kernel",
}


@dataclass(frozen=True)
class Slot:
    """An argument of a HIP kernel; ``kind``: ``by_value``, ``global_buffer``, ``hidden_block_count_x``, …"""

    kind: str
    offset: int
    size: int

    @property
    def hidden(self) -> bool:
        return self.kind.startswith("hidden_")


@dataclass(frozen=True)
class HipKernel:
    """What a code object says of a kernel; numbers that the compiler did not write are 0."""

    name: str
    slots: list[Slot]
    kernarg_bytes: int
    vgprs: int
    max_threads: int
    wavefront: int

    @property
    def explicit(self) -> list[tuple[int, int]]:
        """(offset, size) of each argument that the source has."""
        return [(slot.offset, slot.size) for slot in self.slots if not slot.hidden]

    @property
    def hidden(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.hidden and slot.kind != "hidden_none"]


@dataclass(frozen=True)
class HipImage:
    """What kerncap's process read in a code object: its ``kernel``, None if it does not say.

    ``objects``: (address in the file, size) of variables of the launch and of the kernel's descriptor.
    ``inside``: the first address that the captured code object had in the application, and its bytes;
    ``moved``: for parts of it the same, and the address in this file of what was there.
    """

    kernel: HipKernel | None = None
    objects: dict[str, tuple[int, int]] = field(default_factory=dict)
    inside: tuple[int, int] = (0, 0)
    moved: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Spread:
    """Floats beyond the range that was captured: ``factor`` times as large, and no zeros among them.

    ``largest``: in place of a factor, the magnitude that the largest of them has. ``offset``: how many times
    their range all of them lie away from zero, as far as their type still tells them apart; if it is
    negative, below zero where one of them was. ``signs``: half of them with the other sign. ``jitter``: each
    moved by up to that share of it, to learn how much of that the results show; no less than its own type can
    hold.
    """

    factor: float = 1.0
    signs: bool = False
    jitter: float = 0.0
    largest: float = 0.0
    offset: float = 0.0

    def scaled(self, low: float, high: float, epsilon: float) -> tuple[float, float]:
        """(factor, summand) for values of a range, in a type with that distance of neighbours at 1."""
        if low == high == 0.0:
            high = 0.25  # what zeros become
        factor = self.largest / max(abs(low), abs(high)) if self.largest else self.factor
        away = factor * ((high - low) or abs(high)) * min(abs(self.offset), 0.25 / epsilon)
        return factor, -away if high <= 0 or (self.offset < 0 and low < 0) else away


@dataclass(frozen=True)
class View:
    """A typed window on a region; strides in elements, the offset in bytes."""

    region: int
    offset: int
    dtype: str
    itemsize: int
    shape: list[int]
    strides: list[int]
    name: str = ""


# --- what they return --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Opened:
    """What a worker says of itself. ``relocated`` regions lie elsewhere than they were captured."""

    device: str
    arch: str
    relocated: list[int]
    notes: list[str]
    torch: str = ""
    triton: str = ""
    driver: str = ""
    unconfined: list[str] = field(default_factory=list)  # what the system lacks for `confine.py`
    bulk: Literal["device", "host"] = "host"  # if bytes of native launches are compared
    at_once: int = 0  # multiprocessors that kernels of several processes have at once; 0: they take turns


@dataclass
class Compiled:
    """What a variant was compiled to; None for what is not known (the interpreter compiles nothing).

    ``spilled_bytes`` is the local memory of a thread, ``shared_bytes`` that of a block, static and dynamic.
    ``occupancy`` is resident warps by what a multiprocessor holds, 0 to 1. ``compile_ms`` is the time that
    loading took; ``cached``: a compiler's cache had it. ``stages`` are files by name (ttir, ttgir, llir, ptx,
    cubin), in the job folder until the variant is loaded again or unloaded.
    """

    registers: int | None = None
    spilled_bytes: int | None = None
    shared_bytes: int | None = None
    dynamic_shared_bytes: int | None = None
    max_threads: int | None = None
    num_warps: int | None = None
    num_stages: int | None = None
    blocks_per_sm: int | None = None
    occupancy: float | None = None
    compile_ms: float = 0.0
    cached: bool = False
    grid: Three | None = None
    block: Three | None = None
    stages: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Loaded:
    """A launcher was made. Of a native launch: how many ``pointers`` were changed for memory that lies
    elsewhere, and the variables of the module that are among it."""

    compiled: Compiled
    pointers: int | None = None
    moved_variables: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ended:
    """How a launch ended; ``line`` of the source (from 1) is where an error was raised, if that is known."""

    status: Literal["ok", "error", "fault", "timeout", "refused", "killed"]
    message: str = ""
    detail: str = ""
    ns: int = 0
    line: int | None = None
    place: Place | None = None
    steps: int = 0  # of `Stores`, that came before the end
    signals: int = 0  # that were answered, see `Mirror`


@dataclass(frozen=True)
class Mirror:
    """A region of another rank's, and ours in which that one stores the same, ``shift`` bytes on."""

    theirs: int
    ours: int
    shift: int


@dataclass(frozen=True)
class Stores:
    """What other ranks store while a launch runs, as the post-state has it: ``after_s`` seconds after the
    step before; ``last`` one by one, when the ``values`` are there. From then on a word that the launch
    changes in a window, and that is the same before and after it, is a signal: the other rank takes it
    back, and gives the same one here."""

    after_s: float
    values: list[Range]
    last: list[Range]
    mirrors: list[Mirror] = field(default_factory=list)


@dataclass(frozen=True)
class Replays:
    """Replays in a row: how many ran, how many differed, the first of those (-1: none)."""

    runs: int
    different: int = 0
    first: int = -1
    times_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0


@dataclass(frozen=True)
class Timings:
    """Medians with the data in the cache and with an emptied one; None if they can't be measured."""

    warm_ms: float | None
    cold_ms: float | None


@dataclass(frozen=True)
class Element:
    """One element, its value as text; ``expected`` is empty if nothing was."""

    index: list[int]
    found: str
    expected: str = ""


@dataclass
class Difference:
    """A view against another state of it.

    ``different``: elements whose bits differ; ``outside``: those beyond the tolerance; ``nan``: those that
    are NaN on one side only; ``first``: the first outside, or the first that differs; ``scale``: the largest
    magnitude near any that differ. ``view`` is -1 for one that the engine made.
    """

    view: int = -1
    name: str = ""
    elements: int = 0
    different: int = 0
    outside: int = 0
    nan: int = 0
    max_abs: float = 0.0
    max_rel: float = 0.0
    scale: float = 0.0
    first: Element | None = None


@dataclass
class Nonfinite:
    """NaN and infinities among the written elements of a view, and the first of them."""

    view: int = -1
    name: str = ""
    elements: int = 0
    nonfinite: int = 0
    first: Element | None = None


@dataclass(frozen=True)
class ErrorStatistics:
    """Errors of a view's elements against other values of them; see `common/error_statistics.py`.

    Means and maxima are of elements that are finite on both sides. ``outward``: positive away from zero;
    ``share``: of the tolerance; ``worst``: the index with most ulps.
    """

    elements: int
    finite: int
    different: int
    positive: int
    negative: int
    outside: int
    nan_found: int
    nan_expected: int
    inf_found: int
    inf_expected: int
    special_differs: int
    scale: float
    rms: float
    share_mean: float
    signed_mean: float
    outward_mean: float
    error_square_mean: float
    magnitude_mean: float
    abs_max: float
    abs_mean: float
    rel_max: float
    rel_mean: float
    rel_p99: float
    ulp_max: float
    ulp_mean: float
    ulp_median: float
    ulp_p99: float
    first_nan: list[int] | None
    first_inf: list[int] | None
    worst: list[int] | None
    view: int = -1
    name: str = ""


@dataclass(frozen=True)
class ErrorBoxes:
    """The smallest boxes, [start, stop) by dimension, of elements in and out of the tolerance."""

    inside: list[tuple[int, int]] | None
    outside: list[tuple[int, int]] | None
    view: int = -1


@dataclass(frozen=True)
class InferredType:
    """The floating type of a stretch of memory: its first element at ``offset``, and how many there are."""

    dtype: str
    itemsize: int
    offset: int
    elements: int


# --- the operations ----------------------------------------------------------------------------------------


class Backend(Protocol):
    """What a worker does with its one job. ``which`` names a loaded variant, ``state`` a copy of all regions:
    pre, post or a snapshot. ``against`` is a state, or `REFERENCE`. A mask is the name of a file with one
    bit for each byte of a region; ``masks`` are by region."""

    def open(self) -> Opened:
        """The worker as it is, with its memory placed."""
        ...

    def load(
        self, which: str, path: str, stages: str, variation: Variation, limit_s: float, image: Image | None,
        hip: HipImage | None,
    ) -> Loaded:  # fmt: skip
        """Make a launcher of a file, the job's own or a candidate's; ``image``: what its compiler said of it,
        or which kernel of it is launched.

        ``stages`` is a folder for what the compiler makes on its way; ``hip``: of a HIP launch.
        """
        ...

    def unload(self, which: str) -> None:
        """Free what a launcher holds; one that is not there holds nothing."""

    def launch(self, which: str, limit_s: float) -> Ended:
        """Run one launch to its end."""
        ...

    def launch_among(self, which: str, stores: list[Stores], limit_s: float) -> Ended:
        """Run one launch to its end, and let stores of other ranks come meanwhile, until it has ended."""
        ...

    def time(
        self, which: str, warmup: int, n: int, limit_s: float, dirty: list[int], cold: bool
    ) -> list[float]:
        """Milliseconds of ``n`` launches, each on the pre-state; ``cold``: with other data in the cache."""
        ...

    def interleaved(
        self, rows: list[list[str]], rounds: int, ranges: list[Range], limit_s: float, cold: bool
    ) -> list[list[float]]:
        """Milliseconds of each row of launches, ``rounds`` times in turns, each on the pre-state of what is
        dirtied."""
        ...

    def timings(
        self, which: str, ranges: list[Range], dirty: list[int], again: bool, limit_s: float
    ) -> Timings:
        """Medians with a warm and with a cold cache. ``again``: the launch may follow itself."""
        ...

    def repeat(self, which: str, n: int, state: str, ranges: list[Range], limit_s: float) -> Replays:
        """``n`` replays, queued, each from ``ranges`` of a state; memory as the last left it."""
        ...

    def until(self, which: str, n: int, state: str, expected: str, limit_s: float) -> Replays:
        """Up to ``n`` replays from a state, until one differs from ``expected``, which is left in memory."""
        ...

    def streams(self, which: str, regions: list[int]) -> str:
        """What is wrong with the stream that a launch works in; memory is as after a launch."""
        ...

    def finish(self) -> None:
        """Wait for all that was queued: memory that other workers have, too, is as it was asked for."""

    def restore(self, state: str) -> None:
        """Memory as a state has it."""

    def snapshot(self, name: str) -> None:
        """Keep memory as it is, as a state."""

    def amend(self, state: str, ranges: list[Range], contents: str) -> None:
        """Other bytes of a snapshot: those of a file, for one range after the other."""

    def drop(self, name: str) -> None:
        """Forget a snapshot."""

    def reload(self) -> None:
        """Take the captured states from their files again."""

    def fill(self, region: int, start: int, stop: int, seed: int, mask: str | None) -> None:
        """Poison bytes [start, stop) of a region, or those of them in a mask."""

    def put(self, state: str, region: int, mask: str) -> None:
        """The bytes of a mask as a state has them."""

    def perturb(self, views: list[int], masks: dict[int, str]) -> int:
        """Other contents, the same each time, for the elements of views in the masks; how many changed."""
        ...

    def redraw(self, views: list[int], seed: int, repeats: bool, spread: Spread | None) -> list[int]:
        """Other values for whole views, of the same kind or with a spread; the views that changed.

        ``repeats``: each second integer is given twice.
        """
        ...

    def boundaries(self, views: list[int], known: list[float], own: list[float]) -> list[int]:
        """Values on which a comparison turns, for some elements of views; the views that changed.

        ``known``: numbers that may be among them; ``own``: only those within a view's range.
        """
        ...

    def differing(self, state: str) -> list[int]:
        """The regions that differ from a state."""
        ...

    def diff(self, region: int, against: str, out: str, seed: int, mask: str | None) -> bool:
        """Write the bitmap of bytes that differ to ``out``, if there are any; whether there are.

        ``against``: a state, or ``poison`` of a seed. What it says of bytes outside of a mask may be wrong.
        """
        ...

    def untouched(self, region: int, out: str) -> bool:
        """Write the bitmap of bytes that nobody has accessed since the last `restore` to ``out``; whether
        any are known."""
        ...

    def gap_writes(self) -> list[tuple[int, int, int]]:
        """(first address, last address, bytes) written in each stretch of memory that is in no region."""
        ...

    def infer(
        self, region: int, start: int, stop: int, mask: str, against: str, hint: str
    ) -> InferredType | None:
        """The floating type that explains how memory differs from a state at the bytes of a mask."""
        ...

    def compare(self, views: list[tuple[int | View, float, float]], against: str) -> list[Difference]:
        """How each view (or one of the engine's own making), with its rtol and atol, differs."""
        ...

    def within(self, views: list[tuple[int | View, float, float]], against: str) -> bool:
        """Whether `compare` would find nothing outside of a tolerance."""
        ...

    def nonfinite(self, views: list[int], masks: dict[int, str]) -> list[Nonfinite]:
        """NaN and infinities among the elements of each view that are in the masks, if there is one."""
        ...

    def errors(self, views: list[Limits], against: str, file: str | None) -> list[ErrorStatistics]:
        """Errors of each view; of a single one against the values in ``file``, if there is one."""
        ...

    def boxes(self, views: list[Limits], against: str) -> list[ErrorBoxes]:
        """Where each view differs, and where it does not."""
        ...

    def read(self, ranges: list[Range], out: str) -> None:
        """Write the bytes of ranges of memory, one after the other, to a file of the job folder."""

    def export(self, view: int, out: str) -> None:
        """Write a view's values, as float64 in row-major order, to a file of the job folder."""

    def reference(self, path: str) -> list[int]:
        """Run the user's ``reference(args)`` on the pre-state; the views that it gives values for."""
        ...


OPERATIONS: dict[str, Callable[..., Any]] = {
    name: member for name, member in vars(Backend).items() if inspect.isfunction(member) and name[0] != "_"
}

# --- lines -------------------------------------------------------------------------------------------------

P = ParamSpec("P")
R = TypeVar("R")
Operation = Callable[Concatenate[Any, P], R]


@dataclass(frozen=True)
class Request:
    """One operation with its arguments, as a worker reads it."""

    operation: str
    arguments: dict[str, Any]


def request(operation: Callable[Concatenate[Backend, P], R], *args: P.args, **kwargs: P.kwargs) -> bytes:
    """The line that asks for an operation of `Backend`."""
    positional = zip(_types(operation), args)  # noqa: B905  (the rest is named)
    return typed_json.line(Request(operation.__name__, {**dict(positional), **kwargs}))


def read_request(line: str) -> Request:
    """Raises Unreadable for an operation that there is not, or other arguments than it takes."""
    asked = typed_json.read(Request, line)
    operation = OPERATIONS.get(asked.operation)
    if operation is None:
        raise Unreadable(f"operation: {asked.operation} is unknown")
    return Request(asked.operation, _arguments(operation)(asked.arguments))


def read_reply(operation: Callable[Concatenate[Backend, P], R], line: bytes) -> R | Failure:
    """What a worker answered to an operation. Raises Unreadable for anything else."""
    result: R | Failure = read_result(_types(operation)["return"], line)
    return result


def read_result(kind: Any, line: bytes) -> Any:
    """A result of that kind, or a Failure. Raises Unreadable."""
    reply = typed_json.parse(line)
    if type(reply) is not dict or reply.keys() not in ({"result"}, {"failure"}):
        raise Unreadable("neither a result nor a failure")
    [(word, value)] = reply.items()
    return typed_json.fit(kind if word == "result" else Failure, value)


def reply(result: Any) -> bytes:
    """The line that answers a request: a result or a Failure."""
    return typed_json.line({"failure" if isinstance(result, Failure) else "result": result})


@functools.cache
def _arguments(operation: Callable[..., Any]) -> Callable[[Any], dict[str, Any]]:
    return typed_json.fields({name: kind for name, kind in _types(operation).items() if name != "return"})


@functools.cache
def _types(operation: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of an operation's arguments, in their order, and of its result."""
    return typing.get_type_hints(operation)
