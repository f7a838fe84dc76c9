"""``kerncap list -- CMD``: kernels by time."""

from __future__ import annotations

import json

import click


@click.command("list", context_settings={"ignore_unknown_options": False})
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(as_json: bool, command: tuple[str, ...]) -> int:
    """Run a program and list its kernels by time.

    The program's own output and exit status are passed through; the table goes to stderr.
    """
    from kerncap import log
    from kerncap.api.listing import list_kernels
    from kerncap.report.listing_text import listing_document, render_listing

    result = list_kernels(command, stdout_to_stderr=as_json)
    if as_json:
        click.echo(json.dumps(listing_document(result), indent=2))
    else:
        log.block(render_listing(result))
    return result.exit_status
