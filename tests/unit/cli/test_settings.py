"""`[tool.kerncap]`: defaults of harmless options, and nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import click
import pytest

from kerncap.cli import CONFIGURED, group, main, settings

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
# What a stranger's project may never say: it runs, trusts, deletes, or changes a verdict.
NEVER = {
    "trust", "python", "candidate", "reference", "rtol", "atol", "apply", "scheduler", "keep_failing",
    "delete", "checks", "bounds", "stages", "expect", "hostile", "strict", "timeout_s", "source_dirs",
    "backend",
    "max_ratio", "engine", "device", "self_check", "no_self_check", "results", "baseline", "sarif", "command",
    "forbid", "pin", "bound", "space", "no_values", "kernel", "where",
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "config" / "kerncap").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "project"
    (folder / "below").mkdir(parents=True)
    monkeypatch.chdir(folder / "below")
    return folder


def write(project: Path, text: str) -> None:
    (project / "pyproject.toml").write_text(text)


def test_only_harmless_options_and_each_is_there() -> None:
    assert tuple(settings.ALLOWED) == CONFIGURED
    for name, options in settings.ALLOWED.items():
        command = group.get_command(click.Context(group), name)
        assert command is not None
        parameters = {each.name: each for each in command.params}
        for option, parameter in options.items():
            assert f"--{option}" in parameters[parameter].opts
        assert not NEVER & {*options.values()}


def test_the_project_then_the_user(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(project, '[tool.kerncap]\ndiff.lines = 3\ncapture = {output = "made"}\n[tool.other]\nx = 1\n')
    own = project.parent / "config" / "kerncap" / "config.toml"
    own.write_text("[diff]\nlines = 7\n[tune]\ntrials = 9\n")
    assert main(["config", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["settings"]}
    assert found["diff.lines"] == {
        "name": "diff.lines",
        "value": "3",
        "origin": str(project / "pyproject.toml"),
    }
    assert found["tune.trials"] == {"name": "tune.trials", "value": "9", "origin": str(own)}
    assert found["capture.output"]["value"] == "../made"
    assert found["minimize.time"]["origin"] == "default"

    write(project, '[tool.kerncap]\ndiff.lines = "many"\n')
    sides = [str(GOLDEN / "v1.1"), str(GOLDEN / "v1.2")]
    assert main(["diff", *sides]) == 2
    assert "'many' is not a valid integer" in capsys.readouterr().err
    assert main(["diff", *sides, "--lines", "400"]) == 1  # the command line comes first


def test_what_a_file_can_not_set_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        project,
        '[tool.kerncap]\nverify.trust = true\nreplay.python = "./evil"\ngc.delete = true\nother = 1\n',
    )
    assert main(["config"]) == 0
    found = capsys.readouterr()
    for name in ("verify.trust", "replay.python", "gc.delete", "other"):
        assert f"pyproject.toml: {name}: can't be set in a file" in found.err
    assert "trust" not in found.out
    assert settings.read().found == ()


@pytest.mark.parametrize("output", ["/tmp", "../elsewhere", "link/x", "a/../../b"])
def test_no_output_leads_out_of_the_project(
    project: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "link").symlink_to(project.parent)
    write(project, f'[tool.kerncap.capture]\noutput = "{output}"\n')
    assert main(["capture", "--", "true"]) == 2
    assert "is outside the project" in capsys.readouterr().err
    assert {each.name for each in project.parent.iterdir()} == {"config", "project"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.kerncap", "Expected"),
        ("[tool.kerncap.list]\ntop = [1]\n", "list.top: expected text or a number"),
        ("[tool.kerncap.list]\ntop = true\n", "list.top: expected text or a number"),
        ("[tool.kerncap.list]\ntop = 'many'\n", "'many' is not a valid integer"),
        ("tool = 1\n", None),
        ("[tool]\nkerncap = 1\n", None),
    ],
)
def test_what_is_wrong_is_one_line(
    project: Path, text: str, said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project, text)
    if said is None:
        assert settings.read().found == ()
        return
    assert main(["list", "--", "true"]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_a_reproducer_sets_nothing(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(GOLDEN / "v1.1", project / "repro")
    write(project / "repro", "[tool.kerncap.diff]\nlines = 1\n")
    monkeypatch.chdir(project / "repro" / "memory")
    assert settings.read().found == ()
    monkeypatch.chdir(project / "below")
    write(project, "[tool.kerncap.diff]\nlines = 1\n")
    assert [each.value for each in settings.read().found] == ["1"]
