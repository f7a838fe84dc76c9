"""Names that ``--where`` may use of a Triton launch."""

from __future__ import annotations

from typing import Any, Dict

from . import nvtx_ranges, ranks
from .call import Call
from .contract import word


class WhereNames(Dict[str, Any]):
    """Its arguments and options, and what is looked up only if it is asked for: the grid may be costly."""

    def __init__(self, call: Call) -> None:
        super().__init__(call.options)
        self.update(call.arguments)
        self._call = call

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in ("grid", "device", "stream", "range", "rank")

    def __missing__(self, name: str) -> Any:
        if name == "grid":
            return self._call.grid_value()
        if name == "device":
            kind, index = self._call.device()
            return kind if kind == word.device_kind.cpu else f"{kind}:{index}"
        if name == "stream":
            return self._call.stream_number()
        if name == "range":
            return nvtx_ranges.text()
        if name == "rank":
            return ranks.rank()
        raise KeyError(name)
