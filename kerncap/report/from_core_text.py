"""`from-core` as one page: the fault, its thread, the launch, what else the dump has, the next step."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kerncap.capture.kernel_spellings import base_name
from kerncap.log import counted
from kerncap.log import size as size_text
from kerncap.printable import visible

Document = dict[str, Any]
MAX_FAULTS, MAX_ACCESSES, MAX_KERNELS, MAX_ELSEWHERE, MAX_MEMORY = 8, 4, 8, 8, 12
_REGISTERS_A_LINE = 8
_NVIDIA = {"registers": "R", "accumulators": "", "uniform_registers": "UR"}
_AMD = {"registers": "v", "accumulators": "a", "uniform_registers": "s"}
_LONGEST = 400


def render(document: Document) -> str:
    """What `api.from_core` gives, for people."""
    lines = _log(document)
    if has_dump(document):
        lines += _dump(document)
    lines += ["", *(f"note: {visible(note, _LONGEST)}" for note in document["notes"])]
    lines += [f"to make a reproducer in the next run: {visible(document['command'], 4096)}"]
    return "\n".join(lines) + "\n"


def _dump(document: Document) -> list[str]:
    kernels = document["kernels"]
    lines = [visible(document["path"], _LONGEST), *_made(document)]
    for fault in document["faults"][:MAX_FAULTS]:
        lines += ["", *_fault(fault, kernels)]
    lines += _more(document["faults"], MAX_FAULTS)
    lines += _section("Kernels", [line for each in kernels[:MAX_KERNELS] for line in _kernel(each)])
    lines += _more(kernels, MAX_KERNELS)
    other = document["elsewhere"]
    title = "Threads without an exception" if document["faults"] else "Threads"
    lines += _section(title, [_elsewhere(each, kernels) for each in other[:MAX_ELSEWHERE]])
    lines += _more(other, MAX_ELSEWHERE)
    return lines + _section("Memory in the dump", _memory(document))


def has_dump(document: Document) -> bool:
    """Whether it is of a dump, and not only of what a log says."""
    return document["log"] is None or document["path"] != document["log"]["path"]


def _log(document: Document) -> list[str]:
    """What the log says, if one was given for the dump."""
    log = document["log"]
    if log is None:
        return []
    rows = [("error", f"{log['error']} (line {log['line']})")] if log["error"] else []
    rows += [("exception", log["exception"])] if log["exception"] else []
    rows += [("kernel", base_name(each)) for each in log["kernels"][-MAX_KERNELS:]]
    for each in log["assertions"][:MAX_FAULTS]:
        rows.append(("assertion", f"{each['file']}:{each['line']}, in {each['function']}: {each['text']}"))
        if each["block"] is not None:
            others = f" and {each['count'] - 1:,} more" if each["count"] > 1 else ""
            rows.append(("", f"{_thread(each)}{others}"))
    for each in log["dumps"][:MAX_FAULTS]:
        problem = "" if each["problem"] is None else f": {each['problem']}"
        rows.append(("core dump", f"{each['path']}{problem}"))
    lines = _table(rows)
    return [visible(log["path"], _LONGEST), *lines, *([""] if has_dump(document) else [])]


def place_text(place: Document | None, pc: int | None = None) -> str:
    """``kernel+0x1f0``, with the function in it if that is another."""
    if place is None:
        return "an address that no image in the dump has" + ("" if pc is None else f": {pc:#x}")
    name = "its code object" if place["function"] is None else base_name(place["function"])
    text = f"{name}+{place['offset']:#x}"
    if place["function"] != place["kernel"] and place["kernel"] is not None:
        offset = "" if place["kernel_offset"] is None else f"+{place['kernel_offset']:#x}"
        text += f", in {base_name(place['kernel'])}{offset}"
    return text


def _made(document: Document) -> list[str]:
    driver, devices = document["driver"], document["devices"]
    lines = []
    if driver is not None:
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(driver["time_s"]))
        lines.append(f"written {when} by driver {driver['version']}, CUDA {driver['cuda']}")
    lines += [
        visible(
            f"device {each['index']}: {each['name']}, {each['arch']}, {each['sms']} {_units(each)}", _LONGEST
        )
        for each in devices
    ]
    return lines


def _fault(fault: Document, kernels: Sequence[Document]) -> list[str]:
    kind, place, state = fault["exception"], fault["place"], fault["first_thread"]
    code = f" ({kind['code']})" if kind["code"] else ""
    rows = [("exception", f"{kind['name']}{code}: {kind['text']}")]
    if fault["kernel"] is not None:
        rows.append(("kernel", _launch(kernels[fault["kernel"]])))
    rows.append(("instruction", place_text(place, fault["pc"])))
    if place is not None and place["instruction"]:
        rows.append(("", place["instruction"]))
    if fault["pc"] is not None or place is not None:
        rows.append(("source", _source(place)))
    if state is None:
        rows.append(("threads", "not known: all that had it have ended"))
    else:
        accesses = _accesses(fault)
        order = "; addresses that are furthest from the others' first" if len(accesses) > 1 else ""
        blocks = "blocks that aren't known" if fault["blocks"] is None else counted(fault["blocks"], "block")
        rows.append(("threads", f"{fault['thread_count']:,} in {blocks}{order}"))
        rows += [("", text) for text in accesses]
        first = _thread(fault["threads"][0]) if fault["threads"] else ""
        rows.append(("first thread", f"{first} {_where(state)}".strip()))
        rows += [("called from", f"{place_text(each)}, {_source(each)}") for each in state["backtrace"]]
    lines = _table(rows)
    return lines + ([] if state is None else _registers(state))


def _accesses(fault: Document) -> list[str]:
    found = [each for each in fault["threads"] if each["access"] is not None]
    lines = []
    for each in found[:MAX_ACCESSES]:
        access = each["access"]
        left_out = ", not in the dump's memory" if access["in_dump"] is False else ""
        lines.append(f"{_thread(each)}: {access['space']} address {access['address']:#x}{left_out}")
    left = fault["thread_count"] - len(lines)
    return [*lines, *([f"… and {left:,} more"] if lines and left else [])]


def _registers(state: Document) -> list[str]:
    lines = []
    if state["special"] is not None:
        named = (f"{name} {value:#x}" for name, value in state["special"].items())
        lines.append(f"{'wave':<12} {', '.join(named)}")
    for key, prefix in (_NVIDIA if state["special"] is None else _AMD).items():
        values = state[key]
        for at in range(0, len(values), _REGISTERS_A_LINE):
            row = values[at : at + _REGISTERS_A_LINE]
            if key == "registers" or any(row):  # of the others most kernels use a few of those that there are
                lines.append(f"{prefix + str(at):<12} {' '.join(f'{value:08x}' for value in row)}")
    if state["predicates"]:
        lines.append(f"{'P0':<12} {' '.join(map(str, state['predicates']))}")
    return lines


def _kernel(kernel: Document) -> list[str]:
    resident = counted(kernel["resident_threads"], "thread")
    lines = [f"{_launch(kernel)}; {kernel['registers']} registers, {resident} resident"]
    if kernel["mangled"] is not None and kernel["mangled"] != kernel["name"]:
        lines.append(f"  {visible(kernel['mangled'], _LONGEST)}")
    for number, each in enumerate(kernel["parameters"] or ()):
        lines.append(f"  parameter {number} at {each['offset']:#x}: {_value(bytes.fromhex(each['bytes']))}")
    return lines


def _value(data: bytes) -> str:
    number = int(data[::-1].hex() or "0", 16)
    if len(data) == 8:
        return f"{number:#x}"
    return f"{number} ({number:#x})" if len(data) in (1, 2, 4) else f"{len(data)} bytes: {data[:32].hex()}"


def _launch(kernel: Document) -> str:
    cluster = f", cluster {_size(kernel['cluster'])}" if kernel["cluster"] else ""
    name = kernel["name"] or "a kernel that no image in the dump has"
    if kernel["grid"] is None:
        return visible(f"{name}  grid and block not known", _LONGEST)
    return visible(f"{name}  grid {_size(kernel['grid'])}, block {_size(kernel['block'])}{cluster}", _LONGEST)


def _elsewhere(each: Document, kernels: Sequence[Document]) -> str:
    kernel = "" if each["kernel"] is None else kernels[each["kernel"]]["name"] or ""
    source = "" if each["place"] is None or each["place"]["line"] is None else f", {_source(each['place'])}"
    of = f" of {kernel}" if kernel and each["place"] is None else ""
    return visible(
        f"{each['thread_count']:>7,} at {place_text(each['place'], each['pc'])}{of}{source}", _LONGEST
    )


def _memory(document: Document) -> list[str]:
    lines = []
    for each in document["memory"][:MAX_MEMORY]:
        where = (
            f"at {each['address']:#x}"
            if each["address"] is not None
            else f"in {counted(each['parts'], 'part')}"
        )
        lines.append(f"{each['kind']:<8} {size_text(each['bytes'])} {where}")
    lines += _more(document["memory"], MAX_MEMORY)
    left_out = (document["driver"] or {}).get("left_out", ())
    return [*(lines or ["none"]), *([f"left out by its flags: {', '.join(left_out)}"] if left_out else [])]


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{label:<12} {visible(text, _LONGEST)}" for label, text in rows]


def _source(place: Document | None) -> str:
    if place is None or place["line"] is None:
        return "not known: no lines in the image; compile with -lineinfo, or -g for HIP"
    return f"{place['file']}:{place['line']}"


def _units(device: Document) -> str:
    return "compute units" if device["arch"].startswith("gfx") else "SMs"


def _where(state: Document) -> str:
    if state["special"] is None:
        return f"on SM {state['sm']}, warp {state['warp']}, lane {state['lane']}"
    return f"lane {state['lane']}" + ("" if state["warp"] is None else f" of wave {state['warp']}")


def _thread(each: Document) -> str:
    if each["block"] is None or each["thread"] is None:
        return ""
    return f"block ({_index(each['block'])}) thread ({_index(each['thread'])})"


def _index(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _size(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))


def _section(title: str, lines: Sequence[str]) -> list[str]:
    return ["", title, *(f"  {line}" for line in lines)] if lines else []


def _more(found: Sequence[Any], most: int) -> list[str]:
    return [f"  … and {len(found) - most} more (--json)"] if len(found) > most else []
