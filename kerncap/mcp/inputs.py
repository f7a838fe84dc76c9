"""What each tool takes, as types: the one source of the input schemas."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct


def _says(text: str) -> Meta:
    return Meta(description=text)


Repro = Annotated[str, _says("A reproducer's folder.")]
Output = Annotated[str, _says("Output folder.")]
Candidate = Annotated[
    str | None, _says("File to run instead of the captured kernel: a source (.py, .cu, .hip) or an image.")
]
Tolerance = Annotated[float, Meta(ge=0, description="Tolerance; default: the dtype's.")] | None
Limit = Annotated[float, Meta(gt=0, le=86400, description="Time limit of the call, in seconds.")] | None
Command = Annotated[
    tuple[str, ...],
    Meta(min_length=1, max_length=4096, description="The program and its arguments, as separate words."),
]


class Takes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all tools that run something take."""

    timeout_s: Limit = None


class Nothing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Inspect(Takes, frozen=True, kw_only=True):
    repro: Repro


class FromCore(Takes, frozen=True, kw_only=True):
    core: Annotated[
        str,
        _says(
            "A GPU core dump, as CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1 makes a program write, or ROCm with "
            "ulimit -c unlimited (gpucore.PID, with core.PID next to it); or a log of the crash."
        ),
    ]
    exe: Annotated[str | None, _says("A program whose kernels have the lines that the dump lacks.")] = None


class FromRecording(Takes, frozen=True, kw_only=True):
    recording: Annotated[str, _says("A log of tritonparse (.ndjson), or a folder of AMD's kerncap.")]
    kernel: Annotated[str | None, _says("A regular expression, searched in the kernel's name.")] = None
    launch: Annotated[int, Meta(ge=0, description="Number of the launch of each kernel.")] = 0
    max_size: Annotated[str | None, _says("Refuse launches with more memory, such as 500MB.")] = None
    output: Output = "kerncap-out"


class List(Takes, frozen=True, kw_only=True):
    command: Command
    by: Annotated[
        Literal["range", "graph", "stream", "device", "rank", "configuration"] | None,
        _says("Split launches by NVTX range, graph, stream, device, rank or configuration."),
    ] = None
    top: Annotated[int, Meta(ge=0, description="Number of kernels, most expensive first; 0 for all.")] = 20


class Capture(Takes, frozen=True, kw_only=True):
    command: Command
    kernel: Annotated[str | None, _says("A regular expression, searched in the kernel's name.")] = None
    launch: Annotated[str | None, _says("N or N:M: these launches of each kernel, from 0.")] = None
    where: Annotated[
        str | None, _says("Only launches for which it is true, such as 'n > 1024 and x.ndim == 2'.")
    ] = None
    range: Annotated[str | None, _says("Regular expression: launches inside a matching NVTX range.")] = None
    rank: Annotated[
        str | None, _says("N or N,M: only processes of these ranks of a distributed program.")
    ] = None
    when: Annotated[
        Literal["nonfinite", "differs"] | None,
        _says("Keep launches that produce NaN or Inf, or differ when run again."),
    ] = None
    on_fault: Annotated[bool, _says("Keep the launch that faults, hangs or aborts.")] = False
    memory: Annotated[
        Literal["reachable", "args", "all"] | None,
        _says("Memory to capture: what the launch can reach, its arguments', or all of it."),
    ] = None
    max_size: Annotated[str | None, _says("Refuse launches with more memory, such as 500MB.")] = None
    stop: Annotated[bool, _says("End the program once everything chosen is captured.")] = False
    no_values: Annotated[bool, _says("Leave out the memory's contents.")] = False
    output: Output = "kerncap-out"


class Replay(Takes, frozen=True, kw_only=True):
    repro: Repro
    candidate: Candidate = None
    device: Annotated[str | None, _says("auto, cpu, cuda:N or hip:N.")] = None
    timed_runs: Annotated[int, Meta(ge=0, le=100_000, description="Timed runs.")] | None = None
    rtol: Tolerance = None
    atol: Tolerance = None


class Verify(Replay, frozen=True, kw_only=True):
    stages: Annotated[
        str | None, _says("smoke, oracle, determinism, numerics, shapes, sanitizer, memory, timing; or all.")
    ] = None
    hostile: Annotated[
        bool, _says("Treat a candidate as an attacker: all stages, confined. False is faster.")
    ] = True
    prove: Annotated[
        bool, _says("Prove that a candidate in Triton or CUDA C++ is the same function for all float values.")
    ] = False
    reference: Annotated[str | None, _says("A Python file with reference(args).")] = None
    expect: Annotated[Literal["finite"] | None, _says("Require every written value to be finite.")] = None


class Prove(Takes, frozen=True, kw_only=True):
    a: Annotated[str, _says("A reproducer's folder, or a source of its kernel in Triton or CUDA C++.")]
    b: Annotated[str, _says("The same. A source runs on the launch of the other.")]
    launch: Annotated[str | None, _says("Reproducer whose launch two sources run on.")] = None
    same: Annotated[
        dict[str, str],
        _says("For two reproducers: argument of a -> the argument of b that it corresponds to."),
    ] = {}
    result: Annotated[dict[str, str], _says("The same for tensors that only have to agree at the end.")] = {}
    then: Annotated[
        tuple[str, ...], _says("Reproducers of launches that follow b's, as one kernel with it.")
    ] = ()


class Sanitize(Takes, frozen=True, kw_only=True):
    repro: Repro
    checks: Annotated[
        str | None,
        _says("Checks: oob, race, uninit, overflow, promise, alignment, descriptor, shared; by commas."),
    ] = None
    bounds: Annotated[
        Literal["view", "storage", "allocation"], _says("Memory that an access must stay inside.")
    ] = "storage"
    baseline: Annotated[
        str | None, _says("SARIF of an earlier run: findings in it are known, and only new ones fail.")
    ] = None

    for_all: Annotated[
        tuple[str, ...], _says("For all sizes: n=1..8192, stride=n, idx=0..n-1. Checks oob, overflow, race.")
    ] = ()
    grid: Annotated[str | None, _says("With for_all: the grid over the sizes, as in cdiv(n,1024).")] = None
    arguments: Annotated[
        tuple[str, ...], _says("With for_all: shapes that don't follow from the capture, as in x=f32[M,K].")
    ] = ()


class SanitizeProgram(Takes, frozen=True, kw_only=True):
    command: Command
    checks: Annotated[str | None, _says("As for sanitize.")] = None
    bounds: Annotated[Literal["view", "storage", "allocation"], _says("As for sanitize.")] = "storage"
    baseline: Annotated[str | None, _says("As for sanitize.")] = None


class Blame(Takes, frozen=True, kw_only=True):
    repro: Repro
    candidate: Annotated[str | None, _says("A Python source to compile instead of the captured one.")] = None
    exact: Annotated[bool, _says("Count any bit that an evaluated stage changes.")] = False
    output: Annotated[str | None, _says("A new folder for a bug report.")] = None


class Tune(Takes, frozen=True, kw_only=True):
    repros: Annotated[tuple[str, ...], Meta(min_length=1, max_length=64, description="Reproducers.")]
    trials: Annotated[int, Meta(ge=1, le=200, description="Maximum number of configurations to run.")] = 12
    seconds: Annotated[float, Meta(gt=0, le=3600, description="Seconds to search.")] = 120.0
    hostile: Annotated[bool, _says("Treat the source as an attacker: confined. False is faster.")] = True


class Minimize(Takes, frozen=True, kw_only=True):
    repro: Repro
    output: Output = "kerncap-out"
    seconds: Annotated[float, Meta(ge=1, le=3600, description="Limit for the search, in seconds.")] = 120.0


class Diverge(Takes, frozen=True, kw_only=True):
    command: Command
    other: Annotated[
        tuple[str, ...], Meta(max_length=4096, description="The second program; default: the same one again.")
    ] = ()
    env: Annotated[
        dict[str, str], Meta(max_length=256, description="Variables that are set for the second run only.")
    ] = {}
    kernel: Annotated[str | None, _says("A regular expression: only kernels whose name matches.")] = None
    ulps: Tolerance = None
    rtol: Tolerance = None
    atol: Tolerance = None
    rounds: Annotated[int, Meta(ge=0, description="Maximum number of differing launches to capture.")] = 4
    budget: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        _says("Limit for the search, as a multiple of what the programs take without kerncap."),
    ] = None
    output: Annotated[str | None, _says("Folder for the reproducers.")] = None


class Diff(Takes, frozen=True, kw_only=True):
    a: Repro
    b: Repro


class Pack(Takes, frozen=True, kw_only=True):
    repro: Repro
    output: Annotated[str | None, _says("FILE.zip; by default the folder's name, in the first root.")] = None
    dry_run: Annotated[bool, _says("List what would be packed, and write nothing.")] = False


class Unpack(Takes, frozen=True, kw_only=True):
    archive: Annotated[str, _says("A .zip from pack.")]
    output: Output = "."


class Export(Takes, frozen=True, kw_only=True):
    repro: Repro
    kind: Annotated[
        Literal["script", "cmake", "pytest", "kernelbench", "flashinfer-trace", "pygpubench"],
        _says(
            "A Python script (Triton); a CMake project in CUDA or HIP; a pytest file with one of the two; "
            "a task of KernelBench, FlashInfer Trace or PyGPUBench (Triton)."
        ),
    ]
    output: Annotated[str | None, _says("A new folder, or FILE.py for a script.")] = None


class Report(Takes, frozen=True, kw_only=True):
    repro: Repro
    output: Annotated[str | None, _says("FILE.html; by default the folder's name, in the first root.")] = None


class ReadResult(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    result: Annotated[int, _says("Number of the answer.")]
    at: Annotated[str, _says("JSON pointer into its document, as in left_out.")] = ""
    offset: Annotated[int, Meta(ge=0, description="The first item, key or character.")] = 0
