"""The command line: a click group that loads one file per command, when it is needed.

The short helps are here so that ``kerncap --help`` loads no command, and with that neither
numpy nor msgspec.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

import kerncap
from kerncap import interrupts, log, scratch, streams, unexpected_error
from kerncap.cli import address_space_limit
from kerncap.errors import InternalError

# name -> one line; the command itself is `kerncap.cli.<name>:command`, with `_` for a dash.
COMMANDS = {
    "capture": "Run a program and capture kernel launches from it.",
    "list": "Run a program and list its kernels by time.",
    "arm": "Choose launches of a program that runs under capture --dormant.",
    "from-core": "Name the kernel, thread and line of a CUDA GPU's core dump or crash log.",
    "from-recording": "Make reproducers of what tritonparse or AMD's kerncap recorded.",
    "inspect": "Show everything about a reproducer; nothing is executed.",
    "replay": "Run a reproducer's launch without its application.",
    "verify": "Check a kernel or a candidate against the application's results.",
    "prove": "Prove that two kernels are the same function, or show where they differ.",
    "blame": "Find the stage of a kernel's compilation that makes its result wrong.",
    "profile": "Run Nsight Compute on a reproducer's launch and explain it.",
    "tune": "Find the fastest configuration that gives the right result.",
    "sanitize": "Prove that Triton launches stay in bounds, or show the access that doesn't.",
    "trace": "Run a program and record digests of each Triton launch's memory.",
    "diverge": "Find the first launch in which two runs differ.",
    "diff": "Compare two reproducers, or two results.",
    "slice": "Make a reproducer of one launch of a range.",
    "minimize": "Shrink a reproducer to the memory that its launch needs.",
    "pack": "Pack a reproducer into one file, for a bug report.",
    "unpack": "Unpack the folder of a packed reproducer.",
    "export": "Export a reproducer as a project that runs without kerncap.",
    "report": "Make an HTML page of a reproducer.",
    "view": "Open reproducers in a viewer in the browser.",
    "gc": "List reproducers that are old or take too much space, and remove them.",
    "seal": "Recover the launches of a session that was killed.",
    "doctor": "Report what works on this machine, or in a program, and what is missing.",
    "config": "Show what configuration files set.",
    "schema": "Print the JSON Schema of a command's --json.",
    "mcp": "Serve the commands to an agent over the Model Context Protocol.",
}
# What people may look for under a name that no command has.
ELSEWHERE = {"optimise-task": "report --task", "optimize-task": "report --task", "import": "from-recording"}
CONFIGURED = ("capture", "list", "tune", "minimize", "diff")  # have defaults in `kerncap.cli.settings`
# `color`: click would drop what looks like a colour, if `streams` shows it as what it is.
_HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # before click 8.2 no error
COMPLETE = "_KERNCAP_COMPLETE"
WORDS = "kerncap.words"  # of a context's meta: the command's name and all that follows it
_SETTINGS = {"help_option_names": ["-h", "--help"], "color": True}


class Ended(BaseException):
    """A signal's exception on its way through click, which prints an empty line for it otherwise."""


class LazyGroup(click.Group):
    """Commands by name, imported when one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]  # `list` is a module of this package once it is imported

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        address_space_limit.meet()
        command = importlib.import_module(f"kerncap.cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing and (text := _reproducers_here()):
            click.echo(text, nl=False)
            ctx.exit()
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[WORDS] = [*args]
        if args[0] in CONFIGURED:
            from kerncap.cli import settings

            ctx.default_map = {args[0]: settings.read().defaults_of(args[0])}
        if args[0] not in COMMANDS:
            import difflib  # milliseconds, for a mistake only

            near = difflib.get_close_matches(args[0], [*ELSEWHERE, *COMMANDS], n=1)
            near = [ELSEWHERE.get(name, name) for name in near]
            if near:
                ctx.fail(f"No such command {args[0]!r}, did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Options, and commands of which none is imported for their help."""
        found = click.Command.shell_complete(self, ctx, incomplete)
        return found + [CompletionItem(n, help=h) for n, h in COMMANDS.items() if n.startswith(incomplete)]

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise Ended from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])


def _reproducers_here() -> str:
    """For `kerncap` alone, in a folder of reproducers: a table of them. Empty elsewhere."""
    from kerncap.cli import settings
    from kerncap.format import find_reproducers

    folders = find_reproducers.reproducers_in(settings.places())
    if not folders:
        return ""
    import time

    from kerncap.report.found_text import render

    return f"{render(find_reproducers.looked_at(folders), time.time())}\nkerncap --help lists the commands\n"


@click.group(cls=LazyGroup, context_settings=_SETTINGS)
@click.version_option(kerncap.__version__, prog_name="kerncap")
def group() -> None:
    """Capture one GPU kernel launch from a running program; replay, edit and verify it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; every exception ends here, as one line.

    Without ``arguments`` it is the process's own: a signal that ends the command then ends the process.
    """
    if arguments is None and COMPLETE in os.environ:  # a shell asks, or wants its script: bytes, for it alone
        group.main(prog_name="kerncap", complete_var=COMPLETE)
    if arguments is None:
        streams.reserve()
        streams.in_utf8()
    with interrupts.raised(for_good=arguments is None):
        try:
            with streams.escaped():
                return status_of(arguments)
        except (KeyboardInterrupt, click.Abort, Ended) as error:
            interrupt = interrupts.of(error)
            scratch.remove_all()
            log.line(str(interrupt))
    if arguments is None:
        interrupts.end(interrupt.number)
    return interrupt.exit_status


def status_of(arguments: Sequence[str] | None, shared: object = None) -> int:
    """The exit status of a command; ``shared`` is its context's object: what outlives one command."""
    try:
        result = group.main(args=arguments, prog_name="kerncap", standalone_mode=False, obj=shared)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        if isinstance(error, _HELP):
            error.show()
        else:
            log.line(_usage(error))
        return error.exit_code
    except click.Abort:
        raise
    except streams.NobodyReads:
        return streams.NobodyReads.exit_status
    except Exception as error:
        return _failed(error)
    return result if isinstance(result, int) else 0


def _usage(error: click.ClickException) -> str:
    """What click found wrong with the words of the command line, in one line as every other error."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context is not None else "kerncap"
    message = " ".join(error.format_message().split()).rstrip(".?")
    subject = command.partition(" ")[2]
    problem = f"{subject}: {message[:1].lower()}{message[1:]}" if subject else message
    return f"{problem}; see {command} --help"


def _failed(error: Exception) -> int:
    """Say what went wrong in one line; the exit status."""
    found = unexpected_error.explained(error)
    log.line(" ".join(str(found).split("\n")))
    if isinstance(found, InternalError):
        for line in unexpected_error.details(error):
            log.line(line)
    return found.exit_status
