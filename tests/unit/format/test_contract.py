"""The session's contract (shims/contract) against those who read by it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kerncap.capture import annotation, answers, payloads
from kerncap.capture.options import Keep, Selection
from kerncap.capture.session_file import SessionFile
from kerncap.format import contract, schema
from tests.contract import CONTRACT, ROOT, load

READERS: dict[str, Any] = {
    "PROCESS": payloads.ProcessRecord,
    "SEEN": payloads.SeenRecord,
    "LAUNCH": payloads.LaunchRecord,
    "OrderingCall": payloads.OrderingCall,
    "Kernel": payloads.KernelName,
    "Device": schema.Device,
    "Argument": schema.Argument,
    "GridSource": schema.GridSource,
    "Collective": schema.Collective,
    "Autotune": schema.Autotune,
    "AutotuneConfig": schema.AutotuneConfig,
    "Region": schema.Region,
    "Owner": schema.Owner,
    "Array": schema.Array,
    "Texture": schema.Texture,
    "View": schema.View,
    "Closure": schema.Closure,
    "Parameters": schema.Parameters,
    "LaunchAttribute": schema.LaunchAttribute,
    "Dispatch": schema.Dispatch,
    "Limits": schema.Limits,
    "Image": payloads.ImageRecord,
    "State": payloads.StateBytes,
    "COMPLETE": payloads.CompleteRecord,
    "Code": payloads.CodeRecord,
    "DROPPED": payloads.DroppedRecord,
    "FAILED": payloads.FailedRecord,
    "COUNTS": payloads.CountsRecord,
    "KernelCounts": payloads.KernelCounts,
    "Row": payloads.RowRecord,
    "END": payloads.EndRecord,
    "ANNOTATION": payloads.AnnotationRecord,
    "AnnotatedLaunch": annotation.AnnotatedLaunch,
    "AnnotatedView": annotation.AnnotatedView,
    "AnnotatedComplete": annotation.AnnotatedComplete,
    "LAST": payloads.LastRecord,
    "LastLaunch": payloads.LastLaunch,
    "PROGRESS": payloads.ProgressRecord,
    "TRACED": payloads.TracedRecord,
    "HashedRegion": payloads.HashedRegion,
    "TIMELINE": payloads.TimelineRecord,
    "TimedThing": payloads.TimedThing,
}
QUESTIONS: dict[str, Any] = {
    "MatchQuestion": answers._MatchQuestion,
    "RangeQuestion": answers._RangeQuestion,
    "GlobalsQuestion": answers._CodeQuestion,
    "WaitsQuestion": answers._CodeQuestion,
}
FOR_THE_SERVER = {"token", "process", "ask"}  # of every question
NO_STRUCT = {"CopyTimes", "Memfd", "MatchAnswer", "GlobalsAnswer", "WaitsAnswer", "RuntimeProgram"}


@pytest.mark.parametrize("name", READERS)
def test_a_reader_has_the_keys_of_its_object(name: str) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(READERS[name])}
    assert fields == {one.name for one in CONTRACT.objects[name]}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_has_the_keys_of_its_object(name: str) -> None:
    fields = {field.name for field in msgspec.structs.fields(QUESTIONS[name])}
    assert fields | FOR_THE_SERVER == {one.name for one in CONTRACT.objects[name]}


def test_no_object_is_left_out() -> None:
    assert {*READERS, *QUESTIONS, *NO_STRUCT} == set(CONTRACT.objects)
    assert {name for name, _, _ in CONTRACT.kinds} <= set(READERS)


@pytest.mark.parametrize(
    ("group", "reader"), [("selection", Selection), ("keep", Keep), ("session", SessionFile)]
)
def test_options_have_one_default(group: str, reader: Any) -> None:
    """`version`, `token` and `socket` have no default in Python: there is no session without them."""
    told = {field.name: field.default for field in msgspec.inspect.type_info(reader).fields}  # type: ignore[attr-defined]
    wanted = {one.name: one.default for one in CONTRACT.options if one.group == group}
    assert {name for name in told if name not in ("selection", "keep")} == set(wanted)
    for name, value in wanted.items():
        assert told[name] in (value, msgspec.NODEFAULT), name


def test_words_are_the_literals(subtests: Any = None) -> None:
    assert contract.word.filter.no_source == "no source" and contract.word.backend.automatic == "auto"
    assert {name for name, _, _ in CONTRACT.kinds} == {kind.name for kind in contract.RecordKind}


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        (
            "payloads.def",
            'KERNCAP_OBJECT(A)\nKERNCAP_KEY(a, "n")\nKERNCAP_KEY(a, "n")\n',
            "a key's first object",
        ),
        ("payloads.def", 'KERNCAP_OBJECT(A)\nKERNCAP_AGAIN(a, "n")\n', "a key's first object"),
        ("payloads.def", "KERNCAP_OBJECT(A)\nKERNCAP_KEY(a, n)\n", "a text in quotes"),
        ("payloads.def", "KERNCAP_OBJECT A\n", "no entry"),
        ("options.def", "KERNCAP_OPTION(keep, a, number, 1)\n", "a type that is not known"),
        ("functions.def", "KERNCAP_FUNCTION(a, int, (float x))\n", "no ctypes type for 'float'"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Any, file: str, text: str, reason: str) -> None:
    for name in ("records", "payloads", "words", "options", "functions"):
        (tmp_path / f"{name}.def").write_text("")
    (tmp_path / file).write_text(text)
    tool = load()
    with pytest.raises(tool.ContractError, match=reason):
        tool.Contract.read(tmp_path)


def test_literals_of_messages_are_found(tmp_path: Any) -> None:
    check = load("contract_check")
    for name in (*check.SPEAKERS, "kerncap/format/schema.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    text = (
        "from kerncap.replay.worker import protocol\nw.call('restore', 'pre')\nx = r['max_abs'], r['name']\n"
    )
    (tmp_path / "replay" / "speaks.py").write_text(text)
    (tmp_path / "replay" / "reads.py").write_text("x = row['max_abs']\n")
    (tmp_path / "sanitizer").mkdir()
    (tmp_path / "sanitizer" / "live.py").write_text("from . import hook_messages\nx = m['carried']\n")
    found = list(check.message_literals(tmp_path))
    assert found == [
        ("replay/speaks.py", 3, "max_abs"),
        ("replay/speaks.py", 2, "restore"),
        ("sanitizer/live.py", 2, "carried"),
    ]
