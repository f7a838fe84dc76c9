"""``kerncap mcp``: the commands as an agent's tools."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click


@click.command("mcp")
@click.option(
    "--root", "roots", metavar="DIR", multiple=True, type=click.Path(path_type=Path),
    help="A folder that paths may lie in; the first is where commands run. May be repeated.  "
    "[default: the working directory]",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Only what runs neither a program nor a kernel.")
@click.option("--python", metavar="PATH", help="A Python that has torch and triton, for replays.")
@click.option(
    "--max-bytes", type=click.IntRange(min=8000, max=10_000_000), default=40_000, show_default=True,
    metavar="N", help="Of one answer; what is left out of it can be asked for.",
)  # fmt: skip
def command(roots: tuple[Path, ...], read_only: bool, python: str | None, max_bytes: int) -> int:
    """Serve the commands to one agent on stdin and stdout, over the Model Context Protocol.

    An agent's client starts this by itself. Paths stay inside of --root; the programs that capture and list
    run may do what you may do: --read-only leaves these out. Trust in a stranger's reproducer is never given
    through it.
    """
    from kerncap.errors import BackendUnavailable
    from kerncap.streams import protocol

    if find_spec("mcp") is None:
        raise BackendUnavailable("the MCP SDK", "install it: pip install 'kerncap[mcp]'")
    from kerncap.mcp.server import serve
    from kerncap.mcp.tools import default_context

    with protocol():
        serve(default_context(roots, python), read_only, max_bytes)
    return 0
