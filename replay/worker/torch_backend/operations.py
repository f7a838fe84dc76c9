"""One opened job: its memory, states and launchers, and the operations on them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ..common import printed
from ..common.failures import Fault, KernelError, Killed, Refused
from ..common.state_operations import StateOperations
from . import compare_views, confine, guard, warm_triton
from .isolation import Rights, run_here
from .launch_values import Values
from .launchers.config import configured, with_scalars, with_signature
from .launchers.source import load
from .perturb import perturb
from .states import States, unpack
from .timing_ops import Timed
from .value_ops import Judging

_LAUNCHING = ("launch", "time", "interleaved", "timings", "streams")
_CANDIDATES_BYTES = 16 << 30  # of memory that a hostile one may map


class Session(StateOperations[States], Judging, Timed):
    """Answers the engine's requests; every operation is one method named ``op_…``."""

    backend = "torch"

    def __init__(self, job: dict[str, Any], folder: Path, memory: Any) -> None:
        self.job = {**job, "folder": str(folder)}
        self.folder = folder
        self.memory = memory
        # Loading Triton overlaps with what the device is given.
        self._warming = warm_triton.start() if memory.kind == "cuda" and job["launcher"] == "jit" else None
        memory.open(torch)
        self._apart: Any = self._forked() if memory.kind == "host" else None
        self.states = States(memory, job, folder)
        self.values = Values(self.job, memory)
        self._launchers: dict[str, Any] = {}
        self._expected: dict[int, Any] = {}  # view -> what the reference says

    def _forked(self) -> Any:
        """The process that launches, from this one as long as it knows no more than the launch's memory."""
        from .apart import Apart

        return Apart(self.job, self.memory)

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
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
    def _hidden(self, request: dict[str, Any]) -> Iterator[None]:
        """Out of reach of a hostile candidate that this runs: what is known of the result."""
        if not self.states.hostile or request["op"] not in _LAUNCHING:
            yield
            return
        self.states.hide(True)
        try:
            yield
        finally:
            self.states.hide(False)

    # --- running -----------------------------------------------------------------------------------

    def op_open(self) -> dict[str, Any]:
        import triton

        return {
            "torch": torch.__version__, "triton": triton.__version__, "pid": os.getpid(),
            "relocated": {str(region): old for region, old in self.memory.relocated.items()},
            "device": torch.cuda.get_device_name(self.job["device"]) if self.memory.kind == "cuda" else "cpu",
            "notes": getattr(self.memory, "notes", []), "arch": self._arch(),
            "unconfined": confine.missing(),
        }  # fmt: skip

    def _arch(self) -> str:
        if self.memory.kind != "cuda":
            return ""
        major, minor = torch.cuda.get_device_capability(self.job["device"])
        return f"cuda:{major}{minor}"

    def op_load(
        self,
        which: str,
        path: str,
        stages: str,
        scalars: dict[str, str] | None = None,
        config: dict[str, Any] | None = None,
        limit_s: float = 60.0,
        launch: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Make a launcher of a file, the job's own or a candidate's; what it was compiled to.

        ``scalars`` are the values of numeric arguments that the launch did not have, ``config`` another
        configuration, ``launch`` what the compiler said of an image. ``stages`` is the folder in the job's
        for what the compiler made on its way.
        """
        if self._apart is not None:
            return self._on_host(which, Path(path), config, scalars, limit_s)
        job = with_scalars(configured(self.job, config), scalars)
        values = self.values if job is self.job else Values(job, self.memory)
        if self._warming is not None:
            self._warming.join()
        started = time.perf_counter()
        # Only a user's file can be meant to, and only where it is loaded into this very process.
        watched = (
            path.endswith(".py") and self.memory.kind == "cuda" and self.folder not in Path(path).parents
        )
        before = guard.functions() if watched else {}
        if launch is not None:
            launcher = self._of_image(Path(path), job, values, launch)
        else:
            launcher = self._launcher(Path(path), job, values, self.folder / stages)
        if before and (replaced := guard.replaced(before)):
            raise Fault(f"{Path(path).name} replaces {', '.join(replaced[:3])} in the process that judges it")
        self.op_unload(which)
        compiled = launcher.compiled(self.folder / stages)
        self._launchers[which] = launcher
        return {"compiled": {"compile_ms": (time.perf_counter() - started) * 1e3, **compiled}}

    def _on_host(
        self, which: str, path: Path, config: dict[str, Any] | None, scalars: dict[str, str] | None,
        limit_s: float,
    ) -> dict[str, Any]:  # fmt: skip
        started = time.perf_counter()
        # What was captured is what all is held against: it runs as it ran there, unless it is a stranger's.
        own = self.folder / "source" in path.parents and not self.job.get("stranger")
        rights = None if own else self._rights(path)
        launcher = self._apart.launch(path, config, scalars, rights)
        self._check_import(launcher.outcome(limit_s, only_load=True), path.name)
        self._launchers[which] = launcher
        grid = configured(self.job, config)["launch"]["grid"]
        return {"compiled": {"compile_ms": (time.perf_counter() - started) * 1e3, "grid": grid}}

    def _rights(self, path: Path) -> Rights:
        if not self.job.get("hostile"):
            return Rights()
        return Rights(
            confine.readable_by(path, [str(self.folder / "regions"), self.job["reproducer"]]),
            _CANDIDATES_BYTES,
        )

    @staticmethod
    def _check_import(outcome: dict[str, Any], name: str) -> None:
        if outcome["status"] == "refused":
            raise Refused(outcome["message"])
        if outcome["status"] == "killed":
            raise Killed
        if outcome["status"] != "ok":
            text = outcome["message"].replace("the kernel", "the module's own code")
            message = text if text.startswith(name) else f"{name} does not import: {text}"
            raise KernelError(message, outcome.get("detail", ""), outcome.get("place"))

    def op_unload(self, which: str) -> None:
        """Free what a launcher holds on the device; one that is not there holds nothing."""
        launcher = self._launchers.pop(which, None)
        if launcher is not None and self.memory.kind == "cuda":
            self.memory.synchronize()
            launcher.unload()

    def _launcher(self, path: Path, job: dict[str, Any], values: Values, folder: Path) -> Any:
        if path.suffix != ".py":
            from .launchers import binary, stages

            captured = binary.metadata(job, path)
            if str(path) == str(self.folder / job["code"].get("cubin", "")):
                return binary.Binary(path, job, values)
            major, minor = torch.cuda.get_device_capability(job["device"])
            made = stages.make(path, captured, 10 * major + minor, folder)
            return binary.Binary(path, job, values, made)
        from .launchers.triton_jit import TritonJit  # the binary engine's too, with source beside the image

        return TritonJit(path, job, values)

    @staticmethod
    def _of_image(path: Path, job: dict[str, Any], values: Values, launch: dict[str, Any]) -> Any:
        """A candidate that another process compiled: of its Python nothing comes here."""
        from .launchers import binary, stages

        image = path.read_bytes()
        made = stages.Made(image, launch["metadata"], {"cubin": image})
        return binary.Binary(path, with_signature(job, launch["signature"]), values, made)

    def op_launch(self, which: str, limit_s: float) -> dict[str, Any]:
        """Run one launch to its end. Its outcome is data: ok, error, fault or timeout."""
        launcher = self._launchers[which]
        if self.memory.kind == "host":
            outcome = launcher.outcome(limit_s)
            return {"outcome": {**outcome, "status": outcome["status"].replace("refused", "error")}}

        def whole() -> None:
            launcher.run()
            self.memory.synchronize()

        outcome = run_here(whole)
        printed.flush()
        if outcome["status"] == "error" and self.memory.is_lost():
            raise Fault(outcome["message"])
        return {"outcome": outcome}

    # --- states ------------------------------------------------------------------------------------

    def op_perturb(self, views: list[int], masks: dict[str, str]) -> dict[str, Any]:
        """Other contents, the same each time, for those elements of ``views`` that are in a mask."""
        changed = 0
        for index in views:
            view = self.job["views"][index]
            chosen = self._chosen(view, self._mask(masks[str(view["region"])]))
            changed += perturb(self.values.view(index), chosen, index)
        return {"changed": changed}

    # --- comparing typed views ---------------------------------------------------------------------

    def op_compare(self, views: list[dict[str, Any]], against: str) -> dict[str, Any]:
        """Statistics per view ``{view, rtol, atol}`` against a state, or ``reference``."""
        found = []
        for wanted in views:
            now, expected = self._pair(wanted["view"], against)
            stats = compare_views.compare(now, expected, wanted["rtol"], wanted["atol"])
            found.append({"view": wanted["view"], "name": self._name(wanted), **stats})
        return {"views": found}

    def op_within(self, views: list[dict[str, Any]], against: str) -> dict[str, Any]:
        """Whether nothing of the views ``{view, rtol, atol}`` is outside of its tolerance, and no more."""
        pairs = ((self._pair(each["view"], against), each["rtol"], each["atol"]) for each in views)
        return {"within": all(compare_views.within(*pair, rtol, atol) for pair, rtol, atol in pairs)}

    def _pair(self, index: int, against: str) -> tuple[Any, Any]:
        """A view's values now, and those of a state or of the user's reference."""
        now = self._typed(index, None)
        if against == "reference":
            return now, self._expected[index].to(now.device)
        return now, self._typed(index, against)

    def op_nonfinite(self, views: list[int], masks: dict[str, str]) -> dict[str, Any]:
        """NaN and infinities among the written elements of each view."""
        found = []
        for index in views:
            view = self.job["views"][index]
            written = None
            if str(view["region"]) in masks:
                written = self._chosen(view, self._mask(masks[str(view["region"])]))
            now = self._typed(index, None)
            stats = compare_views.nonfinite(now, None if written is None else written.to(now.device))
            found.append({"view": index, "name": view.get("name", ""), **stats})
        return {"views": found}

    def _chosen(self, view: dict[str, Any], mask: Any) -> Any:
        """For each element of a view 1 if its first byte is in the mask of its region, else 0."""
        if 0 in view["shape"]:
            return self.memory.to_device(torch.zeros(view["shape"], dtype=torch.uint8))
        bits = torch.from_numpy(unpack(mask, 0, self.states.sizes[view["region"]]))
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

    def op_reference(self, path: str) -> dict[str, Any]:
        """Run the user's ``reference(args)`` on copies of the pre-state; the views that it speaks of."""
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
        return {"views": sorted(self._expected)}

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
                if compare_views.compare(now, old, 0.0, 0.0)["different"]:
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
                    f"reference() names {name}, which is no tensor of the launch; "
                    f"those are {', '.join(named)}"
                )
            tensor = torch.as_tensor(tensor)
            if tuple(tensor.shape) != tuple(originals[name].shape):
                raise Refused(
                    f"reference() gives {name} the shape {tuple(tensor.shape)}, "
                    f"the launch {tuple(originals[name].shape)}"
                )
            expected[name] = tensor.to(originals[name].dtype)
        return expected
