"""session.json: what the hook and the shims read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.capture.parse_where import parse_where, postfix
from kerncap.capture.session_file import SessionFile
from kerncap.capture.session_folder import Session
from kerncap.errors import CaptureError
from tests.session_options import capture_options


def encoded(token: str = "t", socket: str = "/s", **options: Any) -> dict[str, Any]:
    session: dict[str, Any] = json.loads(SessionFile.of(capture_options(**options), token, socket).encode())
    return session


def test_every_option_is_in_it() -> None:
    found = encoded(
        "t0",
        "/run/a b/socket",
        kernel="add",
        launch=(2, 5),
        where=postfix(parse_where("grid[0] > 4")),
        memory="all",
        max_size=1 << 20,
        when="nonfinite",
        stop=True,
        fault_timeout_s=1.5,
        ranks=(0, 2),
    )
    assert found == {
        "version": 1,
        "token": "t0",
        "socket": "/run/a b/socket",
        "questions": "",
        "selection": {
            "kernel": "add", "launch": [2, 5], "launches": None, "from_kernel": None, "from_skip": 0,
            "to_kernel": None, "to_skip": 0, "whole_range": None, "graph": None, "graph_skip": 0,
            "per_config": False,
            "where": [["name", "grid"], ["item", 0], ["const", 4], [">"]], "range": None, "ranks": [0, 2],
            "collective": None, "collective_timeout_s": 60.0,
            "on_fault": False, "fault_timeout_s": 1.5, "when": "nonfinite", "last": None, "stop": True,
        },
        "keep": {"memory": "all", "max_size": 1 << 20, "no_values": False},
        "backend": "auto",
        "by_default": False,
        "list_only": False,
        "timeline": False,
        "trace": False,
        "trace_native": False,
        "dormant": False,
        "generation": 0,
        "limit_kernels": 10,
        "limit_bytes": 4 << 30,
        "drain_timeout_s": 5.0,
        "chunk_bytes": 256 << 10,
    }  # fmt: skip


@pytest.mark.parametrize("backend", ["auto", "cuda", "hip", "triton"])
def test_backends_are_named(backend: str) -> None:
    found = encoded(backend=backend)
    assert found["backend"] == backend and found["by_default"] and found["selection"]["launch"] is None


@given(st.text(), st.binary())
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, kernel: str, path: bytes) -> None:
    import re

    socket = os.fsdecode(path)
    options = capture_options(kernel=re.escape(kernel), dormant=False, memory="args")
    file = SessionFile.of(options, kernel, socket)
    place = tmp_path_factory.getbasetemp() / "session.json"
    place.write_bytes(file.encode())
    assert SessionFile.read(place) == file
    later = file.armed(capture_options(last=3).selection, 7)
    assert (later.generation, later.by_default, later.keep.memory, later.token) == (7, False, "args", kernel)


def test_a_file_that_is_no_session_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "session.json"
    whole = SessionFile.of(capture_options(), "t", "/s").encode()
    for bad in (b"", b"[]", b"{}", b"[" * 100_000, whole[:-1], whole.replace(b'"auto"', b'"rocm"')):
        place.write_bytes(bad)
        with pytest.raises(CaptureError, match="not what kerncap wrote there"):
            SessionFile.read(place)


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("shared > 0", [["name", "shared"], ["const", 0], [">"]]),
        (
            "not grid[1] == 1 or block[0] in (32, 64)",
            [["name", "grid"], ["item", 1], ["const", 1], ["=="], ["not"], ["name", "block"], ["item", 0],
             ["const", 32], ["const", 64], ["list", 2], ["in"], ["or"]],
        ),
        ("name == 'a b%c'", [["name", "name"], ["const", "a b%c"], ["=="]]),
        (
            "0 < device <= -3",
            [["const", 0], ["name", "device"], ["<"], ["name", "device"], ["const", -3], ["<="], ["and"]],
        ),
        (
            "parameter_bytes * 2 + 1 >= 1.5",
            [["name", "parameter_bytes"], ["const", 2], ["*"], ["const", 1], ["+"], ["const", 1.5], [">="]],
        ),
        ("cluster == None", [["name", "cluster"], ["const", None], ["=="]]),
        (
            "True != x.ndim // 2 % 3 - 1",
            [["const", True], ["name", "x"], ["attr", "ndim"], ["const", 2], ["//"], ["const", 3], ["%"],
             ["const", 1], ["-"], ["!="]],
        ),
        ("stream in ()", [["name", "stream"], ["list", 0], ["in"]]),
    ],
)  # fmt: skip
def test_where_in_postfix_order(text: str, steps: list[list[Any]]) -> None:
    assert postfix(parse_where(text)) == steps


def test_a_long_chain_is_no_deep_one() -> None:
    assert len(postfix(parse_where(" or ".join("n" * 800)))) == 2 * 800 - 1


def test_a_session_has_it_for_its_owner_alone(tmp_path: Path) -> None:
    session = Session.create(capture_options(output=tmp_path), {})
    try:
        path = session.folder / "session.json"
        assert session.server is not None and SessionFile.read(path).socket == session.server.path
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        session.close()
