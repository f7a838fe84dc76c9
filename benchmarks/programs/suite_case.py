"""Launches cases of the sanitizer's suite on a GPU, each tensor in an allocation of its own.

PYTORCH_NO_CUDA_MEMORY_CACHING=1 python suite_case.py NAME [NAME …]
python suite_case.py --list oob|clean     names that a memory checker can judge
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def names(kind: str) -> list[str]:
    """Cases on plain tensors that are clean, or whose only findings are accesses out of bounds."""
    from tests.integration.sanitizer.suite.cases import load_all

    found = []
    for one in load_all().values():
        checks = {check for check, _, _ in one.expected}
        plain = not one.huge and not one.fresh and one.oracle and one.bounds == "storage"
        if plain and checks == ({"oob"} if kind == "oob" else set()):
            found.append(one.name)
    return found


def launch(name: str) -> None:
    import torch

    from tests.integration.sanitizer.suite.cases import CASES

    one = CASES[name]
    moved: dict[int, torch.Tensor] = {}

    def on_gpu(value: object) -> object:
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        flat = moved.get(storage.data_ptr())
        if flat is None:
            everything = torch.empty(0, dtype=value.dtype).set_(storage)
            flat = moved[storage.data_ptr()] = everything.cuda()
        return torch.as_strided(flat.view(value.dtype), value.shape, value.stride(), value.storage_offset())

    arguments = {key: on_gpu(value) for key, value in one.arguments.items()}
    one.kernel[one.grid](**arguments)
    torch.cuda.synchronize()


def main() -> None:
    if sys.argv[1] == "--list":
        print("\n".join(names(sys.argv[2])))
        return
    from tests.integration.sanitizer.suite.cases import load_all

    load_all()
    for name in sys.argv[1:]:
        launch(name)
        print(f"{name}: launched", flush=True)


if __name__ == "__main__":
    main()
