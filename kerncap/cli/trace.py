"""``kerncap trace -o FILE -- CMD``: digests of the memory around each Triton launch, for `diverge`."""

from __future__ import annotations

from pathlib import Path

import click

from kerncap.cli.paths import OUTPUT_FILE


@click.command("trace")
@click.option("-o", "--output", metavar="FILE", type=OUTPUT_FILE, required=True, help="File to write.")
@click.option("-k", "--kernel", metavar="REGEX", help="Only kernels whose name matches REGEX.")
@click.option("--launch", metavar="N[:M]", help="Only launches N to M-1 of each kernel, counted from 0.")
@click.option(
    "--native", is_flag=True, help="Also hash the memory of CUDA kernels; each waits for the device."
)
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    output: Path, kernel: str | None, launch: str | None, native: bool, command: tuple[str, ...]
) -> int:  # fmt: skip
    """Run a program and record digests of the memory of each Triton launch, before and after it.

    `kerncap diverge --a FILE` compares the record with another run. The record has arguments and digests, but
    no contents of memory. The program's output and exit status are passed through.
    """
    from kerncap import log
    from kerncap.api.trace import trace
    from kerncap.capture import trace_file
    from kerncap.capture.options import Selection, parse_launch
    from kerncap.errors import UsageError
    from kerncap.report.trace_text import cost_text

    if not output.absolute().parent.is_dir():
        raise UsageError(f"-o {output}: no folder {output.parent}; make it, or name another place")
    chosen = Selection(kernel=kernel, launch=parse_launch(launch) if launch is not None else None)
    found, result = trace(command, chosen, native=native)
    trace_file.write(output, found)
    for note in (*result.notes, *result.failed):
        log.line(note)
    if not found.launches:
        log.line(f"no launch was traced: {result.reason or 'none was seen'}")
    log.line(f"{output}: {found.launches} launches; {cost_text(found)}")
    return result.target.status or (0 if found.launches else 1)
