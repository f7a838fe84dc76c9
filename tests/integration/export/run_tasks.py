"""Run exported tasks as KernelBench, flashinfer-bench and PyGPUBench do; each output's bytes go to a file.

run_tasks.py kernelbench FILE.py OUT | flashinfer-trace FOLDER OUT | pygpubench FOLDER OUT ...
"""

from __future__ import annotations

import importlib.util
import json
import struct
import sys
from pathlib import Path
from typing import Any

import torch

DTYPES = {"F32": torch.float32, "I32": torch.int32, "F16": torch.float16}


def main() -> None:
    words = sys.argv[1:]
    for kind, task, out in zip(words[::3], words[1::3], words[2::3], strict=True):
        run = {"kernelbench": kernelbench, "flashinfer-trace": flashinfer_trace, "pygpubench": pygpubench}[
            kind
        ]
        made = run(Path(task))
        made = made if isinstance(made, tuple) else (made,)
        Path(out).write_bytes(b"".join(each.contiguous().numpy().tobytes() for each in made))


def kernelbench(file: Path) -> torch.Tensor:
    """From a text without a file; every tensor is cast to float32 first."""
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), "<string>", "exec"), names)
    inputs = [each.to(torch.float32) for each in names["get_inputs"]()]
    model = names["Model"](*names["get_init_inputs"]())
    first = model(*inputs)
    assert torch.equal(first, model(*inputs))  # its inputs are as they were
    return first


def flashinfer_trace(folder: Path) -> Any:
    """The solution on the workload's tensors; the outputs have the definition's shapes and dtypes."""
    [definition] = (json.loads(p.read_text()) for p in (folder / "definitions").rglob("*.json"))
    [solution] = (json.loads(p.read_text()) for p in (folder / "solutions").rglob("*.json"))
    [trace] = (json.loads(p.read_text()) for p in (folder / "workloads").rglob("*.jsonl"))
    assert definition["name"] == solution["definition"] == trace["definition"]
    file, _, function = solution["spec"]["entry_point"].partition("::")
    [source] = [one for one in solution["sources"] if one["path"] == file]
    assert source["content"] == definition["reference"]
    module = folder / "unpacked.py"
    module.write_text(source["content"])
    spec = importlib.util.spec_from_file_location("solution", module)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    inputs = []
    for name, given in definition["inputs"].items():
        entry = trace["workload"]["inputs"][name]
        one = tensor(folder / entry["path"], entry["tensor_key"])
        assert list(one.shape) == [definition["axes"][axis]["value"] for axis in given["shape"]]
        assert str(one.dtype) == f"torch.{given['dtype']}"
        inputs.append(one)
    made = getattr(loaded, function)(*inputs)
    outputs = made if isinstance(made, tuple) else (made,)
    for one, given in zip(outputs, definition["outputs"].values(), strict=True):
        assert list(one.shape) == [definition["axes"][axis]["value"] for axis in given["shape"]]
        assert str(one.dtype) == f"torch.{given['dtype']}"
    return made


def pygpubench(folder: Path) -> torch.Tensor:
    """Its kernel twice on one test case, as the warm-up does; right by the task's own answer."""
    names: dict[str, Any] = {"__name__": "task", "__file__": str(folder / "task.py")}
    exec(compile((folder / "task.py").read_text(), folder / "task.py", "exec"), names)
    arguments, (expected, *tolerance) = names["generate_test_case"]((), 7)
    output: torch.Tensor = arguments[0]
    assert not torch.equal(output, expected) and output.is_contiguous()
    sys.path.insert(0, str(folder))
    sys.modules.pop("submission", None)
    kernel = names["kernel_generator"]()
    sys.path.pop(0)
    for _ in range(2):
        kernel(arguments)
        rtol, atol = tolerance or (0, 0)
        torch.testing.assert_close(output, expected, rtol=rtol, atol=atol)
    return output


def tensor(file: Path, key: str) -> torch.Tensor:
    data = file.read_bytes()
    [length] = struct.unpack("<Q", data[:8])
    entry = json.loads(data[8 : 8 + length])[key]
    start, stop = (8 + length + at for at in entry["data_offsets"])
    return torch.frombuffer(bytearray(data[start:stop]), dtype=DTYPES[entry["dtype"]]).reshape(entry["shape"])


if __name__ == "__main__":
    main()
