"""A template filled as one file: style and script in it, and allowed only by their digests."""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

import kerncap
from kerncap.report.html.material import plain
from kerncap.report.limits_text import percent, quantity
from kerncap.report.verdict_text import milliseconds

_FOLDER = Path(__file__).parent
_STYLES = ("page", "parts", "code", "print")


def filled(template: str, scripts: Sequence[str] = (), **facts: Any) -> bytes:
    """``scripts``: of those in script/. With none, the system's theme holds."""
    dark = _text("style/dark.css")
    theme = f':root[data-theme="dark"] {{\n{dark}}}'
    if not scripts:
        theme = f"@media (prefers-color-scheme: dark) {{ :root {{\n{dark}}} }}"
    first, *others = (_text(f"style/{name}.css") for name in _STYLES)
    style = "\n".join((first, theme, *others))
    script = "\n".join(_text(f"script/{name}.js") for name in scripts)
    script = f'(() => {{\n"use strict";\n{script}\n}})();\n' if scripts else ""
    page = _environment().get_template(template).render(
        **facts,
        version=kerncap.__version__,
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
    )  # fmt: skip
    return page.encode("utf-8", "replace")


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing is allowed but these two pieces of our own: no network, no other script, no frame, no form."""

    def digest(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode() + "'"

    scripts = f"script-src {digest(script)}; " if script else ""
    return f"default-src 'none'; {scripts}style-src {digest(style)}; base-uri 'none'; form-action 'none'"


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "milliseconds": milliseconds, "percent": percent, "quantity": quantity, "plain": plain,
        "commas": lambda number: f"{number:,}",
    }  # fmt: skip
    return environment
