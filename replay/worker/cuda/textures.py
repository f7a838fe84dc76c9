"""Textures and surfaces of a launch: made again under the numbers that the application had.

A number can't be told from any other integer, so none is changed in parameters or memory: an object has the
captured number, or the launch is refused. Each array's state is kept in plain memory (`Placement` gives it a
place), which is copied into the array before a launch and out of it afterwards.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..common.failures import Refused
from ..job import JobArray, JobTexture, PlacedRegion
from . import driver as cu

_RESOURCES = {"array": "ARRAY", "mipmap": "MIPMAPPED_ARRAY", "linear": "LINEAR", "pitch2d": "PITCH2D"}
_SHORT = {"texture": "Tex", "surface": "Surf"}
_MOST_SPARE = 20_000  # objects that are made to reach a number


class _Array:
    """An array that was made again, and the copies between its levels and the memory that stands for it."""

    def __init__(self, driver: cu.Driver, region: PlacedRegion, shape: JobArray) -> None:
        self._driver = driver
        wanted = driver.api.CUDA_ARRAY3D_DESCRIPTOR()
        wanted.Width, wanted.Height, wanted.Depth = shape["width"], shape["height"], shape["depth"]
        wanted.Format = _known(driver.api.CUarray_format, shape["format"])
        wanted.NumChannels, wanted.Flags = shape["channels"], shape["flags"]
        self.levels: list[Any] = []
        if shape["levels"] > 1:
            self.handle = driver.call("cuMipmappedArrayCreate", wanted, shape["levels"])
            for number in range(shape["levels"]):
                self.levels.append(driver.call("cuMipmappedArrayGetLevel", self.handle, number))
        else:
            self.handle = driver.call("cuArray3DCreate", wanted)
            self.levels.append(self.handle)
        self._copies = self._plan(region)

    def copy(self, stream: Any, to_memory: bool) -> None:
        """Queue the copies in one direction."""
        for inward, outward in self._copies:
            self._driver.call("cuMemcpy3DAsync", outward if to_memory else inward, stream)

    def _plan(self, region: PlacedRegion) -> list[tuple[Any, Any]]:
        copies, at, count = [], region["base"], len(self.levels)
        found = [self._driver.call("cuArray3DGetDescriptor", level) for level in self.levels]
        elements = sum(d.Width * max(1, d.Height) * max(1, d.Depth) for d in found)
        if region["size"] % elements:
            raise Refused(f"an array of {count} levels has {elements:,} elements in {region['size']:,} bytes")
        for level, shape in zip(self.levels, found, strict=True):
            size = (
                shape.Width * (region["size"] // elements), max(1, shape.Height), max(1, shape.Depth),
            )  # fmt: skip
            copies.append((self._copy(at, level, size, True), self._copy(at, level, size, False)))
            at += size[0] * size[1] * size[2]
        return copies

    def _copy(self, address: int, array: Any, size: tuple[int, int, int], inward: bool) -> Any:
        """Between plain memory and a level of ``size`` (bytes of a row, rows, layers)."""
        kinds = self._driver.api.CUmemorytype
        copy = self._driver.api.CUDA_MEMCPY3D()
        copy.WidthInBytes, copy.Height, copy.Depth = size
        if inward:
            copy.srcMemoryType, copy.srcDevice = kinds.CU_MEMORYTYPE_DEVICE, address
            copy.srcPitch, copy.srcHeight = size[0], size[1]
            copy.dstMemoryType, copy.dstArray = kinds.CU_MEMORYTYPE_ARRAY, array
        else:
            copy.srcMemoryType, copy.srcArray = kinds.CU_MEMORYTYPE_ARRAY, array
            copy.dstMemoryType, copy.dstDevice = kinds.CU_MEMORYTYPE_DEVICE, address
            copy.dstPitch, copy.dstHeight = size[0], size[1]
        return copy


class Textures:
    """The objects of a launch; they live as long as the worker."""

    def __init__(self, driver: cu.Driver, regions: list[PlacedRegion], textures: list[JobTexture]) -> None:
        """Raises Refused if the device has no such array, or an object can't have its number."""
        self._driver = driver
        self._arrays: dict[int, _Array] = {}
        self._spare: set[tuple[str, int]] = set()  # kind and number
        try:
            for number, region in enumerate(regions):
                if region["array"] is not None:
                    self._arrays[number] = _Array(driver, region, region["array"])
            for texture in sorted(textures, key=lambda texture: texture["handle"]):
                self._make(texture, regions)
        except cu.CudaError as error:
            raise Refused(f"its textures can't be made here: {error}") from error
        finally:
            for kind, number in self._spare:
                self._destroy(kind, number)

    def enter(self, stream: Any) -> None:
        """Queue what the arrays must hold before a launch."""
        for array in self._arrays.values():
            array.copy(stream, to_memory=False)

    def leave(self, stream: Any) -> None:
        """Queue what a launch left in them."""
        for array in self._arrays.values():
            array.copy(stream, to_memory=True)

    @property
    def has_arrays(self) -> bool:
        return bool(self._arrays)

    def _make(self, texture: JobTexture, regions: list[PlacedRegion]) -> None:
        """An object under its own number: as the driver counts, others are made until that comes up."""
        kind, wanted = texture["kind"], texture["handle"]
        arguments = [self._resource(texture, regions)]
        if kind == "texture":
            arguments += [
                _filled(self._driver.api.CUDA_TEXTURE_DESC(), texture["sampler"]),
                _filled(self._driver.api.CUDA_RESOURCE_VIEW_DESC(), texture["view"]),
            ]
        number = 0
        for _ in range(_MOST_SPARE):
            for spare in {(other, wanted) for other in _SHORT} & self._spare:
                self._spare.remove(spare)
                self._destroy(*spare)  # what is free again comes first
            number = int(self._driver.call(f"cu{_SHORT[kind]}ObjectCreate", *arguments))
            if number == wanted:
                return
            self._spare.add((kind, number))
        raise Refused(
            f"{kind} object {wanted} can't have its number here, the driver gives {number}: the number "
            "can't be replaced in parameters and memory, as other integers look the same"
        )

    def _destroy(self, kind: str, number: int) -> None:
        self._driver.status(f"cu{_SHORT[kind]}ObjectDestroy", number)

    def _resource(self, texture: JobTexture, regions: list[PlacedRegion]) -> Any:
        api, kind = self._driver.api, texture["resource"]
        resource = api.CUDA_RESOURCE_DESC()
        resource.resType = getattr(api.CUresourcetype, f"CU_RESOURCE_TYPE_{_RESOURCES[kind]}")
        if texture["region"] is not None:
            array = self._arrays[texture["region"]]
            if kind == "mipmap":
                resource.res.mipmap.hMipmappedArray = array.handle
            else:
                resource.res.array.hArray = array.levels[texture["level"]]
            return resource
        memory = resource.res.pitch2D if kind == "pitch2d" else resource.res.linear
        memory.devPtr = _here(texture["address"], regions)
        memory.format, memory.numChannels = (
            _known(api.CUarray_format, texture["format"]), texture["channels"]
        )  # fmt: skip
        if kind == "pitch2d":
            memory.width, memory.height = texture["width"], texture["height"]
            memory.pitchInBytes = texture["pitch"]
        else:
            memory.sizeInBytes = texture["width"]
        return resource


def _known(kind: Any, number: int) -> Any:
    """A number of a reproducer as a constant of the driver's."""
    try:
        return kind(number)
    except ValueError as error:
        raise Refused(f"its textures can't be made here: {error}") from error


def _filled(descriptor: Any, text: str | None) -> Any:
    """A descriptor with the captured bytes, given in hexadecimal; None without any."""
    if not text:
        return None
    data = bytes.fromhex(text)
    ctypes.memmove(descriptor.getPtr(), data, len(data))
    return descriptor


def _here(address: int, regions: list[PlacedRegion]) -> int:
    """Where memory that was captured at ``address`` lies now."""
    for region in regions:
        if region["array"] is None and region["captured"] <= address < region["captured"] + region["size"]:
            return region["base"] + address - region["captured"]
    raise Refused(f"a texture is on memory at {address:#x}, which is in no region")
