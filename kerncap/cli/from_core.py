"""``kerncap from-core CORE``: what a core dump of a GPU, or a log, says of the kernel that faulted."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.paths import PATH


@click.command("from-core")
@click.argument("core", type=PATH, metavar="CORE")
@click.option(
    "--exe", type=PATH, metavar="PROGRAM",
    help="Executable or library whose kernels have the lines that CORE lacks, built with -lineinfo.",
)  # fmt: skip
@click.option(
    "--host-core", type=PATH, metavar="FILE",
    help="Core dump of the process, for one of an AMD GPU; default: core.PID or core next to CORE.",
)  # fmt: skip
@click.option(
    "--sass", is_flag=True, help="Show the instruction, as nvdisasm or cuobjdump reads CORE's image."
)
@click.option("--within", type=PATH, multiple=True, hidden=True, help="Folder of dumps that a log may name.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    core: Path, exe: Path | None, host_core: Path | None, sass: bool, within: tuple[Path, ...], as_json: bool
) -> int:
    """Show the kernel, thread, instruction and line of a GPU's core dump.

    Needs neither a GPU nor CUDA or ROCm. A program writes a dump if its kernel faults: with
    CUDA_ENABLE_COREDUMP_ON_EXCEPTION=1, and on AMD GPUs with `ulimit -c unlimited`. CORE may also be the
    value of CUDA_COREDUMP_FILE, or a log of the crash (PyTorch, vLLM, Triton, ROCm): the dump that it names
    is read; without a dump, what the log says is shown. Nothing in either is executed.

    Exit status: 0; 1 if CORE is a log and no dump that it names can be read; 3 if CORE is not a GPU's core
    dump, is cut off or is damaged, with the byte in one line.
    """
    from kerncap.api.from_core import from_core
    from kerncap.exit_status import ExitStatus
    from kerncap.report.from_core_text import has_dump, render

    document = from_core(core, exe, host_core=host_core, sass=sass, within=within)
    # ASCII only: names out of a dump can't reach a terminal as control characters.
    click.echo(json.dumps(document, indent=1) if as_json else render(document), nl=as_json)
    return ExitStatus.YES if has_dump(document) else ExitStatus.NO
