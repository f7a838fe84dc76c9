"""``kerncap report REPRO``: one page that says what a reproducer is, for whoever gets it."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("report")
@click.argument("reproducer", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="FILE.html (the folder's name)."
)
@click.option(
    "--with", "results", multiple=True, metavar="FILE.json", type=click.Path(path_type=Path),
    help="What verify, replay (also --limits), tune, sanitize or profile printed with --json; repeatable.",
)  # fmt: skip
@click.option("--no-sanitize", is_flag=True, help="Leave the sanitizer's answer out.")
@click.option(
    "--redact", multiple=True, type=click.Choice(["paths", "secrets"]),
    help="Fill up home folders, or what looks like a secret, in the page.",
)  # fmt: skip
@click.option(
    "--allow", multiple=True, type=click.Choice(["paths", "secrets"]), help="Write although there are some."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(
    reproducer: Path,
    output: Path | None,
    results: tuple[Path, ...],
    no_sanitize: bool,
    redact: tuple[str, ...],
    allow: tuple[str, ...],
    as_json: bool,
) -> int:
    """Make one HTML page of REPRODUCER that needs no network: launch, values, memory, source, verdicts.

    Nothing in it is executed. Stops with status 1 where files hold home folders or what looks like a token,
    a key or a password. The page shows values of the memory, as pictures and statistics.
    """
    from kerncap import log
    from kerncap.api.report import report
    from kerncap.api.sharing import Private
    from kerncap.report.pack_text import listing

    try:
        made = report(
            reproducer, output, results=results, redact_kinds=redact, allow=allow, sanitize=not no_sanitize
        )
    except Private as stopped:
        log.block("\n".join(listing(stopped.findings)))
        if as_json:
            document = {"path": None, "written": False, "reason": str(stopped),
                        "findings": [one.as_dict() for one in stopped.findings]}  # fmt: skip
            click.echo(json.dumps(document, indent=1))
        raise
    for word, found in (("filled up", made.redacted), ("left as it is", made.findings)):
        for line in listing(found):
            log.line(f"{word}: {line}")
    for what in made.left_out:
        log.line(f"not in the page: {what}")
    log.line(f"{made.path}: {log.size(made.size_bytes)}; open it in a browser, it needs no network")
    if as_json:
        click.echo(json.dumps(made.as_dict(), indent=1))
    else:
        click.echo(made.path)
    return 0
