"""``kerncap doctor``: what works on this machine; ``kerncap doctor -- CMD``: what works in a program."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.paths import PATH

_NOTHING_WORKS = 4


@click.command("doctor")
@click.option(
    "--python", metavar="PATH", help="Python that runs your program. Default: the one that runs kerncap."
)
@click.option(
    "-o", "--output", type=PATH, default=Path("kerncap-out"), show_default=True,
    help="Folder where reproducers would go.",
)  # fmt: skip
@click.option("--self-test", is_flag=True, help="Capture and replay a small launch in each way that works.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.argument("command", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
def command(
    python: str | None, output: Path, self_test: bool, as_json: bool, command: tuple[str, ...]
) -> int:
    """Report what works on this machine, what is missing, and the next step.

    With a program after --, run it and report for each of its processes which shims were live, by which
    calls it launched kernels, and what was missed and why.

    Exit status: 0 if a launch can be captured and replayed here (with a program: if launches were seen and
    none was missed), else 4.
    """
    from kerncap.errors import UsageError
    from kerncap.report.doctor_text import render, render_program

    if command:
        if self_test or python:
            raise UsageError("--self-test and --python are about this machine; a program has its own Python")
        from kerncap import log
        from kerncap.api.doctor.watched_program import examine

        found = examine(command, stdout_to_stderr=as_json)
        if as_json:
            click.echo(json.dumps(found.as_dict(), indent=2))
        else:
            log.block(render_program(found))
        return 0 if found.works else _NOTHING_WORKS
    from kerncap.api.doctor import doctor

    report = doctor(python=python, output=output, self_test=self_test)
    click.echo(json.dumps(report.as_dict(), indent=2) if as_json else render(report))
    return 0 if report.works else _NOTHING_WORKS
