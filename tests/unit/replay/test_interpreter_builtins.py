"""The interpreter replaces the functions that Triton's own search finds."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

pytest.importorskip("triton")

import triton.language as tl
from triton.runtime import interpreter

from kerncap.replay.worker.torch_backend import interpreter_builtins


@pytest.mark.parametrize("namespace", [tl, tl.core, tl.tensor, tl.math, tl.core.tensor_descriptor_base])
def test_each_is_replaced_once(namespace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(place: Any, name: str, member: Any, *_: Any) -> None:
        assert member is getattr(place, name)
        replaced.append(name)
        monkeypatch.setattr(place, name, lambda: None)

    monkeypatch.setattr(interpreter, "_patch_attr", replace)
    expected = [name for name, member in inspect.getmembers(namespace) if tl.core.is_builtin(member)]
    assert expected
    for again in (expected, []):  # for a kernel, and for a function that it calls
        replaced: list[str] = []
        interpreter_builtins._patch_builtin(namespace, None)
        assert replaced == again
