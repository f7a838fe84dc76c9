"""The native shims of this process (CUDA, HIP): their C functions, as docs/session.md has them."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .contract import Functions, word

NOT_LAUNCHED, KEPT, DROPPED, FAILED = range(4)  # what kerncap_<vendor>_outcome answers
_VENDORS = (word.shim.cuda, word.shim.hip)  # as Triton calls its backends, too
DIGEST_DIGITS = 32
MAX_RANGES = 4096  # bytes of the names of all open ranges


class Shim:
    """A shim that was preloaded: its symbols are in the global namespace.

    A choice belongs to the calling thread, so what is chosen must be launched on it.
    """

    def __init__(self, library: Any, vendor: str = word.shim.cuda) -> None:
        self.name = vendor.upper()
        self.functions = Functions(library, vendor)

    @property
    def is_live(self) -> bool:
        return int(self.functions.live()) == 1

    @property
    def takes_graphs(self) -> bool:
        """Whether it can take a kernel later, when the graph that captures this launch is launched."""
        return self.functions.choose_in_graph is not None

    @property
    def is_disarmed(self) -> bool:
        """Whether it has captured the one launch that was asked for."""
        return self.functions.disarmed is not None and int(self.functions.disarmed()) == 1

    def count_launch(self, starts: bool, ends: bool, occurrence: int) -> int:
        """A launch of the hook's, in a session with a range of launches: see `launch_span`."""
        return int(self.functions.count_launch(starts, ends, occurrence))

    @property
    def range_is_counted(self) -> bool:
        return int(self.functions.range_counted()) == 1

    def own(self, kernel_name: str) -> None:
        """Launches of this kernel are the hook's to choose: the shim takes none on its own account."""
        self.functions.own(kernel_name.encode("utf-8", "replace"))

    def choose(self, kernel_name: str, token: int, annotation: str) -> None:
        """The next launch of it on this thread is captured."""
        self.functions.choose(kernel_name.encode("utf-8", "replace"), token, annotation.encode())

    def choose_in_graph(self, kernel_name: str, token: int, annotation: str) -> None:
        """The next graph launch that holds a node of it captures that node."""
        self.functions.choose_in_graph(kernel_name.encode("utf-8", "replace"), token, annotation.encode())

    def choose_types(self, token: int, types: str) -> None:
        """Of the parameters of a chosen launch, as compiled: ``*fp32,i32``."""
        if self.functions.choose_types is not None:
            self.functions.choose_types(token, types.encode())

    @property
    def takes_config(self) -> bool:
        """Whether it measures for `kerncap list`, and wants to know what the hook knows of a launch."""
        return self.functions.config is not None

    def config(self, text: str) -> None:
        """Of this thread's next launch of a kernel that is the hook's own."""
        self.functions.config(text.encode("utf-8", "replace"))

    def ranges(self) -> Optional[List[str]]:
        """This thread's NVTX ranges, outermost first; None if NVTX does not tell the shim."""
        if self.functions.range is None:
            return None
        buffer = ctypes.create_string_buffer(MAX_RANGES)
        length = int(self.functions.range(buffer, MAX_RANGES))
        if length < 0:
            return None
        return buffer.raw[: min(length, MAX_RANGES)].decode("utf-8", "replace").splitlines()

    def digests(self, device: int, ranges: Sequence[Tuple[int, int]]) -> Optional[List[str]]:
        """Of memory of a device by address and size, in hex; None if the shim can't look into all of it."""
        if self.functions.digests is None:
            return None
        pairs = (ctypes.c_uint64 * (2 * len(ranges)))(*(number for each in ranges for number in each))
        text = ctypes.create_string_buffer(DIGEST_DIGITS * len(ranges))
        if not self.functions.digests(device, pairs, len(ranges), text):
            return None
        digits = text.raw.decode("ascii")
        return [digits[at : at + DIGEST_DIGITS] for at in range(0, len(digits), DIGEST_DIGITS)]

    def outcome(self, token: int) -> int:
        """What became of a choice. One that met no launch is forgotten.

        The reason of a failure stands in a record of the shim's, so it is not asked for.
        """
        return int(self.functions.outcome(token, None, 0))


_shims: Dict[str, Shim] = {}
_globals: List[Any] = []  # the process's global symbols: to open them costs more than to look into them


def find(vendor: str = word.shim.cuda) -> Optional[Shim]:
    """The shim of this process, live or not yet; None if none is loaded.

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
    if mode == word.mode.interpreter:
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
