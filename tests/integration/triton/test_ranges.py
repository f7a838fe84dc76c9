"""Ranges of Triton launches: the three kernels of a transformer's MLP."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.compiled_ttir import compile_source
from kerncap.format import LaunchRange
from kerncap.format.documents import canonical_json
from tests.integration.conftest import CommandLine
from tests.unit.format.damage import write_manifest

MLP = Path(__file__).parents[3] / "samples" / "mlp"


@pytest.fixture(scope="module")
def mlp(kerncap_of_module: CommandLine) -> Path:
    """The launches of the second of three steps."""
    [path] = kerncap_of_module.capture("--launches", "3:6", target=MLP / "run.py")
    return path


@pytest.fixture
def copy(mlp: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(mlp, tmp_path / mlp.name))


def steps(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(step["kernel"], step["result"]) for step in document["steps"]]


def test_it_is_replayed_in_order(kerncap: CommandLine, mlp: Path) -> None:
    document = kerncap("replay", "--json", mlp).judged
    assert document["exact"] and not document["notes"], document
    assert steps(document) == [("rms_norm", "pass"), ("matmul", "pass"), ("swiglu", "pass")]
    # Every byte that is written was poisoned before: nothing passes for having been there.
    assert [step["poisoned_bytes"] for step in document["steps"]] == [2048, 4096, 2048]


def test_inspect_says_what_flows(kerncap: CommandLine, mlp: Path) -> None:
    document = kerncap("inspect", "--json", mlp).document
    assert [tuple(flow.values()) for flow in document["flows"]] == [(0, 1, 2048, True), (1, 2, 4096, True)]
    launches = [(each["position"], each["written"], each["read_inside"]) for each in document["launches"]]
    assert launches == [(3, 2048, 2048), (4, 4096, 4096), (5, 2048, 0)]
    assert all(each["is_measured"] for each in document["launches"]), "the self-check measured it"
    text = kerncap("inspect", mlp).stdout
    assert "0 -> 1: 2,048 bytes (rms_norm to matmul)" in text, text


def test_limits_say_what_fusion_saves(kerncap: CommandLine, mlp: Path) -> None:
    document = kerncap("replay", "--limits", "--json", mlp).document
    whole = document["whole"]
    assert (whole["reads"], whole["writes"]) == (2176 + 8192 + 2048 + 4096, 2048 + 4096 + 2048)
    assert (whole["saved_launches"], whole["saved_reads"], whole["saved_writes"]) == (2, 2048 + 4096, 0)
    assert whole["more_writes"] == 2048 + 4096, "whether anything after the range needs them is not known"
    pairs = [(one["first"], one["last"], one["saved_reads"]) for one in document["pairs"]]
    assert pairs == [(1, 2, 4096), (0, 1, 2048)] and whole["fused_ms"] is None
    known = kerncap("replay", "--limits", "--json", mlp, "--ceilings", "MI300X").document
    assert "the bandwidth of the AMD Instinct MI300X is published, not measured" in known["notes"]
    assert known["whole"]["traffic_ms"] > known["whole"]["fused_ms"] > 0
    text = kerncap("replay", "--limits", mlp).stdout
    assert "0 to 2 (rms_norm, matmul, swiglu)     24,704        6,144   12,288               2" in text, text


def test_the_report_draws_what_flows(kerncap: CommandLine, mlp: Path) -> None:
    document = kerncap("report", "--json", mlp, "-o", "r.html").document
    page = (kerncap.folder / "r.html").read_text()
    assert document["size_bytes"] == len(page.encode()) and document["written"]
    assert page.count('<path class="flow"') == 2 and page.count("<circle ") == 3
    assert "1 to 2: 4,096 bytes (matmul to swiglu)" in page and "What fusion would save" in page
    refused = kerncap("report", mlp, "-o", "s.html", "--with", "r.json")
    assert refused.status == 2 and "kerncap slice" in refused.stderr, refused.stderr


@pytest.mark.long
def test_exported_it_runs_without_kerncap(kerncap: CommandLine, mlp: Path) -> None:
    document = kerncap("export", "--json", "--as", "script", mlp, "-o", "alone").document
    assert {"run.py", "launch_0/rms_norm.py", "launch_2/swiglu.py"} <= {
        one["name"] for one in document["files"]
    }
    done = run_alone(kerncap.folder)
    assert done.returncode == 0 and done.stdout.endswith("Result: PASS (3 launches in order)\n"), done.stdout
    # What a launch leaves is what the next one works on.
    first = kerncap.folder / "alone" / "launch_0" / "rms_norm.py"
    first.write_text(
        first.read_text().replace("return judge(memory", "return True, 'not judged'; judge(memory")
    )
    text = first.read_text()
    assert "tl.rsqrt(" in text or "tl.sqrt(" in text, text
    first.write_text(text.replace("tl.rsqrt(", "2 * tl.rsqrt(").replace("tl.sqrt(", "0.5 * tl.sqrt("))
    done = run_alone(kerncap.folder)
    assert done.returncode == 5 and "Result: UNDECIDED (launch 1 differs after" in done.stdout, done.stdout
    refused = kerncap("export", "--as", "cmake", mlp, "-o", "project")
    assert refused.status == 2 and "launch 0: it was captured on a cpu" in refused.stderr, refused.stderr


@pytest.mark.long
def test_exported_as_a_test_it_takes_other_kernels(kerncap: CommandLine, mlp: Path) -> None:
    document = kerncap("export", "--json", "--as", "pytest", mlp, "-o", "alone").document
    assert document["run"] == ["python -m pytest alone/test_launches.py"]
    test = kerncap.folder / "alone" / "test_launches.py"
    pytest_command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "alone/test_launches.py")
    done = run_alone(kerncap.folder, *pytest_command)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout
    kernel = (kerncap.folder / "alone" / "launch_1" / "matmul.py").read_text()
    (kerncap.folder / "mine.py").write_text(kernel)
    test.write_text(test.read_text().replace("KERNELS = {}", "KERNELS = {1: 'mine.py:matmul'}"))
    assert run_alone(kerncap.folder, *pytest_command).returncode == 0
    (kerncap.folder / "mine.py").write_text(kernel.replace("tl.dot(", "2 * tl.dot("))
    done = run_alone(kerncap.folder, *pytest_command)
    assert done.returncode == 1 and "Result: FAIL (launch 1 is the first" in done.stdout, done.stdout
    done = run_alone(kerncap.folder, "alone/run.py", "--kernel", "3=mine.py:matmul")
    assert done.returncode == 2 and "--kernel 3: launches are 0 to 2" in done.stderr, done.stderr


def run_alone(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, *(arguments or ("alone/run.py",))]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.long
def test_a_candidate_is_judged_at_its_launch(kerncap: CommandLine, mlp: Path) -> None:
    sliced = kerncap("slice", "--json", mlp, "2", "-o", "sliced").document["path"]
    [source] = (kerncap.folder / sliced / "source").glob("*.py")
    right = kerncap.folder / "right.py"
    right.write_text(source.read_text())
    wrong = MLP / "wrong.py"
    assert kerncap("verify", "--json", "--launch", "2", "--candidate", right, mlp).judged["result"] == "pass"
    failed = kerncap("verify", "--json", "--launch", "2", "--candidate", wrong, mlp).judged
    assert failed["result"] == "fail" and "launch 2 of the range" in failed["notes"][0], failed


def test_the_first_launch_that_differs_is_named(kerncap: CommandLine, copy: Path) -> None:
    """The stored source of the product is another one, and sealed again, as a stranger could."""

    def wrong(launch: dict[str, Any]) -> None:
        stored = launch["source"]["file"]
        text = (copy / "files" / stored["sha256"]).read_bytes()
        changed = text.replace(b"tl.dot(left, right", b"tl.dot(left * 2, right")
        assert changed != text
        digest = hashlib.sha256(changed).hexdigest()
        (copy / "files" / stored["sha256"]).unlink()
        (copy / "files" / digest).write_bytes(changed)
        stored.update(sha256=digest, size=len(changed))

    reseal(copy, 1, wrong)
    refused = kerncap("verify", copy)
    assert refused.status == 2 and "--trust" in refused.stderr, refused.stderr
    done = kerncap("verify", "--trust", "--json", copy)
    document = done.document
    assert document["result"] == "fail" and done.status == 1, document
    assert document["first_differing"] == 1 and "matmul" in document["summary"], document
    assert steps(document) == [("rms_norm", "pass"), ("matmul", "fail")], "the last one does not run"
    assert "Result: FAIL (launch 1 (matmul) is the first that differs" in kerncap("verify", copy).stdout


def test_packed_and_opened_elsewhere(kerncap: CommandLine, mlp: Path, tmp_path: Path) -> None:
    packed = kerncap("pack", "--json", mlp, "-o", tmp_path / "a.zip").document
    assert {"launches/2.json", "checks-2.json", "memory/chunks"} <= {one["name"] for one in packed["files"]}
    there = Path(kerncap("unpack", "--json", tmp_path / "a.zip", "-o", tmp_path / "there").document["path"])
    assert there.parent == tmp_path / "there" and there.name.startswith("range_of_3_rms_norm-")
    elsewhere = {"XDG_CONFIG_HOME": str(tmp_path / "config")}  # where nothing was captured
    refused = kerncap("verify", there, env=elsewhere)
    assert refused.status == 2 and "--trust" in refused.stderr, refused.stderr
    assert kerncap("verify", "--trust", "--json", there, env=elsewhere).judged["exact"]
    flows = [kerncap("inspect", "--json", each).document["flows"] for each in (mlp, there)]
    assert flows[0] == flows[1], "what was measured came along"


def test_sanitize_judges_each_launch(kerncap: CommandLine, mlp: Path) -> None:
    document = kerncap("sanitize", "--json", mlp).judged
    found = [(one["label"], one["kernel"], one["result"]) for one in document["launches"]]
    assert found == [
        ("launch 0", "rms_norm", "pass"),
        ("launch 1", "matmul", "pass"),
        ("launch 2", "swiglu", "pass"),
    ]


def on_two_streams(path: Path, order: dict[str, Any] | None = None) -> None:
    for number, stream in enumerate(("0x10", "0x20", "0x10")):

        def on_stream(launch: dict[str, Any], stream: str = stream) -> None:
            launch["device"].update(kind="cuda", arch="sm_90")
            launch["launch"]["stream"] = stream
            for region in launch["regions"]:
                region.update(kind="device", device=0)

        reseal(path, number, on_stream, order)


def add_ttir(path: Path) -> None:
    """As a capture on a GPU has it: without it, a kernel may wait for anything."""
    with LaunchRange.open(path) as opened:
        texts = [compile_source(launch, "cuda:90", "it has none", trusted=True) for launch in opened.launches]
    for number, text in enumerate(texts):
        data = text.encode()
        digest = hashlib.sha256(data).hexdigest()
        (path / "files" / digest).write_bytes(data)
        file = {"path": "code/kernel.ttir", "sha256": digest, "size": len(data)}

        def with_code(launch: dict[str, Any], file: dict[str, Any] = file) -> None:
            launch["code"] = [{"stage": "ttir", "file": file}]

        reseal(path, number, with_code)


def test_a_race_of_launches_is_found_or_refuted(kerncap: CommandLine, copy: Path) -> None:
    """An event is between launches 0 and 1, and nothing between 1 and 2, which reads what 1 stores."""
    event = {"thread": 0, "event": 0, "before": 1}
    order = {
        "streams": [{"kind": "non_blocking"}, {"kind": "non_blocking"}],
        "launches": [{"stream": number % 2, "thread": 0} for number in range(3)],
        "calls": [{"call": "record", "stream": 0, **event}, {"call": "wait", "stream": 1, **event}],
    }
    on_two_streams(copy, order)
    add_ttir(copy)
    document = kerncap("sanitize", "--trust", "--json", copy).judged
    assert [one["result"] for one in document["launches"]] == ["pass", "pass", "fail"], document
    [found] = document["launches"][2]["findings"]
    assert found["check"] == "race" and found["message"].startswith(
        "launch 1 (matmul, stream 0x20) and launch 2 (swiglu, stream 0x10) access the same 4,096 bytes"
    )
    done = kerncap("sanitize", "--trust", copy)
    assert done.status == 1 and "record an event after launch 1" in done.stdout, done.stdout
    inspected = kerncap("inspect", "--json", copy).document
    assert [flow["ordered"] for flow in inspected["flows"]] == [True, False]
    text = kerncap("inspect", copy).stdout
    assert "bytes (matmul to swiglu); not ordered" in text and "stream 0x20" in text, text
    kerncap("report", copy, "-o", "r.html")
    assert (kerncap.folder / "r.html").read_text().count('class="flow open"') == 1


def test_launches_that_nothing_orders_are_named(kerncap: CommandLine, copy: Path) -> None:
    """On a GPU, launch 1 reads on another stream what launch 0 writes; launch 2 is on the first again."""
    on_two_streams(copy)
    document = kerncap("sanitize", "--trust", "--json", copy).judged
    assert document["result"] == "undecided"
    asked = [
        [one["reason"] for one in each["unproven"] if one["check"] == "race"] for each in document["launches"]
    ]
    assert asked[0] == [] and len(asked[1]) == len(asked[2]) == 1, asked
    first, second = asked[1][0], asked[2][0]
    assert first.startswith(
        "launch 0 (rms_norm, stream 0x10) and launch 1 (matmul, stream 0x20) reach the same"
    )
    assert second.startswith(
        "launch 1 (matmul, stream 0x20) and launch 2 (swiglu, stream 0x10) reach the same"
    )
    assert kerncap("sanitize", "--trust", "--check", "oob", "--json", copy).judged["result"] == "pass"


@pytest.mark.parametrize("told", [", no barrier", ", perhaps of several streams"])
def test_what_shares_a_queue_may_not_be_ordered(kerncap: CommandLine, copy: Path, told: str) -> None:
    for number, route in enumerate(("", told, "")):

        def in_queue(launch: dict[str, Any], route: str = route) -> None:
            launch["device"].update(kind="hip", arch="gfx90a")
            launch["launch"].update(stream="hsa queue 0", route=f"hsa queue 0{route}")
            for region in launch["regions"]:
                region.update(kind="device", device=0)

        reseal(copy, number, in_queue)
    flows = kerncap("inspect", "--json", copy).document["flows"]
    assert [(flow["from"], flow["to"], flow["ordered"]) for flow in flows] == [(0, 1, None), (1, 2, True)]


def test_what_takes_one_launch_refuses_a_range(kerncap: CommandLine, mlp: Path) -> None:
    for command in (("diff", mlp), ("tune",), ("minimize",)):
        done = kerncap(*command, mlp)
        assert done.status == 2 and f"kerncap slice {mlp} K" in done.stderr, (command, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_what_is_for_a_range_refuses_one_launch(kerncap: CommandLine, mlp: Path) -> None:
    sliced = kerncap("slice", "--json", mlp, "0", "-o", "sliced").document["path"]
    for command in (("replay", "--until", "1"), ("verify", "--launch", "0"), ("slice", "-o", "other")):
        done = kerncap(*command, sliced, *(("0",) if command[0] == "slice" else ()))
        assert done.status == 2 and "range" in done.stderr, (command, done.stderr)
    beyond = kerncap("replay", "--only", "3", mlp)
    assert beyond.status == 2 and "launches 0 to 2" in beyond.stderr, beyond.stderr


def test_options_that_contradict_each_other(kerncap: CommandLine) -> None:
    for options in (
        ("--launches", "4"), ("--launches", "0:2000"), ("--launches", "0:2", "--last", "1"),
        ("--from", "a"), ("--launches", "0:2", "--from", "a", "--to", "b"), ("--from", "[", "--to", "b"),
        ("--launches", "0:2", "--no-values"), ("--launches", "0:2", "--dormant"), ("--whole-range",),
        ("--range", "a", "--whole-range", "--launches", "0:2"), ("--range", "a", "--whole-range", "-1"),
    ):  # fmt: skip
        done = kerncap("capture", *options, "--", "true")
        assert done.status == 2 and len(done.stderr.splitlines()) == 1, (options, done.stderr)


@pytest.mark.long
def test_positions_that_are_not_reached(kerncap: CommandLine) -> None:
    done = kerncap("capture", "--launches", "90:99", "--no-self-check", "--", sys.executable, MLP / "run.py")
    assert done.status == 1 and "nothing captured" in done.stderr, done.stderr


def reseal(
    path: Path, number: int, edit: Callable[[dict[str, Any]], None], order: dict[str, Any] | None = None
) -> None:
    """Change the manifest of a launch, and every digest above it, as a stranger could."""
    top = json.loads((path / "manifest.json").read_bytes())
    name = f"launches/{number}.json"
    launch = json.loads((path / name).read_bytes())
    edit(launch)
    data = canonical_json(launch)
    (path / name).write_bytes(data)
    top["launches"][number]["manifest"].update(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
    if order is not None:
        top["order"] = order
    write_manifest(path, canonical_json(top))
