"""A launch as a task for those who write kernels: of KernelBench, FlashInfer Trace, PyGPUBench."""

from __future__ import annotations

import base64
import json
import re
import textwrap
import uuid
import zlib
from pathlib import Path
from typing import Any

from kerncap.api.export.launch_function import LaunchFunction, Tensor, launch_function
from kerncap.api.export.project_words import captured_on, facts, file_stem, notes_on, plain, title, wrapped
from kerncap.api.export.python_values import quoted
from kerncap.api.export.script import torch_dtype
from kerncap.api.export.templates import filled
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from kerncap.log import size
from kerncap.replay.tolerance import view_tolerance

MAX_TEXT = 64 << 20  # characters of data in a task of KernelBench, which is one file
_AUTHOR = "captured"  # of the solution, and the kind of operation: folders of a trace set
# Of FlashInfer Trace's dtypes, those that safetensors have, too.
# Source: flashinfer_bench/data/definition.py; the safetensors format.
_SAFETENSORS = {
    "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "bool": "BOOL",
}  # fmt: skip


def write_kernelbench(reproducer: Reproducer, folder: Path) -> tuple[str, tuple[str, ...]]:
    """Write the task's file into ``folder``: its name, and notes. Raises UsageError."""
    manifest = reproducer.manifest
    launch = launch_function(reproducer)
    _only_output(reproducer, launch, "KernelBench")
    rows = [
        f"        tensor({torch_dtype(one.view)}, {tuple(one.view.shape)!r}, {_packed(launch, one)}),"
        for one in launch.inputs
    ]
    length = sum(map(len, rows))
    if length > MAX_TEXT:
        raise UsageError(
            f"{reproducer.path}: its inputs take {size(length)} of text, more than {size(MAX_TEXT)}; "
            "kerncap minimize, or --as flashinfer-trace"
        )
    others = [one.name for one in launch.inputs if not one.view.dtype.startswith(("float", "bfloat"))]
    casts = (
        f"KernelBench casts every input to one precision; {', '.join(others)} is cast back, rounded."
        * bool(others)
    )
    text = filled(
        "kernelbench.py.in",
        {
            "TITLE": title(manifest),
            "FACTS": facts(manifest),
            "CASTS": f"{wrapped(casts)}\n" if casts else "",
            "LAUNCH": _literal(launch.text),
            "WHAT": plain(manifest.kernel.name),
            "PARAMETERS": "".join(f", {one.name}" for one in launch.inputs),
            "PASSED": ", ".join(f"{one.name}.to({torch_dtype(one.view)})" for one in launch.inputs),
            "INPUTS": "\n".join(rows),
        },
    )
    name = f"{file_stem(manifest.kernel.name)}.py"
    (folder / name).write_text(text, encoding="utf-8")
    return name, (*notes_on(reproducer), *([casts] if casts else []))


def write_flashinfer_trace(reproducer: Reproducer, folder: Path) -> tuple[str, ...]:
    """Write a trace set into ``folder``: definition, workload and solution; the notes.

    Source: flashinfer_bench/data/{definition,workload,solution,trace}.py, 0.1.
    """
    manifest = reproducer.manifest
    launch = launch_function(reproducer)
    for one in launch.tensors:
        if one.view.dtype not in _SAFETENSORS:
            raise UsageError(
                f"{reproducer.path}: {one.name} is of {plain(one.view.dtype)}, which FlashInfer Trace lacks; "
                "--as kernelbench"
            )
    name = f"{file_stem(manifest.kernel.name)}_{reproducer.manifest_sha256[:8]}"
    number = str(uuid.uuid5(uuid.NAMESPACE_OID, reproducer.manifest_sha256))
    blob = f"blob/workloads/{_AUTHOR}/{name}/{number}.safetensors"
    inputs = {
        one.name: {"type": "safetensors", "path": blob, "tensor_key": one.name} for one in launch.inputs
    }
    workload = {
        "definition": name, "solution": None, "evaluation": None,
        "workload": {"axes": {}, "inputs": inputs, "uuid": number},
    }  # fmt: skip
    solution = {
        "name": f"{name}_captured", "definition": name, "author": _AUTHOR,
        "description": plain(f"The kernel as it was captured on {captured_on(manifest)}."),
        "spec": {
            "language": "triton", "target_hardware": ["cuda"], "entry_point": "main.py::run",
            "dependencies": [], "destination_passing_style": False,
        },
        "sources": [{"path": "main.py", "content": launch.text}],
    }  # fmt: skip
    _write(folder / f"definitions/{_AUTHOR}/{name}.json", _json(_definition(name, manifest, launch)))
    _write(folder / f"solutions/{_AUTHOR}/{_AUTHOR}/{name}/{name}_captured.json", _json(solution))
    _write(folder / f"workloads/{_AUTHOR}/{name}.jsonl", (json.dumps(workload) + "\n").encode())
    _write(folder / blob, _safetensors(launch))
    return (*notes_on(reproducer), "the definition's reference is the captured kernel; no axis varies")


def write_pygpubench(reproducer: Reproducer, folder: Path) -> tuple[str, ...]:
    """Write the task, its submission and their data into ``folder``: the notes. Raises UsageError.

    Source: pygpubench/__init__.py and csrc/manager.cpp, 0.0.2.
    """
    manifest = reproducer.manifest
    launch = launch_function(reproducer)
    output = _only_output(reproducer, launch, "PyGPUBench")
    values = {
        "TITLE": title(manifest),
        "FACTS": facts(manifest),
        "INPUTS": "\n".join(f'        tensor("{one.name}", {_form(one)}),' for one in launch.inputs),
        "EXPECTED": _form(output),
        "TOLERANCE": ",".join(f" {each!r}" for each in _tolerance(output)),
    }
    _write(folder / "task.py", filled("pygpubench.py.in", values).encode())
    _write(folder / "submission.py", (launch.text + _SUBMISSION).encode())
    for one in launch.inputs:
        _write(folder / f"data/{one.name}.bin", launch.before(one))
    _write(folder / "data/expected.bin", launch.after(output))
    return (*notes_on(reproducer), "the inputs are the captured ones, for every seed")


_SUBMISSION = '''

def kernel(arguments):
    """The output first, then the inputs."""
    output, *inputs = arguments
    output.copy_(run(*inputs))
'''


def _form(tensor: Tensor) -> str:
    return f"{torch_dtype(tensor.view)}, {tuple(tensor.view.shape)!r}"


def _tolerance(tensor: Tensor) -> tuple[float, ...]:
    """(rtol, atol) of `kerncap verify`, if PyGPUBench knows the dtype; else it compares bytes."""
    dtype = tensor.view.dtype
    return view_tolerance(dtype) if dtype in ("float32", "float16", "bfloat16") else ()


def _only_output(reproducer: Reproducer, launch: LaunchFunction, whose: str) -> Tensor:
    first, *others = launch.outputs
    if others:
        names = ", ".join(one.name for one in launch.outputs)
        raise UsageError(
            f"{reproducer.path}: it writes {names}, but {whose} compares one; --as flashinfer-trace"
        )
    return first


def _definition(name: str, manifest: Manifest, launch: LaunchFunction) -> dict[str, Any]:
    axes: dict[str, Any] = {}

    def spec(one: Tensor) -> dict[str, Any]:
        for length in one.view.shape:
            axes[f"n{length}"] = {"type": "const", "value": length}
        return {"shape": [f"n{length}" for length in one.view.shape], "dtype": one.view.dtype}

    inputs = {one.name: spec(one) for one in launch.inputs}
    outputs = {f"{one.name}_after" if one.is_input else one.name: spec(one) for one in launch.outputs}
    return {
        "name": name, "op_type": _AUTHOR, "description": " ".join(title(manifest).split()),
        "axes": axes, "inputs": inputs, "outputs": outputs, "reference": launch.text,
    }  # fmt: skip


def _safetensors(launch: LaunchFunction) -> bytes:
    """The inputs, each contiguous: a length of eight bytes, a header in JSON, the data."""
    header: dict[str, Any] = {}
    data = bytearray()
    for one in launch.inputs:
        found = launch.before(one)
        header[one.name] = {
            "dtype": _SAFETENSORS[one.view.dtype], "shape": list(one.view.shape),
            "data_offsets": [len(data), len(data) + len(found)],
        }  # fmt: skip
        data += found
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def _packed(launch: LaunchFunction, tensor: Tensor) -> str:
    encoded = base64.b64encode(zlib.compress(launch.before(tensor))).decode()
    return '"""\n' + "\n".join(textwrap.wrap(encoded, 108)) + '\n"""'


def _literal(text: str) -> str:
    """A string literal of Python that a person can read, if there is one."""
    if "'''" in text or text.endswith(("'", "\\")) or not re.fullmatch(r"[\t\n\x20-\x7e]*", text):
        return quoted(text)
    return f"r'''\n{text}'''"


def _json(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=2) + "\n").encode()


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
