"""``kerncap sanitize``: a reproducer, a range, a TTIR file, or every launch of a program."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kerncap import whole_files
from kerncap.answer import Answer
from kerncap.cli.number_types import Finite
from kerncap.cli.paths import PATH, REPRO
from kerncap.cli.strict import strict_option
from kerncap.errors import KerncapError, UsageError
from kerncap.exit_status import Bisect, NotStarted, exit_status

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kerncap.sanitizer.findings import LaunchReport, Program


class _Command(click.Command):
    """Keeps the words after ``--`` apart: they are a program, even if they look like options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["arguments"] = tuple(args)
        if "--" in args:
            at = args.index("--")
            ctx.meta["program"] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)


@click.command("sanitize", cls=_Command)
@click.argument("paths", metavar="REPRO...|FILE.ttir|FILE.ttgir|-- CMD...", nargs=-1, type=REPRO)
@click.option(
    "--check", "checks", metavar="LIST",
    help="Checks to make: oob, race, uninit, overflow, promise, alignment, descriptor, shared. Default: all.",
)  # fmt: skip
@click.option(
    "--bounds", type=click.Choice(["view", "storage", "allocation"]), default="storage", show_default=True,
    help="Memory that an access must stay inside.",
)  # fmt: skip
@click.option(
    "--for-all", "for_all", metavar="STATED", multiple=True,
    help="Check bounds, overflow and races for all sizes: n=1..8192, stride=n, idx=0..n-1. Repeatable.",
)  # fmt: skip
@click.option(
    "--grid", metavar="X[,Y[,Z]]",
    help="Grid, for a .ttir file; with --for-all arithmetic over the sizes: cdiv(n,1024).",
)  # fmt: skip
@click.option(
    "--arg", "arguments", metavar="NAME=VALUE", multiple=True,
    help="Argument, for a .ttir file: x=f32[1024,64], n=1000, p=null; with --for-all x=f32[M,K]. Repeatable.",
)  # fmt: skip
@click.option(
    "--target", metavar="T",
    help="Compile for cuda:90, hip:gfx942, ...; default: the GPU here (a reproducer: as captured).",
)  # fmt: skip
@click.option(
    "--trust", is_flag=True, help="Compile the source of a reproducer that was not captured here; remembered."
)
@click.option("--python", metavar="PATH", help="Python with triton, to compile a reproducer's source.")
@click.option(
    "--stage", type=click.Choice(["ttir", "ttgir"]), default="ttir", show_default=True,
    help="Text of a reproducer to check; ttgir is what Triton's compiler made, with shared memory.",
)  # fmt: skip
@click.option("--one-config", is_flag=True, help="Check only the configuration that the autotuner picks.")
@click.option(
    "--solver-timeout", metavar="S", type=Finite(0, 1e6), default=2.0, show_default=True,
    help="Limit for one z3 query, as the work of S seconds; without an answer, the check stays unproven.",
)  # fmt: skip
@click.option(
    "--max-memory", metavar="SIZE", help="Limit for copies of contents; default: half of what is free."
)
@click.option("--every", is_flag=True, help="Also show how each check of each operation was settled.")
@click.option(
    "--portable", is_flag=True,
    help="Also list what is right only on this target, and races that store equal values.",
)  # fmt: skip
@click.option(
    "--at", metavar="FILE:LINE", help="Show only the findings of this line; the result still counts all."
)
@click.option("--sarif", metavar="FILE", type=PATH, help="Write SARIF 2.1.0 as well.")
@click.option(
    "--baseline", metavar="FILE", type=PATH,
    help="SARIF of an earlier run; only findings that are not in it give status 1.",
)  # fmt: skip
@click.option(
    "--bisect", is_flag=True, help="Exit status for `git bisect run`: 0 good, 1 bad, 125 can't be tested."
)
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    paths: tuple[Path, ...],
    as_json: bool,
    every: bool,
    portable: bool,
    at: str | None,
    sarif: Path | None,
    baseline: Path | None,
    bisect: bool,
    **given: Any,
) -> int:
    """Prove that a Triton launch stays inside its memory, for all programs, or show the access that doesn't.

    Needs no GPU. For a range, every launch is checked; for a program after "--", every Triton kernel that it
    launches, and kerncap carries out launches on CPU tensors. Exit status 1 for a finding, 5 if not
    everything is proved or the program failed. The last line is "Result: PASS ...", "Result: FAIL ..." or
    "Result: UNDECIDED ...".
    """
    try:
        status = _sanitize(ctx, paths, as_json, every, portable, at, sarif, baseline, given)
    except KerncapError as error:
        if not bisect:
            raise
        from kerncap import log
        from kerncap.api.compare import bisect_status

        log.line(log.one_line(error))
        return bisect_status(error)
    return _for_git(status, ctx.params["strict"]) if bisect else status


def _for_git(status: int, strict: bool) -> int:
    """What `git bisect run` is to see: of a program that is not there no revision can be tested."""
    if status in (exit_status(Answer.YES), exit_status(Answer.NO)):
        return status
    if status != exit_status(Answer.UNDECIDED):
        return Bisect.STOP
    return exit_status(Answer.NO) if strict else Bisect.UNTESTABLE


def _sanitize(
    ctx: click.Context,
    paths: tuple[Path, ...],
    as_json: bool,
    every: bool,
    portable: bool,
    at: str | None,
    sarif: Path | None,
    baseline: Path | None,
    given: dict[str, Any],
) -> int:
    from kerncap.api.sanitize import parse_checks
    from kerncap.report import sanitize_baseline, sanitize_sarif, sanitize_text
    from kerncap.sanitizer.findings import Program
    from kerncap.sanitizer.kept_heap import keep
    from kerncap.sanitizer.options import Options
    from kerncap.time_left import TimeLeft

    keep()
    options = Options(
        checks=parse_checks(given["checks"]),
        bounds=given["bounds"],
        solver_timeout_s=given["solver_timeout"],
        max_memory_bytes=_max_memory(given["max_memory"]),
        progress=TimeLeft,
    )
    known = None if baseline is None else sanitize_baseline.read(baseline)
    command_line: tuple[str, ...] = ctx.meta.get("program", ())
    program = Program()
    notes: tuple[str, ...] = ()
    if "program" in ctx.meta:
        if paths or not command_line:
            raise UsageError("sanitize takes either REPRO, FILE.ttir, or -- and a program")
        _check_options(_PROGRAM, given)
        reports, program, notes = _run(command_line, options, as_json, given)
    elif not paths:
        raise UsageError("sanitize: nothing to check; give a reproducer, a .ttir file, or -- and a program")
    elif any(path.suffix in (".ttir", ".ttgir") for path in paths):
        path, *others = paths
        if others:
            raise UsageError("sanitize: one .ttir file, or several reproducers; leave out the others")
        _check_options(_TTIR, given)
        reports = _ttir(path, options, given)
    else:
        _check_options(_REPRODUCER, given)
        reports = [report for path in paths for report in _reproducer(path, options, given)]
    if sarif is not None:
        _write(sarif, sanitize_sarif.document(reports, program, known))
    if as_json:
        from kerncap.report import sanitize_json

        target_status = program.status if command_line else None
        document = sanitize_json.document(reports, program, known, notes, target_status)
        click.echo(json.dumps(document.as_dict(), indent=2))
    else:
        for note in notes:
            click.echo(f"note: {note}")
        click.echo(sanitize_text.render(reports, every, program, portable, _alone(ctx), at, known))
    if not reports and program.status in tuple(NotStarted):
        return program.status
    return exit_status(sanitize_baseline.counts_of_run(reports, program, known).answer)


def _alone(ctx: click.Context) -> Callable[[str], str]:
    """Makes a place the command line of this run that shows only the findings there."""
    return lambda place: shlex.join(("kerncap", "sanitize", "--at", place, *ctx.meta["arguments"]))


def _max_memory(text: str | None) -> int:
    from kerncap.capture.options import parse_size
    from kerncap.sanitizer.sources.triton_hook import available_memory

    return available_memory() // 2 if text is None else parse_size(text)


def _run(
    command_line: tuple[str, ...], options: Any, as_json: bool, given: dict[str, Any]
) -> tuple[Sequence[LaunchReport], Program, tuple[str, ...]]:
    from kerncap.api.compiled_ttir import check_target
    from kerncap.api.sanitize.program import LiveOptions, sanitize_command

    check_target(given["target"])
    live = LiveOptions(
        analysis=options,
        target=given["target"],
        every_configuration=not given["one_config"],
        stdout_to_stderr=as_json,
    )
    result = sanitize_command(command_line, live)
    return result.reports, result.program, result.notes


def _ttir(path: Path, options: Any, given: dict[str, Any]) -> Sequence[LaunchReport]:
    from kerncap.api.sanitize import sanitize_ttir

    if given["grid"] is None:
        raise UsageError(f"{path}: a .ttir file needs --grid, and --arg for each of its parameters")
    arguments = _arguments(given)
    if given["for_all"]:
        from kerncap.api.sanitize.all_sizes import sanitize_ttir_for_all

        return sanitize_ttir_for_all(path, given["for_all"], given["grid"], arguments, options)
    try:
        grid = [int(n) for n in given["grid"].split(",")]
    except ValueError:
        raise UsageError(f"--grid {given['grid']}: one to three numbers, as in 8 or 8,4,1") from None
    return sanitize_ttir(path, grid, arguments, options)


def _arguments(given: dict[str, Any]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for text in given["arguments"]:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError(f"--arg {text}: expected NAME=VALUE, as in x=f32[1024,64]")
        if name in arguments:
            raise UsageError(f"--arg {text}: {name} has a value already; give each argument once")
        arguments[name] = value
    return arguments


def _reproducer(path: Path, options: Any, given: dict[str, Any]) -> Sequence[LaunchReport]:
    from kerncap.api.sanitize import sanitize_reproducer
    from kerncap.api.sanitize.launch_range import sanitize_range
    from kerncap.format.folder import is_range

    how = {"target": given["target"], "trusted": given["trust"], "python": given["python"]}
    if given["for_all"]:
        from kerncap.api.sanitize.all_sizes import sanitize_reproducer_for_all

        if given["stage"] != "ttir":
            raise UsageError("--for-all reads TTIR; leave out --stage")
        arguments = _arguments(given)
        return sanitize_reproducer_for_all(path, given["for_all"], given["grid"], arguments, options, **how)
    if given["grid"] is not None or given["arguments"]:
        raise UsageError(f"{path}: --grid and --arg go with a .ttir file or with --for-all; leave them out")
    judge = sanitize_range if is_range(path) else sanitize_reproducer
    if given["stage"] == "ttgir" and given["target"] is not None:
        raise UsageError("--stage ttgir checks the captured text; leave out --target")
    return judge(path, options, stage=given["stage"], **how)


# Where each option applies; elsewhere it is refused instead of ignored.
_PROGRAM, _REPRODUCER, _TTIR = "-- and a program", "a reproducer", "a .ttir file"
_OF = {
    "for_all": (_TTIR, _REPRODUCER),
    "grid": (_TTIR, _REPRODUCER), "arguments": (_TTIR, _REPRODUCER),
    "one_config": (_PROGRAM,), "target": (_PROGRAM, _REPRODUCER),
    "trust": (_REPRODUCER,), "python": (_REPRODUCER,), "stage": (_REPRODUCER,),
}  # fmt: skip
_SPELLED = {"for_all": "--for-all", "arguments": "--arg", "one_config": "--one-config"}


def _check_options(what: str, given: dict[str, Any]) -> None:
    given = {**given, "stage": given["stage"] != "ttir"}
    for name, fits in _OF.items():
        if given[name] and what not in fits:
            raise UsageError(
                f"{_SPELLED.get(name, '--' + name)} goes with {' or '.join(fits)}, not with {what}"
            )


def _write(path: Path, document: Any) -> None:
    whole_files.write(path, json.dumps(document, indent=2) + "\n")
