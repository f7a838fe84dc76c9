"""``kerncap schema``: the JSON Schema of what a command prints with --json."""

from __future__ import annotations

import json

import click


@click.command("schema")
@click.argument("document", required=False)
@click.option(
    "--json", "as_json", is_flag=True, help="Without DOCUMENT: print all schemas as one JSON document."
)
def command(document: str | None, as_json: bool) -> int:
    """Print the JSON Schema (2020-12) of a command's --json, or list all documents.

    Keys may be added to a document. If one is removed or changes its meaning, the version is raised.
    """
    from kerncap.api.schemas import DOCUMENTS, schema, schema_text

    if document is not None:
        click.echo(schema_text(document), nl=False)
    elif as_json:
        click.echo(json.dumps({name: schema(name) for name in DOCUMENTS}, indent=1))
    else:
        for name in DOCUMENTS:
            found = schema(name)
            click.echo(f"{name:<15} {found['title']}: {found['description'].split('. ')[0].rstrip('.')}")
    return 0
