"""One launch as the hook sees it, before anything is copied: arguments, grid, device, names."""

from __future__ import annotations

import inspect
import json
import os
import sys
import types
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import encoded_values, torch_device
from .contract import key, word
from .kernels import Kernel

MAX_FRAMES = 64
MAX_CONFIG = 500  # characters
MAX_CONFIGS = 10_000
# Where Triton, and Inductor for it, take a launch from the target's line to the wrapped `run`.
_TRITON = "triton.runtime."
_INDUCTOR = "torch._inductor.runtime.triton_heuristics"
_HERE = os.path.dirname(os.path.abspath(__file__))


class Call:
    """A bound launch. ``grid`` is the target's own object: a tuple, or a callable.

    A callable grid is evaluated here once more with the bound arguments as the target passed them
    (the interpreter hands it converted ones); the target's own evaluation is left to Triton, so a
    chosen launch's grid callable runs twice.
    """

    def __init__(self, kernel: Kernel, arguments: Dict[str, Any], options: Dict[str, Any], grid: Any) -> None:
        self.kernel = kernel
        self.arguments = arguments
        self.options = options
        self.grid = grid
        self.stream: Optional[int] = None
        self.signature: Dict[str, str] = {}  # known before the launch under Inductor only
        self._evaluated: Optional[Tuple[int, int, int]] = None

    def grid_value(self) -> Tuple[int, int, int]:
        """The grid as three numbers. Raises what the callable raises."""
        if self._evaluated is None:
            self._evaluated = evaluate_grid(self.grid, self.arguments)
        return self._evaluated

    def is_constexpr(self, name: str) -> bool:
        return name in self.kernel.constexprs

    def config_key(self) -> str:
        """Constexprs and options as text: what tells one configuration of a kernel from another."""
        constants = {
            n: encoded_values.encode(v, n) for n, v in self.arguments.items() if self.is_constexpr(n)
        }
        options = {n: encoded_values.encode(v, n) for n, v in self.options.items()}
        return json.dumps([constants, options], sort_keys=True)

    def configuration(self, known: Dict[Any, Tuple[str, str]]) -> Tuple[str, str]:
        """`config_key`, and the same for people: ``BLOCK=64 num_warps=4``. ``known`` keeps what was made."""
        constants = [(n, _bare(v)) for n, v in self.arguments.items() if self.is_constexpr(n)]
        given = [*constants, *((n, _bare(v)) for n, v in self.options.items())]
        try:
            key: Any = tuple((name, type(value), value) for name, value in given)
            if key in known:
                return known[key]
        except TypeError:
            key = None  # a list, for example
        made = self.config_key(), " ".join(f"{name}={_shown(value)}" for name, value in given)
        if len(made[1]) > MAX_CONFIG:  # the mark: what was cut is no value
            made = made[0], made[1][: MAX_CONFIG - 1] + "…"
        if key is not None and len(known) < MAX_CONFIGS:
            known[key] = made
        return made

    def device(self) -> Tuple[str, int]:
        """Where it runs: ``("cpu", 0)`` under the interpreter, else the current device, as torch calls it."""
        if self.kernel.mode == word.mode.interpreter:
            return word.device_kind.cpu, 0
        try:
            return word.device_kind.cuda, int(torch_device.torch_module().cuda.current_device())
        except (AssertionError, KeyError, RuntimeError):
            # A torch without devices, or none: the target brought memory of its own.
            driver = sys.modules["triton.runtime.driver"].driver.active
            return str(driver.get_current_target().backend), int(driver.get_current_device())

    def stream_number(self) -> int:
        """The launch's stream, or torch's current one, or else 0."""
        if self.stream is None and torch_device.is_live():
            return int(torch_device.torch_module().cuda.current_stream().cuda_stream)
        return self.stream or 0


def _bare(value: Any) -> Any:
    return value.value if type(value).__name__ == "constexpr" and hasattr(value, "value") else value


def _shown(value: Any) -> str:
    if type(value) is str:
        return repr(encoded_values.clean(value))  # told from a function's name, and where it ends
    if isinstance(value, (bool, int, float, str, type(None))):
        return str(value)
    name = getattr(value, "__name__", None) or getattr(value, "name", None)
    return name if isinstance(name, str) else encoded_values.clean(repr(value))[:100]


def evaluate_grid(
    grid: Callable[[Dict[str, Any]], Any] | Sequence[int] | int, arguments: Dict[str, Any]
) -> Tuple[int, int, int]:
    value = grid(dict(arguments)) if callable(grid) else grid
    if isinstance(value, int):
        value = (value,)
    numbers = [int(n) for n in value]
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"a grid of {len(numbers)} dimensions")
    return tuple((numbers + [1, 1])[:3])  # type: ignore[return-value]


def callable_source(function: Any) -> Optional[Dict[str, Any]]:
    """GridSource: a callable's text and the names that it reads, as far as they can be stored."""
    if function is None or not callable(function):
        return None
    function = getattr(function, "func", function)  # functools.partial
    if not isinstance(function, types.FunctionType):
        function = getattr(function, "__func__", None) or vars(type(function)).get("__call__")
    if not isinstance(function, types.FunctionType):
        return None
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        return None
    bindings: Dict[str, Any] = {}
    unresolved: List[str] = []
    for name, value in _free_names(function):
        if isinstance(value, types.ModuleType):
            continue
        encoded = encoded_values.encode(value, name)
        if encoded["kind"] == "opaque":
            unresolved.append(name)
        else:
            bindings[name] = encoded
    return {
        key.source: encoded_values.clean(source.strip()),
        key.bindings: bindings,
        key.unresolved: unresolved,
    }


def _free_names(function: types.FunctionType) -> List[Tuple[str, Any]]:
    found = []
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:
            continue  # a cell that is not filled yet
    parameters = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    found.extend(zip(parameters[len(parameters) - len(defaults) :], defaults))  # lambda META, n=n: ...
    names = set(function.__code__.co_names)
    found.extend((name, function.__globals__[name]) for name in sorted(names) if name in function.__globals__)
    return found


def python_stack() -> List[Tuple[str, int, str]]:
    """The target's frames, the line that launches last; what Triton and we put on top is left out."""
    frames: List[Tuple[str, int, str]] = []
    frame: Optional[types.FrameType] = sys._getframe(1)
    while frame is not None and frame.f_back is not None and _launches(frame):
        frame = frame.f_back
    while frame is not None and len(frames) < MAX_FRAMES:
        code = frame.f_code
        if not code.co_filename.startswith(_HERE):
            frames.append((encoded_values.clean(code.co_filename)[:4096], frame.f_lineno or 0, code.co_name))
        frame = frame.f_back
    return frames[::-1]


def _launches(frame: types.FrameType) -> bool:
    name = str(frame.f_globals.get("__name__", ""))
    return frame.f_code.co_filename.startswith(_HERE) or name == _INDUCTOR or name.startswith(_TRITON)
