"""The session's contract.

Written by tools/contract.py from shims/contract: edit that instead.
"""

# ruff: noqa: E501
# fmt: off
from __future__ import annotations

import enum
import struct
from typing import Any, Final, List, Literal, Optional, Tuple

MAGIC = 0x5243434B
VERSION = 1
ALIGNMENT = 8
MAX_PAYLOAD = (256 * 1024 * 1024)
HEADER = struct.Struct("<IHHQII")


class RecordKind(enum.IntEnum):
    PROCESS = 1
    SEEN = 2
    LAUNCH = 3
    COMPLETE = 4
    DROPPED = 5
    FAILED = 6
    COUNTS = 7
    END = 8
    ANNOTATION = 9
    LAST = 10
    PROGRESS = 11
    TRACED = 13
    TIMELINE = 14


class key:
    """Keys of payloads, by object in shims/contract/payloads.def."""

    address = "address"
    addresses = "addresses"
    after = "after"
    annotation = "annotation"
    arch = "arch"
    arguments = "arguments"
    argv = "argv"
    array = "array"
    ask = "ask"
    autotune = "autotune"
    base = "base"
    before = "before"
    bindings = "bindings"
    block = "block"
    bytes = "bytes"
    call = "call"
    captured = "captured"
    channels = "channels"
    chosen = "chosen"
    chunks = "chunks"
    clock = "clock"
    clock_reason = "clock_reason"
    closure = "closure"
    cluster = "cluster"
    code = "code"
    collective = "collective"
    compiled = "compiled"
    complete = "complete"
    condition = "condition"
    config = "config"
    configs = "configs"
    consistency = "consistency"
    context = "context"
    cooperative = "cooperative"
    copy_ns = "copy_ns"
    cwd = "cwd"
    demangled = "demangled"
    depth = "depth"
    detail = "detail"
    device = "device"
    dimensions = "dimensions"
    dispatch = "dispatch"
    divisibility = "divisibility"
    done = "done"
    driver = "driver"
    dtype = "dtype"
    duration_ns = "duration_ns"
    ends = "ends"
    error = "error"
    event = "event"
    events = "events"
    executable = "executable"
    file = "file"
    filtered = "filtered"
    flags = "flags"
    format = "format"
    generation = "generation"
    globals = "globals"
    graph = "graph"
    graphs = "graphs"
    grid = "grid"
    grid_source = "grid_source"
    group_bytes = "group_bytes"
    handle = "handle"
    hashed = "hashed"
    headers = "headers"
    heap_bytes = "heap_bytes"
    heap_in_use = "heap_in_use"
    height = "height"
    id = "id"
    image = "image"
    image_kind = "image_kind"
    included_bytes = "included_bytes"
    index = "index"
    itemsize = "itemsize"
    keep = "keep"
    kernel = "kernel"
    kernel_object = "kernel_object"
    kernels = "kernels"
    key = "key"
    keyword_only = "keyword_only"
    kind = "kind"
    kwargs = "kwargs"
    launch = "launch"
    launch_attributes = "launch_attributes"
    launches = "launches"
    layout = "layout"
    left_out = "left_out"
    left_out_bytes = "left_out_bytes"
    level = "level"
    levels = "levels"
    limits = "limits"
    line = "line"
    local_rank = "local_rank"
    lost = "lost"
    lowered = "lowered"
    mangled = "mangled"
    mapped_from = "mapped_from"
    match = "match"
    matched = "matched"
    max_ns = "max_ns"
    memfd = "memfd"
    memory_bytes = "memory_bytes"
    min_ns = "min_ns"
    mode = "mode"
    module = "module"
    name = "name"
    not_held = "not_held"
    notes = "notes"
    offset = "offset"
    options = "options"
    oracle = "oracle"
    order = "order"
    ordinal = "ordinal"
    origin = "origin"
    overhead_ns = "overhead_ns"
    owner = "owner"
    packages = "packages"
    parameters = "parameters"
    parent_folder = "parent_folder"
    pending_launches = "pending_launches"
    pid = "pid"
    pitch = "pitch"
    position = "position"
    post = "post"
    pre = "pre"
    pre_hook = "pre_hook"
    pre_offsets = "pre_offsets"
    print_bytes = "print_bytes"
    printed = "printed"
    private_bytes = "private_bytes"
    process = "process"
    program = "program"
    python = "python"
    python_stack = "python_stack"
    qualified_name = "qualified_name"
    range = "range"
    rank = "rank"
    ranks = "ranks"
    reason = "reason"
    refusal = "refusal"
    region = "region"
    regions = "regions"
    requires_grad = "requires_grad"
    reset_to_zero = "reset_to_zero"
    resource = "resource"
    rest = "rest"
    restore_value = "restore_value"
    role = "role"
    route = "route"
    rows = "rows"
    sampler = "sampler"
    shape = "shape"
    shared = "shared"
    shared_bytes = "shared_bytes"
    shim = "shim"
    signature = "signature"
    size = "size"
    source = "source"
    source_known = "source_known"
    sparse = "sparse"
    stack = "stack"
    stack_bytes = "stack_bytes"
    stage = "stage"
    starts = "starts"
    statics = "statics"
    status = "status"
    storage = "storage"
    stream = "stream"
    stream_kind = "stream_kind"
    stream_number = "stream_number"
    strides = "strides"
    stripe_bytes = "stripe_bytes"
    stripes = "stripes"
    textures = "textures"
    things = "things"
    thread = "thread"
    time_ns = "time_ns"
    timed = "timed"
    token = "token"
    total = "total"
    unresolved = "unresolved"
    value = "value"
    view = "view"
    views = "views"
    waits = "waits"
    width = "width"
    work_items = "work_items"


class word:
    """Words that stand for one of several things, by set."""

    class shim:
        cuda: Final = "cuda"
        hip: Final = "hip"
        triton: Final = "triton"

    class backend:
        automatic: Final = "auto"
        cuda: Final = "cuda"
        hip: Final = "hip"
        triton: Final = "triton"

    class mode:
        interpreter: Final = "interpreter"
        jit: Final = "jit"
        inductor: Final = "inductor"
        native: Final = "native"

    class when:
        nonfinite: Final = "nonfinite"
        differs: Final = "differs"

    class condition:
        on_fault: Final = "on_fault"
        nonfinite: Final = "nonfinite"
        differs: Final = "differs"

    class memory:
        reachable: Final = "reachable"
        args: Final = "args"
        all: Final = "all"

    class consistency:
        gated: Final = "gated"
        cooperative: Final = "cooperative"

    class status:
        complete: Final = "complete"
        fault: Final = "fault"
        timeout: Final = "timeout"

    class oracle:
        trusted: Final = "trusted"
        suspect: Final = "suspect"
        fault: Final = "fault"
        timeout: Final = "timeout"

    class device_kind:
        cpu: Final = "cpu"
        cuda: Final = "cuda"
        hip: Final = "hip"

    class region_kind:
        device: Final = "device"
        managed: Final = "managed"
        host: Final = "host"
        variable: Final = "global"
        array: Final = "array"

    class texture_kind:
        texture: Final = "texture"
        surface: Final = "surface"

    class texture_resource:
        array: Final = "array"
        mipmap: Final = "mipmap"
        linear: Final = "linear"
        pitch2d: Final = "pitch2d"

    class image_kind:
        fatbin: Final = "fatbin"
        elf: Final = "elf"
        ptx: Final = "ptx"
        unknown: Final = "unknown"

    class stream_call:
        launch: Final = "launch"
        record: Final = "record"
        wait: Final = "wait"
        forget: Final = "forget"
        synchronize: Final = "synchronize"
        synchronize_event: Final = "synchronize_event"
        synchronize_all: Final = "synchronize_all"
        work: Final = "work"
        unknown: Final = "unknown"

    class stream_kind:
        legacy: Final = "legacy"
        blocking: Final = "blocking"
        non_blocking: Final = "non_blocking"

    class role:
        runtime: Final = "runtime"
        constexpr_: Final = "constexpr"

    class filter:
        name: Final = "name"
        where: Final = "where"
        range: Final = "range"
        rank: Final = "rank"
        ordinal: Final = "ordinal"
        config: Final = "config"
        autotuner: Final = "autotuner"
        no_source: Final = "no source"
        no_answer: Final = "no answer"
        no_space: Final = "no space"
        limit: Final = "limit"
        failed: Final = "failed"
        dormant: Final = "dormant"

    class clock:
        cupti: Final = "cupti"
        events: Final = "events"
        hsa: Final = "hsa"
        host: Final = "host"

    class timed:
        launch: Final = "launch"
        copy: Final = "copy"
        fill: Final = "fill"
        range: Final = "range"

    class ask:
        match: Final = "match"
        range: Final = "range"
        globals: Final = "globals"
        waits: Final = "waits"

    class step:
        name: Final = "name"
        constant: Final = "const"
        list: Final = "list"
        attribute: Final = "attr"
        item: Final = "item"
        both: Final = "and"
        either: Final = "or"
        negated: Final = "not"
        within: Final = "in"


Shim = Literal["cuda", "hip", "triton"]
Backend = Literal["auto", "cuda", "hip", "triton"]
Mode = Literal["interpreter", "jit", "inductor", "native"]
When = Literal["nonfinite", "differs"]
Condition = Literal["on_fault", "nonfinite", "differs"]
Memory = Literal["reachable", "args", "all"]
Consistency = Literal["gated", "cooperative"]
Status = Literal["complete", "fault", "timeout"]
Oracle = Literal["trusted", "suspect", "fault", "timeout"]
DeviceKind = Literal["cpu", "cuda", "hip"]
RegionKind = Literal["device", "managed", "host", "global", "array"]
TextureKind = Literal["texture", "surface"]
TextureResource = Literal["array", "mipmap", "linear", "pitch2d"]
ImageKind = Literal["fatbin", "elf", "ptx", "unknown"]
StreamCall = Literal["launch", "record", "wait", "forget", "synchronize", "synchronize_event", "synchronize_all", "work", "unknown"]
StreamKind = Literal["legacy", "blocking", "non_blocking"]
Role = Literal["runtime", "constexpr"]
Filter = Literal["name", "where", "range", "rank", "ordinal", "config", "autotuner", "no source", "no answer", "no space", "limit", "failed", "dormant"]
Clock = Literal["cupti", "events", "hsa", "host"]
Timed = Literal["launch", "copy", "fill", "range"]
Ask = Literal["match", "range", "globals", "waits"]
Step = Literal["name", "const", "list", "attr", "item", "and", "or", "not", "in"]


class default:
    """Of the options of session.json."""

    version: int = 0
    token: str = ""
    socket: str = ""
    questions: str = ""
    backend: Backend = "auto"
    list_only: bool = False
    trace: bool = False
    trace_native: bool = False
    timeline: bool = False
    dormant: bool = False
    generation: int = 0
    by_default: bool = False
    limit_kernels: int = 10
    limit_bytes: int = 4294967296
    drain_timeout_s: float = 5.0
    chunk_bytes: int = 262144
    kernel: Optional[str] = None
    launch: Optional[Tuple[int, int]] = None
    launches: Optional[Tuple[int, int]] = None
    from_kernel: Optional[str] = None
    from_skip: int = 0
    to_kernel: Optional[str] = None
    to_skip: int = 0
    whole_range: Optional[int] = None
    graph: Optional[int] = None
    graph_skip: int = 0
    per_config: bool = False
    where: Optional[List[List[Any]]] = None
    range: Optional[str] = None
    ranks: Optional[List[int]] = None
    collective: Optional[int] = None
    collective_timeout_s: float = 60.0
    on_fault: bool = False
    fault_timeout_s: float = 60.0
    when: Optional[When] = None
    last: Optional[int] = None
    stop: bool = False
    memory: Memory = "reachable"
    max_size: int = 8589934592
    no_values: bool = False


class Options(default):
    """session.json. Raises ValueError if the file is not one."""

    def __init__(self, data: Any) -> None:
        for group, names in _GROUPS:
            part = data.get(group) if group != "session" and isinstance(data, dict) else data
            if not isinstance(part, dict):
                raise ValueError("not the options of a session")
            for name in names:
                if name in part:
                    setattr(self, name, part[name])


_GROUPS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("selection", ("kernel", "launch", "launches", "from_kernel", "from_skip", "to_kernel", "to_skip", "whole_range", "graph", "graph_skip", "per_config", "where", "range", "ranks", "collective", "collective_timeout_s", "on_fault", "fault_timeout_s", "when", "last", "stop",)),
    ("keep", ("memory", "max_size", "no_values",)),
    ("session", ("version", "token", "socket", "questions", "backend", "list_only", "trace", "trace_native", "timeline", "dormant", "generation", "by_default", "limit_kernels", "limit_bytes", "drain_timeout_s", "chunk_bytes",)),
)


class Functions:
    """kerncap_<vendor>_<name> of a native shim in this process; None for what it lacks."""

    def __init__(self, library: Any, vendor: str) -> None:
        import ctypes  # not by kerncap, which reads this file too

        def function(name: str, result: Any, *parameters: Any) -> Any:
            found = getattr(library, f"kerncap_{vendor}_{name}", None)
            if found is not None:
                found.restype, found.argtypes = result, parameters
            return found

        self.live = function("live", ctypes.c_int)
        self.own = function("own", None, ctypes.c_char_p)
        self.choose = function("choose", None, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p)
        self.choose_types = function("choose_types", None, ctypes.c_uint64, ctypes.c_char_p)
        self.outcome = function("outcome", ctypes.c_int, ctypes.c_uint64, ctypes.c_char_p, ctypes.c_ulong)
        self.config = function("config", None, ctypes.c_char_p)
        self.count_launch = function("count_launch", ctypes.c_long, ctypes.c_int, ctypes.c_int, ctypes.c_uint64)
        self.range_counted = function("range_counted", ctypes.c_int)
        self.disarmed = function("disarmed", ctypes.c_int)
        self.choose_in_graph = function("choose_in_graph", None, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_char_p)
        self.range = function("range", ctypes.c_long, ctypes.c_char_p, ctypes.c_ulong)
        self.digests = function("digests", ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_long, ctypes.c_char_p)
        self.mirror_wait = function("mirror_wait", ctypes.c_uint64)
        self.mirror_answer = function("mirror_answer", None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_long)
        self.mirror_offer = function("mirror_offer", None, ctypes.c_void_p, ctypes.c_long)
        self.run_add = function("run_add", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        self.run_count = function("run_count", None, ctypes.c_void_p, ctypes.c_void_p)
        self.run_get = function("run_get", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
