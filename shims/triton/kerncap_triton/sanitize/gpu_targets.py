"""GPU targets by name, and the driver that Triton gets on a machine with no GPU."""

from __future__ import annotations

import contextlib
import sys
import threading
from typing import Any, Callable, Dict, Iterator, Optional

from . import gpu_figures, stand_in_gpu

_lock = threading.RLock()


def parse(name: str) -> Any:
    """Triton's GPUTarget for ``cuda:90`` or ``hip:gfx942``. ValueError for any other form."""
    from triton.backends.compiler import GPUTarget

    backend, colon, arch = name.partition(":")
    if backend == "cuda" and arch.isdecimal():
        return GPUTarget("cuda", int(arch), 32)
    if backend == "hip" and arch.startswith("gfx"):
        return GPUTarget("hip", arch, 32 if arch.startswith(("gfx10", "gfx11", "gfx12")) else 64)
    raise ValueError(f"{name!r} is not a target; expected one such as cuda:90 or hip:gfx942")


def name_of(target: Any) -> str:
    return f"{target.backend}:{target.arch}"


def current() -> str:
    """The target at hand; ``cuda:90`` if there is no GPU."""
    try:
        return name_of(_config().active.get_current_target())
    except Exception:
        return gpu_figures.DEFAULT


def has_gpu() -> bool:
    """Whether Triton has a driver of its own here."""
    try:
        return not isinstance(_config().active, StandInDriver)
    except Exception:
        return False


@contextlib.contextmanager
def as_current(target: Any) -> Iterator[None]:
    """While a kernel is compiled: what the front end asks of the driver in `tl.target_info` is ``target``."""
    with _lock:
        config = _config()
        try:
            is_current = config.active.get_current_target() == target
        except Exception:
            is_current = False
        if is_current:
            yield
            return
        before = config._active
        config.set_active(StandInDriver(target))
        try:
            yield
        finally:
            config._active = before


def stand_in(target: Any, launch_compiled: Callable[..., Any]) -> None:
    """From now on Triton's driver is one for ``target``, whatever GPU is here; else as `provide`."""
    _config().set_active(StandInDriver(target, launch_compiled))


def _config() -> Any:
    from triton.runtime import driver

    return driver


def provide(
    launch_compiled: Callable[..., Any], module: Any = None, target_name: str = gpu_figures.DEFAULT
) -> None:
    """From now on Triton finds a driver if it had none. ``launch_compiled(source, grid, arguments)``
    gets the launches of kernels that were compiled ahead of time."""
    module = module if module is not None else sys.modules["triton.runtime.driver"]
    create = module._create_driver
    if getattr(create, "kerncap", False):
        return

    def create_or_stand_in() -> Any:
        try:
            if not stand_in_gpu.is_installed():  # Triton asks torch.cuda
                return create()
        except RuntimeError:  # "0 active drivers"
            pass
        return StandInDriver(parse(target_name), launch_compiled)

    create_or_stand_in.kerncap = True  # type: ignore[attr-defined]
    module._create_driver = create_or_stand_in


class StandInDriver:
    """Answers what scripts and Triton's front end ask of a driver; tensors lie on the CPU."""

    def __init__(self, target: Any, launch_compiled: Optional[Callable[..., Any]] = None) -> None:
        self._target = target
        self.utils = _Utils(target)
        self.launcher_cls = _launcher_class(launch_compiled)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: Optional[int] = None) -> int:
        return 0

    def get_device_capability(self, device: Optional[int] = None) -> Any:
        return gpu_figures.capability(self._target)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        return _CpuInterface()

    def map_python_to_cpp_type(self, kind: str) -> str:
        return "void*" if kind.startswith("*") else kind

    def get_benchmarker(self) -> Any:
        def run_once(kernel_call: Callable[[], Any], *, quantiles: Any = None, **_: Any) -> Any:
            kernel_call()
            return [0.0] * len(quantiles) if quantiles is not None else 0.0

        return run_once

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.zeros(1, dtype=torch.int32)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        return args


class _Utils:
    def __init__(self, target: Any) -> None:
        self._target = target

    def get_device_properties(self, device: Any = None) -> Dict[str, Any]:
        return gpu_figures.for_triton(self._target)

    def load_binary(self, name: str, binary: Any, shared: int, device: Any) -> Any:
        return None, None, 32, 0, 1024  # module, function, registers, spills, threads

    def unload_module(self, module: Any) -> None:
        pass

    def set_printf_fifo_size(self, size_bytes: int) -> None:
        pass


class _CpuInterface:
    """What `triton.testing.do_bench` uses of ``torch.cuda``."""

    class Event:
        def __init__(self, enable_timing: bool = False, **_: Any) -> None:
            self._time_s = 0.0

        def record(self, *_: Any) -> None:
            import time

            self._time_s = time.perf_counter()

        def elapsed_time(self, end: Any) -> float:
            return max((end._time_s - self._time_s) * 1e3, 1e-3)

        def synchronize(self) -> None:
            pass

    def synchronize(self, *_: Any) -> None:
        pass

    def current_device(self) -> int:
        return 0


def _launcher_class(launch_compiled: Optional[Callable[..., Any]]) -> Any:
    class Launcher:
        """In place of a backend's launcher: the arguments are its."""

        def __init__(self, source: Any, metadata: Any) -> None:
            self._source = source

        def __call__(self, x: int, y: int, z: int, *rest: Any) -> None:
            # stream, function, packed metadata, launch metadata, enter hook, exit hook, then the arguments
            if launch_compiled is None:
                raise RuntimeError("there is no GPU here to launch a compiled kernel on")
            launch_compiled(self._source, (x, y, z), rest[6:])

    return Launcher
