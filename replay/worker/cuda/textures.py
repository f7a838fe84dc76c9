"""Textures and surfaces of a launch: made again under the numbers that the application had.

A number can't be told from any other integer, so none is changed in parameters or memory: an object has the
captured number, or the launch is refused. Each array's state is kept in plain memory (`Placement` gives it a
place), which is copied into the array before a launch and out of it afterwards.
Source: cuda.h; layouts are compared with the header by a test.
"""

from __future__ import annotations

import ctypes
from typing import Any

from ..common.failures import Refused
from ..job import JobArray, JobTexture, PlacedRegion
from . import driver as cu

_MEMORY_DEVICE, _MEMORY_ARRAY = 2, 3  # CUmemorytype
_RESOURCES = {"array": 0, "mipmap": 1, "linear": 2, "pitch2d": 3}  # CUresourcetype
_SHORT = {"texture": "Tex", "surface": "Surf"}
_MOST_SPARE = 20_000  # objects that are made to reach a number


class ArrayDescriptor(ctypes.Structure):
    _fields_ = (
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
        ("format", ctypes.c_int),
        ("channels", ctypes.c_uint),
        ("flags", ctypes.c_uint),
    )


class ResourceDescriptor(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int), ("words", ctypes.c_uint64 * 16), ("flags", ctypes.c_uint))


class Side(ctypes.Structure):
    _fields_ = (
        ("x_bytes", ctypes.c_size_t),
        ("y", ctypes.c_size_t),
        ("z", ctypes.c_size_t),
        ("lod", ctypes.c_size_t),
        ("memory_type", ctypes.c_int),
        ("host", ctypes.c_void_p),
        ("device", ctypes.c_uint64),
        ("array", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class Copy3D(ctypes.Structure):
    _fields_ = (
        ("source", Side),
        ("target", Side),
        ("width_bytes", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
        ("depth", ctypes.c_size_t),
    )


class _Array:
    """An array that was made again, and the copies between its levels and the memory that stands for it."""

    def __init__(self, driver: cu.Driver, region: PlacedRegion, shape: JobArray) -> None:
        self._driver = driver
        self.handle = ctypes.c_void_p()
        wanted = ArrayDescriptor(
            shape["width"],
            shape["height"],
            shape["depth"],
            shape["format"],
            shape["channels"],
            shape["flags"],
        )
        self.levels: list[ctypes.c_void_p] = []
        if shape["levels"] > 1:
            driver.call(
                "cuMipmappedArrayCreate", ctypes.byref(self.handle), ctypes.byref(wanted),
                ctypes.c_uint(shape["levels"]),
            )  # fmt: skip
            for number in range(shape["levels"]):
                level = ctypes.c_void_p()
                driver.call(
                    "cuMipmappedArrayGetLevel", ctypes.byref(level), self.handle, ctypes.c_uint(number)
                )
                self.levels.append(level)
        else:
            driver.call("cuArray3DCreate_v2", ctypes.byref(self.handle), ctypes.byref(wanted))
            self.levels.append(self.handle)
        self._copies = self._plan(region)

    def copy(self, stream: Any, to_memory: bool) -> None:
        """Queue the copies in one direction."""
        for inward, outward in self._copies:
            self._driver.call("cuMemcpy3DAsync_v2", ctypes.byref(outward if to_memory else inward), stream)

    def _plan(self, region: PlacedRegion) -> list[tuple[Copy3D, Copy3D]]:
        copies, at, count = [], region["base"], len(self.levels)
        found = [self._described(level) for level in self.levels]
        elements = sum(d.width * max(1, d.height) * max(1, d.depth) for d in found)
        if region["size"] % elements:
            raise Refused(f"an array of {count} levels has {elements:,} elements in {region['size']:,} bytes")
        for level, shape in zip(self.levels, found, strict=True):
            row, rows, layers = (
                shape.width * (region["size"] // elements), max(1, shape.height), max(1, shape.depth),
            )  # fmt: skip
            memory = Side(memory_type=_MEMORY_DEVICE, device=at, pitch=row, height=rows)
            array = Side(memory_type=_MEMORY_ARRAY, array=level)
            size = (row, rows, layers)
            copies.append((Copy3D(memory, array, *size), Copy3D(array, memory, *size)))
            at += row * rows * layers
        return copies

    def _described(self, level: ctypes.c_void_p) -> ArrayDescriptor:
        found = ArrayDescriptor()
        self._driver.call("cuArray3DGetDescriptor_v2", ctypes.byref(found), level)
        return found


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
        resource = self._resource(texture, regions)
        arguments: list[Any] = [ctypes.byref(resource)]
        if kind == "texture":
            arguments += [
                ctypes.create_string_buffer(bytes.fromhex(hex_)) if hex_ else ctypes.c_void_p()
                for hex_ in (texture["sampler"], texture["view"])
            ]
        handle = ctypes.c_uint64()
        for _ in range(_MOST_SPARE):
            for spare in {(other, wanted) for other in _SHORT} & self._spare:
                self._spare.remove(spare)
                self._destroy(*spare)  # what is free again comes first
            self._driver.call(f"cu{_SHORT[kind]}ObjectCreate", ctypes.byref(handle), *arguments)
            if handle.value == wanted:
                return
            self._spare.add((kind, handle.value))
        raise Refused(
            f"{kind} object {wanted} can't have its number here, the driver gives {handle.value}: the number "
            "can't be replaced in parameters and memory, as other integers look the same"
        )

    def _destroy(self, kind: str, number: int) -> None:
        self._driver.status(f"cu{_SHORT[kind]}ObjectDestroy", ctypes.c_uint64(number))

    def _resource(self, texture: JobTexture, regions: list[PlacedRegion]) -> ResourceDescriptor:
        resource = ResourceDescriptor(type=_RESOURCES[texture["resource"]])
        if texture["region"] is not None:
            array = self._arrays[texture["region"]]
            handle = array.handle if texture["resource"] == "mipmap" else array.levels[texture["level"]]
            resource.words[0] = handle.value or 0
            return resource
        resource.words[0] = _here(texture["address"], regions)
        resource.words[1] = texture["format"] | texture["channels"] << 32
        resource.words[2] = texture["width"]
        if texture["resource"] == "pitch2d":
            resource.words[3], resource.words[4] = texture["height"], texture["pitch"]
        return resource


def _here(address: int, regions: list[PlacedRegion]) -> int:
    """Where memory that was captured at ``address`` lies now."""
    for region in regions:
        if region["array"] is None and region["captured"] <= address < region["captured"] + region["size"]:
            return region["base"] + address - region["captured"]
    raise Refused(f"a texture is on memory at {address:#x}, which is in no region")
