"""The manifest of a reproducer, version 1: one frozen struct per object of FORMAT.md.

Everything here is data. Decoding checks types and bounds (msgspec); what spans several
objects (a view inside its region, an index that exists) is checked by `reader`.
Sizes and offsets are bytes, shapes and strides elements, addresses below 2^63.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from kerncap.format.contract import default
from kerncap.format.digests import Digest

FORMAT_NAME = "kerncap-reproducer"
RANGE_FORMAT_NAME = "kerncap-range"
FORMAT_MAJOR = 1
FORMAT_MINOR = 17
UNRECORDED = "unrecorded"  # `Oracle.condition` of a launch whose result is not known
ALL_CONTENTS = "all contents (--no-values)"  # how `Closure.left_out` says that it was asked for

CHUNK_BYTES = default.chunk_bytes  # 256 KiB: unit of deduplication, of zero dropping and of the post-state

Address = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Size = Annotated[int, Meta(ge=0, le=2**48)]
Index = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Extent = Annotated[int, Meta(ge=0, le=2**48)]
Ordinal = Annotated[int, Meta(ge=-1, le=2**31 - 1)]
Stride = Annotated[int, Meta(ge=-(2**48), le=2**48)]
Name = Annotated[str, Meta(max_length=4096)]
Text = Annotated[str, Meta(max_length=4 * 1024 * 1024)]
LongName = Annotated[str, Meta(max_length=256 * 1024)]  # C++ kernels: templates make names of many KiB
RelativePath = Annotated[str, Meta(min_length=1, max_length=1024)]
Sha256 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
WorkItems = Annotated[int, Meta(ge=1, le=2**32 - 1)]  # of a dispatch packet: 32 bits each
PacketBytes = Annotated[int, Meta(ge=0, le=2**32 - 1)]
MAX_DIMENSIONS = 25  # more than torch's own loops take
Shape = Annotated[tuple[Extent, ...], Meta(max_length=MAX_DIMENSIONS)]
Strides = Annotated[tuple[Stride, ...], Meta(max_length=MAX_DIMENSIONS)]
# No list or map of a manifest may fill the memory of who reads it.
MAX_LIST = 65_536
MAX_MAP = 4096
MAX_VIEWS = 4096
MAX_RANGE_LAUNCHES = 1024
Names = Annotated[tuple[Name, ...], Meta(max_length=MAX_LIST)]
Stack = Annotated[tuple[tuple[Name, Index, Name], ...], Meta(max_length=MAX_MAP)]  # file, line, function
NameMap = Annotated[dict[Name, Name], Meta(max_length=MAX_MAP)]


class _Base(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Unknown keys are ignored: a newer minor version may add some."""


# --- values: scalars, constexprs, tensors as arguments see them ------------------------------


class NoneValue(_Base, frozen=True, tag="none", tag_field="kind"):
    pass


class BoolValue(_Base, frozen=True, tag="bool", tag_field="kind"):
    value: bool


class IntValue(_Base, frozen=True, tag="int", tag_field="kind"):
    """Decimal text, so that no reader rounds or truncates it."""

    value: Annotated[str, Meta(pattern=r"^-?[0-9]{1,40}$")]


class FloatValue(_Base, frozen=True, tag="float", tag_field="kind"):
    """`float.hex()` text, or ``inf``, ``-inf``, ``nan``: bit-exact and readable."""

    value: Annotated[str, Meta(pattern=r"^-?(inf|nan|0x[01]\.?[0-9a-f]*p[+-][0-9]+)$")]


class StrValue(_Base, frozen=True, tag="str", tag_field="kind"):
    value: Text


class DtypeValue(_Base, frozen=True, tag="dtype", tag_field="kind"):
    """A dtype as value. ``library``: ``triton`` (``tl.float32``) or ``torch``."""

    name: Name
    library: Literal["triton", "torch"]


class SequenceValue(_Base, frozen=True, tag="sequence", tag_field="kind"):
    """A tuple or list; ``type_name`` is set for a named tuple, with ``fields``."""

    items: Annotated[tuple[Value, ...], Meta(max_length=4096)]
    type: Literal["tuple", "list", "namedtuple"] = "tuple"
    type_name: Name | None = None
    fields: Names | None = None


class TensorValue(_Base, frozen=True, tag="tensor", tag_field="kind"):
    """A tensor argument: the view that it is. Aliasing is what views of one region show."""

    view: Index
    wrapped_dtype: Name | None = None  # triton.reinterpret(tensor, dtype)


class DescriptorValue(_Base, frozen=True, tag="descriptor", tag_field="kind"):
    """A host-side `triton.tools.tensor_descriptor.TensorDescriptor`."""

    view: Index
    shape: Shape
    strides: Strides
    block_shape: Shape
    padding: Name = "zero"


class FunctionValue(_Base, frozen=True, tag="function", tag_field="kind"):
    """A `@triton.jit` function passed as an argument: its name in the source module."""

    name: Name


class PointerValue(_Base, frozen=True, tag="pointer", tag_field="kind"):
    """An object with ``data_ptr()`` that is no tensor, or a null pointer: its address."""

    address: Address
    dtype: Name


class OpaqueValue(_Base, frozen=True, tag="opaque", tag_field="kind"):
    """A value that the format can't hold: kept for the reader's eye, refused by name at replay."""

    type_name: Name
    repr: Text


Value = (
    NoneValue | BoolValue | IntValue | FloatValue | StrValue | DtypeValue | SequenceValue
    | TensorValue | DescriptorValue | FunctionValue | PointerValue | OpaqueValue
)  # fmt: skip
ValueMap = Annotated[dict[Name, Value], Meta(max_length=MAX_MAP)]


def scalar_value(value: bool | int | float | str | None) -> Value:
    if value is None:
        return NoneValue()
    if isinstance(value, bool):
        return BoolValue(value=value)
    if isinstance(value, int):
        return IntValue(value=str(value))
    return FloatValue(value=value.hex()) if isinstance(value, float) else StrValue(value=value)


class Argument(_Base, frozen=True):
    """One parameter of the kernel, in the order of its signature."""

    name: Name
    role: Literal["runtime", "constexpr"]
    value: Value
    signature: Name | None = None  # the compiler's type: "*fp32", "i32", "constexpr", …
    divisibility: Index | None = None  # alignment that the compiled kernel was specialised on
    keyword_only: bool = False


# --- memory ------------------------------------------------------------------------------------


class Array(_Base, frozen=True):
    """An array behind textures and surfaces, in the driver's numbers (CUDA_ARRAY3D_DESCRIPTOR)."""

    width: Extent  # of the first level, in elements
    format: Index  # CUarray_format
    channels: Annotated[int, Meta(ge=1, le=4)]
    height: Extent = 0  # 0: no such dimension
    depth: Extent = 0  # or the number of layers
    flags: Index = 0
    levels: Annotated[int, Meta(ge=1, le=32)] = 1


class Owner(_Base, frozen=True):
    """Where a window of another rank's memory is in that rank."""

    rank: Index
    base: Address


class Collective(_Base, frozen=True):
    """A launch that all ranks of a job made together; each rank has a reproducer with this id."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]
    rank: Annotated[int, Meta(ge=0, lt=MAX_MAP)]
    ranks: Annotated[int, Meta(ge=2, le=MAX_MAP)]


class Region(_Base, frozen=True):
    """A range of the device's address space in the closure."""

    base: Address
    size: Size
    kind: Literal["device", "managed", "host", "global", "array"]
    device: Ordinal = 0  # -1 for the host
    reason: Name = ""  # why it is in the closure: "argument x", "reached from …"
    name: Name | None = None  # of a module global
    module: Index = 0  # of a module global: 0 is the kernel's own module
    array: Array | None = None  # of the kind "array"
    shared: Name | None = None  # whose else it is: "another process's memory on device 1 (cuMemMap)"
    owner: Owner | None = None  # of a window of another rank's memory


class ZeroRange(_Base, frozen=True):
    """Device memory around the regions that the launch may reach, zeros before and after it."""

    base: Address
    size: Size
    device: Ordinal = 0


class View(_Base, frozen=True):
    """A typed window on a region."""

    region: Index
    offset: Size
    dtype: Name  # "float32", "bfloat16", "float8_e4m3fn", "int64", "bool", …
    itemsize: Annotated[int, Meta(ge=1, le=64)]
    shape: Shape
    strides: Strides
    name: Name = ""  # "x", or "args[2]" for one inside a tuple
    requires_grad: bool = False
    # (offset in the region, bytes): the tensor's own storage, if the region is more than that.
    storage: tuple[Size, Size] | None = None


class Closure(_Base, frozen=True):
    mode: Literal["reachable", "args", "all"]
    consistency: Literal["gated", "cooperative"]
    included_bytes: Size
    left_out_bytes: Size = 0
    left_out: Names = ()
    not_held: Names = ()  # what the launch needs that no reproducer can hold: other ranks, their memory

    @property
    def without_values(self) -> bool:
        """Whether all contents were left out: there is no oracle then.

        Since --no-values asked for it, or as there is more than contents to it (`not_held`). Of a launch
        that reaches nothing but what can't be kept nothing is included either.
        """
        return bool(self.not_held) or (not self.included_bytes and ALL_CONTENTS in self.left_out)

    @property
    def why_without_values(self) -> str:
        """For a message: "captured with --no-values"; empty if there are values."""
        if self.not_held:
            return f"it needs {self.not_held[0]}, which no reproducer can hold"
        return "captured with --no-values" if self.without_values else ""


# --- the launch --------------------------------------------------------------------------------


class Kernel(_Base, frozen=True):
    name: Name
    qualified_name: LongName
    language: Literal["triton", "cuda", "hip"]
    module: Name | None = None
    file: Name | None = None  # as the application had it
    line: Index | None = None
    mangled: LongName | None = None  # the function's name in the image, if it is not `name`


class Parameters(_Base, frozen=True):
    """The parameter buffer of a native launch, byte by byte; addresses in it are the captured ones."""

    bytes: Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*$", max_length=2 * 65_536)]
    layout: Annotated[tuple[tuple[Size, Size], ...], Meta(max_length=4096)] | None = None  # (offset, size)


class LaunchAttribute(_Base, frozen=True):
    """An attribute of an extended launch: the driver's number and its value, 64 bytes."""

    id: Index
    value: Annotated[str, Meta(pattern=r"^[0-9a-f]{128}$")]


class Texture(_Base, frozen=True):
    """A texture or surface object that the launch may use: the number it has, and what is behind it."""

    handle: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    kind: Literal["texture", "surface"]
    resource: Literal["array", "mipmap", "linear", "pitch2d"]
    reason: Name = ""  # where the number was found: "parameter 0", "reached from …"
    region: Index | None = None  # of the array
    level: Index = 0  # of a mipmapped array, for "array"
    address: Address = 0  # of memory, as is all to `pitch`
    format: Index = 0
    channels: Annotated[int, Meta(ge=0, le=4)] = 0
    width: Size = 0  # elements of a row; bytes for "linear"
    height: Size = 0
    pitch: Size = 0
    sampler: Annotated[str, Meta(pattern=r"^[0-9a-f]{208}$")] | None = None  # CUDA_TEXTURE_DESC
    view: Annotated[str, Meta(pattern=r"^[0-9a-f]{224}$")] | None = None  # CUDA_RESOURCE_VIEW_DESC


class Limits(_Base, frozen=True):
    """What a CUDA context allows its kernels."""

    stack_bytes: Size  # of a thread
    heap_bytes: Size  # for malloc and new
    print_bytes: Size  # of the ring that printf writes to
    pending_launches: Size  # by kernels
    heap_in_use: bool = False  # a kernel may have used malloc


class Dispatch(_Base, frozen=True):
    """What an AMD GPU's dispatch packet says beyond the grid: its last workgroups may be partial."""

    work_items: tuple[WorkItems, WorkItems, WorkItems]
    group_bytes: PacketBytes = 0  # LDS of a workgroup, the kernel's own static part included
    private_bytes: PacketBytes = 0  # scratch of a work-item
    dimensions: Annotated[int, Meta(ge=1, le=3)] = 3
    kernel_object: Address | None = None  # of the kernel's descriptor, as the loader placed it


class GridSource(_Base, frozen=True):
    """A grid given as a callable: text and captured values, so that it can be recomputed."""

    source: Text
    bindings: ValueMap = {}  # closure and global names that it reads
    unresolved: Names = ()  # names whose values could not be stored


class Launch(_Base, frozen=True):
    grid: tuple[Index, Index, Index]
    ordinal: Index  # 0-based per process and kernel, after -k and --where
    mode: Literal["interpreter", "jit", "inductor", "native"]
    options: ValueMap = {}  # num_warps, num_stages, num_ctas, maxnreg, …
    block: tuple[Index, Index, Index] | None = None
    cluster: tuple[Index, Index, Index] | None = None
    shared_bytes: Size | None = None  # dynamic shared memory
    cooperative: bool = False
    attributes: Annotated[tuple[LaunchAttribute, ...], Meta(max_length=64)] = ()
    parameters: Parameters | None = None
    dispatch: Dispatch | None = None  # of a launch on an AMD GPU
    limits: Limits | None = None  # of its CUDA context
    textures: Annotated[tuple[Texture, ...], Meta(max_length=MAX_LIST)] = ()
    stream: Name | None = None
    route: Name | None = None  # the call that launched it, or the node of a graph
    grid_source: GridSource | None = None
    python_stack: Stack = ()  # innermost last


class AutotuneConfig(_Base, frozen=True):
    kwargs: ValueMap
    options: ValueMap = {}
    grid: tuple[Index, Index, Index] | None = None  # the grid callable's value for it
    pre_hook: GridSource | None = None


class Autotune(_Base, frozen=True):
    """The `@triton.autotune` that chose this launch's configuration."""

    configs: Annotated[tuple[AutotuneConfig, ...], Meta(max_length=MAX_LIST)]
    chosen: Index | None = None
    key: Names = ()
    reset_to_zero: Names = ()
    restore_value: Names = ()


# --- files ---------------------------------------------------------------------------------------


class StoredFile(_Base, frozen=True):
    path: RelativePath
    size: Size
    sha256: Sha256


StoredFiles = Annotated[tuple[StoredFile, ...], Meta(max_length=MAX_LIST)]


class CodeFile(_Base, frozen=True):
    """One stage of the compiled kernel."""

    # "ttir", "ttgir", "llir", "ptx", "cubin", "amdgcn", "hsaco", "metadata"; "fatbin": as the driver got it
    stage: Name
    file: StoredFile


class SourceOrigin(_Base, frozen=True):
    """Where lines of the editable module come from."""

    name: Name  # the function or constant in the module
    line: Index  # its first line in the module
    lines: Index
    original_file: Name
    original_line: Index


class IncludeFolder(_Base, frozen=True):
    """A folder that the compiler looked for headers in."""

    path: Name  # as the application had it
    form: Literal["quote", "angle", "system"] = "angle"
    stored: RelativePath | None = None  # its mirror in the reproducer: what of it the unit includes


class SourceBuild(_Base, frozen=True):
    """How the application compiled the unit that holds the kernel; enough to do it again elsewhere."""

    tool: Literal["nvrtc", "nvcc", "hiprtc", "hipcc", "numba", "numba-cuda-mlir", "cutile", "cute-dsl"]
    unit: RelativePath  # the file that is compiled: `Source.file`, or the one that includes it
    arch: Name | None = None  # "sm_90a", "gfx942"
    name: Name = ""  # the NVRTC program's name, or the unit's original path
    options: Names = ()  # one word each, those that reach device code; see build_options
    # Original path, or for NVRTC the name in #include, of each stored file other than the unit.
    headers: NameMap = {}
    include_dirs: Annotated[tuple[IncludeFolder, ...], Meta(max_length=MAX_MAP)] = ()
    external: Names = ()  # headers of toolkits and systems: named, not stored
    name_expressions: Names = ()
    directory: Name | None = None  # where the compiler ran
    compiler: Name | None = None  # "ptxas 13.0.88", as the image says


class Source(_Base, frozen=True):
    """The editable source: a standalone module, or for native code a file of the unit in `build`."""

    file: StoredFile
    entry: Name  # the kernel's name in it
    language: Literal["python", "numba", "python-dsl", "cuda", "hip", "ptx"] = "python"
    build: SourceBuild | None = None
    origins: Annotated[tuple[SourceOrigin, ...], Meta(max_length=MAX_LIST)] = ()
    originals: StoredFiles = ()  # untouched copies of the application's files; the rest of a unit
    missing: Names = ()  # names that could not be resolved, with reasons


class Memory(_Base, frozen=True):
    """`memory/index` and `memory/chunks`; see FORMAT.md for their layout."""

    chunk_bytes: Annotated[int, Meta(ge=4096, le=16 * 1024 * 1024)]
    index: StoredFile
    chunks: StoredFile
    pre_bytes: Size = 0  # non-zero bytes stored before compression
    post_bytes: Size = 0
    # What the SHA-256 of each file of chunks is of: the payloads' own digests, in order; else the file.
    # The last says that these, and those of the chunks in the index, are BLAKE3 and not SHA-256.
    digest_of: Literal["payloads", "payloads-blake3"] | None = None
    more_chunks: Annotated[tuple[StoredFile, ...], Meta(max_length=15)] = ()  # `memory/chunks.1` and so on

    @property
    def chunk_files(self) -> tuple[StoredFile, ...]:
        return (self.chunks, *self.more_chunks)

    @property
    def stored_bytes(self) -> int:
        return sum(file.size for file in self.chunk_files)

    @property
    def digest(self) -> Digest:
        """Of chunks and payloads."""
        return "blake3" if self.digest_of == "payloads-blake3" else "sha256"


# --- the whole -----------------------------------------------------------------------------------


class Tool(_Base, frozen=True):
    name: Name
    version: Name


class Platform(_Base, frozen=True):
    system: Name
    machine: Name
    python: Name
    packages: NameMap = {}  # torch, triton, … as found in the target


class Device(_Base, frozen=True):
    kind: Literal["cpu", "cuda", "hip"]
    name: Name
    arch: Name | None = None  # "sm_90", "gfx942"
    ordinal: Ordinal = 0
    memory_bytes: Size | None = None
    driver: Name | None = None


class Oracle(_Base, frozen=True):
    """What the application itself produced, and how far to believe it."""

    kind: Literal["trusted", "suspect", "fault", "timeout", "regenerated"]
    error: Text | None = None
    condition: Name | None = None  # "nonfinite", "differs": why it was kept; "unrecorded"
    detail: Text | None = None
    printed: Text | None = None  # by the kernel; None: nothing, or it is not known

    @property
    def is_unrecorded(self) -> bool:
        """Whether nobody knows the result: another tool recorded what the launch began with, and no more."""
        return self.condition == UNRECORDED


class Version(_Base, frozen=True):
    major: Index
    minor: Index


class Manifest(_Base, frozen=True):
    format: Literal["kerncap-reproducer"]
    version: Version
    tool: Tool
    created: Name  # UTC, ISO 8601
    command: Names
    platform: Platform
    device: Device
    kernel: Kernel
    launch: Launch
    arguments: Annotated[tuple[Argument, ...], Meta(max_length=4096)]
    regions: Annotated[tuple[Region, ...], Meta(max_length=MAX_LIST)]
    views: Annotated[tuple[View, ...], Meta(max_length=MAX_VIEWS)]
    closure: Closure
    memory: Memory
    oracle: Oracle
    zeros: Annotated[tuple[ZeroRange, ...], Meta(max_length=MAX_MAP)] = ()
    environment: NameMap = {}
    code: Annotated[tuple[CodeFile, ...], Meta(max_length=MAX_LIST)] = ()
    compiled: ValueMap = {}  # facts of the compiled kernel: shared, num_warps, name, …
    source: Source | None = None
    autotune: Autotune | None = None
    collective: Collective | None = None
    files: StoredFiles = ()  # README.md and other extras
    # What a reader should know: refusals, relocations.
    notes: Annotated[tuple[Text, ...], Meta(max_length=MAX_MAP)] = ()

    @property
    def why_no_result(self) -> str:
        """For a message: why there is nothing to compare with; empty if there is."""
        missing = "no result was recorded" if self.oracle.is_unrecorded else ""
        return self.closure.why_without_values or missing


# --- a range of launches ---------------------------------------------------------------------------


class RangeMemory(_Base, frozen=True):
    """`memory/index` and `memory/chunks` of all launches of a range."""

    chunk_bytes: Annotated[int, Meta(ge=4096, le=16 * 1024 * 1024)]
    index: StoredFile
    chunks: StoredFile  # its SHA-256 is of the payloads' own digests, as `Memory.digest_of` has it
    digest_of: Literal["payloads", "payloads-blake3"] = "payloads"


class RangeLaunch(_Base, frozen=True):
    """One launch of a range; ``manifest`` is that of a reproducer of this launch only."""

    position: Index  # in the order of the program's launches, as the capture counted them
    manifest: StoredFile


class MissingLaunch(_Base, frozen=True):
    """A launch that belongs to the range, and that could not be captured."""

    position: Index
    reason: Text
    kernel: LongName = ""


class RangeStream(_Base, frozen=True):
    """A stream that a launch of a range, or what orders it, is on."""

    kind: Literal[
        "legacy", "blocking", "non_blocking"
    ]  # legacy: the default stream that waits for blocking ones
    context: Index = 0


class LaunchPlace(_Base, frozen=True):
    stream: Index
    thread: Index  # of the host


class OrderingCall(_Base, frozen=True):
    """A driver call between two launches of a range that may order its streams."""

    before: Index  # the launch of the range that comes next
    call: Literal["record", "wait", "synchronize", "synchronize_event", "synchronize_all", "work", "unknown"]
    thread: Index
    stream: Index | None = None
    event: Index | None = None


class StreamOrder(_Base, frozen=True):
    """All that may order the launches of a range."""

    streams: Annotated[tuple[RangeStream, ...], Meta(max_length=MAX_MAP)]
    launches: Annotated[tuple[LaunchPlace, ...], Meta(max_length=MAX_RANGE_LAUNCHES)]
    calls: Annotated[tuple[OrderingCall, ...], Meta(max_length=MAX_LIST)] = ()


class RangeManifest(_Base, frozen=True):
    """manifest.json of a range: consecutive launches of one process on one device."""

    format: Literal["kerncap-range"]
    version: Version
    tool: Tool
    created: Name  # of the first launch; UTC, ISO 8601
    memory: RangeMemory
    launches: Annotated[tuple[RangeLaunch, ...], Meta(min_length=1, max_length=MAX_RANGE_LAUNCHES)]
    missing: Annotated[tuple[MissingLaunch, ...], Meta(max_length=MAX_MAP)] = ()
    order: StreamOrder | None = None  # not recorded
    files: StoredFiles = ()  # README.md
    notes: Annotated[tuple[Text, ...], Meta(max_length=MAX_MAP)] = ()
