"""What an engine does to the memory of its worker: states, poison, and comparisons of one with another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerncap.format.schema import Manifest
from kerncap.replay import bitmap
from kerncap.replay.connection import Bits, Connection


class WorkerMemory:
    """The part of an engine that works on memory; ``connection`` is to the worker that has it."""

    manifest: Manifest
    connection: Connection

    def restore(self, state: str = "pre") -> None:
        self.connection.call("restore", state=state)

    def snapshot(self, name: str) -> None:
        self.connection.call("snapshot", name=name)

    def reload(self) -> None:
        """Take the captured states from their files again, where the worker keeps copies on the device."""
        if self.connection.choice.launcher == "native":
            self.connection.call("reload")

    def drop(self, name: str) -> None:
        self.connection.call("drop", name=name)

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits | None = None) -> None:
        """Poison bytes [start, stop) of a region, or those of them that ``mask`` (packed bits) names."""
        if mask is None:
            self.connection.call("fill", region=region, start=start, stop=stop, seed=seed)
            return
        with self.connection.file("mask") as name:
            self.connection.save(name, mask)
            self.connection.call("fill", region=region, start=start, stop=stop, seed=seed, mask=name)

    def put(self, state: str, region: int, mask: Bits) -> None:
        """Put the bytes of ``mask`` as a state has them."""
        with self.connection.file("mask") as name:
            self.connection.save(name, mask)
            self.connection.call("put", state=state, region=region, mask=name)

    def perturb(self, views: list[int], masks: dict[int, Bits]) -> int:
        """Give other contents, the same each time, to the elements of ``views`` in the regions' masks.

        How many elements were changed.
        """
        with self.connection.mask_files(masks) as files:
            return int(self.connection.call("perturb", views=views, masks=files)["changed"])

    def differing(self, state: str) -> list[int]:
        """The regions that differ from a state anywhere."""
        return [int(region) for region in self.connection.call("differing", state=state)["regions"]]

    def diff(self, region: int, against: str, seed: int = 0) -> Bits:
        """Packed bitmap of the bytes that differ from a state, or from ``poison`` of a seed."""
        with self.connection.file("diff") as name:
            reply = self.connection.call("diff", region=region, against=against, out=name, seed=seed)
            if reply.get("none"):
                return bitmap.empty(self.manifest.regions[region].size)
            return self.connection.load(name)

    def gap_writes(self) -> list[tuple[int, int, int]]:
        """(first address, last address, bytes) written in each stretch of memory that is in no region."""
        return [(a, b, n) for a, b, n in self.connection.call("gap_writes")["writes"]]

    def infer(self, region: int, start: int, stop: int, mask: Bits, against: str) -> dict[str, Any] | None:
        """The view of bytes [start, stop) as the floating type that explains how they differ from a state at
        the bytes of ``mask``; None where none does, and for engines of which all arguments are typed."""
        if self.connection.choice.launcher != "native" or not mask.any():
            return None
        hint = self.manifest.kernel.qualified_name
        with self.connection.file("mask") as name:
            self.connection.save(name, mask)
            found = self.connection.call(
                "infer", region=region, start=start, stop=stop, mask=name, against=against, hint=hint
            )
        if found["dtype"] is None:
            return None
        return {
            "region": region, "offset": start + found["offset"], "dtype": found["dtype"],
            "itemsize": found["itemsize"], "shape": [found["elements"]], "strides": [1],
            "name": f"region {region}{f' from byte {start}' if start else ''} as {found['dtype']} (inferred)",
        }  # fmt: skip

    def compare(
        self, views: Sequence[tuple[int | dict[str, Any], float, float]], against: str
    ) -> list[dict[str, Any]]:
        """Statistics of each ``(view, rtol, atol)`` against a state or ``reference``.

        A view is the number of one, or (for native launches) one as `infer` makes it.
        """
        wanted = [{"view": v, "rtol": rtol, "atol": atol} for v, rtol, atol in views]
        return list(self.connection.call("compare", views=wanted, against=against)["views"])

    def within(self, views: Sequence[tuple[int | dict[str, Any], float, float]], against: str) -> bool:
        """Whether `compare` would find nothing outside: where no more is asked, much less is to be done."""
        if self.connection.choice.launcher == "native":
            return not any(stats["outside"] for stats in self.compare(views, against))
        wanted = [{"view": v, "rtol": rtol, "atol": atol} for v, rtol, atol in views]
        return bool(self.connection.call("within", views=wanted, against=against)["within"])

    def nonfinite(self, views: list[int], written: dict[int, Bits]) -> list[dict[str, Any]]:
        """NaN and infinities among the written elements of ``views``."""
        with self.connection.mask_files(written) as masks:
            return list(self.connection.call("nonfinite", views=views, masks=masks)["views"])

    def reference(self, path: Path) -> list[int]:
        """Run the user's reference on the pre-state; the views that it gives values for."""
        return list(self.connection.call("reference", path=str(path.resolve()))["views"])

    def pre_files(self) -> list[Path]:
        """The regions' bytes before the launch, one file each."""
        job = self.connection.job
        return [job.folder / str(region["pre"]) for region in job.content["regions"]]
