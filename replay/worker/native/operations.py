"""One opened native job: its memory, states and launchers, and the operations on them.

The same operations as those of the engines that need torch; see `torch_backend/operations.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..common import printed
from ..common.bitmap import Bits
from ..common.failures import Fault, KernelError, Refused
from ..common.placed_regions import is_own_global
from ..common.state_operations import StateOperations, lacking
from ..cuda.context_limits import set_limits
from ..cuda.textures import Textures
from ..job import Job, JobLaunch, JobView, of_launch
from ..protocol import (
    REFERENCE,
    Difference,
    Ended,
    HipImage,
    Image,
    InferredType,
    KernelOfSource,
    Loaded,
    Nonfinite,
    Opened,
    Range,
    Replays,
    Request,
    Stores,
    Timings,
    TritonImage,
    Variation,
    View,
)
from ..torch_backend import confine
from ..triton_launch.config import varied, with_signature
from ..triton_launch.parameters import metadata
from . import compare_arrays, reference, triton_kernels
from .bulk import Bulk
from .cuda_launcher import with_scalars
from .dtypes import BITS, Number, as_parts, number
from .infer_type import infer, set_bits
from .moved_pointers import Move, Moves, find
from .passed_values import packed
from .peer_stores import PeerStores
from .states import States
from .triton_kernels import Addresses
from .value_ops import Judging
from .variables import Site, Variables
from .vendor import Layout, Vendor


class NativeBackend(StateOperations[States], Judging):
    """Answers the engine's requests: `protocol.Backend` says what each operation does."""

    backend = "native"
    time = within = streams = lacking

    def __init__(self, job: Job, folder: Path, memory: Any, vendor: Vendor) -> None:
        self.job = job
        self.folder = folder
        self.memory = memory
        self.vendor = vendor
        # What places memory for HIP has no such driver, and its launches no limits and no textures.
        driver = cast("Any", getattr(memory, "driver", None))
        if hasattr(memory, "driver") and job["launch"]["limits"] is not None:
            memory.notes += set_limits(driver, job["launch"]["limits"])
        self.device = vendor.Device(memory)
        self.bulk = Bulk(self.device)
        captured = job["regions"]
        self.moves = Moves([
            Move(old, captured[i]["size"], memory.regions[i]["base"])
            for i, old in sorted(memory.relocated.items())
        ])  # fmt: skip
        self.states = States(memory, self.device, self.bulk, job, folder, self.moves)
        self.textures = Textures(driver, memory.regions, job["launch"]["textures"])
        self._launchers: dict[str, Any] = {}
        self._buffers: dict[str, list[int]] = {}  # of launchers: on the device
        self._sources: dict[str, str] = {}  # launchers of kernels of a source -> its image
        self._is_triton = is_triton(job)
        self._expected: dict[int, Any] = {}  # view -> bits that the reference gives
        self._peers: PeerStores | None = None
        self._layout: Layout | None = None  # of the captured kernel, as the driver sees it
        self._sites: dict[tuple[int, int], list[Site]] = {}

    def handle(self, request: Request) -> Any:
        try:
            return self.perform(request)
        except self.vendor.Error as error:
            if self.memory.is_lost():  # a launch that was queued went wrong: whatever came next got its error
                raise Fault(f"the kernel: {getattr(error, 'name', error)}") from error
            raise

    # --- running -----------------------------------------------------------------------------------

    def open(self) -> Opened:
        return Opened(
            self.device.name, self.device.arch, sorted(self.memory.relocated), self.memory.notes,
            driver=self.device.driver_version, bulk="device" if self.bulk.on_device else "host",
            unconfined=confine.missing(), at_once=getattr(self.device, "at_once", 0),
        )  # fmt: skip

    def load(
        self, which: str, path: str, stages: str, variation: Variation, limit_s: float, image: Image | None,
        hip: HipImage | None,
    ) -> Loaded:  # fmt: skip
        if self._is_triton or isinstance(image, TritonImage):
            said = image if isinstance(image, TritonImage) else None
            return self._load_triton(which, Path(path), variation, said, hip)
        if variation.config is not None:
            raise Refused("a native launch has no configuration but its own")
        job = of_launch(self.job, variation.launch)
        launched: JobLaunch = job["launch"]
        started = time.perf_counter()
        own = {str(self.folder / file) for file in job["images"]}
        symbol = job["symbol"]
        if path in own:
            paths = [self.folder / file for file in job["images"]]
            loaded = self.vendor.captured(self.device, paths, symbol, hip)
            self._layout = loaded.layout()
        elif isinstance(image, KernelOfSource):
            loaded = self._image_of_source(path, image.name, hip)
            launched = self._passing(launched, job, image, loaded)
        else:
            layout = _layout_of(launched)
            loaded = self.vendor.candidate(
                self.device, Path(path), symbol, self._layout if layout is None else layout, hip
            )
        variables = Variables(
            self.device, self.memory.regions, job["variables"], loaded, path in own, self.textures,
            job["functions"], loaded.code_moves() if hip is not None else [],
        )  # fmt: skip
        if variables.moves:
            variables.set_sites(self._variable_sites((0, 0) if hip is None else hip.inside))
        parameters = with_scalars(launched, job["arguments"], variation.scalars)
        pointers = self.moves.changed
        if not isinstance(image, KernelOfSource):  # which has the addresses that memory has here
            pointers += self.moves.apply_to(parameters)
        to_variables = Moves(variables.moves).apply_to(parameters) + variables.sites
        self.unload(which)
        try:
            launcher = self.vendor.Launcher(self.device, loaded, variables, launched, parameters)
        except BaseException:
            loaded.unload()
            raise
        self._launchers[which] = launcher
        if isinstance(image, KernelOfSource):
            self._sources[which] = path
        files = job["images"] if path in own else []
        compiled = launcher.facts()
        compiled.compile_ms = (time.perf_counter() - started) * 1e3
        compiled.stages = {file.rpartition(".")[2]: file for file in files} or {Path(path).suffix[1:]: path}
        return Loaded(
            compiled,
            pointers + to_variables,
            sorted(variables.at) if to_variables else [],
            [f"the candidate has {what}" for what in variables.missing] + variables.notes + launcher.notes,
        )

    def _image_of_source(self, path: str, symbol: str, hip: HipImage | None) -> Any:
        """The launches of a source have one module, as in a program: its variables are the same for all."""
        for which, of in self._sources.items():
            if of == path:
                return self._launchers[which].image.sibling(symbol, hip)
        return self.vendor.candidate(self.device, Path(path), symbol, None, hip)

    def _passing(self, launched: JobLaunch, job: Job, kernel: KernelOfSource, loaded: Any) -> JobLaunch:
        try:
            layout = loaded.layout()
            data = packed(kernel, job["arguments"], layout, Addresses(job, self.memory))
        except BaseException:
            loaded.unload()
            raise
        return {
            **launched,
            "grid": list(kernel.grid),
            "block": list(kernel.block),
            "shared_bytes": kernel.shared_bytes,
            "parameters": {"bytes": data.hex(), "layout": layout},
        }

    def _load_triton(
        self, which: str, path: Path, variation: Variation, image: TritonImage | None, hip: HipImage | None
    ) -> Loaded:
        started = time.perf_counter()
        job = varied(self.job, variation)
        if image is not None:
            job, said = with_signature(job, image.signature), image.metadata
        else:
            said = metadata(job, path.name)
        symbol = str(said.get("name") or job["kernel"])
        loaded = self.vendor.candidate(self.device, path, symbol, None, hip)
        buffers: list[int] = []
        try:
            made = triton_kernels.prepared(self.device, self.memory, job, loaded, said, path.name)
            buffers = made.buffers
            variables = Variables(
                self.device, self.memory.regions, job["variables"], loaded, False, self.textures, []
            )
            launcher = self.vendor.Launcher(self.device, loaded, variables, made.launch, made.parameters)
        except BaseException:
            for buffer in buffers:
                self.device.free(buffer)
            loaded.unload()
            raise
        self.unload(which)
        self._launchers[which] = launcher
        self._buffers[which] = buffers
        compiled = triton_kernels.described(launcher.facts(), said, job["launch"]["grid"])
        compiled.compile_ms = (time.perf_counter() - started) * 1e3
        compiled.stages = {path.suffix[1:]: str(path)}
        return Loaded(compiled, self.moves.changed + made.moved, notes=launcher.notes)

    def unload(self, which: str) -> None:
        old = self._launchers.pop(which, None)
        self._sources.pop(which, None)
        if old is not None:
            self.device.finish()
            old.image.unload()
        for buffer in self._buffers.pop(which, []):
            self.device.free(buffer)

    def launch(self, which: str, limit_s: float) -> Ended:
        return self._launched(which, limit_s, lambda: 0)

    def launch_among(self, which: str, stores: list[Stores], limit_s: float) -> Ended:
        if self._peers is None:
            self._peers = PeerStores(self.device, self.states)
        self._peers.prepare(stores, limit_s)
        ended = self._launched(which, limit_s, self._peers.serve)
        self._peers.finish()
        return replace(ended, signals=self._peers.answered)

    def _launched(self, which: str, limit_s: float, meanwhile: Callable[[], int]) -> Ended:
        launcher = self._launchers[which]
        launcher.variables.enter()
        self.device.finish()
        start = time.perf_counter_ns()
        try:
            launcher.run()
        except KernelError as error:
            return Ended("error", str(error))
        steps = meanwhile()
        self.device.finish(limit_s)
        ns = time.perf_counter_ns() - start
        self.device.finish()  # a query is not enough for the driver to write what the kernel printed
        printed.flush()
        launcher.variables.leave()
        return Ended("ok", ns=ns, steps=steps)

    def finish(self) -> None:
        self.device.finish()

    def repeat(self, which: str, n: int, state: str, ranges: list[Range], limit_s: float) -> Replays:
        times: Replays = self._repeat(which).times(n, state, ranges, limit_s)
        return times

    def until(self, which: str, n: int, state: str, expected: str, limit_s: float) -> Replays:
        until: Replays = self._repeat(which).until(n, state, expected, limit_s)
        return until

    def timings(
        self, which: str, ranges: list[Range], dirty: list[int], again: bool, limit_s: float
    ) -> Timings:
        return self.vendor.timings(
            self.device, self.bulk, self.states, self._launchers[which], ranges, again, limit_s
        )

    def interleaved(
        self, rows: list[list[str]], rounds: int, ranges: list[Range], limit_s: float, cold: bool
    ) -> list[list[float]]:
        launchers = []
        for row in rows:
            of_row = [self._launchers[which] for which in row]
            launchers.append(of_row[0] if len(of_row) == 1 else self.vendor.InARow(of_row))
        found: list[list[float]] = self.vendor.interleaved(
            self.device, self.bulk, self.states, launchers, rounds, ranges, limit_s
        )
        return found

    def _repeat(self, which: str) -> Any:
        return self.vendor.Repeat(self.device, self.bulk, self.states, self._launchers[which])

    # --- states ------------------------------------------------------------------------------------

    def reload(self) -> None:
        self.states.reload()

    def perturb(self, views: list[int], masks: dict[int, str]) -> int:
        changed = 0
        for index in views:
            view = as_parts(self.job["views"][index])
            region = view["region"]
            start, stop = compare_arrays.extent(view)
            kind, data = number(view), self.states.read(None, region, start, stop)
            bits = compare_arrays.strided(data, start, view)
            chosen = self._chosen(view, self._mask(masks[region]))
            changed += compare_arrays.perturb(kind, bits, chosen, index)
            self.device.upload(self.states.base(region) + start, data)
        return changed

    # --- comparing typed views ---------------------------------------------------------------------

    def compare(self, views: list[tuple[int | View, float, float]], against: str) -> list[Difference]:
        found = []
        for index, rtol, atol in views:
            guessed = isinstance(index, View)
            number_of = -1 if isinstance(index, View) else index
            view = _as_of_job(index) if isinstance(index, View) else self.job["views"][index]
            kind, now = self._typed(view, None)
            expected = self._expected[number_of] if against == REFERENCE else self._typed(view, against)[1]
            stats = compare_arrays.compare(kind, now, expected, rtol, atol, guessed)
            found.append(replace(stats, view=number_of, name=view.get("name", "")))
        return found

    def nonfinite(self, views: list[int], masks: dict[int, str]) -> list[Nonfinite]:
        found = []
        for index in views:
            view = self.job["views"][index]
            written = None
            if view["region"] in masks:
                written = self._chosen(as_parts(view), self._mask(masks[view["region"]]))
            stats = compare_arrays.nonfinite(*self._typed(view, None), written)
            found.append(replace(stats, view=index, name=view.get("name", "")))
        return found

    def infer(
        self, region: int, start: int, stop: int, mask: str, against: str, hint: str
    ) -> InferredType | None:
        now = self.states.read(None, region, start, stop)
        other = self.states.read(against, region, start, stop)
        chosen = set_bits(self._mask(mask), start, stop)
        return infer(now, other, chosen, self.states.base(region) + start, hint)

    def _chosen(self, view: JobView, mask: Bits) -> Any:
        """For each element of a view 1 if its first byte is in the mask of its region, else 0."""
        if 0 in view["shape"]:
            return np.zeros(view["shape"], dtype=np.uint8)
        start, stop = compare_arrays.extent(view)
        first = start // 8 * 8
        bits = mask.flags(first, stop)
        return np.ndarray(
            tuple(view["shape"]), dtype=np.uint8, buffer=bits, offset=view["offset"] - first,
            strides=tuple(s * view["itemsize"] for s in view["strides"]),
        )  # fmt: skip

    def _typed(self, view: JobView, state: str | None) -> tuple[Number, Any]:
        view = as_parts(view)
        kind = number(view)
        start, stop = compare_arrays.extent(view)
        return kind, compare_arrays.strided(self.states.read(state, view["region"], start, stop), start, view)

    def export(self, view: int, out: str) -> None:
        kind, bits = self._typed(self.job["views"][view], None)
        np.save(self.folder / out, kind.decode(np.ascontiguousarray(bits)))

    # --- the user's reference ----------------------------------------------------------------------

    def reference(self, path: str) -> list[int]:
        named = {
            a["name"]: a["value"]["view"] for a in self.job["arguments"] if a["value"]["kind"] == "tensor"
        }
        arrays = {}
        for name, index in named.items():
            kind, bits = self._typed(self.job["views"][index], "pre")
            arrays[name] = kind.native(bits)
        given = reference.expected(Path(path), self.job["arguments"], arrays)
        self._expected = {}
        for name, values in given.items():
            view = as_parts(self.job["views"][named[name]])
            bits = number(view).encode(values)
            self._expected[named[name]] = np.ascontiguousarray(bits).astype(BITS[view["itemsize"]])
        return sorted(self._expected)

    # --- variables ---------------------------------------------------------------------------------

    def _variable_sites(self, code: tuple[int, int]) -> list[Site]:
        """The words of all regions that point to a variable or a function of the module, before or after the
        launch; ``code``: the captured address of its code, and its bytes."""
        if code not in self._sites:
            regions = self.job["regions"]
            moves = [Move(r["base"], r["size"], 0) for r in regions if is_own_global(r)]
            moves += [Move(word["captured"], 1, 0) for word in self.job["functions"]]
            moves += [Move(*code, 0)] if code[1] else []
            found: set[Site] = set()
            for index, region in enumerate(regions):
                for state in ("pre", "post") if region["post"] else ("pre",):
                    data = self.states.read(state, index, 0, region["size"])
                    found |= {(index, offset) for offset, _ in find(data, region["base"], moves)}
            self._sites[code] = sorted(found)
        return self._sites[code]


def _as_of_job(view: View) -> JobView:
    return {
        "region": view.region, "offset": view.offset, "dtype": view.dtype, "itemsize": view.itemsize,
        "shape": view.shape, "strides": view.strides, "name": view.name,
    }  # fmt: skip


def _layout_of(launch: JobLaunch) -> Layout | None:
    layout = (launch["parameters"] or {}).get("layout", [])
    return None if layout is None else [(int(offset), int(size)) for offset, size in layout]


def is_triton(job: Job) -> bool:
    """Whether the launch is a compiled Triton kernel's, of which the parameters follow from its arguments.

    Of an AMD GPU they were captured as those of any other launch.
    """
    return bool(job["launch"]["mode"] != "native" and job["memory"] == "cuda")


def check(job: Job) -> None:
    """Refuse, by name, a job that lacks what a native launch is made of."""
    if is_triton(job):
        triton_kernels.check(job)
        return
    if job["launch"]["block"] is None:
        raise Refused("the reproducer does not say how many threads a block has")
    if job["launch"]["parameters"] is None and job["arguments"]:
        raise Refused("the reproducer does not hold the launch's parameters")
    if not job["images"]:
        raise Refused("the reproducer holds no image that the driver takes (cubin, PTX, fatbin or hsaco)")
