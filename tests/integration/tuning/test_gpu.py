"""Tuning on a device: what is compiled ahead is what is loaded, and every timed configuration is right."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.conftest import CommandLine

pytestmark = pytest.mark.gpu
SAMPLE = Path(__file__).parents[3] / "samples" / "autotuned_matmul" / "run.py"
FLAG = """
@triton.jit
def scaled(x_ptr, out_ptr, n, TWICE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n)
    if TWICE:
        x = x * 2
    tl.store(out_ptr + i, x, mask=i < n)

n = 100_000
x = torch.randn(n, device=DEVICE)
out = torch.empty_like(x)
scaled[lambda META: (triton.cdiv(n, META["BLOCK"]),)](x, out, n, TWICE=True, BLOCK=256)
"""


def test_an_autotuned_kernel(kerncap: CommandLine) -> None:
    [path] = kerncap.capture("-k", "matmul_kernel", target=SAMPLE)
    cache = {"TRITON_CACHE_DIR": str(kerncap.folder / "cache")}
    done = kerncap("tune", path, "--json", "--device", "cuda:0", "--trials", "24", "--apply", env=cache)
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    timed = [t for t in found["trials"] if t["state"] in ("timed", "slow")]
    assert timed and all(trial["cached"] for trial in timed)
    assert not [t for t in found["trials"] if t["state"] in ("wrong", "failed")]
    assert found["shapes"][0]["best"]["speedup"]["low"] > 0
    assert "triton.Config" in found["patch"]
    again = kerncap("tune", path, "--json", "--device", "cuda:0", "--trials", "24", "--resume", env=cache)
    assert json.loads(again.stdout)["resumed"] == len(found["trials"])


def test_a_flag_that_changes_the_result_is_wrong_and_tried_no_further(kerncap: CommandLine) -> None:
    [path] = kerncap.capture("-k", "scaled", target=kerncap.target(FLAG))
    done = kerncap("tune", path, "--json", "--device", "cuda:0", "--html", kerncap.folder / "page.html")
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    wrong = [t["point"] for t in found["trials"] if t["state"] == "wrong"]
    assert wrong and all(point["TWICE"] is False for point in wrong)
    assert found["shapes"][0]["best"]["config"]["TWICE"] is True
    assert any("TWICE=False is wrong" in note for note in found["notes"])
    page = (kerncap.folder / "page.html").read_text()
    assert "<svg" in page and "://" not in page


def test_a_module_for_several_launches(kerncap: CommandLine) -> None:
    mlp = SAMPLE.parents[1] / "mlp"
    ours = ("-k", "^(rms_norm|matmul|swiglu)$", "--launches", "3:6")
    [path] = kerncap.capture(*ours, target=mlp / "run.py")
    dead = ("--intermediate", "0.y", "--intermediate", "1.c")
    # Of 16 rows on, Triton makes the sum of products a `dot` in TF32, which is not right here.
    bounds = ("--bound", "ROWS=2:8", "--bound", "num_warps=2:4", "--pin", "num_stages=1")
    candidate = kerncap.folder / "fused.py"
    text = (mlp / "fused_rows.py").read_text()
    text = text.replace('"ROWS": 4', '"ROWS": 4, "HALF": 2')
    text = text.replace("ROWS: tl.", "HALF: tl.constexpr, ROWS: tl.")
    candidate.write_text(text.replace("* up, mask", "* up * (HALF / 2), mask"))
    options = (*bounds, "--bound", "HALF=2:4", "--apply", "--json")
    done = kerncap("tune", path, "--candidate", candidate, *dead, *options)
    assert done.status == 0, done.stderr
    found = json.loads(done.stdout)
    for trial in found["trials"]:
        expected = ("timed", "slow") if trial["point"]["HALF"] == 2 else ("wrong",)
        assert trial["state"] in expected, trial
    assert len(found["trials"]) == 12 and found["engine"] == "binary", found
    [shape] = found["shapes"]
    assert shape["best"]["ms"] > 0 and shape["captured_ms"] > 0 and shape["best"]["speedup"], shape
    assert any(note.startswith("verify says pass of ROWS=") for note in found["notes"]), found["notes"]
    hostile = kerncap("tune", path, "--candidate", candidate, *dead, *options, "--hostile")
    assert hostile.status == 0, hostile.stderr
    several = Path(__file__).parent / "halves.py"
    pins = ("--pin", "half[0].ROWS=2", "--pin", "half[1].ROWS=4", "--pin", "half.num_warps=4")
    bounds = ("--bound", "norm.ROWS=4:8", "--bound", "norm.num_warps=2:4", "--bound", "HALF=2:4")
    for hostile_or_not in ((), ("--hostile",)):
        done = kerncap("tune", path, "--candidate", several, *dead, *pins, *bounds, "--json", *hostile_or_not)
        assert done.status == 0, done.stderr
        found = json.loads(done.stdout)
        for trial in found["trials"]:
            right = trial["point"]["half[0].HALF"] == trial["point"]["half[1].HALF"] == 2
            assert trial["state"] in (("timed", "slow") if right else ("wrong",)), trial
        assert len(found["trials"]) == 16 and found["engine"] == "binary", found
        [shape] = found["shapes"]
        assert shape["best"]["config"]["half[1].ROWS"] == 4 and shape["best"]["speedup"], shape
        assert any(note.startswith("verify says pass of norm.ROWS=") for note in found["notes"]), found[
            "notes"
        ]


def test_a_hostile_source_is_launched_as_images(kerncap: CommandLine) -> None:
    [path] = kerncap.capture("-k", "scaled", target=kerncap.target(FLAG))
    done = kerncap("tune", path, "--json", "--device", "cuda:0", "--hostile", "--trials", "8")
    assert done.status == 0, done.stderr
    result = done.document
    assert any("never where the results are" in note for note in result["notes"])
    assert {trial["state"] for trial in result["trials"]} >= {"timed"}, result["trials"]


def test_two_workers_on_one_device(kerncap: CommandLine) -> None:
    [path] = kerncap.capture("-k", "matmul_kernel", target=SAMPLE)
    done = kerncap("tune", path, "--json", "--workers", "2", "--trials", "12")
    assert done.status == 0, done.stderr
    found = done.document
    assert found["workers"] in (1, 2)  # the search may be over before the second is there
    assert not any("take part" in note for note in found["notes"]), found["notes"]
