"""The commands that a report offers choose exactly the kernel that they stand beside."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from kerncap.capture.outcome import CaptureResult, KernelSummary
from kerncap.capture.payloads import KernelCounts, LastLaunch, LastRecord, SeenRecord
from kerncap.capture.target import TargetResult
from kerncap.report.capture_json import capture_document
from kerncap.report.capture_text import capture_command, render_capture
from kerncap.report.listing_text import render_listing
from tests.session_options import capture_options

COMMAND = ("python", "my app.py", "--name=it's", "$HOME", "*.py")


def kernel(qualified_name: str, **filtered: int) -> KernelSummary:
    name = qualified_name.rpartition(".")[2]
    counts = KernelCounts(launches=sum(filtered.values()), filtered=filtered)
    return KernelSummary(qualified_name, counts, SeenRecord(name, qualified_name))


def result(*kernels: KernelSummary, output: Path | None = None) -> CaptureResult:
    options = capture_options(*COMMAND, **({} if output is None else {"output": output}))
    return CaptureResult(options, TargetResult(0, pid=1), kernels=list(kernels))


def chosen(command: str, kernels: list[KernelSummary]) -> list[str]:
    """What the hook would match: the pattern is searched in the short and in the qualified name."""
    words = shlex.split(command)
    assert words[words.index("--") + 1 :] == list(COMMAND)
    pattern = words[words.index("-k") + 1]
    return [
        k.qualified_name
        for k in kernels
        if re.search(pattern, k.name) or re.search(pattern, k.qualified_name)
    ]


def test_each_command_chooses_its_own_kernel_alone() -> None:
    names = ["a.add", "b.add", "a.add2", "a.make.<locals>.add", "a.axb", "a.a.b", "m.k$1", "m.k"]
    kernels = [kernel(name, limit=1) for name in names]
    whole = result(*kernels)
    for each in kernels:
        assert chosen(capture_command(each, whole), kernels) == [each.qualified_name]


def test_the_output_folder_is_kept() -> None:
    command = capture_command(kernel("a.b"), result(kernel("a.b"), output=Path("an out")))
    assert shlex.split(command)[:6] == ["kerncap", "capture", "-k", "^b$", "-o", "an out"]


def test_the_table_says_why_and_ends_with_the_command() -> None:
    rows = [kernel("m.first", limit=3), kernel("m.second", **{"no source": 2}), kernel("m.third")]
    lines = render_capture(result(*rows)).splitlines()
    table = lines[lines.index("not captured:") + 1 :]
    assert table[0].split() == ["kernel", "launches", "because", "to", "capture", "it"]
    assert [line.split()[:2] for line in table[1:]] == [["first", "3"], ["second", "2"], ["third", "0"]]
    assert "limit: 10 kernels" in table[1] and "no source text" in table[2] and "see above" in table[3]
    assert all(line.endswith(shlex.join(COMMAND)) for line in table[1:])


# --- native kernels ----------------------------------------------------------------------------------


def native(mangled: str, demangled: str) -> KernelSummary:
    return KernelSummary(
        demangled, KernelCounts(launches=1), SeenRecord(demangled, demangled, mangled=mangled)
    )


NATIVE = [
    native("_ZN1a3addIfEEvPT_", "void a::add<float>(float*)"),
    native("_ZN1a3addIdEEvPT_", "void a::add<double>(double*)"),
    native("_ZN1b3addEPf", "b::add(float*)"),
    native("_Z3mulPf", "mul(float*)"),
    native("plain", "plain"),
    native("_ZN12_GLOBAL__N_14deepEPf", "(anonymous namespace)::deep(float*)"),
]


def test_each_command_chooses_its_own_native_kernel_alone() -> None:
    whole = result(*NATIVE)
    patterns = []
    for each in NATIVE:
        words = shlex.split(capture_command(each, whole))
        patterns.append(words[words.index("-k") + 1])
        found = [other for other in NATIVE if any(re.search(patterns[-1], name) for name in other.spellings)]
        assert found == [each]
    assert patterns[2:] == ["^b::add$", "^mul$", "^plain$", "^deep$"], "the shortest that is enough"


def test_instances_of_a_template_are_told_apart_in_the_table() -> None:
    names = ["void a::add<float>(float*)", "void a::add<double>(double*)", "b::add", "mul", "plain", "deep"]
    text = render_capture(result(*NATIVE))
    assert sorted(line.split("  ")[0] for line in text.splitlines()[-6:]) == sorted(names), text
    listing = render_listing(result(*NATIVE))
    listed = {
        re.split(r"  +", line)[1]
        for line in listing.splitlines()
        if re.match(r"[1-6]  \S+ .* not timed", line)
    }
    assert listed == {"add<float>", "add<double>", *names[2:]}, listing


def test_a_long_name_is_shown_short() -> None:
    text = render_capture(result(native("_Z3addPf", f"void ns::add<{'x' * 2000}>(float*)")))
    assert "\nadd " in text and "xxx" not in text


# --- after a fault -----------------------------------------------------------------------------------

LAST = LastRecord(
    launches=tuple(
        LastLaunch(kernel=name, grid=(number + 1, 1, 1), block=(32, 1, 1), stream="0x0", index=number)
        for number, name in enumerate(["old(int)", *["void ns::add<float>(float*)"] * 8, "mul(float*)"])
    ),
    error="CUDA_ERROR_ILLEGAL_ADDRESS",
)


def test_the_last_launches_come_with_the_command_that_keeps_the_next_fault() -> None:
    whole = result(*NATIVE)
    whole.last = LAST
    lines = render_capture(whole).splitlines()
    start = next(number for number, line in enumerate(lines) if "CUDA_ERROR_ILLEGAL_ADDRESS" in line)
    assert lines[start + 1].startswith("kerncap:   mul(float*) (grid 10x1x1, block 32x1x1")
    command = lines[start + 9].partition(": to keep the launch that faults: ")[2]
    words = shlex.split(command)
    assert words[:4] == ["kerncap", "capture", "--on-fault", "-k"]
    assert words[4] == "^(mul|add|old)$" and tuple(words[6:]) == COMMAND
    document = capture_document(whole)
    assert [each["grid"][0] for each in document["last_launches"]] == list(range(1, 11))
    assert document["fault_command"] == command


def test_with_on_fault_the_last_launches_are_not_news() -> None:
    whole = result(*NATIVE)
    whole.last, whole.options = LAST, capture_options(*COMMAND, on_fault=True)
    assert "--on-fault" not in render_capture(whole)
    assert capture_document(whole)["fault_command"] is None
