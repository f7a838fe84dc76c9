"""One opened job: its memory, states and launchers, and the operations on them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..common import printed
from ..common.bitmap import Bits
from ..common.failures import Fault, KernelError, Killed, Refused
from ..common.state_operations import StateOperations, lacking
from ..job import Job, JobView
from ..protocol import (
    REFERENCE,
    Backend,
    Compiled,
    Difference,
    Ended,
    HipImage,
    Image,
    Loaded,
    Nonfinite,
    Opened,
    Request,
    TritonImage,
    Variation,
    View,
    three,
)
from ..triton_launch.config import configured, varied, with_signature
from ..triton_launch.parameters import metadata
from . import compare_views, confine, replaced_functions, warm_triton
from .isolation import Rights, run_here
from .launchers.source_and_arguments import load
from .perturb import perturb
from .placed_values import PlacedValues
from .states import States
from .timing_ops import Timed
from .value_ops import Judging

_LAUNCHING = {
    each.__name__
    for each in (Backend.launch, Backend.time, Backend.interleaved, Backend.timings, Backend.streams)
}
_CANDIDATES_BYTES = 16 << 30  # of memory that a hostile one may map


class TorchBackend(StateOperations[States], Judging, Timed):
    """Answers the engine's requests: `protocol.Backend` says what each operation does."""

    backend = "torch"
    reload = repeat = until = infer = finish = launch_among = lacking

    def __init__(self, job: Job, folder: Path, memory: Any) -> None:
        self.job = {**job, "folder": str(folder)}
        self.folder = folder
        self.memory = memory
        # Loading Triton overlaps with what the device is given.
        self._warming = warm_triton.start() if memory.kind == "cuda" and job["launcher"] == "jit" else None
        memory.open(torch)
        self._apart: Any = self._forked() if memory.kind == "host" else None
        self.states = States(memory, job, folder)
        self.values = PlacedValues(self.job, memory)
        self._launchers: dict[str, Any] = {}
        self._expected: dict[int, Any] = {}  # view -> what the reference says

    def _forked(self) -> Any:
        """The process that launches, from this one as long as it knows no more than the launch's memory."""
        from .launch_process import Apart

        return Apart(self.job, self.memory)

    def handle(self, request: Request) -> Any:
        try:
            with self._hidden(request):
                return self.perform(request)
        except (Fault, KernelError, Refused):
            raise
        except Exception as error:
            # A launch that was queued went wrong: whatever came next got its error, and so will all else.
            if self.memory.kind == "cuda" and self.memory.is_lost():
                raise Fault(f"the kernel: {error}") from error
            raise

    @contextlib.contextmanager
    def _hidden(self, request: Request) -> Iterator[None]:
        """Out of reach of a hostile candidate that this runs: what is known of the result."""
        if not self.states.hostile or request.operation not in _LAUNCHING:
            yield
            return
        self.states.hide(True)
        try:
            yield
        finally:
            self.states.hide(False)

    # --- running -----------------------------------------------------------------------------------

    def open(self) -> Opened:
        import triton

        return Opened(
            torch.cuda.get_device_name(self.job["device"]) if self.memory.kind == "cuda" else "cpu",
            self._arch(), sorted(self.memory.relocated), getattr(self.memory, "notes", []),
            torch=torch.__version__, triton=triton.__version__, unconfined=confine.missing(),
        )  # fmt: skip

    def _arch(self) -> str:
        if self.memory.kind != "cuda":
            return ""
        major, minor = torch.cuda.get_device_capability(self.job["device"])
        return f"sm_{major}{minor}"

    def load(
        self, which: str, path: str, stages: str, variation: Variation, limit_s: float, image: Image | None,
        hip: HipImage | None,
    ) -> Loaded:  # fmt: skip
        if self._apart is not None:
            return self._on_host(which, Path(path), variation, limit_s)
        job = varied(self.job, variation)
        values = self.values if job is self.job else PlacedValues(job, self.memory)
        if self._warming is not None:
            self._warming.join()
        # Only a user's file can be meant to, and only if it is loaded into this very process.
        watched = (
            path.endswith(".py") and self.memory.kind == "cuda" and self.folder not in Path(path).parents
        )
        before = replaced_functions.functions() if watched else {}
        if isinstance(image, TritonImage):
            launcher = self._of_image(Path(path), job, values, image)
        else:
            launcher = self._launcher(Path(path), job, values, self.folder / stages)
        if before and (replaced := replaced_functions.replaced(before)):
            raise Fault(f"{Path(path).name} replaces {', '.join(replaced[:3])} in the process that judges it")
        self.unload(which)
        compiled = launcher.compiled(self.folder / stages)
        self._launchers[which] = launcher
        return Loaded(compiled)

    def _on_host(self, which: str, path: Path, variation: Variation, limit_s: float) -> Loaded:
        started = time.perf_counter()
        # All is compared with what was captured: it runs as it ran there, unless it is a stranger's.
        own = self.folder / "source" in path.parents and not self.job["stranger"]
        rights = None if own else self._rights(path)
        launcher = self._apart.launch(path, variation, rights)
        self._check_import(launcher.outcome(limit_s, only_load=True), path.name)
        self._launchers[which] = launcher
        grid = configured(self.job, variation.config)["launch"]["grid"]
        return Loaded(Compiled(compile_ms=(time.perf_counter() - started) * 1e3, grid=three(grid)))

    def _rights(self, path: Path) -> Rights:
        if not self.job["hostile"]:
            return Rights()
        return Rights(
            confine.readable_by(path, [str(self.folder / "regions"), self.job["reproducer"]]),
            _CANDIDATES_BYTES,
        )

    @staticmethod
    def _check_import(ended: Ended, name: str) -> None:
        if ended.status == "refused":
            raise Refused(ended.message)
        if ended.status == "killed":
            raise Killed
        if ended.status != "ok":
            text = ended.message.replace("the kernel", "the module's own code")
            message = text if text.startswith(name) else f"{name} can't be imported: {text}"
            raise KernelError(message, ended.detail, ended.place)

    def unload(self, which: str) -> None:
        launcher = self._launchers.pop(which, None)
        if launcher is not None and self.memory.kind == "cuda":
            self.memory.synchronize()
            launcher.unload()

    def _launcher(self, path: Path, job: Job, values: PlacedValues, folder: Path) -> Any:
        if path.suffix != ".py":
            from .launchers import binary, later_stages

            captured = metadata(job, path.name)
            if str(path) == str(self.folder / job["code"].get("cubin", "")):
                return binary.Binary(path, job, values)
            major, minor = torch.cuda.get_device_capability(job["device"])
            made = later_stages.make(path, captured, 10 * major + minor, folder)
            return binary.Binary(path, job, values, made)
        from .launchers.triton_jit import TritonJit  # the binary engine's too, with source beside the image

        return TritonJit(path, job, values)

    @staticmethod
    def _of_image(path: Path, job: Job, values: PlacedValues, said: TritonImage) -> Any:
        """A candidate that another process compiled: of its Python nothing comes here."""
        from .launchers import binary, later_stages

        image = path.read_bytes()
        made = later_stages.Made(image, said.metadata, {"cubin": image})
        return binary.Binary(path, with_signature(job, said.signature), values, made)

    def launch(self, which: str, limit_s: float) -> Ended:
        launcher = self._launchers[which]
        if self.memory.kind == "host":
            ended: Ended = launcher.outcome(limit_s)
            return replace(ended, status="error") if ended.status == "refused" else ended

        def whole() -> None:
            launcher.run()
            self.memory.synchronize()

        ended = run_here(whole)
        printed.flush()
        if ended.status == "error" and self.memory.is_lost():
            raise Fault(ended.message)
        return ended

    # --- states ------------------------------------------------------------------------------------

    def perturb(self, views: list[int], masks: dict[int, str]) -> int:
        changed = 0
        for index in views:
            view = self.job["views"][index]
            chosen = self._chosen(view, self._mask(masks[view["region"]]))
            changed += perturb(self.values.view(index), chosen, index)
        return changed

    # --- comparing typed views ---------------------------------------------------------------------

    def compare(self, views: list[tuple[int | View, float, float]], against: str) -> list[Difference]:
        return [
            replace(
                compare_views.compare(*self._pair(index, against), rtol, atol, self._equal(index, against)),
                view=index, name=self._name(index),
            )
            for index, rtol, atol in self._own(views)
        ]  # fmt: skip

    def within(self, views: list[tuple[int | View, float, float]], against: str) -> bool:
        return all(
            compare_views.within(*self._pair(index, against), rtol, atol, self._equal(index, against))
            for index, rtol, atol in self._own(views)
        )

    @staticmethod
    def _own(views: list[tuple[int | View, float, float]]) -> Iterator[tuple[int, float, float]]:
        for view, rtol, atol in views:
            if isinstance(view, View):
                raise Refused("all views of a launch with typed arguments are in the job")
            yield view, rtol, atol

    def _pair(self, index: int, against: str) -> tuple[Any, Any]:
        """A view's values now, and those of a state or of the user's reference."""
        now = self._typed(index, None)
        if against == REFERENCE:
            return now, self._expected[index].to(now.device)
        return now, self._typed(index, against)

    def nonfinite(self, views: list[int], masks: dict[int, str]) -> list[Nonfinite]:
        found = []
        for index in views:
            view, now, written = self.job["views"][index], self._typed(index, None), None
            if view["region"] in masks:
                written = self._chosen(view, self._mask(masks[view["region"]])).to(now.device)
            stats = compare_views.nonfinite(now, written, self.states.idle(view["region"]))
            found.append(replace(stats, view=index, name=self._name(index)))
        return found

    def _chosen(self, view: JobView, mask: Bits) -> Any:
        """For each element of a view whether its first byte is in the mask of its region."""
        if 0 in view["shape"]:
            return self.memory.to_device(torch.zeros(view["shape"], dtype=torch.bool))
        flags = np.zeros(mask.size, dtype=np.bool_)  # pages of the system, of which most are not needed
        for start, stop in mask.pages():
            flags[start:stop] = mask.flags(start, stop)
        bits = torch.from_numpy(flags)
        strides = [stride * view["itemsize"] for stride in view["strides"]]
        return self.memory.to_device(bits.as_strided(view["shape"], strides, view["offset"]))

    def _typed(self, index: int, state: str | None) -> Any:
        view = self.job["views"][index]
        region = view["region"]
        try:
            dtype = compare_views.dtype_of(view["dtype"])
        except ValueError as error:
            raise Refused(str(error)) from error
        size = self.states.sizes[region]
        data = self.states.now(region, 0, size) if state is None else self.states.whole(state, region)
        return compare_views.strided(data, view, dtype)

    # --- the user's reference ----------------------------------------------------------------------

    def reference(self, path: str) -> list[int]:
        self.states.restore("pre")
        module = load(Path(path))
        function = getattr(module, "reference", None)
        if not callable(function):
            raise Refused(f"{path} defines no function reference(args)")
        named: dict[str, int] = {}
        originals: dict[str, Any] = {}
        arguments: dict[str, Any] = {}
        for argument in self.job["arguments"]:
            name, value = argument["name"], argument["value"]
            if value["kind"] in ("tensor", "descriptor"):
                named[name] = value["view"]
                originals[name] = self.values.view(value["view"]).clone()
                arguments[name] = originals[name].clone()
            else:
                arguments[name] = self._plain(value, name)
        try:
            returned = function(arguments)
        except Exception as error:
            import traceback

            raise KernelError(f"reference() raised {error!r}", traceback.format_exc()) from error
        expected = self._expected_of(returned, arguments, originals, named, path)
        self._expected = {named[name]: tensor for name, tensor in expected.items()}
        return sorted(self._expected)

    def _plain(self, value: dict[str, Any], name: str) -> Any:
        try:
            return self.values.build(value, name, None)
        except Refused:
            return None  # a function or an opaque object is nothing that a reference computes with

    @staticmethod
    def _expected_of(
        returned: Any, arguments: dict[str, Any], originals: dict[str, Any], named: dict[str, int], path: str
    ) -> dict[str, Any]:
        if returned is None:
            changed = {}
            for name in named:
                now, old = arguments[name], originals[name]
                if compare_views.compare(now, old, 0.0, 0.0).different:
                    changed[name] = now
            return changed
        if not isinstance(returned, dict):
            raise Refused(
                f"reference() in {path} must return a dict of tensors or None, not {type(returned).__name__}"
            )
        expected = {}
        for name, tensor in returned.items():
            if name not in named:
                raise Refused(
                    f"reference() names {name}, which is not a tensor of the launch; "
                    f"those are {', '.join(named)}"
                )
            tensor = torch.as_tensor(tensor)
            if tuple(tensor.shape) != tuple(originals[name].shape):
                raise Refused(
                    f"reference() returns {name} with shape {tuple(tensor.shape)}, "
                    f"the launch has {tuple(originals[name].shape)}"
                )
            expected[name] = tensor.to(originals[name].dtype)
        return expected
