"""Numbers in the text of a CUDA or HIP source: `#define TILE 32` and a kernel's integer template parameters.

A variant is the text with other numbers. A template parameter keeps its captured argument, for that is part
of the kernel's name: in the body a constant with the parameter's name takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kerncap.format import Reproducer
from kerncap.format.kernel_names import parse
from kerncap.replay.tuning.point import Scalar

_DEFINE = re.compile(
    r"^(?P<head>[ \t]*#[ \t]*define[ \t]+(?P<name>[A-Za-z_]\w*)[ \t]+)"
    r"(?P<open>\(?)(?P<value>\d+)(?P<tail>[uU]?\)?[ \t]*(//.*|/\*.*)?\r?)$",
    re.MULTILINE,
)
_INTEGERS = r"(?:unsigned\s+int|unsigned|int|size_t|std::size_t|long|short|bool|uint32_t|int32_t)"
_PARAMETER = re.compile(rf"^\s*(?:const\s+)?(?P<type>{_INTEGERS})\s+(?P<name>[A-Za-z_]\w*)\s*(=.*)?$")


@dataclass(frozen=True)
class TextParameter:
    """A number in the text: ``position`` among the template's parameters, or None for a #define."""

    name: str
    value: int
    position: int | None = None


def find(reproducer: Reproducer) -> list[TextParameter]:
    """The numbers of the kernel's file that a variant may have otherwise."""
    manifest = reproducer.manifest
    text = reproducer.source_text()
    if manifest.source is None or manifest.source.language not in ("cuda", "hip") or text is None:
        return []
    parameters = [TextParameter(name, value) for name, value in defined(text).items()]
    name = parse(manifest.kernel.mangled or manifest.kernel.name, manifest.kernel.qualified_name)
    template = _template(text, name.base)
    if template is not None and name.template_arguments:
        given = _split(name.template_arguments.strip().removeprefix("<").removesuffix(">"))
        for position, part in enumerate(_split(template["parameters"])):
            declared = _PARAMETER.match(part)
            if declared is None or declared["type"] == "bool" or position >= len(given):
                continue
            number = re.fullmatch(r"(?:\([\w ]+\))?\s*(\d+)[uUlL]*", given[position].strip())
            if number:
                parameters.append(TextParameter(declared["name"], int(number[1]), position))
    return parameters


def defined(text: str) -> dict[str, int]:
    """The numbers that a source defines; nothing of a name that is defined twice (under #if, one of them)."""
    found: dict[str, list[int]] = {}
    for match in _DEFINE.finditer(text):
        found.setdefault(match["name"], []).append(int(match["value"]))
    return {name: values[0] for name, values in found.items() if len(values) == 1}


def edited(reproducer: Reproducer, values: Mapping[str, Scalar]) -> str:
    """The kernel's file with other values. Names that are not in it are passed over."""
    text = reproducer.source_text() or ""
    known = {each.name: each for each in find(reproducer)}

    def number(match: re.Match[str]) -> str:
        if match["name"] not in values or match["name"] not in known:
            return match[0]
        return f"{match['head']}{match['open']}{values[match['name']]}{match['tail']}"

    text = _DEFINE.sub(number, text)
    manifest = reproducer.manifest
    base = parse(manifest.kernel.mangled or manifest.kernel.name, manifest.kernel.qualified_name).base
    for name, value in values.items():
        parameter = known.get(name)
        if parameter is not None and parameter.position is not None:
            text = _shadowed(text, base, parameter, value)
    return text


def _shadowed(text: str, kernel: str, parameter: TextParameter, value: Scalar) -> str:
    match = _template(text, kernel)
    if match is None:
        return text
    brace = text.find("{", match.end())
    if brace < 0:
        return text
    parts = _split(match["parameters"])
    parts[parameter.position or 0] = re.sub(
        rf"\b{re.escape(parameter.name)}\b",
        f"{parameter.name}_captured",
        parts[parameter.position or 0],
        count=1,
    )
    start, stop = match.span("parameters")
    # Whatever stands before the body (launch bounds, the parameters' types) goes with the captured value.
    head = re.sub(rf"\b{re.escape(parameter.name)}\b", f"{parameter.name}_captured", text[stop:brace])
    kind = _PARAMETER.match(_split(match["parameters"])[parameter.position or 0])
    declared = kind["type"] if kind else "int"
    constant = f" constexpr {declared} {parameter.name} = {value};"
    return text[:start] + ",".join(parts) + head + "{" + constant + text[brace + 1 :]


def _template(text: str, kernel: str) -> re.Match[str] | None:
    """From `template` to the kernel's name in its definition."""
    pattern = re.compile(
        r"template\s*<(?P<parameters>[^{};]*?)>\s*(?:extern\s+\"C\"\s*)?(?:static\s+|inline\s+)*__global__"
        rf"[^;{{}}]*?\b{re.escape(kernel)}\s*(?=\()"
    )
    found = [match for match in pattern.finditer(text) if _is_definition(text, match.end())]
    return found[-1] if found else None


def _is_definition(text: str, end: int) -> bool:
    brace, semicolon = text.find("{", end), text.find(";", end)
    return brace >= 0 and (semicolon < 0 or brace < semicolon)


def _split(text: str) -> list[str]:
    """At commas outside of brackets."""
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += letter in "<([{"
        depth -= letter in ">)]}"
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    return [*parts, current]
