"""``kerncap export REPRO --as KIND``: a project that runs without kerncap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli.paths import PATH
from kerncap.cli.private import findings_shown, keep_private_option
from kerncap.cli.several import of_each


@click.command("export")
@of_each
@click.option(
    "--as", "kind", required=True,
    type=click.Choice(["script", "cmake", "pytest", "kernelbench", "flashinfer-trace", "pygpubench"]),
    help="script: a Python script (Triton). cmake: a CUDA or HIP project. pytest: one of these as a test. "
    "kernelbench, flashinfer-trace, pygpubench: a task for those who write kernels (Triton).",
)  # fmt: skip
@click.option(
    "-o", "--output", type=PATH, metavar="DIR",
    help="Where to write it; FILE.py makes a script with its data inside. Default: named after REPRO.",
)  # fmt: skip
@keep_private_option
@click.option(
    "--max-size", metavar="SIZE",
    help="Limit for the expanded memory. Default: 4GiB, or a hundred times the stored size.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(reproducer: Path, as_json: bool, max_size: str | None, **options: Any) -> int:
    """Export REPRO as a project that launches the kernel (of a range: all of them) on the captured memory and
    compares with the application's result, without kerncap.

    The last line of its output is "Result: PASS ...", "Result: FAIL ..." or "Result: UNDECIDED ...".
    Exporting executes nothing in REPRO. User names, host names and secrets are replaced as by pack.
    """
    from kerncap.api.export import export
    from kerncap.capture.options import parse_size
    from kerncap.report.documents.sharing import ExportDocument
    from kerncap.report.export_text import render

    with findings_shown(
        as_json, lambda reason, findings: ExportDocument(path=None, reason=reason, findings=findings)
    ):
        exported = export(reproducer, max_size=parse_size(max_size) if max_size else None, **options)
    if as_json:
        click.echo(json.dumps(exported.as_dict(), indent=1))
    else:
        click.echo(render(exported.as_dict()))
    return 0
