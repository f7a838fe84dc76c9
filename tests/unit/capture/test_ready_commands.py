"""The commands that a report offers choose exactly the kernel that they stand beside."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from kerncap.capture.outcome import CaptureResult, KernelSummary
from kerncap.capture.payloads import KernelCounts, SeenRecord
from kerncap.capture.target import TargetResult
from kerncap.report.capture_text import capture_command, render_capture

COMMAND = ("python", "my app.py", "--name=it's", "$HOME", "*.py")


def kernel(qualified_name: str, **filtered: int) -> KernelSummary:
    name = qualified_name.rpartition(".")[2]
    counts = KernelCounts(launches=sum(filtered.values()), filtered=filtered)
    return KernelSummary(qualified_name, counts, SeenRecord(name, qualified_name))


def result(*kernels: KernelSummary, output: Path | None = None) -> CaptureResult:
    return CaptureResult(
        COMMAND, TargetResult(0, pid=1), kernels=list(kernels), output=output, default_selection=True
    )


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
