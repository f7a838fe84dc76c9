"""`capture --graph` on a GPU: one launch of a graph as a range, Triton's kernels with their sources."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import LaunchRange
from kerncap.format.schema import FloatValue
from tests.integration.conftest import CommandLine

from .captured import ROOT, TARGETS

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

PROGRAM = TARGETS / "torch_graphs.py"
LLAMA = ROOT / "benchmarks" / "programs" / "llama_step.py"


def captured(
    kerncap: CommandLine, *options: str, program: tuple[str, ...] = (), target: Path = PROGRAM
) -> tuple[Path, Any]:
    command = [sys.executable, str(target), *program]
    plain = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    done = kerncap("capture", "--json", "-o", "out", *options, "--", *command, timeout=400)
    document = done.document
    assert len(document["captured"]) == 1 and not document["failed"], done.stderr
    assert plain in done.stderr, (plain, done.stderr)
    return kerncap.folder / document["captured"][0], document


@pytest.fixture(scope="module")
def second_launch(kerncap_of_module: CommandLine) -> tuple[Path, Any]:
    return captured(kerncap_of_module, "--graph", "1:1")


def test_one_launch_of_the_second_graph(second_launch: tuple[Path, Any]) -> None:
    path, document = second_launch
    with LaunchRange.open(path) as opened:
        opened.verify()
        manifests = [launch.manifest for launch in opened.launches]
        sources = [launch.source_text() for launch in opened.launches]
    names = [manifest.kernel.name for manifest in manifests]
    assert len(names) >= 4 and sorted(names)[0] == "added" and names.count("scaled") == 2, names
    assert all((manifest.launch.route or "").startswith("cuGraphLaunch node") for manifest in manifests)
    for manifest, source in zip(manifests, sources, strict=True):
        if manifest.kernel.name in ("scaled", "added"):
            assert manifest.kernel.language == "triton" and source and "tl.store" in source, manifest.kernel
    factors = {
        float.fromhex(argument.value.value)
        for manifest in manifests
        for argument in manifest.arguments
        if argument.name == "factor" and isinstance(argument.value, FloatValue)
    }
    assert factors == {3.0, 0.5}, factors
    assert [check["result"] for check in document["self_checks"].values()] == ["pass"], document


def test_its_kernels_are_ordered_as_the_graph_says(
    kerncap: CommandLine, second_launch: tuple[Path, Any]
) -> None:
    document = kerncap("inspect", "--json", second_launch[0]).document
    assert document["flows"] and all(flow["ordered"] for flow in document["flows"]), document["flows"]


def test_it_is_replayed_and_judged(kerncap: CommandLine, second_launch: tuple[Path, Any]) -> None:
    path = second_launch[0]
    document = kerncap("verify", "--json", path, timeout=300).judged
    assert document["result"] == "pass" and document["exact"], document
    with LaunchRange.open(path) as opened:
        number = next(one.number for one in opened.launches if one.manifest.kernel.name == "added")
        text = opened.launches[number].source_text()
    assert text is not None
    wrong = kerncap.folder / "wrong.py"
    wrong.write_text(text.replace("mask=at < n) + tl", "mask=at < n) - tl"))
    options = ("--launch", str(number), "--candidate", wrong)
    failed = kerncap("verify", "--json", *options, path, timeout=300).judged
    assert failed["result"] == "fail", failed


def test_list_shows_the_graphs(kerncap: CommandLine) -> None:
    done = kerncap("list", "--json", "--by", "graph", "--", sys.executable, PROGRAM, timeout=300)
    groups = {"".join(group["name"]): group for group in done.document["groups"]}
    assert set(groups) == {"", "graph 0", "graph 1"}, groups.keys()
    assert "capture --graph 1 --" in groups["graph 1"]["command"]
    assert {kernel["name"] for kernel in groups["graph 0"]["kernels"]} >= {"scaled", "added"}


def test_a_compiled_blocks_graph(kerncap: CommandLine) -> None:
    """Inductor's kernels have their sources, and cuBLAS's are in the same range."""
    path, document = captured(kerncap, "--graph", "0:1", program=("compiled",))
    with LaunchRange.open(path) as opened:
        languages = {launch.manifest.kernel.language for launch in opened.launches}
        assert len(opened.launches) >= 4 and "triton" in languages and len(languages) > 1, languages
    assert [check["result"] for check in document["self_checks"].values()] == ["pass"], document


def test_the_forward_pass_of_a_compiled_llama(kerncap: CommandLine, tmp_path: Path) -> None:
    """All of its launches, replayed to the application's outputs; packed, and verified elsewhere."""
    path, document = captured(
        kerncap, "--graph", "0:1", "--no-self-check", program=("--forward", "--steps", "4"), target=LLAMA
    )
    with LaunchRange.open(path) as opened:
        kernels = [(one.manifest.kernel.name, one.manifest.kernel.language) for one in opened.launches]
        print(len(kernels), kernels)
        assert len(kernels) >= 30 and {"triton"} < {language for _, language in kernels}, kernels
        gated = next(one for one in opened.launches if "silu" in one.manifest.kernel.name)
        number, text = gated.number, gated.source_text()
    assert text is not None
    replayed = kerncap("replay", "--json", path, timeout=300).judged
    print(replayed["notes"])
    assert replayed["result"] == "pass" and len(replayed["steps"]) == len(kernels), replayed
    wrong = kerncap.folder / "wrong.py"
    changed, stores = re.subn(r"(tl\.store\(.*?, )(tmp\d+)", r"\1\2 * 1.25", text)
    assert stores, text
    wrong.write_text(changed)
    options = ("--launch", str(number), "--candidate", wrong)
    assert kerncap("verify", "--json", *options, path, timeout=300).judged["result"] == "fail"
    packed = tmp_path / "llama.zip"
    assert kerncap("pack", path, "-o", packed, timeout=300).status == 0
    elsewhere = {"XDG_CONFIG_HOME": str(tmp_path / "config")}  # where nothing was captured
    there = kerncap("unpack", "--json", packed, "-o", tmp_path / "there", env=elsewhere).document["path"]
    found = kerncap("verify", "--trust", "--json", there, env=elsewhere, timeout=300).judged
    assert found["result"] == "pass", found
