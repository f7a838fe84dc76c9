"""``kerncap doctor``: what works on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.api import doctor as api

_NOTHING_WORKS = 4
_MARKS = {"ok": "ok", "missing": "MISSING", "note": "note"}


@click.command("doctor")
@click.option("--python", metavar="PATH", help="The Python that runs your program. Default: kerncap's own.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("kerncap-out"),
    show_default=True,
    help="Where reproducers would go.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(python: str | None, output: Path, as_json: bool) -> int:
    """Say what works on this machine, what is missing, and the next step.

    Exit status 0 if a launch can be captured and replayed here, else 4.
    """
    report = api.doctor(python=python, output=output)
    click.echo(json.dumps(report.as_dict(), indent=2) if as_json else as_text(report))
    return 0 if report.works else _NOTHING_WORKS


def as_text(report: api.Report) -> str:
    """The report for people: facts, then what they add up to."""
    width = max(len(check.name) for check in report.checks)
    lines = []
    for check in report.checks:
        lines.append(f"{_MARKS[check.status]:>7}  {check.name:<{width}}  {check.detail}")
        if check.next_step:
            lines.append(f"{'':>7}  {'':<{width}}  -> {check.next_step}")
    lines.append("")
    for way in report.ways:
        lines.append(f"{way.name}: {'works' if way.works else f'no ({way.reason})'}")
    lines.append("inspect, sanitize REPRO: work everywhere")
    return "\n".join(lines)
