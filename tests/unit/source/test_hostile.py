"""A graph is a file that the target wrote: whatever is in it, nothing of it runs and nothing gets out."""

from __future__ import annotations

import ast
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.source import assemble
from kerncap.errors import CaptureError


def graph(**changes: Any) -> dict[str, Any]:
    """A graph of one kernel, its node changed."""
    node = {
        "type": "jit", "name": "kernel", "module": "m", "file": "/m.py", "line": 3, "decorator": "",
        "source": "@triton.jit\ndef kernel(x, B: tl.constexpr):\n    tl.store(x, helper)  # keep\n",
        "bindings": {"tl": {"module": "triton.language"}, "helper": {"value": {"kind": "int", "value": "1"}}},
        "freevars": {}, "defaults": {}, "future": False,
    }  # fmt: skip
    node.update(changes)
    return {"entry": "n0", "python": "3.12.0", "nodes": {"n0": node}, "files": {}, "missing": []}


def bound(ref: Any, name: str = "helper") -> dict[str, Any]:
    return graph(bindings={"tl": {"module": "triton.language"}, name: ref})


BAD_GRAPHS = {
    "no object": [],
    "no nodes": {"entry": "n0"},
    "no entry": {**graph(), "entry": "n7"},
    "entry of another type": {**graph(), "entry": ["n0"]},
    "name with code": graph(name="kernel\nimport os"),
    "keyword for a name": graph(name="lambda", source="def kernel(): pass"),
    "another function's text": graph(source="def other(): pass"),
    "two statements": graph(source="import os\ndef kernel(): pass"),
    "no Python": graph(source="def kernel(:"),
    "text with a null": graph(source="def kernel():\n    '\0'"),
    "deep text": graph(source="def kernel(): return " + "(" * 100_000),
    "long text": graph(source="def kernel(): pass" + " " * (5 << 20)),
    "type of node": graph(type="exec"),
    "line": graph(line=-1),
    "bound name with code": bound({"value": {"kind": "none"}}, "helper = __import__('os')"),
    "dotted name with a hole": bound({"value": {"kind": "none"}}, "a..b"),
    "module with code": bound({"module": "os; import sys"}),
    "submodule with code": bound({"module": "os", "with": ["os\nimport sys"]}),
    "imported name with code": bound({"import": ["os", "path; x"]}),
    "import of one part": bound({"import": ["os"]}),
    "unknown node": bound({"node": "n9"}),
    "unknown reference": bound({"text": "x"}),
    "int with code": bound({"value": {"kind": "int", "value": "1; import os"}}),
    "float with code": bound({"value": {"kind": "float", "value": "inf\") + f(\""}}),
    "float out of range": bound({"value": {"kind": "float", "value": "0x1.0p+99999"}}),
    "dtype with code": bound({"value": {"kind": "dtype", "name": "float32()", "library": "triton"}}),
    "dtype of another library": bound({"value": {"kind": "dtype", "name": "float32", "library": "os"}}),
    "tensor": bound({"value": {"kind": "tensor", "view": 0}}),
    "attribute with code": bound({"attribute": [{"module": "os"}, "system('x')"]}),
    "keyword with code": bound({"call": {"module": "os"}, "keywords": {"a=1, b": {"module": "os"}}}),
    "file that is no text": {**graph(), "files": {"/m.py": 7}},
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_GRAPHS)
def test_malformed_graph_is_refused(what: str) -> None:
    with pytest.raises(CaptureError):
        assemble(BAD_GRAPHS[what])


def test_values_nested_too_deeply_are_refused() -> None:
    ref: dict[str, Any] = {"value": {"kind": "none"}}
    for _ in range(5000):
        ref = {"sequence": [ref], "type": "tuple"}
    with pytest.raises(CaptureError, match="nested too deeply"):
        assemble(bound(ref))


def test_comments_cannot_be_left() -> None:
    hostile = "x\nimport os\r\u2028import sys\x0b"
    made = assemble({**graph(file=hostile), "missing": [["helper", hostile]]})
    tree = ast.parse(made.text)
    statements = [each for each in ast.walk(tree) if isinstance(each, ast.Import)]
    imported = [alias.name for each in statements for alias in each.names]
    assert imported == ["triton", "triton.language"]
    opaque = assemble(bound({"opaque": hostile, "type": hostile}))
    assert ast.dump(ast.parse(opaque.text)).count("Import(") == 2


def test_decorator_arguments_are_literals_of_known_names() -> None:
    text = "noinline=True, repr=evil(), do_not_specialize=['n'], other=1, debug=open('/x')"
    made = assemble(graph(decorator=text))
    assert "@triton.jit(noinline=True, do_not_specialize=['n'])\n" in made.text
    assert assemble(graph(decorator="x)\nimport os\n(")).text.count("import") == 2


def test_strings_stay_strings() -> None:
    hostile = "'''\"\"\"\n\\'; import os #\ud800"
    made = assemble(bound({"value": {"kind": "str", "value": hostile}}))
    values = [each.value for each in ast.walk(ast.parse(made.text)) if isinstance(each, ast.Constant)]
    assert hostile in values
    made.text.encode()  # a lone surrogate is written as an escape


def test_names_of_original_files_stay_in_their_folder() -> None:
    paths = ["../../../etc/passwd", "/a/x.py", "/b/x.py", "..", "/c/.hidden", "", "/d/\nnew line"]
    files = {path: str(number) for number, path in enumerate(paths, 1)}
    made = assemble({**graph(), "files": files})
    assert sorted(made.originals.values()) == [b"1", b"2", b"3", b"4", b"5", b"6", b"7"]
    for name in made.originals:
        assert name and not name.startswith(".") and "/" not in name and name.isprintable()


def test_same_graph_same_module() -> None:
    assert assemble(graph()) == assemble(copy.deepcopy(graph()))


KEYS = ["node", "module", "import", "value", "kind", "call", "sequence", "mapping", "opaque", "attribute",
        "constexpr", "with", "type", "name", "items", "keywords"]  # fmt: skip
leaves = (
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["n0", "int", "jit"])
)
keys = st.sampled_from(KEYS) | st.text(max_size=4)
json_like = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


@given(field=st.sampled_from(sorted(graph()["nodes"]["n0"])), value=json_like)
def test_any_field_may_be_anything(field: str, value: Any) -> None:
    try:
        made = assemble(graph(**{field: value}))
    except CaptureError:
        return
    ast.parse(made.text)


@given(ref=json_like)
def test_any_reference_may_be_anything(ref: Any) -> None:
    try:
        made = assemble(bound(ref))
    except CaptureError:
        return
    ast.parse(made.text)


def test_a_name_as_long_as_inductor_makes_them() -> None:
    name = "triton_per_fused_" + "native_layer_norm_" * 40
    assert assemble(graph(name=name, source=f"@triton.jit\ndef {name}(x): pass\n")).entry == name
    with pytest.raises(CaptureError, match="has 1001 characters"):
        assemble(graph(name="k" * 1001))
