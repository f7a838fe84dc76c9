"""``kerncap pack REPRO``: one file for a bug report."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.paths import OUTPUT_FILE, PATH


@click.command("pack")
@click.argument("reproducer", type=PATH)
@click.option(
    "-o",
    "--output",
    type=OUTPUT_FILE,
    help="FILE.zip. Default: named after the folder.",
)
@click.option(
    "--keep-private", multiple=True, type=click.Choice(["users", "hosts", "secrets"]),
    help="Keep user names, host names or secrets, readable for the recipient. Repeatable.",
)  # fmt: skip
@click.option("--show-private", is_flag=True, help="List each private item and its replacement.")
@click.option("--dry-run", is_flag=True, help="List what would be packed, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(
    reproducer: Path,
    output: Path | None,
    keep_private: tuple[str, ...],
    show_private: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Pack REPRODUCER into one .zip, with the same bytes each time; any zip program opens it.

    Lists the contents and the size first. A copy is packed, in which user names, host names, and anything
    that looks like a token, a key or a password are replaced by USER, HOST and REDACTED. Memory is not
    searched.
    """
    from kerncap import log
    from kerncap.api.pack import pack
    from kerncap.api.pack.kept_private import Private
    from kerncap.report.pack_text import listing, render_plan

    try:
        packed = pack(
            reproducer, output, keep_private=keep_private, dry_run=dry_run,
            before=lambda plan: log.block(render_plan(plan, show_private)),
        )  # fmt: skip
    except Private as stopped:
        log.block("\n".join(listing(stopped.findings)))
        if as_json:
            document = {"path": None, "written": False, "reason": str(stopped),
                        "findings": [one.as_dict() for one in stopped.findings]}  # fmt: skip
            click.echo(json.dumps(document, indent=1))
        raise
    if as_json:
        click.echo(json.dumps(packed.as_dict(), indent=1))
    elif packed.written:
        click.echo(packed.path)
    return 0
