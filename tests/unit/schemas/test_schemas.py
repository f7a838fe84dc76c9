"""The schemas: valid, complete, written out; and the parts of documents that only a GPU makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from kerncap.answer import Answer
from kerncap.api.schemas import DOCUMENTS, document_type, schema, schema_text
from kerncap.cli import COMMANDS, group, main
from kerncap.format.document_types import Document
from tests.unit.schemas.strict import check, closed

FOLDER = Path(__file__).parents[3] / "docs" / "schemas"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_is_a_schema_with_an_identity(name: str) -> None:
    found = schema(name)
    Draft202012Validator.check_schema(found)
    assert found["$id"] == f"urn:kerncap:{name}:{document_type(name).version}"
    assert found["type"] == "object" and found["description"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_written_out_as_it_is(name: str) -> None:
    text = (FOLDER / f"{name}.json").read_text()
    assert text == schema_text(name), "docs/schemas is out of date; run python -m kerncap.api.schemas"


def test_no_schema_is_of_nothing() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(DOCUMENTS)


def test_every_command_with_json_has_one() -> None:
    without = {"schema"}  # prints schemas
    with group.make_context("kerncap", ["--help"], resilient_parsing=True) as context:
        for name in COMMANDS:
            command = group.get_command(context, name)
            assert command is not None
            options = {option for parameter in command.params for option in parameter.opts}
            assert (name in DOCUMENTS) == ("--json" in options and name not in without), name


def test_numbers_have_units() -> None:
    """A number whose name does not say what it is of says it in its description."""
    dims = ("_bytes", "_ms", "_ns", "_per_s", "_s")
    for name in DOCUMENTS:
        for kind, key, found in _properties(schema(name)):
            if kind.startswith("manifest") or not _is_measured(key):
                continue
            said = str(found).lower()
            assert (
                key.endswith(dims) or key == "seconds" or any(unit in said for unit in ("bytes", "second"))
            ), (name, kind, key)


def _is_measured(key: str) -> bool:
    return any(word in key for word in ("time_", "_time", "size", "seconds", "duration")) and key not in (
        "size",  # of a space; with bytes in its type elsewhere
        "judged_time",
    )


def _properties(found: dict[str, Any]) -> list[tuple[str, str, Any]]:
    parts = {"": found, **found.get("$defs", {})}
    return [
        (kind, key, value)
        for kind, part in parts.items()
        if kind not in _manifest_parts()
        for key, value in part.get("properties", {}).items()
    ]


def _manifest_parts() -> set[str]:
    from kerncap.format.schema import Manifest

    return set(msgspec.json.schema(Manifest)["$defs"])


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(DOCUMENTS)
    assert main(["schema", "verify"]) == 0
    assert capsys.readouterr().out == schema_text("verify")
    assert main(["schema", "--json"]) == 0
    assert set(msgspec.json.decode(capsys.readouterr().out)) == set(DOCUMENTS)
    assert main(["schema", "nothing"]) == 2
    assert "there are capture, list" in capsys.readouterr().err


def test_the_check_is_strict() -> None:
    check("unpack", {"path": "x"})
    with pytest.raises(AssertionError, match="'more' was unexpected"):
        check("unpack", {"path": "x", "more": 1})
    with pytest.raises(AssertionError, match="'path' is a required property"):
        check("unpack", {})
    assert schema("unpack") != closed(schema("unpack")), "readers may meet newer keys"


# --- what only a GPU fills: made by hand, of the classes that the commands print ---------------------


def test_timing() -> None:
    from kerncap.api.replay import ReplayResult
    from kerncap.api.replay_times import Timing
    from kerncap.replay.verdict_words import Verdict

    timing = Timing(20, 0.5, 0.4, 0.6, "device events", 0.5, 0.7, 812.5)
    verdict = Verdict(Answer.YES, "12 bytes identical", exact=True)
    result = ReplayResult(
        Path("r"), "k", "binary", "NVIDIA H200", "", "the application's result", verdict, timing=timing
    )
    check("replay", result.as_dict())


def test_compare() -> None:
    from kerncap.api.compare import CompareResult, Variant
    from kerncap.replay.outcome import Compiled
    from kerncap.replay.paired_times import Ratio
    from kerncap.replay.stage_diff import compare_stage
    from kerncap.replay.verdict_words import Verdict
    from kerncap.report.documents.edit_and_compare import Difference

    compiled = Compiled(registers=32, occupancy=0.5, grid=(1, 1, 1), block=(32, 1, 1), compile_ms=3.5)
    variants = [
        Variant("captured", Verdict(Answer.YES, "same"), compiled=compiled, times_ms=[1.0, 1.1]),
        Variant("rebuilt", Verdict(Answer.NO, "no", ["no"]), compiled=compiled, times_ms=[1.0],
                ratio=Ratio(1.1, 1.0, 1.2)),
        Variant("candidate", problem="does not build", detail="why"),
    ]  # fmt: skip
    ptx = "add.s32 %r1, %r2, 1;\n"
    stages = [compare_stage("ptx", ptx, ptx.replace("add", "mul"), 10)]
    difference = Difference("captured", "rebuilt", stages, ["sass"])
    result = CompareResult(
        Path("r"), "k", "binary", "d", "3.9.0", "python", variants, [difference], ["n"], 1.05
    )
    check("replay-compare", result.as_dict())


def test_edit() -> None:
    from kerncap.api.edit.diagnostics import Diagnostic
    from kerncap.api.edit.edit_result import EditResult, Times
    from kerncap.replay.outcome import Compiled
    from kerncap.replay.verdict_words import Verdict
    from kerncap.report.documents.edit_and_compare import BestSave

    reason = "out: 3 of 8 elements differ, first at out[0, 4]: expected 1.0, found 2.0; max abs 1"
    result = EditResult(
        2, "candidate", Path("k.py"), "compare", Verdict(Answer.NO, reason, [reason]),
        [Diagnostic("k.py", 3, None, "no", ((2, "a"), (3, "b")))],
        Compiled(registers=32, num_warps=4, grid=(1, 1, 1)), Compiled(registers=40, num_warps=8),
        Times(60, "device events", 1.0, 1.2, 1.2, 1.1, 1.3), 4.0, 300.0, kept=Path("kept"),
        best=BestSave(number=1, ratio=0.9, path="p"),
    )  # fmt: skip
    document = result.as_dict()
    assert document["first_wrong"] and document["launch_changes"] == {"num_warps": [4, 8]}
    check("replay-edit", document)


def test_profile() -> None:
    from kerncap.api.profile import ProfileResult
    from kerncap.replay.limits.ncu_claims import Claim
    from kerncap.replay.limits.ncu_csv import KernelRow

    row = KernelRow("k", {"gpu__time_duration.sum": 1e-5, "launch__grid_size": 64.0}, {}, {})
    claim = Claim("speed of light", "limit", "memory-bound", (("dram__throughput", 91.5),))
    check("profile", ProfileResult("k", "d", "2025.1", (claim,), row, Path("k.ncu-rep")).as_dict())


def test_doctor() -> None:
    from kerncap.api.doctor.doctor_result import Check, Report, Way

    report = Report(
        kerncap="1", python="p", ways=(Way(name="w", works=False, reason="r", next_step="s"),),
        checks=(Check(name="c", status="missing", detail="d"),),
    )  # fmt: skip
    check("doctor", report.as_dict())


def test_a_document_holds_kinds_of_the_built_in_types() -> None:
    class Held(Document, frozen=True, kw_only=True):
        number: float
        text: str
        place: Path
        pairs: tuple[tuple[int, float], ...]

    class Word(str):
        pass

    held = Held(number=np.float64(1.5), text=Word("x"), place=Path("/a"), pairs=((1, 2.5),))
    assert held.as_dict() == {"number": 1.5, "text": "x", "place": "/a", "pairs": [[1, 2.5]]}
