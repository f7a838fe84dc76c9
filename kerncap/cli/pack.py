"""``kerncap pack REPRO``: one file for a bug report."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("pack")
@click.argument("reproducer", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="FILE.zip (the folder's name)."
)
@click.option(
    "--redact", multiple=True, type=click.Choice(["paths", "secrets"]),
    help="Fill up home folders, or what looks like a secret, in a copy that is packed instead.",
)  # fmt: skip
@click.option(
    "--allow", multiple=True, type=click.Choice(["paths", "secrets"]), help="Pack although there are some."
)
@click.option("--dry-run", is_flag=True, help="Say what would be packed, and write nothing.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(
    reproducer: Path,
    output: Path | None,
    redact: tuple[str, ...],
    allow: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> int:
    """Make one .zip of REPRODUCER, with equal bytes each time; any zip program opens it.

    Says what goes in and how large it gets first. Stops with status 1 where files hold home folders or
    what looks like a token, a key or a password. Memory is not looked at: it is what the launch is about.
    """
    from kerncap import log
    from kerncap.api.pack import pack
    from kerncap.api.sharing import Private
    from kerncap.report.pack_text import listing, render_plan

    try:
        packed = pack(
            reproducer, output, redact_kinds=redact, allow=allow, dry_run=dry_run,
            before=lambda plan: log.block(render_plan(plan)),
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
