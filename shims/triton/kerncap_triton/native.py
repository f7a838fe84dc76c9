"""The native shims of this process (CUDA, HIP): their C functions, as docs/session.md has them."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, List, Optional

NOT_LAUNCHED, KEPT, DROPPED, FAILED = range(4)  # what kerncap_<vendor>_outcome answers
_VENDORS = ("cuda", "hip")  # as Triton calls its backends, too
MAX_RANGES = 4096  # bytes of the names of all open ranges


class Shim:
    """Prototypes over the symbols that a preloaded shim has put into the global namespace.

    A choice belongs to the calling thread, so what is chosen must be launched on it.
    """

    def __init__(self, library: Any, vendor: str = "cuda") -> None:
        text, token = ctypes.c_char_p, ctypes.c_uint64
        self.name = vendor.upper()
        library = _Prefixed(library, f"kerncap_{vendor}_")
        self._live = _function(library, "live", ctypes.c_int)
        self._own = _function(library, "own", None, text)
        self._choose = _function(library, "choose", None, text, token, text)
        self._outcome = _function(library, "outcome", ctypes.c_int, token, text, ctypes.c_ulong)
        self._choose_in_graph = _optional(library, "choose_in_graph", None, text, token, text)
        self._choose_types = _optional(library, "choose_types", None, token, text)
        self._disarmed = _optional(library, "disarmed", ctypes.c_int)
        self._config = _optional(library, "config", None, text)
        self._range = _optional(library, "range", ctypes.c_long, ctypes.c_char_p, ctypes.c_ulong)
        has_mirror = library.has("mirror_wait")
        self.mirror = Mirror(library) if has_mirror else None

    @property
    def is_live(self) -> bool:
        return int(self._live()) == 1

    @property
    def takes_graphs(self) -> bool:
        """Whether it can take a kernel later, when the graph that captures this launch is launched."""
        return self._choose_in_graph is not None

    @property
    def is_disarmed(self) -> bool:
        """Whether it has captured the one launch that was asked for."""
        return self._disarmed is not None and int(self._disarmed()) == 1

    def own(self, kernel_name: str) -> None:
        """Launches of this kernel are the hook's to choose: the shim takes none on its own account."""
        self._own(kernel_name.encode("utf-8", "replace"))

    def choose(self, kernel_name: str, token: int, annotation: str) -> None:
        """The next launch of it on this thread is captured."""
        self._choose(kernel_name.encode("utf-8", "replace"), token, annotation.encode())

    def choose_in_graph(self, kernel_name: str, token: int, annotation: str) -> None:
        """The next graph launch that holds a node of it captures that node."""
        self._choose_in_graph(kernel_name.encode("utf-8", "replace"), token, annotation.encode())

    def choose_types(self, token: int, types: str) -> None:
        """Of the parameters of a chosen launch, as compiled: ``*fp32,i32``."""
        if self._choose_types is not None:
            self._choose_types(token, types.encode())

    @property
    def takes_config(self) -> bool:
        """Whether it measures for `kerncap list`, and wants to know what the hook knows of a launch."""
        return self._config is not None

    def config(self, text: str) -> None:
        """Of this thread's next launch of a kernel that is the hook's own."""
        self._config(text.encode("utf-8", "replace"))

    def ranges(self) -> Optional[List[str]]:
        """This thread's NVTX ranges, outermost first; None where NVTX does not tell the shim."""
        if self._range is None:
            return None
        buffer = ctypes.create_string_buffer(MAX_RANGES)
        length = int(self._range(buffer, MAX_RANGES))
        if length < 0:
            return None
        return buffer.raw[: min(length, MAX_RANGES)].decode("utf-8", "replace").splitlines()

    def outcome(self, token: int) -> int:
        """What became of a choice. One that met no launch is forgotten.

        The reason of a failure stands in a record of the shim's, so it is not asked for.
        """
        return int(self._outcome(token, None, 0))


class Mirror:
    """The shim's questions after torch's caching allocator; ``mirror.py`` says why they go this way.

    Triples are (base, size, in use: 0 or 1), by address; a count of -1 stands for "can't be said".
    """

    def __init__(self, library: "_Prefixed") -> None:
        number, triples = ctypes.c_uint64, ctypes.c_void_p
        # A CDLL's functions run without the GIL.
        self.wait = _function(library, "mirror_wait", number)
        self.answer = _function(library, "mirror_answer", None, number, triples, ctypes.c_long)
        self.offer = _optional(library, "mirror_offer", None, triples, ctypes.c_long)


class _Prefixed:
    """A library's functions by what follows the prefix of one shim's."""

    def __init__(self, library: Any, prefix: str) -> None:
        self._library = library
        self._prefix = prefix

    def has(self, name: str) -> bool:
        return hasattr(self._library, self._prefix + name)

    def get(self, name: str) -> Any:
        return getattr(self._library, self._prefix + name)


_shims: Dict[str, Shim] = {}
_globals: List[Any] = []  # the process's global symbols: to open them costs more than to look into them


def find(vendor: str = "cuda") -> Optional[Shim]:
    """The shim of this process, live or not yet; None where none is loaded.

    Only a find is remembered: the driver may load a shim itself, when the target first uses it.
    """
    if vendor not in _shims:
        if not _globals:
            _globals.append(ctypes.CDLL(None))
        library = _globals[0]
        if hasattr(library, f"kerncap_{vendor}_live"):
            _shims[vendor] = Shim(library, vendor)
    return _shims.get(vendor)


def own(kernel_name: str) -> None:
    """Tell the shims that there are that this kernel's launches go through the hook."""
    for vendor in _VENDORS:
        shim = find(vendor)
        if shim is not None:
            shim.own(kernel_name)


def serving(mode: str) -> Optional[Shim]:
    """The live shim of the device that a launch of this mode goes to; else None."""
    if mode == "interpreter":
        return None
    for vendor in _VENDORS:  # the first that is live is mostly it: to look for one that is not there costs
        shim = find(vendor)
        if shim is not None and shim.is_live and _triton_backend() == vendor:
            return shim
    return None


def _triton_backend() -> str:
    """The active driver's backend. Makes that driver active, as the launch itself is about to."""
    driver = getattr(sys.modules.get("triton.runtime.driver"), "driver", None)
    return str(driver.active.get_current_target().backend) if driver is not None else ""


def _function(library: _Prefixed, name: str, result: Any, *arguments: Any) -> Any:
    function = library.get(name)
    function.restype, function.argtypes = result, arguments
    return function


def _optional(library: _Prefixed, name: str, result: Any, *arguments: Any) -> Any:
    """A function that shims of another version, or of another vendor, may lack."""
    return _function(library, name, result, *arguments) if library.has(name) else None
