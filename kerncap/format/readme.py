"""The README.md inside a reproducer, for the person who finds the folder."""

from __future__ import annotations

from collections.abc import Sequence

from kerncap.format import schema
from kerncap.printable import visible

MAX_REGIONS_SHOWN = 50


def render(manifest: schema.Manifest) -> str:
    """Markdown: what this is, how to run it, what data it holds."""
    kernel, device, launch = manifest.kernel, manifest.device, manifest.launch
    where = f" (`{_cell(kernel.file)}:{kernel.line or 0}`)" if kernel.file else ""
    arch = f", {_cell(device.arch)}" if device.arch else ""
    tool = f"{_cell(manifest.tool.name)} {_cell(manifest.tool.version)}"
    on = f"{_cell(device.name)} ({device.kind}{arch}), {_cell(manifest.platform.system)}"
    ordinal = f"number {launch.ordinal} of this kernel in its process, mode {launch.mode}"
    stored, left_out = manifest.memory.stored_bytes, manifest.closure.left_out_bytes
    lines = [
        f"# {_cell(kernel.name)}: one captured kernel launch",
        "",
        f"This folder is a *reproducer* made by {tool}: one launch of the {kernel.language} kernel",
        f"`{_cell(kernel.qualified_name)}`{where}, taken out of a running program together",
        "with the memory that it reads, what the program itself computed, and the code.",
        "",
        f"- program: `{_cell(' '.join(manifest.command))}`",
        f"- captured: {_cell(manifest.created)} on {on}",
        f"- launch: grid {list(launch.grid)}, {ordinal}",
        f"- oracle: {manifest.oracle.kind}{_oracle(manifest.oracle)}",
        "",
        "## How to run it",
        "",
        "```sh",
        "pip install kerncap",
        "kerncap inspect .    # everything about it; executes nothing",
        "kerncap replay .     # runs the launch",
        "kerncap verify .     # runs it and compares with what the program computed",
        "```",
        "",
        "`replay` and `verify` execute code from this folder. Do so only if you trust where it comes from.",
        "",
        "## What data it holds",
        "",
        "**The memory is a copy of the program's own. It may hold private data: weights, inputs, keys.**",
        "The manifest also names files, arguments and environment of that program.",
        "",
        f"{len(manifest.regions)} regions, {manifest.closure.included_bytes} bytes, stored in {stored} bytes",
        f"(closure: {manifest.closure.mode}, {left_out} bytes left out).",
        "",
    ]
    if manifest.regions:
        lines += ["| region | bytes | kind | why |", "|---|---|---|---|"]
    for number, region in enumerate(manifest.regions[:MAX_REGIONS_SHOWN]):
        lines.append(f"| {number} | {region.size} | {region.kind} | {_cell(region.name or region.reason)} |")
    if len(manifest.regions) > MAX_REGIONS_SHOWN:
        lines.append(f"\n… and {len(manifest.regions) - MAX_REGIONS_SHOWN} more: see manifest.json.")
    lines += [
        "",
        "## Files",
        "",
        "- `manifest.json`: all facts, and the digests of the rest; `sha256sum -c manifest.sha256` checks it",
        "- `memory/`: the state before the launch, and what the launch changed",
    ]
    if manifest.code:
        stages = ", ".join(_cell(code.stage) for code in manifest.code)
        lines.append(f"- `code/`: the compiled kernel: {stages}")
    if manifest.source is not None:
        lines.append(f"- `{_cell(manifest.source.file.path)}`: the source, editable and standalone")
    return "\n".join(lines) + "\n"


def render_range(
    positions: Sequence[int], manifests: Sequence[schema.Manifest], missing: Sequence[schema.MissingLaunch]
) -> str:
    """Markdown for the folder of a range: what it is, how to run it, what data it holds."""
    first = manifests[0]
    device = first.device
    arch = f", {_cell(device.arch)}" if device.arch else ""
    lines = [
        f"# {len(manifests)} captured kernel launches, in order",
        "",
        f"This folder is a *range* made by {_cell(first.tool.name)} {_cell(first.tool.version)}: consecutive",
        "kernel launches, taken out of a running program together with the memory that they read,",
        "what the program itself computed, and the code.",
        "",
        f"- program: `{_cell(' '.join(first.command))}`",
        f"- captured: {_cell(first.created)} on {_cell(device.name)} ({device.kind}{arch})",
        "",
        "| launch | in the program | kernel | grid |",
        "|---|---|---|---|",
    ]
    for number, (position, manifest) in enumerate(zip(positions, manifests, strict=True)):
        kernel, grid = _cell(manifest.kernel.name), list(manifest.launch.grid)
        lines.append(f"| {number} | {position} | `{kernel}` | {grid} |")
    lines += [f"\nMissing: launch {each.position} of the program: {_cell(each.reason)}" for each in missing]
    return "\n".join([
        *lines,
        "",
        "## How to run it",
        "",
        "```sh",
        "pip install kerncap",
        "kerncap inspect .      # the launches, and what flows between them; executes nothing",
        "kerncap replay .       # runs them in order",
        "kerncap verify .       # runs them and compares with what the program computed",
        "kerncap slice . 0      # makes a reproducer of launch 0",
        "```",
        "",
        "`replay` and `verify` execute code from this folder. Do so only if you trust where it comes from.",
        "",
        "**The memory is a copy of the program's own. It may hold private data: weights, inputs, keys.**",
        "The manifests also name files, arguments and environment of that program.",
    ]) + "\n"  # fmt: skip


def _oracle(oracle: schema.Oracle) -> str:
    reason = oracle.error or oracle.detail or oracle.condition
    return f" ({_cell(reason)})" if reason else ""


def _cell(text: str | None) -> str:
    """One line that can't break out of a table cell or a code span."""
    return visible(text or "", 200).replace("|", "\\|").replace("`", "'")
