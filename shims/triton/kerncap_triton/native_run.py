"""A class's ``run`` as the native shim has it: as `run_hook.RunHook`, without a frame of Python's.

The look-up counts a launch down in a word that `Counters.left` is, and binds a method, in C.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Callable, Dict, Optional

from . import native_shims
from .kernels import Counters, Kernel

_TP_DESCR_GET = 54  # Source: CPython's typeslots.h, of its stable ABI


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    """PyType_Spec."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basic_size", ctypes.c_int),  # 0: an object's
        ("item_size", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


class CountersOfShim(Counters):
    """With ``left`` where the shim finds it."""

    __slots__ = ("cell",)

    def __init__(self, kernel: Kernel, *args: Any) -> None:
        self.cell = ctypes.c_longlong()
        _keep(self.cell)
        super().__init__(kernel, *args)

    @property
    def left(self) -> int:
        return self.cell.value

    @left.setter
    def left(self, left: int) -> None:
        self.cell.value = left


class Lookups:
    """The shim's side: the descriptors, and whose launches they count."""

    def __init__(self, functions: Any) -> None:
        # These keep the interpreter's lock: what they change, each look-up reads.
        self._add = _with_lock(functions.run_add, ctypes.c_int, *[ctypes.py_object] * 3)
        self._count = _with_lock(functions.run_count, None, ctypes.c_void_p, ctypes.c_void_p)
        get = ctypes.cast(functions.run_get, ctypes.c_void_p).value
        self._spec = _Spec(
            b"kerncap_triton.native_run.RunLookup", 0, 0, 0, (_Slot * 2)(_Slot(_TP_DESCR_GET, get), _Slot())
        )
        make = ctypes.pythonapi.PyType_FromSpec
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p,)
        _keep(self._spec)
        self._kind: Any = make(ctypes.addressof(self._spec))

    def descriptor(self, original: Callable[..., Any], watched: Callable[..., Any]) -> Optional[Any]:
        made = self._kind()
        return made if self._add(made, original, watched) else None

    def count(self, number: int, counters: Optional[CountersOfShim]) -> None:
        """Of the object with this `id`; None: it is gone."""
        self._count(number, ctypes.addressof(counters.cell) if counters is not None else None)

    def clear(self) -> None:
        self._count(None, None)


class Counted(Dict[int, Counters]):
    """By `id`, and the shim knows them, too."""

    def __init__(self, lookups: Lookups) -> None:
        super().__init__()
        self.lookups = lookups

    def __setitem__(self, number: int, counters: Any) -> None:
        super().__setitem__(number, counters)
        self.lookups.count(number, counters)

    def pop(self, number: int, *default: Any) -> Any:
        self.lookups.count(number, None)
        return super().pop(number, *default)

    def clear(self) -> None:
        self.lookups.clear()
        super().clear()


def find() -> Optional[Lookups]:
    """None: no shim that has this is loaded yet, or this Python is not one that it can serve."""
    is_locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    shim = native_shims.find()
    if (
        sys.implementation.name != "cpython"
        or not is_locked
        or shim is None
        or shim.functions.run_add is None
    ):
        return None
    return Lookups(shim.functions)


def _keep(found: Any) -> None:
    """For good: the shim, or Python's own type, has its address."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(found))


def _with_lock(function: Any, result: Any, *parameters: Any) -> Any:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return ctypes.PYFUNCTYPE(result, *parameters)(address)
