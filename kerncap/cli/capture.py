"""``kerncap capture -- CMD``: arguments in, one call, exit status out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli.numbers import COUNT, SECONDS


@click.command("capture")
@click.option("-k", "--kernel", metavar="REGEX", help="Kernels whose name matches; the first match is taken.")
@click.option("--launch", metavar="N[:M]", help="These launches of each kernel, 0-based, M excluded.")
@click.option("--per-config", is_flag=True, help="The first launch of each distinct configuration.")
@click.option(
    "--where", metavar="EXPR", help="Launches for which it holds, as in 'n > 1024 and x.ndim == 2'."
)
@click.option("--range", "in_range", metavar="REGEX", help="Launches inside of an NVTX range that matches.")
@click.option("--rank", metavar="N[,M]", help="Processes of these ranks of a distributed program alone.")
@click.option("--dormant", is_flag=True, help="Take nothing until `kerncap arm` says what.")
@click.option("--on-fault", is_flag=True, help="Keep the launch that faults, hangs or aborts.")
@click.option("--fault-timeout", metavar="S", type=SECONDS, default=60.0, show_default=True, help="A hang.")
@click.option("--when", type=click.Choice(["nonfinite", "differs"]), help="Keep launches with such a result.")
@click.option("--last", metavar="N", type=COUNT, help="Keep the last N launches that match.")
@click.option(
    "--memory",
    type=click.Choice(["reachable", "args", "all"]),
    help="Which memory comes along: what the launch can reach (default), its arguments', or all of it.",
)
@click.option("--max-size", metavar="S", default="8GiB", show_default=True, help="Refuse larger launches.")
@click.option(
    "--backend",
    type=click.Choice(["auto", "cuda", "hip", "triton"]),
    default="auto",
    show_default=True,
    help="What captures: the CUDA shim, the HIP shim, the Triton hook, or each where it can.",
)
@click.option(
    "--source-dir",
    "source_dirs",
    metavar="DIR",
    multiple=True,
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Look for sources of CUDA and HIP kernels here too. May be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("kerncap-out"),
    show_default=True,
    help="Where reproducers go.",
)
@click.option("--stop", is_flag=True, help="End the program once everything chosen is captured.")
@click.option("--no-values", is_flag=True, help="Leave the memory's contents out.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
@click.option("--keep-session", is_flag=True, help="Leave the session folder in place.")
@click.option("--no-self-check", is_flag=True, help="Do not replay each reproducer once.")
@click.option(
    "--self-check-timeout",
    metavar="SECONDS",
    type=SECONDS,
    default=30.0,
    show_default=True,
    envvar="KERNCAP_SELF_CHECK_TIMEOUT",
    show_envvar=True,
    help="For each; four times as long for all of them.",
)
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(as_json: bool, **given: Any) -> int:
    """Run a program, unchanged, and take kernel launches out of it.

    Without a selector: the first launch of each kernel whose source is known. The program's
    output and exit status are passed through; kerncap's own lines go to stderr.
    """
    from kerncap import log
    from kerncap.api.capture import capture
    from kerncap.report.capture_text import capture_document, fault_lines, render_capture

    result = capture(_options(as_json, **given))
    if as_json:
        click.echo(json.dumps(capture_document(result), indent=2))
        log.line("\n".join(fault_lines(result)))
    else:
        log.block(render_capture(result))
    return result.exit_status


def _options(as_json: bool, **given: Any) -> Any:
    from kerncap.capture.options import CaptureOptions, parse_size
    from kerncap.cli.selection import selectors

    return CaptureOptions(
        command=given["command"],
        output=given["output"],
        **selectors(given),
        dormant=given["dormant"],
        memory=given["memory"] or "reachable",
        memory_was_asked=given["memory"] is not None,
        max_size=parse_size(given["max_size"]),
        backend=given["backend"],
        source_dirs=given["source_dirs"],
        no_values=given["no_values"],
        keep_session=given["keep_session"],
        self_check=not given["no_self_check"],
        self_check_timeout_s=given["self_check_timeout"],
        stdout_to_stderr=as_json,
    )
