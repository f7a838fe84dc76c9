"""Generated launches on a device under compute-sanitizer: it, brute force and the sanitizer agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

ROOT = Path(__file__).parents[4]
LAUNCHES = int(os.environ.get("KERNCAP_HUNT_LAUNCHES", "450"))
UNSAFE = LAUNCHES // 9
PROCESSES = 8
KERNEL = re.compile(r"generated_\d+_\d+")


def hunted(folder: Path, kind: str, launches: int) -> tuple[list[dict[str, Any]], set[str]]:
    """Lines of the workers, and the kernels that compute-sanitizer complains of."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        pytest.skip("compute-sanitizer is not on PATH")
    each = -(-launches // PROCESSES)
    # Each tensor is an allocation, with room behind it: what leaves it is seen.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": str(ROOT)}
    running = []
    for number in range(PROCESSES):
        out, log = folder / f"{kind}-{number}.jsonl", folder / f"{kind}-{number}.log"
        command = [
            program, "--tool", "memcheck", "--padding", "4096", "--destroy-on-device-error", "kernel",
            "--log-file", str(log), sys.executable, "-m", "tests.integration.sanitizer.gpu.hunt_worker",
            str(out), str(300_000 + 10_000 * number), str(each), kind,
        ]  # fmt: skip
        with log.with_suffix(".launched").open("w") as launched:
            running.append(subprocess.Popen(command, cwd=ROOT, env=environment, stderr=launched))
    for number, one in enumerate(running):
        one.wait(timeout=450)
        out, launched = (folder / f"{kind}-{number}{end}" for end in (".jsonl", ".launched"))
        assert len(out.read_text().splitlines()) == each, f"ended in a launch: {launched.read_text()[-2000:]}"
    files = sorted(folder.glob(f"{kind}-*.jsonl"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    complained: set[str] = set()
    for file in folder.glob(f"{kind}-*.log"):
        text = file.read_text(errors="replace")
        for report in re.split(r"^========= (?=Invalid|Misaligned)", text, flags=re.MULTILINE)[1:]:
            found = KERNEL.search(report)
            complained |= {found[0]} if found else set()
    return lines, complained


def wrong(lines: list[dict[str, Any]]) -> str:
    """All differences, whole: a visit to a device is short."""
    return "\n".join(f"{one['seed']}: {said}" for one in lines for said in one["wrong"])


def test_what_brute_force_takes_for_safe_is_safe_on_the_device(tmp_path: Path) -> None:
    lines, complained = hunted(tmp_path, "safe", LAUNCHES - UNSAFE)
    print(len(lines), "launches:", dict(Counter(f"{one['unsafe']}: {one['answer']}" for one in lines)))
    # A device that failed takes its process along: which launch that was comes first.
    assert not [one for one in lines if one.get("failed") or one.get("differs")]
    assert not wrong(lines)
    assert not [one for one in lines if one["kernel"] in complained and one["answer"] == "pass"]
    assert len(lines) >= LAUNCHES - UNSAFE


def test_what_compute_sanitizer_complains_of_is_never_said_to_be_safe(tmp_path: Path) -> None:
    lines, complained = hunted(tmp_path, "unsafe", UNSAFE)
    print(len(lines), "launches,", len(complained), "of them seen by compute-sanitizer")
    print(dict(Counter(one["answer"] for one in lines)))
    assert complained
    assert not [one for one in lines if one["answer"] == "pass"]
    assert not wrong(lines)
