"""``kerncap report REPRO``: one page that shows a reproducer."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli import browser
from kerncap.cli.paths import OUTPUT_FILE, PATH
from kerncap.cli.private import findings_shown, keep_private_option
from kerncap.cli.several import of_each


@click.command("report")
@of_each
@click.option(
    "-o", "--output", type=OUTPUT_FILE,
    help="FILE.html, with --md or --task FILE.md. Default: named after the folder.",
)  # fmt: skip
@click.option(
    "--with", "results", multiple=True, metavar="FILE.json", type=PATH,
    help="Add the --json output of verify, replay (also --limits), tune, sanitize or profile, "
    "or the trace of list --timeline. Repeatable.",
)  # fmt: skip
@click.option("--no-sanitize", is_flag=True, help="Leave out the sanitizer's answer.")
@keep_private_option
@click.option(
    "--md", "as_markdown", is_flag=True, help="Write Markdown for an issue, of at most 65,536 bytes."
)
@click.option(
    "--task", "as_task", is_flag=True,
    help="Write Markdown for a person or an agent who is to make the kernel faster; --with adds its limits.",
)  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Show the page in the browser.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(
    reproducer: Path,
    output: Path | None,
    results: tuple[Path, ...],
    no_sanitize: bool,
    keep_private: tuple[str, ...],
    as_markdown: bool,
    as_task: bool,
    opens: bool,
    as_json: bool,
) -> int:
    """Make one HTML page of REPRO: launch, values, memory, source, verdicts. It needs no network.

    Nothing in REPRO is executed. User names, host names and secrets are replaced as by pack. The
    page shows values of the memory, as pictures and statistics.
    """
    from kerncap import log
    from kerncap.api.report import report
    from kerncap.report.documents.sharing import ReportDocument
    from kerncap.report.pack_text import summary

    with findings_shown(
        as_json,
        lambda reason, findings: ReportDocument(path=None, written=False, reason=reason, findings=findings),
    ):
        made = report(
            reproducer,
            output,
            results=results,
            keep_private=keep_private,
            sanitize=not no_sanitize,
            as_markdown=as_markdown,
            as_task=as_task,
        )
    for line in summary(made.findings):
        log.line(line)
    for what in made.left_out:
        log.line(f"not in the page: {what}")
    tail = "" if as_markdown or as_task else "; open it in a browser, it needs no network"
    log.line(f"{made.path}: {log.size(made.size_bytes)}{tail}")
    if opens and not browser.show(Path(made.path).absolute().as_uri()):
        log.line("--open: no browser here; set BROWSER")
    if as_json:
        click.echo(json.dumps(made.as_dict(), indent=1))
    else:
        click.echo(made.path)
    return 0
