"""``kerncap export REPRO --as KIND``: a project that runs without kerncap."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click


@click.command("export")
@click.argument("reproducer", type=click.Path(path_type=Path))
@click.option(
    "--as", "kind", required=True, type=click.Choice(["script", "cmake", "pytest"]),
    help="A Python script (Triton); a CMake project in CUDA or HIP; a pytest file with one of the two.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="DIR",
    help="Where to (the reproducer's name and the kind); for a script FILE.py, which then holds its data.",
)  # fmt: skip
@click.option(
    "--keep-private", multiple=True, type=click.Choice(["users", "hosts", "secrets"]),
    help="Leave user names, host names or secrets as they are: whoever gets it can read them.",
)  # fmt: skip
@click.option(
    "--max-size", metavar="SIZE",
    help="What the captured memory may take, written out (4GiB, or a hundred times what is stored).",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(reproducer: Path, as_json: bool, max_size: str | None, **options: Any) -> int:
    """Write a project of REPRODUCER that needs no kerncap: it launches the kernel on the captured memory and
    compares with what the application had.

    Its last line is "Result: PASS ..." or "Result: FAIL ...". Nothing of REPRODUCER is executed here. User
    names, host names and secrets are replaced, as pack does.
    """
    from kerncap import log
    from kerncap.api.export import export
    from kerncap.api.sharing import Private
    from kerncap.capture.options import parse_size
    from kerncap.report.export_text import render
    from kerncap.report.pack_text import listing

    try:
        exported = export(reproducer, max_size=parse_size(max_size) if max_size else None, **options)
    except Private as stopped:
        log.block("\n".join(listing(stopped.findings)))
        if as_json:
            document = {"path": None, "reason": str(stopped),
                        "findings": [one.as_dict() for one in stopped.findings]}  # fmt: skip
            click.echo(json.dumps(document, indent=1))
        raise
    if as_json:
        click.echo(json.dumps(exported.as_dict(), indent=1))
    else:
        click.echo(render(exported.as_dict()))
    return 0
