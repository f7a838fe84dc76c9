"""What pack, report and export say of private data: the option that keeps it, and why they stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kerncap.format.document_types import Document
    from kerncap.format.private import Finding

keep_private_option = click.option(
    "--keep-private", multiple=True, type=click.Choice(["users", "hosts", "secrets"]),
    help="Keep user names, host names or secrets, readable for the recipient. Repeatable.",
)  # fmt: skip


@contextmanager
def findings_shown(as_json: bool, document: Callable[[str, tuple[Finding, ...]], Document]) -> Iterator[None]:
    """If the block stops because of private data, what was found, on stderr and in a ``document``."""
    from kerncap import log
    from kerncap.api.pack.kept_private import Private
    from kerncap.report.pack_text import listing

    try:
        yield
    except Private as stopped:
        log.block("\n".join(listing(stopped.findings)))
        if as_json:
            click.echo(json.dumps(document(str(stopped), stopped.findings).as_dict(), indent=1))
        raise
