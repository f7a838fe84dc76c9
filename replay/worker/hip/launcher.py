"""One launch of a code object: a dispatch packet with the arguments and shape that it was captured with."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from ..common.failures import Fault, KernelError, Refused
from ..common.host_bytes import host_bytes
from ..job import JobLaunch
from ..native.variables import Variables
from ..protocol import Compiled, three
from . import host_services, hsa
from .device import Device
from .hidden_arguments import Dispatched, fill
from .image import Image

_LEAST_KERNARG_BYTES = 64
_HEADER = (
    hsa.PACKET_TYPE_KERNEL_DISPATCH
    | 1 << hsa.PACKET_HEADER_BARRIER
    | hsa.FENCE_SCOPE_SYSTEM << hsa.PACKET_HEADER_ACQUIRE_SCOPE
    | hsa.FENCE_SCOPE_SYSTEM << hsa.PACKET_HEADER_RELEASE_SCOPE
)


class Launcher:
    """A code object, its variables, and everything that one launch of it passes."""

    def __init__(
        self, device: Device, image: Image, variables: Variables, launch: JobLaunch, parameters: bytearray
    ) -> None:
        self._device = device
        self.image = image
        self.variables = variables
        self.notes: list[str] = []
        self._services = host_services.of_device(device)
        given = self._services.give(image.metadata.hidden if image.metadata else [])
        self._dispatched = dataclasses.replace(_dispatched(device, image, launch), given=given)
        self._empty = 0 in self._dispatched.work_items
        self._packet = self._make_packet(launch)
        self._packet.kernarg_address = self._make_segment(parameters)

    def run(self) -> None:
        """Queue the launch. Raises KernelError if the GPU can't take it, Fault if it is lost."""
        if self._empty:
            return
        of = self._dispatched
        groups = [-(-n // size) for n, size in zip(of.work_items, of.workgroup, strict=True)]
        self._services.begin(of.given, math.prod(of.work_items), math.prod(groups))
        try:
            self._device.dispatch(self._packet)
        except hsa.HsaError as error:
            if self._device.runtime.lost:
                raise Fault(self._device.runtime.lost) from error
            raise KernelError(str(error)) from error

    def facts(self) -> Compiled:
        """Facts of the kernel as it is launched."""
        of = self._dispatched
        threads = of.workgroup[0] * of.workgroup[1] * of.workgroup[2]
        metadata = self.image.metadata
        wavefront = metadata.wavefront if metadata else self._device.number(hsa.AGENT_WAVEFRONT_SIZE)
        return Compiled(
            grid=three(-(-n // size) for n, size in zip(of.work_items, of.workgroup, strict=True)),
            block=three(of.workgroup),
            dynamic_shared_bytes=of.dynamic_group_bytes,
            shared_bytes=int(self._packet.group_bytes),
            spilled_bytes=int(self._packet.private_bytes),
            num_warps=-(-threads // max(1, wavefront)),
            registers=metadata.vgprs if metadata else None,
            max_threads=metadata.max_threads if metadata else None,
        )

    def _make_packet(self, launch: JobLaunch) -> hsa.DispatchPacket:
        of, dispatch = self._dispatched, launch.get("dispatch") or {}
        packet = hsa.DispatchPacket()
        packet.header = _HEADER
        packet.setup = of.dimensions
        packet.workgroup[:] = of.workgroup
        packet.work_items[:] = of.work_items
        packet.kernel_object = self.image.kernel_object
        packet.completion_signal = self._device.done
        packet.private_bytes, packet.group_bytes = self.image.private_bytes, 0
        # How deep calls go is not known of a dynamic stack: the application's word for it is.
        if self.image.is_captured or self.image.has_dynamic_stack:
            packet.private_bytes = max(self.image.private_bytes, int(dispatch.get("private_bytes", 0)))
        packet.group_bytes = self.image.group_bytes + of.dynamic_group_bytes
        limit = self._device.group_limit()
        if limit and packet.group_bytes > limit:
            raise Refused(f"the kernel needs {packet.group_bytes:,} bytes of LDS, this device has {limit:,}")
        threads = of.workgroup[0] * of.workgroup[1] * of.workgroup[2]
        most = self._device.number(hsa.AGENT_WORKGROUP_MAX_SIZE)
        if threads > most:
            raise Refused(
                f"a workgroup of the launch has {threads:,} work-items, this device allows {most:,}"
            )
        return packet

    def _make_segment(self, parameters: bytearray) -> int:
        """The kernarg segment: arguments as captured, hidden ones for this dispatch. Its address."""
        metadata = self.image.metadata
        if metadata is None:
            segment = bytearray(parameters)
            self.notes.append(
                "the code object does not say what is a hidden argument: all are passed as captured"
            )
        else:
            segment = bytearray(max(self.image.kernarg_bytes, metadata.kernarg_bytes))
            end = max((offset + size for offset, size in metadata.explicit), default=0)
            if end > len(parameters):
                raise Refused(f"the kernel takes {end} bytes of arguments, {len(parameters)} were captured")
            for offset, size in metadata.explicit:
                segment[offset : offset + size] = parameters[offset : offset + size]
            missing = fill(segment, metadata.hidden, self._dispatched)
            if missing:
                self.notes.append(f"the kernel may use what a replay can't give: {', '.join(missing)}")
        address = self._device.host_memory(max(_LEAST_KERNARG_BYTES, len(segment)))
        host_bytes(address, len(segment))[:] = np.frombuffer(segment, dtype=np.uint8)
        return address


def _dispatched(device: Device, image: Image, launch: JobLaunch) -> Dispatched:
    dispatch = launch.get("dispatch")
    x, y, z = launch["block"] or (1, 1, 1)
    workgroup = (x, y, z)
    if dispatch is None:
        a, b, c = (int(n) * size for n, size in zip(launch["grid"], workgroup, strict=True))
        dynamic = int(launch["shared_bytes"] or 0)
        return Dispatched((a, b, c), workgroup, 3, dynamic, device.queue_address)
    a, b, c = (int(n) for n in dispatch["work_items"])
    if launch["shared_bytes"] is not None:
        dynamic = int(launch["shared_bytes"])
    else:
        dynamic = max(0, int(dispatch["group_bytes"]) - image.group_bytes)
    return Dispatched((a, b, c), workgroup, int(dispatch["dimensions"]), dynamic, device.queue_address)
