"""What of a reproducer a worker is given: the keys of job.json, as `kerncap.replay.staging` writes it.

Values of arguments, options and attributes are those of the manifest (FORMAT.md).
"""

from __future__ import annotations

from typing import Any, TypedDict


class JobArray(TypedDict):
    """An array behind textures and surfaces, in the driver's numbers."""

    width: int
    height: int
    depth: int
    format: int
    channels: int
    flags: int
    levels: int


class JobWindow(TypedDict):
    """Memory of another rank, and where that has it."""

    rank: int
    base: int


class JobRanks(TypedDict):
    """Of one rank of several that are replayed together.

    ``handles``: the socket for handles (see `handles`); ``given``: (base, size) of its memory that others
    have as windows.
    """

    rank: int
    handles: str
    given: list[list[int]]


class JobRegion(TypedDict):
    """``pre`` and ``post`` are files of the job's folder that hold the bytes one after the other; none in
    ``post``: the launch did not change it. Outside of the ranges ``changed``, ``post`` is as ``pre``,
    whatever is in its files."""

    base: int
    size: int
    kind: str
    device: int
    name: str | None
    module: int
    array: JobArray | None
    window: JobWindow | None
    pre: list[str]
    post: list[str]
    changed: list[list[int]]  # [start, stop], whole pages, ascending


class JobZeros(TypedDict):
    """Zeros around the regions, which a launch may read."""

    base: int
    size: int


class PlacedRegion(JobRegion):
    """``base`` is where it lies here, ``captured`` where it lay."""

    captured: int


class JobView(TypedDict):
    """A typed window on a region; the offset in bytes, strides in elements."""

    region: int
    offset: int
    dtype: str
    itemsize: int
    shape: list[int]
    strides: list[int]
    name: str


class JobArgument(TypedDict):
    """``role``: runtime or constexpr; ``signature`` is the compiler's type."""

    name: str
    role: str
    value: dict[str, Any]
    signature: str | None


class JobTexture(TypedDict):
    """As the manifest's: ``region`` is that of an array, None for memory at ``address``."""

    handle: int
    kind: str
    resource: str
    region: int | None
    level: int
    address: int
    format: int
    channels: int
    width: int
    height: int
    pitch: int
    sampler: str | None
    view: str | None


class JobLaunch(TypedDict):
    """As the manifest's launch, less what a replay does not need."""

    grid: list[int]
    mode: str
    options: dict[str, dict[str, Any]]
    shared_bytes: int | None
    block: list[int] | None
    cluster: list[int] | None
    cooperative: bool
    attributes: list[dict[str, Any]]
    parameters: dict[str, Any] | None
    dispatch: dict[str, Any] | None
    limits: dict[str, int] | None
    textures: list[JobTexture]


class JobFunction(TypedDict):
    """A word of a variable of the module that a loader fills with a function's address."""

    region: int
    offset: int
    captured: int


class JobOfLaunch(TypedDict):
    """What a job says of its launch: the keys of `Job` of the same name. Of a range there are several."""

    kernel: str
    symbol: str
    entry: str | None
    source: str | None
    code: dict[str, str]
    images: list[str]
    arguments: list[JobArgument]
    launch: JobLaunch
    compiled: dict[str, Any] | None
    variables: list[int]  # regions that are variables of the kernel's own module
    functions: list[JobFunction]


class Job(JobOfLaunch):
    """``code`` are files of the folder by stage, ``images`` those that a driver takes, the surest first.

    ``device`` is the ordinal here. ``hostile``: candidates may attack what judges them; ``stranger``: so may
    the stored source.
    """

    version: int  # `protocol.VERSION`
    folder: str
    launcher: str
    reproducer: str
    memory: str
    device: int
    captured_device: int
    views: list[JobView]
    launches: list[JobOfLaunch]  # of a range; what the job itself says is its first launch
    regions: list[JobRegion]
    zeros: list[JobZeros]
    hostile: bool
    stranger: bool
    ranks: JobRanks | None


def of_launch(job: Job, number: int | None) -> Job:
    """``job`` for another launch of its range; the job itself for None."""
    return job if number is None else {**job, **job["launches"][number]}
