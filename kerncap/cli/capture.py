"""``kerncap capture -- CMD``: arguments in, one call, exit status out."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, get_args

import click

from kerncap.cli.number_types import COUNT_OR_NONE, SECONDS
from kerncap.cli.paths import OUTPUT_FOLDER
from kerncap.cli.selection import selection_of, selection_options
from kerncap.format.contract import Backend, Memory, default


@click.command("capture")
@selection_options
@click.option(
    "--launches", metavar="N:M",
    help="A range: launches N to M-1 of all kernels together, counted from 0, in one reproducer.",
)  # fmt: skip
@click.option(
    "--from", "from_kernel", metavar="REGEX[:N]",
    help="A range: from launch N (0) of a kernel whose name matches REGEX; needs --to.",
)  # fmt: skip
@click.option(
    "--to", "to_kernel", metavar="REGEX[:N]",
    help="Last launch of the range: launch N (0) of such a kernel, counted in the range.",
)  # fmt: skip
@click.option(
    "--whole-range", metavar="[N]", is_flag=False, flag_value=0, type=COUNT_OR_NONE,
    help="A range: all launches inside one occurrence of --range, the first or number N, counted from 0.",
)  # fmt: skip
@click.option(
    "--graph", metavar="N[:K]",
    help="A range: all kernels in launch K (0) of graph N, as `kerncap list --by graph` numbers it.",
)  # fmt: skip
@click.option(
    "--dormant", is_flag=True, help="Start with nothing selected; choose launches with `kerncap arm`."
)
@click.option(
    "--memory", type=click.Choice(get_args(Memory)),
    help="Memory to capture: what the launch can reach (default), its arguments', or all of it.",
)  # fmt: skip
@click.option(
    "--max-size", metavar="SIZE", default="8GiB", show_default=True, help="Refuse launches with more memory."
)
@click.option(
    "--backend", type=click.Choice(get_args(Backend)), default=default.backend, show_default=True,
    help="Backend that captures: CUDA shim, HIP shim or Triton hook; auto uses all available.",
)  # fmt: skip
@click.option(
    "--source-dir", "source_dirs", metavar="DIR", multiple=True,
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="Folder with sources of CUDA and HIP kernels. Repeatable.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=OUTPUT_FOLDER, default=Path("kerncap-out"), show_default=True,
    help="Folder for reproducers.",
)  # fmt: skip
@click.option("--no-values", is_flag=True, help="Leave out the memory's contents.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
@click.option("--keep-session", is_flag=True, help="Keep the session folder.")
@click.option("--no-self-check", is_flag=True, help="Skip the replay of each reproducer after the capture.")
@click.option(
    "--self-check-timeout", metavar="S", type=SECONDS, default=30.0, show_default=True,
    envvar="KERNCAP_SELF_CHECK_TIMEOUT", show_envvar=True,
    help="Limit for each self-check, in seconds; all together get four times that.",
)  # fmt: skip
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(as_json: bool, **given: Any) -> int:
    """Run a program, unchanged, and capture kernel launches from it.

    Without a selector, the first launch of each kernel with known source is captured. The program's
    output and exit status are passed through; kerncap's lines go to stderr.
    """
    from kerncap import log
    from kerncap.api.capture import capture
    from kerncap.report.capture_text import fault_lines, render_capture

    result = capture(_options(as_json, **given))
    if as_json:
        from kerncap.report.capture_json import capture_document

        click.echo(json.dumps(capture_document(result), indent=2))
        log.line("\n".join(fault_lines(result)))
    else:
        log.block(render_capture(result))
    return result.exit_status


def _selection(given: dict[str, Any]) -> Any:
    """The selectors that `arm` shares, and those of a range."""
    from kerncap.capture.options import parse_graph, parse_kernel_launch, parse_launches

    chosen = selection_of(given)
    spans: dict[str, Any] = {"whole_range": given["whole_range"]}
    if given["launches"] is not None:
        spans["launches"] = parse_launches(given["launches"])
    if given["graph"] is not None:
        spans["graph"], spans["graph_skip"] = parse_graph(given["graph"])
    for which in ("from", "to"):
        if (text := given[f"{which}_kernel"]) is not None:
            spans[f"{which}_kernel"], spans[f"{which}_skip"] = parse_kernel_launch(text)
    return dataclasses.replace(chosen, **spans)


def _options(as_json: bool, **given: Any) -> Any:
    from kerncap.capture.options import CaptureOptions, Keep, Run, parse_size

    return CaptureOptions(
        Run(
            command=given["command"],
            output=given["output"],
            backend=given["backend"],
            dormant=given["dormant"],
            source_dirs=given["source_dirs"],
            memory_was_asked=given["memory"] is not None,
            keep_session=given["keep_session"],
            self_check=not given["no_self_check"],
            self_check_timeout_s=given["self_check_timeout"],
            stdout_to_stderr=as_json,
        ),
        _selection(given),
        Keep(
            memory=given["memory"] or default.memory,
            max_size=parse_size(given["max_size"]),
            no_values=given["no_values"],
        ),
    )
