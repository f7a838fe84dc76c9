"""`blame` with culprits that are planted in one stage each, and without one."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.integration.blame import planted
from tests.integration.conftest import CommandLine
from tests.unit.format.damage import edit_manifest

TARGET = Path(__file__).parent / "target.py"


@pytest.fixture(scope="module")
def launch(kerncap_of_module: CommandLine) -> Path:
    [path] = kerncap_of_module.capture("--no-self-check", target=TARGET)
    return path


def rows(run: dict[str, Any]) -> dict[str, str | None]:
    """What each stage that ran is, next to the one before it."""
    return {
        stage["name"]: stage["before"] and stage["before"]["result"]
        for stage in run["stages"]
        if stage["ended"] == "ran"
    }


def test_no_stage_of_a_healthy_launch_differs(kerncap: CommandLine, launch: Path) -> None:
    done = kerncap("blame", "--json", launch)
    document = done.document
    assert done.status == 0 and document["result"] == "pass", document
    [run] = document["runs"]
    assert rows(run) == {
        "source": None, "TTIR before its passes": "equal", "TTIR": "equal", "TTGIR": "equal"
    }  # fmt: skip
    assert {stage["application"]["result"] for stage in run["stages"] if stage["application"]} == {"equal"}
    left = {stage["name"]: stage["why"] for stage in run["stages"] if stage["ended"] == "not run"}
    assert left["PTX"] == "the launch was captured on the CPU" and "no evaluator" in left["LLIR"]
    assert run["guilty"] is None and run["triton"]


@pytest.mark.parametrize(
    ("mistake", "stage", "passes"),
    [
        pytest.param(planted.WRONG_FOLD, "TTIR", ["canonicalize"], id="fold"),
        pytest.param(
            planted.WRONG_LAYOUTS, "TTGIR", ["tritongpu-coalesce"], id="layouts", marks=pytest.mark.long
        ),
        pytest.param(
            planted.WRONG_FRONTEND, "TTIR before its passes", [], id="frontend", marks=pytest.mark.long
        ),
    ],
)
def test_a_stage_that_makes_it_wrong_is_named(
    kerncap: CommandLine, launch: Path, tmp_path: Path, mistake: str, stage: str, passes: list[str]
) -> None:
    python = planted.python_with(tmp_path / "env", mistake)
    done = kerncap("blame", "--json", "--python", python, "-o", "report", launch)
    document = done.document
    assert done.status == 1 and document["result"] == "fail", document
    guilty = document["runs"][0]["guilty"]
    assert (guilty["stage"], guilty["passes"]) == (stage, passes), document
    assert guilty["place"].startswith("out[0]: ") and "github.com/triton-lang" in guilty["to"]
    # A folder that can be sent: what the step was given, what it made of it, and the launch.
    folder = kerncap.folder / "report"
    report = (folder / "report.md").read_text()
    assert guilty["what"] in report and "TTIR before its passes" in report
    assert zipfile.is_zipfile(folder / "reproducer.zip")
    sides = sorted(path for path in folder.iterdir() if path.suffix in (".ttir", ".ttgir", ".py"))
    assert len(sides) == 2, sides
    if stage == "TTIR":
        after, before = (path.read_text() for path in sides)
        # Constants of a pass's own make are spelled as the passes before left them.
        assert "3.500000e+00" in after and "3.500000e+00" not in before


def test_a_plugin_is_told_from_tritons_passes(kerncap: CommandLine, launch: Path, tmp_path: Path) -> None:
    python = planted.python_with(tmp_path / "env", planted.PLUGIN)
    done = kerncap("blame", "--json", "--python", python, "-o", "report", launch)
    guilty = done.document["runs"][0]["guilty"]
    assert done.status == 1 and (guilty["stage"], guilty["passes"]) == ("TTIR", []), done.document
    assert "the plugin planted_in_triton.turned_around changes the result: out[0]" in guilty["what"]
    assert guilty["to"] == "the author of planted_in_triton.turned_around"
    report = kerncap.folder / "report"
    assert "arith.subf" in (report / "without.ttir").read_text()
    assert "arith.subf" not in (report / "with.ttir").read_text()


RACY = """
@triton.jit
def count(x, bins, BLOCK: tl.constexpr):
    k = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) % 4
    tl.store(bins + k, tl.load(bins + k) + 1)

x = torch.arange(64, dtype=torch.int32, device=DEVICE)
count[(4,)](x, torch.zeros(4, dtype=torch.int32, device=DEVICE), BLOCK=16)
"""


def test_a_race_is_no_compilers_fault(kerncap: CommandLine) -> None:
    """Its programs run in order in the interpreter, and side by side in the evaluator."""
    [racy] = kerncap.capture("--no-self-check", target=kerncap.target(RACY))
    done = kerncap("blame", "--json", racy)
    guilty = done.document["runs"][0]["guilty"]
    assert done.status == 1 and guilty["passes"] == [] and guilty["to"] == "the author of the kernel", guilty
    assert "lane 0 loads bins + 0, and program (3, 0, 0), lane 12 stores to it" in guilty["what"], guilty


@pytest.mark.long
def test_a_stage_that_does_not_compile_is_named(kerncap: CommandLine, launch: Path, tmp_path: Path) -> None:
    python = planted.python_with(tmp_path / "env", planted.FAILING)
    done = kerncap("blame", "--json", "--python", python, launch)
    guilty = done.document["runs"][0]["guilty"]
    assert done.status == 1 and guilty["stage"] == "TTGIR", done.document
    assert guilty["passes"] == ["tritongpu-coalesce"] and "PassManager::run failed" in guilty["what"]


@pytest.mark.long
def test_a_source_that_says_something_else_is_named(kerncap: CommandLine, launch: Path) -> None:
    [source] = (launch / "source").glob("*.py")
    wrong = kerncap.folder / "wrong.py"
    wrong.write_text(source.read_text().replace("left - right", "right - left"))
    done = kerncap("blame", "--candidate", wrong, launch)
    assert done.status == 1, done.stdout
    assert "guilty: the source does not give the application's result, at no stage: out[0]" in done.stdout
    assert "Result: FAIL (the source does not" in done.stdout


@pytest.mark.long
def test_the_version_that_brings_it_in_is_named(kerncap: CommandLine, launch: Path, tmp_path: Path) -> None:
    right = planted.python_with(tmp_path / "right", "def plant(compiler): pass\n")
    wrong = planted.python_with(tmp_path / "wrong", planted.WRONG_FOLD)
    options = ("--python", right, "--python", right, "--python", wrong)
    document = kerncap("blame", "--json", *options, launch).document
    assert [run["result"] for run in document["runs"]] == ["pass", "pass", "fail"]
    assert document["changed"] == 2 and document["runs"][2]["python"] == str(wrong)


@pytest.mark.long
def test_what_only_a_gpu_can_show_is_undecided(kerncap: CommandLine, launch: Path) -> None:
    """Compiled code ran in the application; the stages that run here agree with the source, not with it."""
    path = Path(shutil.copytree(launch, kerncap.folder / launch.name))

    def edit(manifest: dict[str, Any]) -> None:
        manifest["device"].update(kind="cuda", arch="sm_90")
        stored = manifest["source"]["file"]
        text = (path / stored["path"]).read_text().replace("left - right", "right - left")
        (path / stored["path"]).write_text(text)
        stored.update(size=len(text.encode()), sha256=hashlib.sha256(text.encode()).hexdigest())

    edit_manifest(path, edit)
    done = kerncap("blame", "--trust", "--json", path)
    [run] = done.document["runs"]
    assert done.status == 5 and done.document["result"] == "undecided" and run["guilty"] is None, run
    assert set(rows(run).values()) <= {None, "equal", "rounding"}
    assert "TTGIR is as all stages before it, and the application's result differs: out[0]" in run["open"]


def test_what_it_does_not_take(kerncap: CommandLine, launch: Path) -> None:
    (kerncap.folder / "there").mkdir()
    done = kerncap("blame", "-o", "there", launch)
    assert done.status == 2 and "already there" in done.stderr, done.stderr
    golden = Path(__file__).parents[2] / "golden" / "v1.3"
    done = kerncap("blame", golden)
    assert done.status == 4 and len(done.stderr.splitlines()) == 1, done.stderr
