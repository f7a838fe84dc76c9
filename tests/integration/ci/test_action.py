"""The GitHub Action: its steps, run by bash with given inputs against a sample repository."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kerncap.format.reader import Reproducer

pytest.importorskip("torch")
pytest.importorskip("triton")

ROOT = Path(__file__).resolve().parents[3]
SUITE = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n) * FACTOR, mask=o < n)

@triton.jit
def past(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n), mask=o <= n)

def test_double():
    x, other, y = torch.ones(64), torch.empty(64), torch.empty(64)
    double[(2,)](x, y, 64, B=32)
    double[(2,)](x, other, 64, B=32)
    torch.testing.assert_close(y, x * 2)

def test_past():
    past[(2,)](torch.ones(64), torch.empty(63), 63, B=32)
""".replace("FACTOR", "2.01")
EXPRESSION = re.compile(r"\$\{\{ *(inputs|steps)\.([\w.-]+) *\}\}")


@dataclass
class Job:
    """What runs the steps of an action: inputs as their `env` has them, files for outputs and summary."""

    folder: Path
    inputs: dict[str, str]

    def __post_init__(self) -> None:
        self.summary, self._output = self.folder.parent / "summary.md", self.folder.parent / "output"
        self.outputs: dict[str, str] = {}

    def run(self, step: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
        given = {name: self._value(text) for name, text in step["env"].items()}
        self._output.write_text("")
        environment = {
            **os.environ, **given, "GITHUB_OUTPUT": str(self._output),
            "GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_SERVER_URL": "https://host.example",
            "GITHUB_REPOSITORY": "people/kernels", "GITHUB_RUN_ID": "7", "TRITON_INTERPRET": "1",
            "XDG_CONFIG_HOME": str(self.folder.parent / "config"),
        }  # fmt: skip
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=500
        )
        for line in self._output.read_text().splitlines():
            name, _, value = line.partition("=")
            self.outputs[f"{step.get('id')}.outputs.{name}"] = value
        return done

    def _value(self, text: str) -> str:
        return EXPRESSION.sub(lambda m: self.inputs[m[2]] if m[1] == "inputs" else self.outputs[m[2]], text)


def action() -> dict[str, Any]:
    found = yaml.safe_load((ROOT / "action.yml").read_text())
    assert isinstance(found, dict)
    return found


@pytest.mark.long
def test_failed_tests_leave_reproducers_findings_and_a_comment(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "test_kernels.py").write_text(SUITE)
    inputs = {name: each["default"] for name, each in action()["inputs"].items()}
    inputs |= {"arguments": "-q\n  -p no:cacheprovider test_kernels.py", "python": sys.executable}
    job = Job(tmp_path / "repo", inputs)
    _, tests, comment = (step for step in action()["runs"]["steps"] if "run" in step)

    done = job.run(tests)
    assert done.returncode == 1 and "2 failed" in done.stdout, done.stdout + done.stderr
    assert job.run(comment).returncode == 0

    output = job.folder / "kerncap-failures"
    reproducers = [path.parent for path in output.rglob("manifest.json")]
    found = {path.parent.name.rpartition("-")[0]: path for path in reproducers}
    assert [*sorted(found)] == ["test_kernels.py-test_double", "test_kernels.py-test_past"], done.stdout
    assert len(reproducers) == 2
    with Reproducer.open(found["test_kernels.py-test_double"]) as reproducer:
        # Not the last launch, but the one that wrote what the assertion looked at.
        assert (reproducer.manifest.kernel.name, reproducer.manifest.launch.ordinal) == ("double", 0)
    with Reproducer.open(found["test_kernels.py-test_past"]) as reproducer:
        assert reproducer.manifest.kernel.name == "past"
    document = json.loads((job.folder / job.outputs["tests.outputs.sarif"]).read_text())
    [result] = [each for each in document["runs"][0]["results"] if each["level"] == "error"]
    place = result["locations"][0]["physicalLocation"]
    assert result["ruleId"] == "oob" and place["artifactLocation"]["uri"].endswith("test_kernels.py")
    text = (job.folder / job.outputs["comment.outputs.comment"]).read_text()
    assert "2 of 2 failed tests left a reproducer" in text and "`it wrote y`" in text
    assert "](https://host.example/people/kernels/actions/runs/7)" in text
    assert job.summary.read_text() == text


def test_no_input_is_part_of_a_script_and_actions_are_pinned() -> None:
    texts = [ROOT / "action.yml", ROOT / "docs/howto/github-workflow.yml", *(ROOT / ".github").rglob("*.yml")]
    for path in texts:
        document = yaml.safe_load(path.read_text())
        for step in _steps(document):
            assert "${{" not in step.get("run", ""), (path, step)
            uses = step.get("uses", "OWNER/kerncap@COMMIT")
            assert uses == "OWNER/kerncap@COMMIT" or re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", uses), (
                path,
                uses,
            )
        for name, job in document.get("jobs", {}).items():
            assert "write" not in document["permissions"].values(), path
            assert job.get("permissions", {}).get("contents", "read") == "read", (path, name)


def _steps(document: dict[str, Any]) -> list[dict[str, Any]]:
    found = list(document.get("runs", {}).get("steps", ()))
    for job in document.get("jobs", {}).values():
        found += job.get("steps", ())
    return found


def test_the_other_templates_call_what_is_there(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    from kerncap.cli import group

    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        words = [*hook["entry"].split(), *hook["args"]]
        assert words[0] == "kerncap" and {"id", "name", "language", "files"} <= {*hook}
        context = group.make_context("kerncap", words[1:])
        command = group.get_command(context, words[1])
        assert command is not None and command.make_context(words[1], words[2:])
    job = yaml.safe_load((ROOT / "docs/howto/gitlab-ci.yml").read_text())["kernels"]
    command = job["script"][1].replace('"$TESTS"', str(tmp_path)).split()
    given = pytestconfig._parser.parse(command[1:])
    assert (given.kerncap_on_failure, given.kerncap_sanitize) == (True, "all")
    assert given.kerncap_sarif == "kerncap-failures/kerncap.sarif" and given.file_or_dir == [str(tmp_path)]
