"""``torch.cuda`` on a machine with no GPU: answers for the target, and ``device="cuda"`` means the CPU.

Libraries ask for the device's name, capability and processors when they are imported, and make their tensors
there. Without an answer none of their kernels is ever launched. A program that hides its GPUs
(``CUDA_VISIBLE_DEVICES=""``) means to run on the CPU, and gets no stand-in.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import types
from typing import Any, Callable, Dict, Optional

from . import gpu_figures, wrapped_torch

_NODES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
_installed: "list[_Answers]" = []
_HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def is_wanted(torch: Any) -> bool:
    """Whether no GPU is here and the program did not say that it wants none. Asks no driver."""
    if any(os.environ.get(name) in ("", "-1") for name in _HIDING):
        return False
    built = torch.version.cuda is not None or getattr(torch.version, "hip", None) is not None
    return not built or not any(map(os.path.exists, _NODES))


def install(torch: Any, target_name: str, parse: Callable[[str], Any], note: Callable[[str], None]) -> None:
    """``parse``: `gpu_targets.parse`. ``note`` is called once, by the first question that is answered."""
    answer = _Answers(torch, target_name, parse, note)
    cuda = torch.cuda
    for module, stand_in in ((cuda, _Cuda), (getattr(torch, "accelerator", None), _Accelerator)):
        for name in dir(stand_in):
            method = getattr(stand_in, name)
            if not name.startswith("__") and method is not None and hasattr(module, name):
                setattr(module, name, _answered(getattr(module, name), method, answer))
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):
        torch._C._cuda_getCurrentRawStream = lambda device=None: 0
    cuda.device = cuda._DeviceGuard = cuda.device_of = _Nothing
    cuda.Stream, cuda.Event, _Stream.device = _Stream, _Event, answer.gpu
    cuda.default_generators = (torch.default_generator,)
    torch._C._dynamo.guards._empty_strided_cuda = lambda size, stride, dtype: torch.empty_strided(
        size, stride, dtype=dtype
    )
    if target_name.startswith("hip"):
        torch.version.hip = torch.version.hip or "7.0"
    else:
        torch.version.cuda = torch.version.cuda or "13.0"
    torch.Generator = _generator(torch.Generator)
    _wrap_devices(torch, answer)
    _installed.append(answer)


def is_installed() -> bool:
    return bool(_installed)


class _Answers:
    def __init__(
        self, torch: Any, target_name: str, parse: Callable[[str], Any], note: Callable[[str], None]
    ) -> None:
        self.cpu, self.gpu = torch.device("cpu"), torch.device("cuda")
        self.generator = torch.default_generator
        self._device = torch.device
        self._name = target_name
        self._parse = parse
        self._note: Optional[Callable[[str], None]] = note

    def target(self) -> Any:
        return self._parse(self._name)

    def figures(self) -> types.SimpleNamespace:
        self.used()
        return types.SimpleNamespace(**gpu_figures.for_torch(self.target()))

    def used(self) -> None:
        note, self._note = self._note, None
        if note is not None:
            gpu = gpu_figures.of(self.target()).name
            note(
                f"no GPU here: torch.cuda answered for one {gpu} ({self._name}), "
                'device="cuda" meant the CPU; CUDA_VISIBLE_DEVICES="" turns that off'
            )

    def cpu_for(self, device: Any) -> Any:
        """The CPU for a GPU, in any way of naming one; anything else as it is."""
        if isinstance(device, str):
            is_gpu = device.partition(":")[0] == "cuda"
        elif isinstance(device, int):
            is_gpu = not isinstance(device, bool)
        else:
            is_gpu = isinstance(device, self._device) and device.type == "cuda"
        if not is_gpu:
            return device
        self.used()
        return self.cpu


class _Cuda:
    """Functions of ``torch.cuda`` in the stand-in's place; ``self`` is an `_Answers`."""

    def is_available(self: Any) -> bool:
        self.used()
        return True

    def device_count(self: Any) -> int:
        self.used()
        return 1

    def current_device(self: Any) -> int:
        return 0

    def get_device_name(self: Any, device: Any = None) -> str:
        return str(self.figures().name)

    def get_device_capability(self: Any, device: Any = None) -> Any:
        figures = self.figures()
        return figures.major, figures.minor

    def get_device_properties(self: Any, device: Any = None) -> Any:
        return self.figures()

    def get_arch_list(self: Any) -> Any:
        target = self.target()
        return [f"sm_{target.arch}" if target.backend == "cuda" else target.arch]

    def mem_get_info(self: Any, device: Any = None) -> Any:
        return (self.figures().total_memory,) * 2

    def is_bf16_supported(self: Any, including_emulation: bool = True) -> bool:
        return True

    def is_initialized(self: Any) -> bool:
        return True

    def can_device_access_peer(self: Any, device: Any, peer: Any) -> bool:
        return False

    def is_current_stream_capturing(self: Any) -> bool:
        return False

    def current_stream(self: Any, device: Any = None) -> Any:
        return _Stream()

    default_stream = current_stream

    def stream(self: Any, stream: Any) -> Any:
        return contextlib.nullcontext()

    def memory_allocated(self: Any, device: Any = None) -> int:
        return 0

    max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated

    def get_rng_state(self: Any, device: Any = None) -> Any:
        return self.generator.get_state()

    def get_rng_state_all(self: Any) -> Any:
        return [self.generator.get_state()]

    def synchronize(self: Any, *_: Any, **__: Any) -> None:
        pass

    init = _lazy_init = set_device = empty_cache = ipc_collect = synchronize
    reset_peak_memory_stats = reset_max_memory_allocated = synchronize
    manual_seed = manual_seed_all = set_rng_state = set_rng_state_all = synchronize


class _Accelerator(_Cuda):
    """The same of ``torch.accelerator``."""

    def current_accelerator(self: Any, check_available: bool = False) -> Any:
        self.used()
        return self.gpu

    def current_device_index(self: Any) -> int:
        return 0

    current_device_idx = current_device_index
    set_device_index = set_device_idx = _Cuda.synchronize
    get_memory_info = _Cuda.mem_get_info
    get_device_capability = None  # type: ignore[assignment]  # a dictionary here: as on this machine


def _answered(original: Any, method: Any, answer: _Answers) -> Any:
    """A function for each name: Dynamo has one rule for each."""

    @functools.wraps(original)
    def answered(*args: Any, **kwargs: Any) -> Any:
        return method(answer, *args, **kwargs)

    return answered


class _Nothing:
    """In place of ``torch.cuda.device`` and its relatives: there is one device."""

    def __init__(self, device: Any = None) -> None:
        self.idx, self.prev_idx = 0, 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: Any) -> None:
        pass


class _Stream(_Nothing):
    """The CPU does one thing after the other."""

    cuda_stream = stream_id = device_index = device_type = 0
    device: Any = None  # for Dynamo

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def synchronize(self) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Any:
        event = event if event is not None else _Event()
        event.record()
        return event


class _Event:
    """Times of the host's clock, so that a benchmark in a program ends."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self._time_s = 0.0

    def record(self, *_: Any) -> None:
        self._time_s = time.perf_counter()

    def elapsed_time(self, end: Any) -> float:
        return float(max((end._time_s - self._time_s) * 1e3, 1e-3))

    def synchronize(self) -> None:
        pass

    def wait(self, *_: Any) -> None:
        pass

    def query(self) -> bool:
        return True


def _generator(original: Any) -> Any:
    """``torch.Generator(device="cuda")`` is one of the CPU."""

    class Known(type(original)):  # type: ignore[misc]
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, original)

    class Generator(original, metaclass=Known):
        def __new__(cls, device: Any = "cpu") -> Any:
            return original("cpu" if str(device).partition(":")[0] == "cuda" else device)

    return Generator


def _wrap_devices(torch: Any, answer: _Answers) -> None:
    """Each function of torch that takes a device. No mode sees them all: it is off inside `backward`."""
    from torch.utils import _device

    def elsewhere(original: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        if kwargs.get("device") is not None:
            kwargs["device"] = answer.cpu_for(kwargs["device"])
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        return original(*args, **kwargs)

    def to(original: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        return elsewhere(original, (args[0], *map(answer.cpu_for, args[1:])), kwargs)

    def loaded(original: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        kwargs["map_location"] = answer.cpu_for(kwargs.get("map_location") or answer.cpu)
        return original(*args, **kwargs)

    constructors = _device._device_constructors()
    known = [name for name, value in vars(torch).items() if callable(value) and _is_in(value, constructors)]
    for name in [*known, *(name for name in vars(torch) if name.endswith("_like"))]:
        wrapped_torch.wrap(torch, name, elsewhere)
    for name in [name for name in dir(torch.Tensor) if name.startswith("new_")]:
        wrapped_torch.wrap(torch.Tensor, name, elsewhere)
    wrapped_torch.wrap(torch.Tensor, "to", to)
    wrapped_torch.wrap(torch, "load", loaded)
    for name in ("cuda", "pin_memory"):
        wrapped_torch.wrap(torch.Tensor, name, lambda original, args, kwargs: args[0])
    torch.Tensor.is_cuda = property(lambda tensor: tensor.device.type == "cpu")

    enter = _device.DeviceContext.__init__

    def context(self: Any, device: Any) -> None:
        enter(self, answer.cpu_for(device))

    _device.DeviceContext.__init__ = context


def _is_in(value: Any, known: Any) -> bool:
    try:
        return value in known
    except TypeError:  # not hashable
        return False
