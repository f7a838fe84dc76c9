"""Compiles a reproducer's source module to TTIR, in a separate process, with no GPU.

    python /.../shims/triton/compile_source.py JOB

JOB is a JSON file: `module` (a .py file), `entry`, `arguments` ([{name, value}], each `value` as in a
manifest), `views` (of the manifest, each with its `address` and `region_bytes`), `options` ({name: value}),
`target` ("cuda:90"), `result` (the file to write). The result is {"ttir": text} (Gluon's is TTGIR), {"error":
one line} if Triton does not compile it, or {"refused": one line} if it did not get so far; with `numbers`, a
list of {argument: integer} that each take the place of some, {"each": [one of these, …]}. With
`stages`, a folder, every stage goes there as `NAME.txt`, and what MLIR's passes print as `NAME.passes`; the
result then names the `plugin` that changes stages. This imports the module, which runs its top level: who
starts it has asked. Tensors are stand-ins: the compiler asks for no more than their dtype and address.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import os
import sys
import traceback
from typing import Any, Dict, List, Optional

_NAME = "_kerncap_source"
# Chosen for each launch; the rest of the captured options are the kernel's own.
_NOT_OPTIONS = ("stream", "device", "grid", "warmup")
_TRITON_NAMES = {
    "float8_e4m3fn": "fp8e4nv", "float8_e5m2": "fp8e5", "float8_e4m3fnuz": "fp8e4b8",
    "float8_e5m2fnuz": "fp8e5b16", "float16": "fp16", "bfloat16": "bf16", "float32": "fp32",
    "float64": "fp64", "bool": "i1", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


class Refused(Exception):
    """What can't be compiled, and why; for the user."""


class Dtype(str):
    """A dtype as the compiler spells it; a descriptor asks for its size."""

    itemsize = 0


class Tensor:
    """Stands in for a tensor or a bare address; ``dtype`` is in the compiler's spelling."""

    def __init__(self, address: int, dtype: str, view: Optional[Dict[str, Any]] = None) -> None:
        self.dtype = Dtype(dtype)
        self.dtype.itemsize = int(view["itemsize"]) if view else 1
        self.shape = tuple(view["shape"]) if view else (1,)
        self._strides = tuple(view["strides"]) if view else (1,)
        self._address = address
        self._bytes = int(view["region_bytes"]) if view else 0

    def data_ptr(self) -> int:
        return self._address

    def ptr_range(self) -> int:
        """Bytes behind it: AMD's backend specialises on less than 2 GiB."""
        return self._bytes

    def stride(self, axis: Optional[int] = None) -> Any:
        return self._strides if axis is None else self._strides[axis]

    def dim(self) -> int:
        return len(self.shape)

    ndim = property(dim)


def main(path: str) -> None:
    with open(path, encoding="utf-8") as file:
        job: Dict[str, Any] = json.load(file)
    try:
        texts = compile_job(job)
        answer = {
            **({"each": texts} if "numbers" in job else texts[0]),
            "triton": str(getattr(sys.modules.get("triton"), "__version__", "")),
        }
    except Refused as error:
        answer = {"refused": str(error)}
    except BaseException as error:  # SystemExit too: the module may call it
        traceback.print_exc()
        answer = {"error": f"{job['entry']} does not compile for {job['target']}: {_one_line(error)}"}
    with open(job["result"] + ".part", "w", encoding="utf-8") as file:
        json.dump(answer, file)
    os.rename(job["result"] + ".part", job["result"])


def compile_job(job: Dict[str, Any]) -> List[Dict[str, str]]:
    """Optimised TTIR. Raises Refused, or what Triton raises; of several sets of numbers each has its own."""
    os.environ.pop("TRITON_INTERPRET", None)  # Triton reads it when it is imported
    if "stages" in job:
        os.environ["MLIR_ENABLE_DUMP"] = "1"
    import triton  # noqa: F401

    from . import compilation, gpu_targets

    try:
        target = gpu_targets.parse(job["target"])
    except ValueError as error:
        raise Refused(str(error)) from error
    # For a module that asks for the device as it is imported. Triton itself would import torch to find one.
    gpu_targets.stand_in(target, _no_launch)
    module = _load(job["module"])
    function = _entry(module, job["entry"])
    build = _Builder(job["views"], module)
    arguments = {one["name"]: build.value(one["value"], one["name"]) for one in job["arguments"]}
    given = {**arguments, **_options(build, job["options"], arguments)}
    if "stages" in job:
        _write_stages(function, compilation.bind(function, (), given, target), target, job["stages"])
        return [{"ttir": "", "plugin": compilation.plugin() or ""}]

    def compiled(numbers: Dict[str, int]) -> Dict[str, str]:
        bound = compilation.bind(function, (), {**given, **numbers}, target)
        return {"ttir": compilation.ttir(function, bound, target)}

    if "numbers" not in job:
        return [compiled({})]
    found: List[Dict[str, str]] = []
    for numbers in job["numbers"]:
        try:
            found.append(compiled(numbers))
        except Exception as error:
            found.append({"error": _one_line(error)})
    return found


def _write_stages(function: Any, bound: Any, target: Any, folder: str) -> None:
    """Each file is there as soon as its stage has ended: a compiler that dies leaves those before."""
    from . import compilation

    names = ["source", "ttir", "ttgir", "llir", "ptx"]
    number = 0
    said = os.dup(2)

    def listen() -> None:
        name = names[number] if number < len(names) else "rest"
        out = os.open(os.path.join(folder, name + ".passes"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(out, 2)
        os.close(out)

    def keep(name: str, text: str) -> None:
        nonlocal number
        names[number : number + 1] = [name]
        with open(os.path.join(folder, name + ".txt"), "w", encoding="utf-8") as file:
            file.write(text)
        number += 1
        listen()

    sys.stderr.flush()
    listen()
    try:
        compilation.every_stage(function, bound, target, keep)
    finally:
        sys.stderr.flush()
        os.dup2(said, 2)
        os.close(said)


def _options(build: _Builder, given: Dict[str, Any], arguments: Dict[str, Any]) -> Dict[str, Any]:
    options = {
        name: build.value(value, name)
        for name, value in given.items()
        if name not in arguments and name not in _NOT_OPTIONS
    }
    return {name: value for name, value in options.items() if value is not None}


def _no_launch(*_: Any) -> None:
    raise Refused("the source module launches a kernel when it is imported; nothing is launched here")


def _load(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(_NAME, path)
    if spec is None or spec.loader is None:
        raise Refused(f"{os.path.basename(path)} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module  # Triton reads sources through inspect, which looks here
    from triton import knobs

    # A module that sets TRITON_INTERPRET would have nothing to compile.
    knobs.runtime.interpret = False
    os.environ.pop("TRITON_INTERPRET", None)  # which that has set
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        raise Refused(f"{os.path.basename(path)} can't be imported: {_one_line(error)}") from error
    return module


def _entry(module: Any, name: str) -> Any:
    function = getattr(module, name, None)
    # What was captured is one configuration: decorators that choose another are passed by.
    while function is not None and not _is_jit(function) and hasattr(function, "fn"):
        function = function.fn
    if function is None or not _is_jit(function):
        raise Refused(f"the source module has no @triton.jit function {name}")
    return function


def _is_jit(function: Any) -> bool:
    return type(function).__name__ in ("JITFunction", "GluonJITFunction")


def _one_line(error: BaseException) -> str:
    text = str(error)
    # Triton's own messages end with the reason, after the source that it is about.
    lines = [line.strip() for line in text.splitlines() if line.strip().strip("^")]
    said = lines[-1] if lines else ""
    cause = error.__cause__
    if cause is not None and str(cause) and str(cause) not in said:
        said = f"{said}: {_one_line(cause)}" if said else _one_line(cause)
    return f"{type(error).__name__}: {said}"[:2000]


class _Builder:
    """Values of the manifest as what the compiler takes for them."""

    def __init__(self, views: List[Dict[str, Any]], module: Any) -> None:
        self._views = views
        self._module = module

    def value(self, value: Dict[str, Any], name: str) -> Any:
        """Raises Refused, naming the argument."""
        kind = value["kind"]
        if kind == "none":
            return None
        if kind in ("bool", "str"):
            return value["value"]
        if kind == "int":
            return int(value["value"])
        if kind == "float":
            return float.fromhex(value["value"])  # takes inf and nan as well
        if kind == "dtype":
            return self._dtype(value, name)
        if kind == "sequence":
            return self._sequence(value, name)
        if kind == "tensor":
            return self._tensor(value["view"], value.get("wrapped_dtype"), name)
        if kind == "descriptor":
            return self._descriptor(value, name)
        if kind == "function":
            function = getattr(self._module, value["name"], None)
            if function is None:
                raise Refused(f"argument {name}: the source module has no function {value['name']}")
            return function
        if kind == "pointer":
            return Tensor(value["address"], _spelling(value["dtype"]))
        if kind == "opaque":
            layout = _layout(value, name)
            if layout is not None:
                return layout
        raise Refused(
            f"argument {name} is a {value.get('type_name', kind)}, which a reproducer can't rebuild"
        )

    def _tensor(self, index: int, wrapped: Optional[str], name: str) -> Tensor:
        view = self._views[index]
        return Tensor(view["address"], _spelling(wrapped or view["dtype"]), view)

    def _descriptor(self, value: Dict[str, Any], name: str) -> Any:
        try:
            from triton.tools.tensor_descriptor import TensorDescriptor
        except ImportError as error:
            raise Refused(f"argument {name}: this Triton has no tensor descriptors") from error
        base = self._tensor(value["view"], None, name)
        shape, strides, block = (list(value[key]) for key in ("shape", "strides", "block_shape"))
        try:
            return TensorDescriptor(base, shape, strides, block, value.get("padding", "zero"))
        except TypeError:  # older ones know no padding
            return TensorDescriptor(base, shape, strides, block)

    def _sequence(self, value: Dict[str, Any], name: str) -> Any:
        items = [self.value(item, f"{name}[{i}]") for i, item in enumerate(value["items"])]
        kind = value.get("type", "tuple")
        if kind == "list":
            return items
        if kind == "namedtuple":
            return collections.namedtuple(value["type_name"], list(value["fields"]), rename=True)(*items)
        return tuple(items)

    def _dtype(self, value: Dict[str, Any], name: str) -> Any:
        if value["library"] == "torch":
            try:
                import torch
            except ImportError as error:
                raise Refused(f"argument {name} is {value['name']}, and this Python has no torch") from error
            return getattr(torch, value["name"].rpartition(".")[2])
        import triton.language as tl

        short = value["name"].rpartition(".")[2]
        found = getattr(tl, short, None)
        return found if isinstance(found, tl.dtype) else tl.dtype(short)


def _layout(value: Dict[str, Any], name: str) -> Any:
    """A layout of Gluon's; None for any other value. The worker, which runs this confined, makes it."""
    try:
        from _kerncap_worker.triton_launch import gluon_layouts  # type: ignore[import-not-found]
    except ImportError:
        return None
    try:
        return gluon_layouts.layout_of(value)
    except (TypeError, ValueError) as error:
        raise Refused(f"argument {name}: {error}") from error


def _spelling(dtype: str) -> str:
    """``fp32`` for torch's ``float32``; the compiler's own names stay."""
    short = dtype.rpartition(".")[2]
    return _TRITON_NAMES.get(short, short)
