"""``kerncap mcp``: the commands as an agent's tools."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import click

from kerncap.cli.number_types import Whole
from kerncap.cli.paths import PATH


@click.command("mcp")
@click.option(
    "--root", "roots", metavar="DIR", multiple=True, type=PATH,
    help="Folder that paths must be in; commands run in the first. Repeatable.  "
    "[default: the working directory]",
)  # fmt: skip
@click.option("--read-only", is_flag=True, help="Leave out tools that run a program or a kernel.")
@click.option("--python", metavar="PATH", help="Python with torch and triton, for replays.")
@click.option("--resident", is_flag=True, help="Run each verify as verify --resident does.")
@click.option(
    "--max-bytes", type=Whole(8000, 10_000_000), default=40_000, show_default=True,
    metavar="N", help="Maximum size of one answer, 8000 or more; the agent can read the rest.",
)  # fmt: skip
def command(
    roots: tuple[Path, ...], read_only: bool, python: str | None, resident: bool, max_bytes: int
) -> int:
    """Serve the commands to one agent on stdin and stdout, over the Model Context Protocol.

    An agent's client starts this itself. Paths stay inside --root. The tools capture and list
    run programs with your rights; --read-only leaves such tools out. No tool can trust a stranger's
    reproducer.
    """
    from kerncap.errors import BackendUnavailable
    from kerncap.streams import protocol

    if find_spec("mcp") is None:
        raise BackendUnavailable("the MCP SDK", "install it: pip install 'kerncap[mcp]'")
    from kerncap.mcp.server import serve
    from kerncap.mcp.tools import default_context

    with protocol():
        serve(default_context(roots, python, resident), read_only, max_bytes)
    return 0
