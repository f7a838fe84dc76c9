"""``kerncap list -- CMD``: kernels by time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli.number_types import COUNT_OR_NONE
from kerncap.cli.paths import OUTPUT_FILE
from kerncap.errors import UsageError

TOP = 20


@click.command("list", context_settings={"ignore_unknown_options": False})
@click.option(
    "--by", type=click.Choice(["range", "graph", "stream", "device", "rank", "configuration"]),
    help="Split launches by NVTX range (a tree), graph, stream, device, rank or configuration.",
)  # fmt: skip
@click.option("--stacks", is_flag=True, help="Show where in Python each kernel is launched from.")
@click.option(
    "--long", "full_names", is_flag=True, help="Also show each kernel's full name, below the table."
)
@click.option(
    "-n", "--top", metavar="N", type=COUNT_OR_NONE,
    help=f"Number of lines; 0 for all. Default: {TOP}; all with --json.",
)  # fmt: skip
@click.option(
    "--backend", type=click.Choice(["auto", "cuda", "hip", "triton"]), default="auto", show_default=True,
    help="Backend that observes launches: CUDA shim, HIP shim or Triton hook; auto uses all available.",
)  # fmt: skip
@click.option(
    "--save", metavar="FILE.json", type=OUTPUT_FILE,
    help="Also write the document of --json to a file.",
)  # fmt: skip
@click.option(
    "--timeline", metavar="FILE.json", type=OUTPUT_FILE,
    help="Also write when each launch, copy and range ran, as a trace for Perfetto or chrome://tracing.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    by: Any,
    stacks: bool,
    full_names: bool,
    top: int | None,
    backend: Any,
    save: Path | None,
    timeline: Path | None,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run a program and list its kernels by device time.

    For each kernel: launches and configurations, time and share, the most that the program could gain if
    it took half as long, and the command that captures it. The program's output and exit status are
    passed through; the table goes to stderr.
    """
    from kerncap import log
    from kerncap.api.listing import list_kernels
    from kerncap.report.listing_json import listing_document
    from kerncap.report.listing_text import render_listing
    from kerncap.report.timeline_trace import timeline_line, trace_text

    for option, file in (("--save", save), ("--timeline", timeline)):
        if file is not None and not file.absolute().parent.is_dir():
            raise UsageError(f"{option} {file}: no folder {file.parent}; make it, or name another place")
    result = list_kernels(command, stdout_to_stderr=as_json, backend=backend, timeline=timeline is not None)
    not_written = []
    if timeline is not None and result.timeline is not None:
        names = {kernel.qualified_name: kernel.name for kernel in result.kernels}
        not_written += _write("--timeline", timeline, trace_text(result.timeline, names))
    if save is not None:
        text = json.dumps(listing_document(result, by, timeline_path=timeline), indent=2)
        not_written += _write("--save", save, text + "\n")
    if as_json:
        click.echo(json.dumps(listing_document(result, by, top or 0, timeline), indent=2))
    else:
        log.block(render_listing(result, by, stacks, TOP if top is None else top, full_names))
    if not_written:  # said last: the program has run, and its listing must not be lost with it
        raise not_written[0]
    if timeline is not None and result.timeline is not None:
        log.line(timeline_line(result.timeline, timeline))
    return result.exit_status


def _write(option: str, path: Path, text: str) -> list[UsageError]:
    """What kept it from being written, if anything did."""
    from kerncap import whole_files

    try:
        whole_files.write(path, text)
    except UsageError as error:
        return [UsageError(f"{option} {error}")]
    return []
