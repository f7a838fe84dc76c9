"""``kerncap report REPRO``: one page that shows a reproducer."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.paths import OUTPUT_FILE, PATH


@click.command("report")
@click.argument("reproducer", type=PATH)
@click.option(
    "-o",
    "--output",
    type=OUTPUT_FILE,
    help="FILE.html. Default: named after the folder.",
)
@click.option(
    "--with", "results", multiple=True, metavar="FILE.json", type=PATH,
    help="Add the --json output of verify, replay (also --limits), tune, sanitize or profile. Repeatable.",
)  # fmt: skip
@click.option("--no-sanitize", is_flag=True, help="Leave out the sanitizer's answer.")
@click.option(
    "--keep-private", multiple=True, type=click.Choice(["users", "hosts", "secrets"]),
    help="Keep user names, host names or secrets, readable for the recipient. Repeatable.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(
    reproducer: Path,
    output: Path | None,
    results: tuple[Path, ...],
    no_sanitize: bool,
    keep_private: tuple[str, ...],
    as_json: bool,
) -> int:
    """Make one HTML page of REPRODUCER: launch, values, memory, source, verdicts. It needs no network.

    Nothing in REPRODUCER is executed. User names, host names and secrets are replaced as by pack. The
    page shows values of the memory, as pictures and statistics.
    """
    from kerncap import log
    from kerncap.api.pack.kept_private import Private
    from kerncap.api.report import report
    from kerncap.report.pack_text import listing, summary

    try:
        made = report(
            reproducer, output, results=results, keep_private=keep_private, sanitize=not no_sanitize
        )
    except Private as stopped:
        log.block("\n".join(listing(stopped.findings)))
        if as_json:
            document = {"path": None, "written": False, "reason": str(stopped),
                        "findings": [one.as_dict() for one in stopped.findings]}  # fmt: skip
            click.echo(json.dumps(document, indent=1))
        raise
    for line in summary(made.findings):
        log.line(line)
    for what in made.left_out:
        log.line(f"not in the page: {what}")
    log.line(f"{made.path}: {log.size(made.size_bytes)}; open it in a browser, it needs no network")
    if as_json:
        click.echo(json.dumps(made.as_dict(), indent=1))
    else:
        click.echo(made.path)
    return 0
