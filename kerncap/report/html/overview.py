"""Everything short that a page says in words: badges, the launch, arguments, environment, commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kerncap.answer import Answer
from kerncap.log import counted, size
from kerncap.report.html.findings import launches
from kerncap.report.html.material import Document, Material, plain
from kerncap.report.html.results import checked
from kerncap.report.inspect_text import closure_text, ranks_text, shape_text, value_text

MAX_ARGUMENTS = 200
MAX_ROWS = 120
_LANGUAGES = {"triton": "Triton", "cuda": "CUDA", "hip": "HIP"}
_ORACLES = {
    "trusted": ("good", "trusted", "the application's own result"),
    "suspect": ("warn", "suspect", "kept because the result looked wrong"),
    "fault": ("bad", "fault", "the launch faulted in the application"),
    "timeout": ("bad", "timeout", "the launch did not end in the application"),
    "regenerated": ("none", "regenerated", "made by a replay, not by the application"),
}


_TONES = {answer.value: tone for answer, tone in zip(Answer, ("good", "bad", "warn"), strict=True)}


@dataclass(frozen=True)
class Badge:
    """``tone``: good, bad, warn or none; shown by a sign as well as by colour."""

    label: str
    value: str
    tone: str
    title: str = ""

    @property
    def sign(self) -> str:
        return {"good": "✓", "bad": "✗", "warn": "!"}.get(self.tone, "–")


Rows = list[tuple[str, str]]


def language(material: Material) -> str:
    found = material.truth.kernel.language
    return _LANGUAGES.get(found, found)


def badges(material: Material) -> list[Badge]:
    """The verdicts, the most telling ones first."""
    tone, word, title = _ORACLES[material.truth.oracle.kind]
    found = [Badge("oracle", word, tone, title), _self_check(material)]
    if not material.has_values:
        why = plain(material.truth.closure.why_without_values)
        found.insert(1, Badge("values", "left out", "none", why))
    for kind in ("verify", "replay"):
        for document in material.of(kind):
            verdict = checked(kind, document)
            label = "verified" if kind == "verify" else "replayed"
            word = verdict.result if verdict.result in _TONES else "fail"
            found.append(Badge(label, word, _TONES[word], plain(verdict.summary)))
    if material.truth.kernel.language == "triton":
        found.append(_sanitizer(material))
    return found


def _self_check(material: Material) -> Badge:
    check = (material.facts["checks"] or {}).get("self_check")
    if not check:
        return Badge("self-check", "not done", "none", "no replay was made after the capture")
    tone = _TONES.get(check["result"], "none")
    by = f" ({plain(check['engine'], 60)})" if check.get("engine") else ""
    title = (
        plain(check.get("reason") or "one replay right after the capture agreed with the application") + by
    )
    return Badge("self-check", check["result"], tone, title)


def _sanitizer(material: Material) -> Badge:
    found = launches(material)
    if not found:
        return Badge("sanitizer", "not run", "none", material.not_sanitized)
    count = sum(len(one.findings) for one in found)
    if count:
        return Badge("sanitizer", counted(count, "finding"), "bad")
    # Who wrote the memory before, no reproducer tells: that question is open in all of them, and leaves the
    # launch's own word as it is.
    proved = sum(one.proved for one in found)
    if any(one.result != Answer.YES.value for one in found):
        why = f"no finding; {proved} memory operations are proved, and not everything"
        return Badge("sanitizer", Answer.UNDECIDED.value, _TONES[Answer.UNDECIDED.value], why)
    return Badge(
        "sanitizer",
        f"{proved} proved",
        "good",
        "no finding; memory operations that are proved for all programs",
    )


def oracle_line(material: Material) -> str:
    """What the application itself produced, in one sentence."""
    oracle = material.manifest["oracle"]
    text = _ORACLES[oracle["kind"]][2]
    more = [plain(oracle[key], 200) for key in ("condition", "error", "detail") if oracle.get(key)]
    return text + (f": {'; '.join(more)}" if more else "")


def glance(material: Material) -> Rows:
    """The launch in a handful of figures."""
    manifest, truth = material.manifest, material.truth
    launch, device = truth.launch, manifest["device"]
    rows = [("grid", _dimensions(launch.grid))]
    if launch.block:
        rows.append(("block", _dimensions(launch.block)))
    elif "num_warps" in launch.options:
        rows.append(("warps", value_text(manifest["launch"]["options"]["num_warps"])))
    rows += [
        ("arguments", f"{len(truth.arguments):,}"),
        ("closure", f"{size(truth.closure.included_bytes)} in {len(truth.regions):,} regions"),
        ("stored", size(material.facts["stored"]["memory_bytes"])),
        (
            "device",
            plain(device["name"], 60) + (f", {plain(device['arch'], 30)}" if device.get("arch") else ""),
        ),
    ]
    return rows


def launch_rows(material: Material) -> Rows:
    """Grid, block, options, attributes, where it came from."""
    manifest = material.manifest
    kernel, launch = manifest["kernel"], manifest["launch"]
    rows = [
        ("kernel", kernel["qualified_name"]),
        ("defined in", f"{kernel['file']}:{kernel.get('line', '?')}" if kernel.get("file") else "not known"),
        ("grid", _dimensions(launch["grid"]) + _programs(launch["grid"])),
    ]
    if launch.get("grid_source"):
        rows.append(("grid from", launch["grid_source"]["source"].strip()))
    rows += list(_native_rows(kernel, launch))
    if launch.get("options"):
        rows.append(("options", _values(launch["options"])))
    if manifest.get("compiled"):
        rows.append(("compiled", _values(manifest["compiled"])))
    route = f", by {launch['route']}" if launch.get("route") else ""
    stream = f", stream {launch['stream']}" if launch.get("stream") else ""
    rows.append(("launch", f"number {launch['ordinal']} in its process, {launch['mode']}{route}{stream}"))
    if manifest.get("collective"):
        rows.append(("ranks", ranks_text(manifest["collective"])))
    rows.append(("closure", closure_text(manifest["closure"])))
    return [(name, plain(text, 1200)) for name, text in rows]


def _native_rows(kernel: Document, launch: Document) -> Iterator[tuple[str, str]]:
    if kernel.get("mangled"):
        yield "mangled", kernel["mangled"]
    if launch.get("block"):
        yield "block", _dimensions(launch["block"]) + _programs(launch["block"], "threads")
    if launch.get("cluster"):
        yield "cluster", _dimensions(launch["cluster"])
    if launch.get("shared_bytes") is not None:
        yield "shared", f"{launch['shared_bytes']:,} bytes, dynamic"
    dispatch = launch.get("dispatch")
    if dispatch:
        yield "work-items", _dimensions(dispatch["work_items"])
        yield (
            "LDS, scratch",
            f"{dispatch.get('group_bytes', 0):,} bytes, {dispatch.get('private_bytes', 0):,} each",
        )
    if launch.get("cooperative"):
        yield "cooperative", "yes"
    for attribute in launch.get("attributes", ()):
        yield f"attribute {attribute['id']}", attribute["value"].rstrip("0") or "0"
    parameters = launch.get("parameters")
    if parameters:
        layout = parameters.get("layout")
        count = "layout not known" if layout is None else f"{len(layout):,} parameters"
        yield "parameters", f"{len(parameters['bytes']) // 2:,} bytes, {count}"


def stack(material: Material) -> list[str]:
    """Who launched it, innermost first."""
    frames = material.manifest["launch"].get("python_stack") or []
    return [plain(f"{file}:{line} in {function}", 300) for file, line, function in frames[::-1][:24]]


def configurations(material: Material) -> tuple[list[tuple[bool, str, str]], str]:
    """(chosen, configuration, grid) of the autotuner, and its key."""
    autotune = material.manifest.get("autotune")
    if not autotune:
        return [], ""
    rows = []
    for number, config in enumerate(autotune["configs"][:MAX_ROWS]):
        text = _values({**config["kwargs"], **config.get("options", {})})
        grid = _dimensions(config["grid"]) if config.get("grid") else ""
        rows.append((number == autotune.get("chosen"), plain(text, 300), grid))
    if len(autotune["configs"]) > MAX_ROWS:
        material.left_out.append(
            f"{len(autotune['configs']) - MAX_ROWS:,} of {len(autotune['configs']):,} configurations"
        )
    return rows, plain(", ".join(autotune.get("key", ())) or "none", 300)


def arguments(material: Material) -> list[dict[str, Any]]:
    """One row for each argument; ``views`` are those that it is or holds."""
    manifest = material.manifest
    found = []
    for argument, derived in list(zip(manifest["arguments"], material.facts["arguments"], strict=True))[
        :MAX_ARGUMENTS
    ]:
        tensors = derived.get("tensors", ())
        one = tensors[0] if len(tensors) == 1 and argument["value"]["kind"] != "sequence" else None
        found.append({
            "name": plain(argument["name"], 80), "role": argument["role"],
            "type": plain(argument.get("signature", ""), 60),
            "value": plain(value_text(argument["value"], manifest["views"]), 200),
            "strides": shape_text(one["strides"]) if one else "",
            "place": f"{one['region']} + {one['offset']:,}" if one else "",
            "divisible": str(argument.get("divisibility") or ""),
            "views": [tensor["view"] for tensor in tensors],
        })  # fmt: skip
    if len(manifest["arguments"]) > MAX_ARGUMENTS:
        material.left_out.append(
            f"{len(manifest['arguments']) - MAX_ARGUMENTS:,} of {len(manifest['arguments']):,} arguments"
        )
    return found


def aliases(material: Material) -> list[str]:
    found = []
    for alias in material.facts["aliases"][:MAX_ROWS]:
        first, second = (plain(name, 80) for name in alias["arguments"])
        how = "are the same bytes" if alias["same_range"] else f"overlap in {alias['bytes']:,} bytes"
        found.append(f"{first} and {second} {how} of region {alias['region']}")
    return found


def source(material: Material) -> dict[str, Any]:
    """What is said above the source: its entry, how it was built, names that it lacks."""
    found = material.manifest.get("source")
    if not found:
        return {"about": "", "missing": []}
    about = f", entry {plain(found['entry'], 120)}"
    build = found.get("build")
    if build:
        about += f", built by {build['tool']} {plain(' '.join(build.get('options', ())), 300)}"
    return {"about": about + ".", "missing": [plain(name) for name in found.get("missing", ())[:20]]}


def environment(material: Material) -> list[tuple[str, Rows]]:
    """Groups of rows: the capture, the machine, packages, variables."""
    manifest = material.manifest
    platform, device, tool = manifest["platform"], manifest["device"], manifest["tool"]
    capture = [
        ("command", shlex.join(manifest["command"])),
        ("captured", f"{manifest['created']} by {tool['name']} {tool['version']}"),
        ("digest", material.facts["manifest_sha256"]),
        ("digests", material.facts["digests"]),
    ]
    machine = [
        ("system", f"{platform['system']} {platform['machine']}"),
        ("Python", platform["python"]),
        ("device", f"{device['name']} ({device['kind']} {device.get('ordinal', 0)})"),
        ("driver", device.get("driver") or ""),
        ("memory", size(device["memory_bytes"]) if device.get("memory_bytes") else ""),
    ]
    packages = sorted(platform.get("packages", {}).items())
    variables = sorted(manifest.get("environment", {}).items())
    groups = [("Capture", capture), ("Machine", machine), ("Packages", packages), ("Variables", variables)]
    return [
        (name, [(plain(key, 120), plain(text, 600)) for key, text in rows if text][:MAX_ROWS])
        for name, rows in groups
        if any(text for _, text in rows)
    ]


def commands(material: Material) -> Rows:
    """What to do with the reproducer; the folder is the one that the page was made from."""
    folder = shlex.quote(plain(material.facts["path"], 300))
    rows = [
        (f"kerncap inspect {folder}", "everything about it; executes nothing"),
        (f"kerncap verify {folder}", "runs the launch and compares with what the application got"),
        (f"kerncap replay {folder} --edit", "edit the source; verdict and time after each save"),
    ]
    if material.truth.kernel.language == "triton":
        rows.append(
            (f"kerncap sanitize {folder}", "proves that it stays inside its memory, or shows where not")
        )
    else:
        rows.append(
            (f"kerncap replay {folder} -n 100", "runs it a hundred times: what differs, and how long")
        )
    return rows


def _dimensions(numbers: Sequence[int]) -> str:
    return " × ".join(f"{number:,}" for number in numbers)


def _programs(numbers: Sequence[int], what: str = "in all") -> str:
    total = 1
    for number in numbers:
        total *= number
    return f" ({total:,} {what})"


def _values(values: Document) -> str:
    return ", ".join(f"{name}={value_text(value)}" for name, value in values.items())
