"""``kerncap seal SESSION``: what a killed kerncap left behind."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.paths import OUTPUT_FOLDER, PATH


@click.command("seal")
@click.argument("session", type=PATH)
@click.option(
    "-o", "--output", type=OUTPUT_FOLDER,
    help="Where reproducers go. Default: the folder that holds the session.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(session: Path, output: Path | None, as_json: bool) -> int:
    """Make reproducers of the complete launches in SESSION, which a killed kerncap left behind.

    Launches that kerncap held in its own memory (--on-fault, --when) are lost with it, and named.
    """
    from kerncap import log
    from kerncap.api.capture import seal_session
    from kerncap.report.capture_text import render_capture

    result = seal_session(session, output)
    if as_json:
        from kerncap.report.capture_json import capture_document

        click.echo(json.dumps(capture_document(result), indent=2))
    else:
        log.block(render_capture(result))
    return 0 if result.captured else 1
