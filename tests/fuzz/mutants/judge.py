"""Whether a mutant computes the same: by Triton's interpreter and a script that needs no kerncap.

The script is `kerncap export --as script`; kernels run in a process of their own, which a mutant may end.
Memory lies between wide guards, of several contents: what depends on those has no answer.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

from tests import modules

DIFFERS, EQUAL, UNCLEAR, ENDED = "differs", "equal", "unclear", "ended"
_GUARD_BYTES = 1 << 16
_FILLS = (0x00, 0x40, 0xFF)  # zero, finite, NaN
_CONTENTS = 3  # the captured ones, and others
_LIMIT_S = 120.0
# Against the tolerance of verify, 1.3e-6 and 1e-5: what is beyond this is beyond that.
_RTOL, _ATOL = 1e-3, 1e-3


class Judge:
    """One script's launches, in a process that is started again if it ends."""

    def __init__(self, script: Path) -> None:
        self._script = script
        self._process: Any = None
        self._pipe: Any = None

    def answer(self, candidate: Path, name: str, numbers: dict[str, int] | None = None) -> str:
        """DIFFERS on the captured values, EQUAL on all, ENDED by an error, or UNCLEAR.

        ``numbers``: of a launch with other values of these arguments.
        """
        if self._process is None or not self._process.is_alive():
            self._start()
        self._pipe.send((str(candidate), name, numbers or {}))
        try:
            if self._pipe.poll(_LIMIT_S):
                return str(self._pipe.recv())
        except EOFError:
            pass
        self.close()
        return UNCLEAR

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, str(self._script)), daemon=True)
        self._process.start()
        theirs.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(pipe: Any, script: str) -> None:
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (for as long as the process lives)
    module = modules.load(script, "exported")
    module.GUARD = _GUARD_BYTES
    own = of_each_contents(module, module.KERNEL, {})
    while True:
        candidate, name, numbers = pipe.recv()
        try:
            kernel = getattr(modules.load(candidate, f"mutant_{os.path.basename(candidate)[:-3]}"), name)
            expected = of_each_contents(module, module.KERNEL, numbers) if numbers else own
            pipe.send(compared(module, kernel, expected, numbers))
        except Exception:
            pipe.send(ENDED)


def of_each_contents(module: Any, kernel: Any, numbers: dict[str, int]) -> list[list[list[Any]]]:
    """What `compared` holds a mutant against: the results of the kernel, by contents and fill."""
    return [_results(module, kernel, contents, numbers) for contents in range(_CONTENTS)]


def _results(module: Any, kernel: Any, contents: int, numbers: dict[str, int]) -> list[list[Any]]:
    """Of each fill of the guards: the tensors afterwards, and how many bytes beside them were written."""
    import torch

    found = []
    while hasattr(kernel.fn, "fn"):
        kernel = kernel.fn
    for fill in _FILLS:
        module.GUARD_BYTE = fill
        after, flip = module.load("after"), module.load("flip")
        memory = {name: module.Block(name, after[name] ^ flip[name]) for name in module.BLOCKS}
        tensors = module.tensors(memory)
        written = module.tensors({name: module.Block(name, after[name]) for name in module.BLOCKS})
        random = torch.Generator().manual_seed(contents)
        for name, tensor in tensors.items():
            # What an output holds before shows a store too many, even of what was there.
            if contents and not tensor.dtype.is_floating_point and not torch.equal(tensor, written[name]):
                tensor.bitwise_xor_(torch.ones((), dtype=tensor.dtype))
            if contents and tensor.dtype.is_floating_point:
                values = torch.randn(tensor.shape, generator=random).to(tensor.dtype)
                # Probabilities, gradients and logarithms: of the sign that the application's have.
                tensor.copy_(
                    torch.where(tensor < 0, -values.abs(), values.abs())
                    if (tensor < 0).all() or (tensor >= 0).all()
                    else values
                )
        arguments = {**module.arguments(tensors), **numbers}
        if contents == _CONTENTS - 1:  # x * s and x / s are the same for s = 1
            arguments = {key: v * 0.75 if isinstance(v, float) else v for key, v in arguments.items()}
        kernel[module.GRID](**arguments)
        found.append(
            [*(one.clone() for one in tensors.values()), sum(b.written_outside() for b in memory.values())]
        )
    return found


def compared(module: Any, kernel: Any, own: list[list[list[Any]]], numbers: dict[str, int]) -> str:
    import torch

    alike = True
    for contents, expected in enumerate(own):
        found = _results(module, kernel, contents, numbers)
        for one, other in zip(found, expected, strict=True):
            alike &= one[-1] == other[-1] and all(
                torch.equal(module.bits(a), module.bits(b)) for a, b in zip(one[:-1], other[:-1], strict=True)
            )
        if contents == 0 and not alike:
            far = [_is_far(one[:-1], other[:-1]) for one, other in zip(found, expected, strict=True)]
            return DIFFERS if all(far) else UNCLEAR
        if not alike:
            return UNCLEAR
    return EQUAL


def _is_far(found: list[Any], expected: list[Any]) -> bool:
    """Whether a value is beyond any tolerance."""
    import torch

    for one, other in zip(found, expected, strict=True):
        if one.dtype.is_floating_point:
            if not torch.isclose(one.double(), other.double(), rtol=_RTOL, atol=_ATOL, equal_nan=True).all():
                return True
        elif not torch.equal(one, other):
            return True
    return False
