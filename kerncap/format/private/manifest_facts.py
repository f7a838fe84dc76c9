"""The manifest without what is private: each of its strings by what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kerncap.env import is_for_replay
from kerncap.format.private.command import secret_parts
from kerncap.format.private.scrub import Scrubber
from kerncap.format.private.secret_words import grade, is_placeholder

# Of fixed meaning, or numbers that are written as text: nobody's words.
_FIXED = frozenset(
    ("sha256", "bytes", "kind", "mode", "format", "created", "dtype", "signature", "stage", "language",
     "form", "type", "library", "tool", "consistency", "machine", "arch", "type_name", "attributes")
)  # fmt: skip
# Names that code and format go by: what runs is found by them.
_IDENTIFIERS = frozenset(
    [
        ("kernel", "name"),
        ("kernel", "qualified_name"),
        ("kernel", "mangled"),
        ("source", "entry"),
        ("compiled", "name"),
    ]
)
_NAMED_LISTS = frozenset(("arguments", "regions", "views", "origins", "fields", "name_expressions"))
_STORED = frozenset(("stored", "unit"))
_NUMBERS = frozenset(("int", "float", "bool"))


def look_at_facts(document: dict[str, Any], scrubber: Scrubber) -> None:
    """Learn the secrets of command line, environment and named values: they go wherever else they stand."""
    for value in _secrets_of(document):
        scrubber.learn(value.encode("utf-8", "surrogatepass"))


def scrub_facts(document: dict[str, Any], scrubber: Scrubber) -> dict[str, Any]:
    """The manifest as builtins, without what is private. Digests are those of before."""
    out = {key: _walked(value, (key,), scrubber) for key, value in document.items() if key not in _APART}
    out["command"] = _command(list(document.get("command", ())), scrubber)
    if "environment" in document:
        out["environment"] = {
            name: _variable(name, value, scrubber) for name, value in document["environment"].items()
        }
    oracle = out.get("oracle", {})
    if oracle.get("printed") != document.get("oracle", {}).get("printed"):
        del oracle["printed"]  # another text would be compared with the kernel's
    return out


_APART = ("command", "environment")


def _secrets_of(document: dict[str, Any]) -> Iterator[str]:
    words = list(document.get("command", ()))
    for part in secret_parts(words):
        yield words[part.index][part.start : part.stop]
    for name, value in document.get("environment", {}).items():
        if not is_for_replay(name, value) and (grade(name) or len(value) >= 16):
            yield value
    for name, value in _named_strings(document):
        if grade(name) == "certain":
            yield value


def _command(words: list[str], scrubber: Scrubber) -> list[str]:
    out = list(words)
    for part in reversed(secret_parts(words)):
        word = out[part.index]
        clean = scrubber.secret(f"command[{part.index}]", word[part.start : part.stop], part.what)
        out[part.index] = word[: part.start] + clean + word[part.stop :]
    return [scrubber.string(f"command[{index}]", word) for index, word in enumerate(out)]


def _variable(name: str, value: str, scrubber: Scrubber) -> str:
    key = f"environment.{name}"
    if is_for_replay(name, value) or is_placeholder(value):
        return scrubber.string(key, value)
    if grade(name):
        return scrubber.secret(key, value, "a variable that its name calls secret")
    return scrubber.secret(key, value, "a variable that no replay needs", "variable")


def _walked(value: Any, steps: tuple[str, ...], scrubber: Scrubber) -> Any:
    if isinstance(value, str):
        return _string(value, steps, scrubber)
    if isinstance(value, list | tuple):
        return [_walked(inner, (*steps, f"[{number}]"), scrubber) for number, inner in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if value.get("kind") in _NUMBERS and "value" in value:
        return value
    stored = {"path", "size", "sha256"} <= value.keys()
    out = {}
    for key, inner in value.items():
        if isinstance(inner, str) and (stored and key == "path" or key in _STORED or steps[-1] == "headers"):
            inner = scrubber.path(inner)
        elif key == "value" and value.get("kind") == "str" and grade(_name_of(steps)) == "certain":
            if not is_placeholder(inner):
                inner = scrubber.secret(_dotted(steps), inner, "a value that its name calls secret")
        elif key not in _FIXED and not (isinstance(inner, str) and _is_identifier(steps, key)):
            named = value.get("name") if key == "value" and isinstance(inner, dict) else None
            inner = _walked(inner, (*steps, named if isinstance(named, str) else key), scrubber)
        out[scrubber.string(_dotted(steps), key) if steps[-1] == "headers" else key] = inner
    return out


def _is_identifier(steps: tuple[str, ...], key: str) -> bool:
    if (steps[-1], key) in _IDENTIFIERS or key == "value" and steps[-2:] == ("compiled", "name"):
        return True
    return key == "name" and len(steps) > 1 and steps[-2] in _NAMED_LISTS


def _name_of(steps: tuple[str, ...]) -> str:
    return next((step for step in reversed(steps) if not step.startswith("[") and step != "value"), "")


def _string(value: str, steps: tuple[str, ...], scrubber: Scrubber) -> str:
    if any(step in _NAMED_LISTS for step in steps[-2:-1]) and steps[-2] in ("fields", "name_expressions"):
        return value
    return scrubber.string(_dotted(steps), value)


def _named_strings(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Every string value of the manifest with the name that it has."""
    pending: list[tuple[str, Any]] = [("", document)]
    while pending:
        name, node = pending.pop()
        if isinstance(node, list | tuple):
            pending += [(name, inner) for inner in node]
        elif isinstance(node, dict):
            if node.get("kind") == "str" and isinstance(node.get("value"), str):
                yield name, node["value"]
                continue
            own = node.get("name") if isinstance(node.get("name"), str) else None
            pending += [(own if own and key == "value" else key, inner) for key, inner in node.items()]


def _dotted(steps: tuple[str, ...]) -> str:
    return ".".join(steps).replace(".[", "[")
