"""``kerncap view [REPRO...]``: the viewer in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from kerncap.cli import browser
from kerncap.cli.paths import OUTPUT_FILE, PATH, REPRO


@click.command("view")
@click.argument("reproducers", nargs=-1, type=REPRO, metavar="[REPRO]...")
@click.option(
    "--with", "results", multiple=True, metavar="FILE.json", type=PATH,
    help="Add the --json output of sanitize, verify or replay. Repeatable.",
)  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option(
    "-o", "--output", type=OUTPUT_FILE,
    help="Write the page to FILE.html instead, without a reproducer, for any web server or disk.",
)  # fmt: skip
def command(
    reproducers: tuple[Path, ...], results: tuple[Path, ...], no_browser: bool, output: Path | None
) -> int:
    """Open REPRO, a folder or a packed file, in a viewer in the browser; two are compared.

    Without REPRO the page waits for a file that is dropped on it. It is served to this machine only, at
    an address that no one can guess, until Ctrl-C. The browser does all reading and sends nothing;
    nothing in REPRO is executed.
    """
    from kerncap import log, whole_files
    from kerncap.api.view import Viewer, page
    from kerncap.errors import UsageError

    if output is not None:
        if reproducers or results:
            raise UsageError(
                "--output: writes the page without a reproducer; leave out REPRO, or use `kerncap report`"
            )
        with whole_files.new_file(output, replace=True) as file:
            file.write(page())
        click.echo(output)
        return 0
    if len(reproducers) > 2:
        raise UsageError(f"{len(reproducers)} reproducers: the viewer shows one, or compares two; give fewer")
    # The last one is shown, and compared with the one before it.
    with Viewer([*reversed(reproducers)], results) as viewer:
        click.echo(viewer.url)
        log.line("the viewer is at this address, for this machine only; Ctrl-C ends it")
        if not no_browser:
            browser.show(viewer.url_for_browser)
        viewer.serve()
    return 0
