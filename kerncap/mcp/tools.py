"""The tools: what each takes, the command line that it becomes, and the document that comes back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import Struct

from kerncap.errors import UsageError
from kerncap.mcp import inputs
from kerncap.mcp.allowed import Allowed


@dataclass(frozen=True)
class Context:
    """What the person who started the server decided."""

    allowed: Allowed
    python: str | None = None  # for replays; a Python that has torch and triton
    resident: bool = False  # verify is carried out by a process that stays


@dataclass(frozen=True)
class Tool:
    """``document`` is a name of `kerncap.api.schemas`. The last three are hints for the client."""

    name: str
    text: str
    takes: type[Struct]
    document: str
    words: Callable[[Any, Context], list[str]]
    timeout_s: float = 600.0
    read_only: bool = False  # executes nothing out of a reproducer, and runs no program
    destructive: bool = False
    open_world: bool = False


def _options(**given: Any) -> list[str]:
    """``--name=value`` for each that is given: a value that begins with a dash stays a value."""
    words = []
    for name, value in given.items():
        spelled = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(spelled)
        elif value is not None and value is not False:
            words.append(f"{spelled}={value}")
    return words


def _repro(text: str, context: Context) -> str:
    return str(context.allowed.path(text, "repro"))


def _file(text: str | None, name: str, context: Context) -> str | None:
    return None if text is None else str(context.allowed.path(text, name))


def _inspect(given: inputs.Inspect, context: Context) -> list[str]:
    return ["inspect", "--json", _repro(given.repro, context)]


def _from_core(given: inputs.FromCore, context: Context) -> list[str]:
    core = str(context.allowed.path(given.core, "core"))
    within = [f"--within={root}" for root in context.allowed.roots]
    return ["from-core", "--json", *_options(exe=_file(given.exe, "exe", context)), *within, core]


def _from_recording(given: inputs.FromRecording, context: Context) -> list[str]:
    recording = str(context.allowed.path(given.recording, "recording"))
    options = _options(
        kernel=given.kernel, launch=given.launch, max_size=given.max_size,
        output=_file(given.output, "output", context),
    )  # fmt: skip
    return ["from-recording", "--json", *options, recording]


def _doctor(_given: inputs.Nothing, context: Context) -> list[str]:
    return ["doctor", "--json", *_options(python=context.python)]


def _list(given: inputs.List, _context: Context) -> list[str]:
    return ["list", "--json", *_options(by=given.by, top=given.top), "--", *given.command]


def _capture(given: inputs.Capture, context: Context) -> list[str]:
    options = _options(
        kernel=given.kernel, launch=given.launch, where=given.where, range=given.range, rank=given.rank,
        when=given.when, on_fault=given.on_fault,
        memory=given.memory, max_size=given.max_size, stop=given.stop, no_values=given.no_values,
        output=_file(given.output, "output", context),
    )  # fmt: skip
    return ["capture", "--json", *options, "--", *given.command]


def _run_options(given: inputs.Replay, context: Context) -> list[str]:
    candidate = _file(given.candidate, "candidate", context)
    return _options(
        candidate=candidate, device=given.device, rtol=given.rtol, atol=given.atol, python=context.python
    )


def _replay(given: inputs.Replay, context: Context) -> list[str]:
    times = [] if given.timed_runs is None else ["-n", str(given.timed_runs)]
    return ["replay", "--json", *_run_options(given, context), *times, _repro(given.repro, context)]


def _verify(given: inputs.Verify, context: Context) -> list[str]:
    reference = _file(given.reference, "reference", context)
    options = _options(stages=given.stages, reference=reference, expect=given.expect)
    if given.candidate is not None and given.hostile:
        options.append("--hostile")
    if given.prove:
        options.append("--prove")
    options += ["--resident"] * context.resident
    return [
        "verify",
        "--json",
        "--progress",
        *_run_options(given, context),
        *options,
        _repro(given.repro, context),
    ]


def _prove(given: inputs.Prove, context: Context) -> list[str]:
    places = [(given.a, "a"), (given.b, "b"), *((one, "then") for one in given.then)]
    sides = [str(context.allowed.path(text, name)) for text, name in places]
    same = [f"--same={name}={other}" for name, other in given.same.items()]
    same += [f"--result={name}={other}" for name, other in given.result.items()]
    options = _options(launch=_file(given.launch, "launch", context), python=context.python)
    return ["prove", "--json", *options, *same, *sides]


def _sanitize(given: inputs.Sanitize, context: Context) -> list[str]:
    baseline = _file(given.baseline, "baseline", context)
    options = _options(
        check=given.checks, bounds=given.bounds, baseline=baseline, grid=given.grid, python=context.python
    )
    options += [f"--for-all={one}" for one in given.for_all]
    options += [f"--arg={one}" for one in given.arguments]
    return ["sanitize", "--json", *options, _repro(given.repro, context)]


def _sanitize_program(given: inputs.SanitizeProgram, context: Context) -> list[str]:
    baseline = _file(given.baseline, "baseline", context)
    options = _options(check=given.checks, bounds=given.bounds, baseline=baseline)
    return ["sanitize", "--json", *options, "--", *given.command]


def _blame(given: inputs.Blame, context: Context) -> list[str]:
    candidate = _file(given.candidate, "candidate", context)
    output = _file(given.output, "output", context)
    options = _options(candidate=candidate, exact=given.exact, output=output, python=context.python)
    return ["blame", "--json", *options, _repro(given.repro, context)]


def _tune(given: inputs.Tune, context: Context) -> list[str]:
    repros = [_repro(each, context) for each in given.repros]
    options = _options(trials=given.trials, time=given.seconds, python=context.python)
    return ["tune", "--json", *(["--hostile"] if given.hostile else []), *options, *repros]


def _minimize(given: inputs.Minimize, context: Context) -> list[str]:
    output = _file(given.output, "output", context)
    options = _options(output=output, time=given.seconds, python=context.python)
    return ["minimize", "--json", *options, _repro(given.repro, context)]


def _pack(given: inputs.Pack, context: Context) -> list[str]:
    repro = context.allowed.path(given.repro, "repro")
    output = _file(given.output or f"{repro.name}.zip", "output", context)
    return ["pack", "--json", *_options(output=output, dry_run=given.dry_run), str(repro)]


def _diff(given: inputs.Diff, context: Context) -> list[str]:
    sides = [context.allowed.path(text, name) for text, name in ((given.a, "a"), (given.b, "b"))]
    for side in sides:
        if not side.is_dir():
            raise UsageError(f"{side}: expected a reproducer's folder")
    return ["diff", "--json", *map(str, sides)]


def _diverge(given: inputs.Diverge, context: Context) -> list[str]:
    options = _options(
        kernel=given.kernel, ulps=given.ulps, rtol=given.rtol, atol=given.atol, rounds=given.rounds,
        budget=given.budget, output=_file(given.output, "output", context),
    )  # fmt: skip
    for name, program in (("command", given.command), ("other", given.other)):
        if "--" in program:
            raise UsageError(f"{name}: holds --, which separates the programs; use a script without it")
    variables = [f"--env={name}={value}" for name, value in given.env.items()]
    other = ["--", *given.other] if given.other else []
    return ["diverge", "--json", *options, *variables, "--", *given.command, *other]


def _export(given: inputs.Export, context: Context) -> list[str]:
    repro = context.allowed.path(given.repro, "repro")
    output = _file(given.output or f"{repro.name}-{given.kind}", "output", context)
    return ["export", "--json", f"--as={given.kind}", f"--output={output}", str(repro)]


def _report(given: inputs.Report, context: Context) -> list[str]:
    repro = context.allowed.path(given.repro, "repro")
    output = _file(given.output or f"{repro.name}.html", "output", context)
    return ["report", "--json", f"--output={output}", str(repro)]


def _unpack(given: inputs.Unpack, context: Context) -> list[str]:
    output = _file(given.output, "output", context)
    return ["unpack", "--json", *_options(output=output), str(context.allowed.path(given.archive, "archive"))]


_RUNS = "Run a program, which may do anything. "

TOOLS = (
    Tool("doctor", "Report which of CUDA, HIP and Triton work on this machine, and the next step.",
         inputs.Nothing, "doctor", _doctor, 180, read_only=True),
    Tool("list", _RUNS + "List its GPU kernels by time, with the command that captures each.",
         inputs.List, "list", _list, destructive=True, open_world=True),
    Tool("capture", _RUNS + "Capture single kernel launches: each becomes a reproducer, a folder "
         "with the launch, its memory, its code and an editable source.",
         inputs.Capture, "capture", _capture, destructive=True, open_world=True),
    Tool("inspect", "Show a reproducer: launch, arguments, memory, environment. Executes nothing.",
         inputs.Inspect, "inspect", _inspect, 120, read_only=True),
    Tool("from_core", "Show the kernel, thread, instruction, line and address of a GPU's core dump. "
         "Executes nothing.", inputs.FromCore, "from-core", _from_core, 120, read_only=True),
    Tool("from_recording", "Make reproducers of launches that tritonparse or AMD's kerncap recorded. "
         "Executes nothing.", inputs.FromRecording, "from-recording", _from_recording),
    Tool("replay", "Run a reproducer's launch, or a candidate for its kernel, and compare with "
         "the application's result: pass, fail or undecided. Can time it.", inputs.Replay, "replay", _replay),
    Tool("verify", "Check the kernel, or a candidate for it, against the application's result, in "
         "stages; each says what it showed. undecided: neither right nor wrong was shown.",
         inputs.Verify, "verify", _verify, 1800),
    Tool("prove", "Prove that two kernels of Triton or CUDA are the same function for all float values, or "
         "show inputs on which they differ.", inputs.Prove, "prove", _prove),
    Tool("sanitize", "Prove that a Triton reproducer's launch stays in bounds and is free of "
         "races, or show the access that isn't; undecided if not all is proved. Nothing is run.",
         inputs.Sanitize, "sanitize", _sanitize, read_only=True),
    Tool("sanitize_program", _RUNS + "Check each of its Triton launches as sanitize does.",
         inputs.SanitizeProgram, "sanitize", _sanitize_program, destructive=True, open_world=True),
    Tool("blame", "Find the stage of a Triton or CUDA kernel's compilation that makes its result wrong: "
         "source, TTIR, TTGIR, PTX or image, the MLIR pass, or the compiler's option.",
         inputs.Blame, "blame", _blame, 1800),
    Tool("tune", "Find the fastest configuration that gives the right result.",
         inputs.Tune, "tune", _tune, 3600),
    Tool("diverge", "Run two programs, which may do anything, or one twice, and name the first Triton launch "
         "in which they differ, with its values and reproducers of both sides.",
         inputs.Diverge, "diverge", _diverge, 3600, destructive=True, open_world=True),
    Tool("diff", "Compare two reproducers: launch, arguments, code, source, memory by view. Nothing is run.",
         inputs.Diff, "diff", _diff, read_only=True),
    Tool("minimize", "Write a smaller reproducer of the same launch, with only the memory that it needs.",
         inputs.Minimize, "minimize", _minimize, 1800),
    Tool("pack", "Make one .zip of a reproducer for a bug report, without user names, host names and "
         "secrets.", inputs.Pack, "pack", _pack),
    Tool("export", "Write a project that runs a reproducer's launch without kerncap: a script, CMake or "
         "pytest. Nothing is run.", inputs.Export, "export", _export),
    Tool("report", "Write one HTML page of a reproducer, for people. Nothing is run.",
         inputs.Report, "report", _report),
    Tool("unpack", "Unpack the folder of a packed reproducer; nothing in it is executed.",
         inputs.Unpack, "unpack", _unpack),
)  # fmt: skip


def chosen(read_only: bool) -> dict[str, Tool]:
    """By name; ``read_only``: only those that run neither a program nor a kernel."""
    return {tool.name: tool for tool in TOOLS if tool.read_only or not read_only}


def default_context(roots: tuple[Path, ...], python: str | None, resident: bool) -> Context:
    return Context(Allowed.of(roots or (Path("."),)), python, resident)
