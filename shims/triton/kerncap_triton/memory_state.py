"""The bytes of reachable memory at one moment, kept in the cheapest place until it is known who wants them.

Without a condition, and where a crash must be survived, they go to an image at once. A launch that
``--when`` will mostly drop has its device regions copied on the device, if there is room, and
only what is kept is brought to the host.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from . import region_copies, torch_device
from .memory_files import Image
from .reachable_memory import ReachableMemory, Region

Chunks = List[Tuple[int, int]]


class State:
    """``image`` has a place for every region; those in ``clones`` are not in it before ``fetch``."""

    def __init__(self, reachable: ReachableMemory, image: Image, chunk: int, timeout_s: float) -> None:
        self.image = image
        self.clones: Dict[int, Region] = {}
        self.offsets, self.size = reachable.offsets()
        self._regions = reachable.regions
        self.chunk = chunk
        self._timeout_s = timeout_s

    def take(self, on_device: bool) -> None:
        """Copy what the regions hold now; ``on_device`` leaves device regions there if they fit."""
        self.image.resize(self.size)
        if on_device:
            device = [(n, r) for n, r in enumerate(self._regions) if is_on_device(r) and r.size]
            self.clones = torch_device.clones_of(device, self._timeout_s) if device else {}
        self._each_piece(self._rest(), region_copies.Store(self.image.fd, self.offsets, self.chunk))

    def fetch(self) -> None:
        """Bring to the image what is still on devices."""
        store = region_copies.Store(self.image.fd, self.offsets, self.chunk)
        self._each_piece(sorted(self.clones.items()), store)
        self.clones = {}

    def compare(self, out: Optional[int] = None) -> Chunks:
        """The chunks that the regions hold differently now; written one after the other to ``out``.

        With ``out``, everything must have been fetched.
        """
        assert out is None or not self.clones
        chunks: Chunks = []
        for number, clone in self.clones.items():
            changed = torch_device.changed_chunks(self._regions[number], clone, self.chunk)
            chunks.extend((number, chunk) for chunk in changed)
        compare = region_copies.Compare(self.image.fd, self.offsets, self.chunk, out)
        self._each_piece(self._rest(), compare)
        return chunks + compare.chunks

    def restore(self) -> None:
        """Put the bytes back into the regions."""
        device = []
        for number, region in self._rest():
            if is_on_device(region):
                device.append((number, region))
            else:
                region_copies.restore_host(region, self.image.fd, self.offsets[number], self.chunk)
        if device:
            compare = region_copies.Compare(self.image.fd, self.offsets, self.chunk)
            torch_device.copy_out(device, compare, self._timeout_s)
            for number, region in device:
                changed = sorted(chunk for found, chunk in compare.chunks if found == number)
                torch_device.copy_in(region, self.image.fd, self.offsets[number], changed, self.chunk)
        for number, clone in self.clones.items():
            torch_device.put_back(self._regions[number], clone, self._timeout_s)

    def bytes_of(self, number: int, offset: int, length: int, device: Any) -> Any:
        """A part of region ``number`` as a tensor of bytes on ``device``; the caller is ``quiet``."""
        if number in self.clones:
            return torch_device.as_bytes(self.clones[number])[offset : offset + length]
        torch = torch_device.torch_module()
        part = torch.empty(length, dtype=torch.uint8, device="cpu")
        self.read(number, offset, int(part.data_ptr()), length)
        return part.to(device)

    def read(self, number: int, offset: int, address: int, length: int) -> None:
        """A part of region ``number``, which is not in a clone, to host memory."""
        region_copies.read_all(self.image.fd, address, length, self.offsets[number] + offset)

    def _rest(self) -> List[Tuple[int, Region]]:
        return [(n, r) for n, r in enumerate(self._regions) if n not in self.clones]

    def _each_piece(self, regions: List[Tuple[int, Region]], work: region_copies.Work) -> None:
        for number, region in regions:
            if not is_on_device(region):
                region_copies.run(region_copies.host_pieces(number, region), work, region.size)
        device = [(number, region) for number, region in regions if is_on_device(region) and region.size]
        if device:
            torch_device.copy_out(device, work, self._timeout_s)


def is_on_device(region: Region) -> bool:
    return not region.is_host
