"""What one launch of a compiled Triton kernel passes: the parameters that its image takes, and how it runs.

Source: triton/backends/nvidia/driver.py of Triton 3.6 and 3.9.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..common.failures import Refused
from ..cuda import driver as cu
from ..job import Job
from . import packed_parameters, tma

ALIGNMENT = 128  # of parameters: a TMA map among them has to be aligned to 64
_SCRATCH = ("global_scratch", "profile_scratch")  # pointers behind the signature, in this order


def metadata(job: Job, image: str) -> dict[str, Any]:
    """What the compiler said about the captured kernel: the saved metadata stage over the manifest's facts.

    Raises Refused if it does not say what a launch of ``image`` needs.
    """
    found: dict[str, Any] = {}
    for name, value in (job["compiled"] or {}).items():
        if value["kind"] in ("int", "bool", "str"):
            found[name] = int(value["value"]) if value["kind"] == "int" else value["value"]
    path = job["code"].get("metadata")
    if path is not None:
        found.update(json.loads((Path(job["folder"]) / path).read_text()))
    if "num_warps" not in found:
        options = job["launch"]["options"].get("num_warps")
        if options is None or options["kind"] != "int":
            raise Refused(f"the reproducer does not say how many warps {image} was compiled for")
        found["num_warps"] = int(options["value"])
    return found


@dataclass(frozen=True)
class Parameters:
    """The arguments of ``job`` as parameters of an image that its compiler says ``said`` of.

    ``build`` makes the object of an encoded value, with the argument's name; ``zeros`` gives the address of
    that many zeroed bytes on the device.
    """

    job: Job
    said: dict[str, Any]
    driver: cu.Driver | None  # that makes TMA maps; an AMD GPU has none
    build: Callable[[dict[str, Any], str], Any]
    zeros: Callable[[int], int]

    def fitting(self, sizes: Sequence[int], file: str) -> list[bytes]:
        """The bytes of each parameter of an image, which takes ``sizes``. Raises Refused for others."""
        problem = ""
        # A descriptor without a TMA map has one flag more since Triton 3.7: what fits the image is right.
        for with_rounding in (False, True):
            packed = self._packed(with_rounding)
            hidden = len(sizes) - len(packed)
            lengths = [len(p) for p in packed]
            if (
                0 <= hidden <= len(_SCRATCH)
                and list(sizes[: len(packed)]) == lengths
                and all(size == 8 for size in sizes[len(packed) :])
            ):
                return [*packed, *self._scratch(hidden)]
            takes = f"the image takes parameters of {list(sizes)} bytes"
            problem = problem or f"{takes}, the launch has {lengths}"
        raise Refused(f"{file} and the captured signature do not fit: {problem} ({self._signature()})")

    def _signature(self) -> str:
        """The captured arguments that became parameters."""
        named = [
            (a["name"], a["signature"] or packed_parameters.guess(a["value"], a["role"]))
            for a in self.job["arguments"]
        ]
        return ", ".join(f"{name}: {kind}" for name, kind in named if kind != "constexpr")

    def _packed(self, with_rounding: bool) -> list[bytes]:
        metas = list(self.said.get("tensordesc_meta") or [])

        def descriptor(signature: str, value: Any, name: str) -> list[bytes]:
            packed_parameters.rank(signature)
            meta = metas.pop(0) if metas else None
            if meta is None or self.driver is None:
                return packed_parameters.expand_descriptor(value, with_rounding)
            try:
                return [tma.encode(self.driver, value, meta, name), *packed_parameters.tail(value)]
            except cu.CudaError as error:
                raise Refused(f"argument {name}: no TMA map could be made: {error}") from error

        packed: list[bytes] = []
        for argument in self.job["arguments"]:
            signature = argument["signature"] or packed_parameters.guess(argument["value"], argument["role"])
            if signature == "constexpr":
                continue  # compiled in, whatever it was
            value = self.build(argument["value"], argument["name"])
            packed += packed_parameters.flatten(signature, value, argument["name"], descriptor)
        return packed

    def _scratch(self, hidden: int) -> list[bytes]:
        x, y, z = self.job["launch"]["grid"]
        programs = x * y * z * ctas(self.said)
        sizes = [int(self.said.get(f"{name}_size") or 0) * programs for name in _SCRATCH[:hidden]]
        return [packed_parameters.pack("*", self.zeros(size) if size else None, "") for size in sizes]


def ctas(said: dict[str, Any]) -> int:
    """Blocks of a program."""
    return int(said.get("num_ctas") or 1)


def warps(said: dict[str, Any]) -> int:
    return int(said.get("num_warps") or 4)


def threads(said: dict[str, Any]) -> int:
    """Of a block."""
    return warps(said) * int(said.get("warp_size") or 32)
