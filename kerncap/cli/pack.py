"""``kerncap pack REPRO``: one file for a bug report."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.paths import OUTPUT_FILE
from kerncap.cli.private import findings_shown, keep_private_option
from kerncap.cli.several import of_each


@click.command("pack")
@of_each
@click.option(
    "-o", "--output", type=OUTPUT_FILE,
    help="FILE.zip. Default: named after the folder.",
)  # fmt: skip
@keep_private_option
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
    """Pack REPRO into one .zip, with the same bytes each time; any zip program opens it.

    Lists the contents and the size first. A copy is packed, in which user names, host names, and anything
    that looks like a token, a key or a password are replaced by USER, HOST and REDACTED. Memory is not
    searched.
    """
    from kerncap import log
    from kerncap.api.pack import pack
    from kerncap.report.documents.sharing import PackDocument
    from kerncap.report.pack_text import render_plan

    with findings_shown(
        as_json,
        lambda reason, findings: PackDocument(path=None, written=False, reason=reason, findings=findings),
    ):
        packed = pack(
            reproducer, output, keep_private=keep_private, dry_run=dry_run,
            before=lambda plan: log.block(render_plan(plan, show_private)),
        )  # fmt: skip
    if as_json:
        click.echo(json.dumps(packed.as_dict(), indent=1))
    elif packed.written:
        click.echo(packed.path)
    return 0
