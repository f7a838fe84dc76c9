"""What the hook writes of CuTe DSL's compilations, by a stand-in for the two functions that it wraps."""

from __future__ import annotations

import enum
import hashlib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

Patch = Callable[[Any], None]


@pytest.fixture
def patch(package: Any, tmp_path: Path) -> Patch:
    from kerncap_triton import cute_dsl  # type: ignore[import-not-found,unused-ignore]

    return lambda module: cute_dsl.patch(str(tmp_path / "session.json"), module)


class Mode(enum.Enum):
    ADD = 1


class Float32:
    pass


class NumericMeta(type):
    pass


class Int32(metaclass=NumericMeta):
    def __init__(self, value: int) -> None:
        self.value = value


class Tensor:
    dtype = Float32

    def __extract_mlir_values__(self) -> list[object]:
        raise AssertionError("values are not asked for: that would put operations into the program")


class Pair:
    def __init__(self) -> None:
        self.threads, self.mode, self.shape = 64, Mode.ADD, (2, 0.5)
        self.lock = open  # nothing that another process could have


def kernel(self: Any, x: Any, weight: Int32, pick: Any) -> None: ...


def launch(self: Any, x: Any, weight: Any, stream: Any = None) -> None: ...


def types_of(value: Any) -> list[str]:
    if isinstance(value, Tensor):
        return ['!cute.memref<f32, gmem, "(?):(1)">']
    if isinstance(value, Int32):
        return ["i32"]
    raise TypeError(value)


def stand_in(pick: Any = launch) -> Any:
    """A module with as much of ``cutlass.base_dsl.dsl`` as the hook touches."""

    class BaseDSL:
        compile_options = SimpleNamespace(options={}, gpu_arch="")
        envar = SimpleNamespace(arch="sm_90a")

        def generate_kernel_operands_and_types(
            self, function: Any, name: str, signature: Any, values: Any, named: Any
        ) -> Any:
            return [], ['!cute.memref<f32, gmem, "(?):(1)">', "i32"], []

        def generate_original_ir(
            self, ir: Any, func: Any, host: Any, name: str, types: Any, attributes: Any, values: Any,
            named: Any, signature: Any, **more: Any
        ) -> Any:  # fmt: skip
            frame = sys._getframe(1)
            assert (frame.f_globals["__name__"], frame.f_code.co_filename) == (
                "cutlass.base_dsl.dsl",
                "/x/dsl.py",
            )
            values[0].threads = "changed while it was traced"
            given = (values[0], values[1], 3, pick)
            signature_of_kernel = inspect.signature(kernel, eval_str=True)
            self.generate_kernel_operands_and_types(kernel, "kernel_0", signature_of_kernel, given, {})
            return "module", "hash", None

    names = {"__name__": "cutlass.base_dsl.dsl", "__file__": "/x/dsl.py"}
    registry = SimpleNamespace(get_registered_adapter=lambda value: None)
    return SimpleNamespace(BaseDSL=BaseDSL, JitArgAdapterRegistry=registry, get_mlir_types=types_of, **names)


def traced(module: Any, values: tuple[Any, ...], **named: Any) -> Any:
    return module.BaseDSL().generate_original_ir(
        None, None, launch, "launch", [], {}, values, named, inspect.signature(launch), no_cache=True
    )


def written(folder: Path) -> Any:
    name = hashlib.sha256(b"kernel_0").hexdigest()[:32]
    assert [path.name for path in (folder / "cute-dsl").iterdir()] == [f"{name}.json"]
    return json.loads((folder / "cute-dsl" / f"{name}.json").read_text())


def test_a_kernel_has_its_functions_and_the_call(patch: Patch, tmp_path: Path) -> None:
    module = stand_in()
    patch(module)
    stream = type("CUstream", (), {})()
    assert traced(module, (Pair(), Tensor(), Int32(3), stream)) == ("module", "hash", None)
    call = written(tmp_path)
    assert call["kernel"] == "kernel_0" and call["arch"] == "sm_90a"
    assert call["function"] == {"file": __file__, "name": "kernel", "module": __name__}
    assert call["host"]["name"] == "launch"
    assert call["parameters"] == [["x", '!cute.memref<f32, gmem, "(?):(1)">'], ["weight", "i32"]]
    arguments = dict(call["arguments"])
    assert arguments["self"] == {
        "object": __name__,
        "name": "Pair",
        "state": {
            "threads": {"value": 64},  # as it was before
            "mode": {"global": __name__, "name": "Mode.ADD"},
            "shape": {
                "items": [{"value": 2}, {"kind": "float", "value": "0x1.0000000000000p-1"}], "kind": "tuple",
            },
            "lock": {"unknown": "builtin_function_or_method"},
        },
    }  # fmt: skip
    assert arguments["x"] == {"tensor": '!cute.memref<f32, gmem, "(?):(1)">', "dtype": "Float32"}
    assert arguments["weight"] == {"number": "Int32", "value": {"value": 3}}
    assert arguments["stream"] == {"stream": True}


def test_what_cannot_be_written_is_left_out(patch: Patch, tmp_path: Path) -> None:
    (tmp_path / "cute-dsl").write_text("no folder")
    module = stand_in()
    patch(module)
    assert traced(module, (Pair(), Tensor(), 3, None))[0] == "module"
    assert (tmp_path / "cute-dsl").read_text() == "no folder"


def test_another_version_of_it_is_left_alone(patch: Patch, tmp_path: Path) -> None:
    module = stand_in()
    module.BaseDSL.generate_original_ir = lambda self, host: "other"
    patch(module)
    assert module.BaseDSL().generate_original_ir(launch) == "other"
    assert not (tmp_path / "cute-dsl").exists()


def test_an_error_of_the_program_stays_its_own(patch: Patch) -> None:
    module = stand_in()
    module.BaseDSL.generate_original_ir = lambda self, *given: 1 // 0
    patch(module)
    with pytest.raises(ZeroDivisionError):
        module.BaseDSL().generate_original_ir(launch)


def test_the_importer_watches_for_it(package: Any) -> None:
    from kerncap_triton import importer

    assert "cutlass.base_dsl.dsl" in importer.WATCHED
