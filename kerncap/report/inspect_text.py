"""`inspect` as text: short, aligned, safe to print for any name in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kerncap.format import schema
from kerncap.format.textures import array_text, format_text, sampler_text
from kerncap.log import counted
from kerncap.log import size as size_text
from kerncap.printable import visible

MAX_ROWS = 40
MAX_CELL = 48
Document = dict[str, Any]


def render(document: Document) -> str:
    """What `api.inspect` gives, for people."""
    manifest = document["manifest"]
    lines = [
        *_launch(document, manifest),
        *_section("Arguments", _arguments(document, manifest)),
        *_section("Aliases", _aliases(document)),
        *_section("Regions", _regions(document, manifest)),
        *_section("Textures", _textures(manifest)),
        *_section("Code", _code(manifest)),
        *_section("Lines", _places(document)),
        *_section("Autotune", _autotune(manifest)),
        *_section("Checks", _checks(document)),
        *_section("Environment", _environment(manifest)),
        *_section("Notes", [_text(note, 400) for note in document["notes"]]),
    ]
    return "\n".join(lines) + "\n"


def value_text(value: Document, views: Sequence[Document] = ()) -> str:
    """A value of the manifest as one would write it in Python."""
    kind = value["kind"]
    if kind in ("int", "float"):
        text = value["value"]
        return str(float.fromhex(text)) if kind == "float" else str(text)
    if kind == "bool":
        return str(value["value"])
    if kind == "none":
        return "None"
    if kind == "str":
        return repr(value["value"])
    if kind == "dtype":
        return f"{'tl' if value['library'] == 'triton' else 'torch'}.{value['name']}"
    if kind == "sequence":
        inner = ", ".join(value_text(item, views) for item in value["items"])
        return f"[{inner}]" if value.get("type") == "list" else f"({inner})"
    if kind in ("tensor", "descriptor"):
        view = views[value["view"]] if value["view"] < len(views) else {}
        prefix = "descriptor of " if kind == "descriptor" else ""
        return f"{prefix}{view.get('dtype', 'tensor')}{shape_text(view.get('shape', ()))}"
    if kind == "pointer":
        return f"{value['dtype']} at {value['address']:#x}"
    if kind == "function":
        return f"function {value['name']}"
    if value["repr"].startswith(f"{value['repr'].partition(' ')[0]} bytes: "):  # a struct of a native launch
        return f"{value['type_name']}, {value['repr']}"
    return f"<{value['type_name']}: not held by the format>"


def _launch(document: Document, manifest: Document) -> list[str]:
    kernel, launch, device, oracle = (manifest[k] for k in ("kernel", "launch", "device", "oracle"))
    closure, stored, tool = manifest["closure"], document["stored"], manifest["tool"]
    options = ", ".join(f"{_text(k)}={_text(value_text(v))}" for k, v in launch.get("options", {}).items())
    rows = [
        ("reproducer", document["path"]),
        ("kernel", f"{kernel['qualified_name']} ({kernel['language']})"),
        ("defined in", f"{kernel['file']}:{kernel.get('line', '?')}" if kernel.get("file") else "unknown"),
        ("grid", f"{tuple(launch['grid'])}{_block(launch)}"),
        ("launch", f"number {launch['ordinal']} in its process, mode {launch['mode']}{_route(launch)}"),
        *([("options", options or "none")] if launch["mode"] != "native" or options else []),
        *_native(manifest),
        (
            "device",
            f"{device['name']} ({device['kind']}{', ' + device['arch'] if device.get('arch') else ''})",
        ),
        *([("ranks", ranks_text(manifest["collective"]))] if manifest.get("collective") else []),
        ("oracle", oracle["kind"] + _reason(oracle)),
        *([("printed", _lines(oracle["printed"]))] if oracle.get("printed") else []),
        ("closure", closure_text(closure)),
        ("stored", f"{size_text(stored['memory_bytes'])} in {stored['chunks']} chunks: {_states(stored)}"),
        ("digests", document["digests"]),
        ("captured", f"{manifest['created']} by {tool['name']} {tool['version']}"),
        ("command", " ".join(manifest["command"])),
        *_source(manifest),
    ]
    grid_source = launch.get("grid_source")
    if grid_source:
        rows.insert(4, ("grid from", grid_source["source"].strip()))
    if launch.get("python_stack"):
        stack = launch["python_stack"]
        # The caller, not what Triton does between it and the launch.
        own = [frame for frame in stack if "/triton/runtime/" not in frame[0]]
        file, line, function = (own or stack)[-1]
        rows.insert(5, ("called from", f"{file}:{line} in {function}"))
    return [f"{label:<12} {_text(text, 400)}" for label, text in rows]


def _native(manifest: Document) -> list[tuple[str, str]]:
    """What a launch below every language has besides: how much memory, how it was given its parameters."""
    launch, kernel = manifest["launch"], manifest["kernel"]
    if launch.get("parameters") is None:
        return []
    rows = [("mangled", kernel["mangled"])] if kernel.get("mangled") else []
    rows.append(("shared", f"{launch.get('shared_bytes') or 0} bytes, dynamic"))
    dispatch = launch.get("dispatch")
    if dispatch:
        items = "x".join(map(str, dispatch["work_items"]))
        lds, scratch = dispatch.get("group_bytes", 0), dispatch.get("private_bytes", 0)
        rows.append(("dispatch", f"{items} work-items, {lds} bytes of LDS, {scratch} of scratch each"))
    layout = launch["parameters"].get("layout")
    count = "layout unknown" if layout is None else f"{len(layout)} parameters"
    rows.append(("parameters", f"{len(launch['parameters']['bytes']) // 2} bytes, {count}"))
    for attribute in launch.get("attributes", ()):
        rows.append(("attribute", f"{attribute['id']}: {attribute['value'].rstrip('0') or '0'}"))
    return rows


def _route(launch: Document) -> str:
    stream = f" on stream {launch['stream']}" if launch.get("stream") else ""
    cooperative = ", cooperative" if launch.get("cooperative") else ""
    return f"{cooperative}, by {launch['route']}{stream}" if launch.get("route") else cooperative


def _source(manifest: Document) -> list[tuple[str, str]]:
    source = manifest.get("source")
    if not source:
        return [("source", "not found")]
    rows = [("source", f"{source['file']['path']}, entry {source['entry']}{_built(source)}")]
    for origin in source.get("origins", ())[:MAX_ROWS]:
        where = f"{origin['original_file']}:{origin['original_line']}"
        rows.append(("", f"{origin['name']} (line {origin['line']}) from {where}"))
    for missing in source.get("missing", ())[:MAX_ROWS]:
        rows.append(("", f"missing: {missing}"))
    return rows


def _built(source: Document) -> str:
    language = f", {source['language']}" if source.get("language") else ""
    build = source.get("build")
    return f"{language}, built by {build['tool']} {' '.join(build.get('options', ()))}" if build else language


def _arguments(document: Document, manifest: Document) -> list[str]:
    views = manifest["views"]
    rows = [("name", "role", "type", "value", "strides", "region+offset", "divisible")]
    for argument, derived in zip(manifest["arguments"], document["arguments"], strict=True):
        tensors = derived.get("tensors", ())
        one = tensors[0] if len(tensors) == 1 and argument["value"]["kind"] != "sequence" else None
        rows.append(
            (
                argument["name"],
                argument["role"],
                argument.get("signature", ""),
                value_text(argument["value"], views),
                shape_text(one["strides"]) if one else "",
                f"{one['region']}+{one['offset']}" if one else "",
                str(argument.get("divisibility", "")),
            )
        )
        if one is None:
            for number, tensor in enumerate(tensors):
                name = tensor["name"] or f"{argument['name']}[{number}]"
                shown = f"{tensor['dtype']}{shape_text(tensor['shape'])}"
                where = f"{tensor['region']}+{tensor['offset']}"
                rows.append((f"  {name}", "", "", shown, shape_text(tensor["strides"]), where, ""))
    return _table(rows)


def _aliases(document: Document) -> list[str]:
    lines = []
    for alias in document["aliases"][:MAX_ROWS]:
        first, second = alias["arguments"]
        how = "are the same bytes" if alias["same_range"] else f"overlap in {alias['bytes']} bytes"
        lines.append(f"{_text(first)} and {_text(second)} {how} of region {alias['region']}")
    return _shorten(lines, len(document["aliases"]))


def _regions(document: Document, manifest: Document) -> list[str]:
    rows = [("no", "base", "bytes", "kind", "nonzero", "chunks changed", "why")]
    regions = zip(manifest["regions"], document["stored"]["regions"], strict=True)
    for number, (region, stored) in enumerate(regions):
        if number >= MAX_ROWS:
            break
        whose = owner_text(region) or region.get("shared")
        why = " ".join(filter(None, (region.get("name"), region.get("reason"), whose and f"({whose})")))
        sizes = (size_text(stored["pre_bytes"]), str(stored["chunks_changed"]))
        kind = f"{region['kind']}:{region.get('device', 0)}"
        rows.append((str(number), f"{region['base']:#x}", str(region["size"]), kind, *sizes, why))
    return _shorten(_table(rows), len(manifest["regions"]) + 1)


def _textures(manifest: Document) -> list[str]:
    textures = manifest["launch"].get("textures", ())
    if not textures:
        return []
    rows = [("object", "on", "samples", "why")]
    for texture in textures[:MAX_ROWS]:
        sampler = texture.get("sampler")
        rows.append((
            f"{texture['kind']} {texture['handle']}", _texel_source(texture, manifest["regions"]),
            sampler_text(sampler) if sampler else "", texture.get("reason", ""),
        ))  # fmt: skip
    return _shorten(_table(rows), len(textures) + 1)


def _texel_source(texture: Document, regions: Sequence[Document]) -> str:
    if texture.get("region") is not None:
        level = f"level {texture['level']} of " if texture.get("level") else ""
        array = msgspec.convert(regions[texture["region"]]["array"], schema.Array)
        return f"{level}region {texture['region']}: {array_text(array)}"
    element = format_text(texture.get("format", 0), texture.get("channels", 0))
    if texture["resource"] == "linear":
        return f"{texture['width']} bytes at {texture['address']:#x}: {element}"
    return f"memory at {texture['address']:#x}: {texture['width']}x{texture['height']} {element}"


def _code(manifest: Document) -> list[str]:
    rows = [
        (code["stage"], str(code["file"]["size"]), code["file"]["path"]) for code in manifest.get("code", ())
    ]
    lines = _table([("stage", "bytes", "file"), *rows]) if rows else []
    compiled = manifest.get("compiled", {})
    if compiled:
        facts = ", ".join(f"{_text(k)}={_text(value_text(v))}" for k, v in compiled.items())
        lines.append(f"compiled: {_text(facts, 400)}")
    return lines


def _places(document: Document) -> list[str]:
    return [
        f"+{place['offset']:#x}  "
        + (
            _text(f"{place['file']}:{place['line']}", 400)
            if place["file"]
            else "no line of the kernel's source"
        )
        for place in document.get("places", ())
    ]


def _autotune(manifest: Document) -> list[str]:
    autotune = manifest.get("autotune")
    if not autotune:
        return []
    chosen = autotune.get("chosen")
    lines = [f"key: {_text(', '.join(autotune.get('key', ())) or 'none', 400)}"]
    for label in ("reset_to_zero", "restore_value"):
        if autotune.get(label):
            lines.append(f"{label}: {_text(', '.join(autotune[label]), 400)}")
    configs = autotune["configs"]
    for number, config in enumerate(configs[:MAX_ROWS]):
        merged = {**config["kwargs"], **config.get("options", {})}
        text = ", ".join(f"{key}={value_text(value)}" for key, value in merged.items())
        grid = f"  grid {tuple(config['grid'])}" if config.get("grid") else ""
        lines.append(f"{'->' if number == chosen else '  '} {_text(text, 200)}{grid}")
    return _shorten(lines, len(lines) + max(0, len(configs) - MAX_ROWS))


def _checks(document: Document) -> list[str]:
    checks = document["checks"] or {}
    check = checks.get("self_check")
    lines = ["self-check: not done"]
    if check:
        by = f" by {check['engine']}" if check.get("engine") else ""
        why = f": {check['reason']}" if check.get("reason") else ""
        lines = [_text(f"self-check: {check['result']}{by}{why}", 400)]
    if document["write_set"] is None:
        return [*lines, "write set: not measured"]
    for entry in document["write_set"][:MAX_ROWS]:
        also = ", also input" if entry["also_input"] else ""
        share = f"{entry['written_bytes']} of {entry['size']} bytes written"
        lines.append(f"write set: region {entry['region']}: {share}{also}")
    return lines


def _environment(manifest: Document) -> list[str]:
    platform = manifest["platform"]
    python = f", Python {_text(platform['python'])}" if platform["python"] else ""
    lines = [f"{_text(platform['system'])} {_text(platform['machine'])}{python}"]
    if platform.get("packages"):
        found = ", ".join(f"{name} {version}" for name, version in platform["packages"].items())
        lines.append(_text(found, 400))
    for name, value in list(manifest.get("environment", {}).items())[:MAX_ROWS]:
        lines.append(_text(f"{name}={value}", 200))
    return lines


def owner_text(region: Document) -> str:
    owner = region.get("owner")
    return f"rank {owner['rank']}'s, at {owner['base']:#x}" if owner else ""


def ranks_text(collective: Document) -> str:
    return f"rank {collective['rank']} of {collective['ranks']} that made launch {collective['id']} together"


def closure_text(closure: Document) -> str:
    text = f"{closure['mode']}, {closure['consistency']}, {size_text(closure['included_bytes'])}"
    if closure.get("left_out_bytes") or closure.get("left_out"):
        names = ", ".join(closure.get("left_out", ())[:8])
        text += f"; left out {size_text(closure.get('left_out_bytes', 0))}{': ' + names if names else ''}"
    if closure.get("not_held"):
        text += f"; can't be held: {'; '.join(closure['not_held'])}"
    return text


def _states(stored: Document) -> str:
    return f"{size_text(stored['pre_bytes'])} before, {size_text(stored['post_bytes'])} after"


def _reason(oracle: Document) -> str:
    parts = [oracle[key] for key in ("condition", "error", "detail") if oracle.get(key)]
    return f" ({'; '.join(parts)})" if parts else ""


def _lines(text: str) -> str:
    """How many lines there are, and the first."""
    lines = text.splitlines()
    return f"{counted(len(lines), 'line')}: {lines[0][:80]}{' …' * (len(lines) > 1)}"


def _block(launch: Document) -> str:
    block = f" block {tuple(launch['block'])}" if launch.get("block") else ""
    return block + (f" cluster {tuple(launch['cluster'])}" if launch.get("cluster") else "")


def shape_text(numbers: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, numbers)) + "]"


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]


def _shorten(lines: list[str], total: int) -> list[str]:
    return lines if total <= len(lines) else [*lines, f"… and {total - len(lines)} more (--json)"]


def _text(text: str, limit: int = MAX_CELL) -> str:
    return visible(text, limit)
