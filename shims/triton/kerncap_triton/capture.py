"""A capture by the hook itself: pre-state, the application's own launch, post-state, their records."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import time
from typing import Any, Dict, List, Optional

from . import conditions, encoded_values, torch_device, triton_generations
from .call import Call
from .chosen_launch import Refused, Watch
from .contract import RecordKind, key, word
from .kernels import Counters
from .memory_files import Image, images_of
from .memory_state import State
from .reachable_memory import ReachableMemory, Unsupported, size_text
from .session import Session


class Capture(Watch):
    """Where no native shim does it: the arguments' storages, while the target's other threads go on."""

    def __init__(
        self, session: Session, counters: Counters, call: Call, fn: Any, ordinal: int, config: Optional[str]
    ):
        super().__init__(session, counters, call, fn, ordinal, config)
        options = session.options
        self.condition = word.condition.on_fault if options.on_fault else options.when
        self.chunk = options.chunk_bytes
        self.drain_s = options.drain_timeout_s
        self.fault_s = options.fault_timeout_s
        self.reachable = ReachableMemory()
        self.launch: Optional[int] = None
        self.pre: Optional[State] = None
        self._post: Optional[Image] = None
        self.copy_ns = {key.pre: 0, key.post: 0}
        self._variants: Optional[int] = None
        self.started_ns = 0

    # --- before the launch -----------------------------------------------------------------------

    def begin(self) -> None:
        """Copy the pre-state and write LAUNCH. Raises Unsupported or Refused with the reason."""
        arguments = self._encode_arguments(self.reachable.add)
        self._close(self.reachable)
        self.size = self.reachable.size
        if self.uses_device and torch_device.is_capturing():
            raise Unsupported(
                "this launch is inside a CUDA graph capture, where nothing can be copied; "
                "it needs the CUDA shim, which takes it when the graph is launched"
            )
        self._check_size()
        grid = self._grid()
        self.launch = self.session.next_launch()
        self.drain("before the launch")
        if self.keeps_values:
            self._store_pre()
        self.session.write(RecordKind.LAUNCH, self._launch_record(arguments, grid))
        self._variants = triton_generations.compiled_count(self.fn)
        self.started_ns = time.perf_counter_ns()

    @property
    def uses_device(self) -> bool:
        return self.call.kernel.mode != word.mode.interpreter or any(
            not r.is_host for r in self.reachable.regions
        )

    @property
    def keeps_values(self) -> bool:
        return not self.session.options.no_values

    def _check_size(self) -> None:
        size = self.reachable.size
        limit = self.session.options.max_size
        if size > limit and self.keeps_values:
            raise Unsupported(
                f"its arguments hold {size_text(size)}, more than --max-size {size_text(limit)}: "
                f"{self.reachable.describe_sizes()}"
            )
        if self.session.selection.exceeds_limit(size):
            raise Refused(word.filter.limit)

    def drain(self, when: str, timeout_s: Optional[float] = None) -> None:
        """Wait for the current stream. Raises Unsupported past the deadline, and a fault of the device."""
        if not (self.uses_device and torch_device.is_live()):
            return
        deadline = self.drain_s if timeout_s is None else timeout_s
        if not torch_device.drain(torch_device.record_event(), deadline):
            raise Unsupported(f"stream did not finish within {deadline:g} s {when}")

    def _store_pre(self) -> None:
        assert self.launch is not None
        started_ns = time.perf_counter_ns()
        images = images_of(self.session)
        image = images.surviving(self.launch, "pre") if self.condition else images.file(self.launch, "pre")
        self.pre = State(self.reachable, image, self.chunk, self.drain_s)
        # Only the host's memory is there after a fault.
        self.pre.take(on_device=self.condition in (word.when.nonfinite, word.when.differs))
        self.copy_ns[key.pre] = time.perf_counter_ns() - started_ns

    def _launch_record(self, arguments: List[Dict[str, Any]], grid: List[int]) -> Dict[str, Any]:
        kept = self.keeps_values
        closure = {
            key.mode: word.memory.args,
            key.consistency: word.consistency.cooperative,
            key.included_bytes: self.reachable.size if kept else 0,
            key.left_out_bytes: 0 if kept else self.reachable.size,
            key.left_out: [] if kept else ["all contents (--no-values)"],
        }
        return {
            **self._describe(arguments, grid),
            key.launch: self.launch,
            key.device: describe_device(*self.call.device()),
            key.regions: [region.as_record() for region in self.reachable.regions],
            key.views: self.reachable.views,
            key.pre: self.pre.image.reference if self.pre is not None else None,
            key.pre_offsets: self.pre.offsets if self.pre is not None else [],
            key.closure: closure,
            key.condition: self.condition,
            key.time_ns: time.time_ns(),
            **({key.generation: self.generation} if self.generation else {}),
        }

    # --- after the launch ------------------------------------------------------------------------

    def finish(self, result: Any) -> None:
        """The launch returned: wait for it, keep or drop it, write COMPLETE or DROPPED."""
        try:
            self.drain(
                "after the launch", self.fault_s if self.condition == word.condition.on_fault else None
            )
        except Unsupported as error:
            if self.condition != word.condition.on_fault:
                raise
            return self._ended_badly(word.status.timeout, str(error), result)
        except Exception as error:
            return self._ended_badly(word.status.fault, f"{type(error).__name__}: {error}", result)
        duration_ns = self._duration_ns()
        if self.condition == word.condition.on_fault:
            return self.drop("the launch succeeded")
        fields: Dict[str, Any] = {
            key.status: word.status.complete,
            key.error: None,
            key.duration_ns: duration_ns,
            key.oracle: word.oracle.trusted,
        }
        if self.condition:
            detail = self._condition_holds()
            if detail is None:
                return self.drop(f"not {self.condition}")
            fields[key.oracle] = word.oracle.suspect
            fields.update({key.condition: self.condition, key.detail: detail})
        if self.pre is not None:
            fields.update(self._post_state(self.pre))
        self._complete({**fields, **self._compiled(result)})

    def raised(self, error: BaseException) -> None:
        """The launch raised; the caller raises the same error on."""
        text = f"{type(error).__name__}: {error}"
        if self.condition == word.condition.on_fault and is_fault(error):
            return self._ended_badly(word.status.fault, text, None)
        if self.condition:
            return self.drop(f"the launch raised {text}"[:2000])
        self.fail(f"the launch raised {text}")

    def fail(self, reason: str) -> None:
        """The capture did not work out; the next match gets its place."""
        if self.settled:
            return
        self._give_back()
        try:
            self.session.failed(self.call.kernel.qualified_name, reason, self.launch)
        finally:
            self._settle("failed")

    def drop(self, reason: str) -> None:
        self._give_back()
        self.session.write(RecordKind.DROPPED, {key.launch: self.launch, key.reason: reason})
        self._settle("dropped")

    def _ended_badly(self, status: str, error: str, result: Any) -> None:
        fields = {
            key.status: status,
            key.error: encoded_values.clean(error),
            key.duration_ns: None,
            key.oracle: status,
        }
        self._complete({**fields, **self._compiled(result)})

    def _duration_ns(self) -> Optional[int]:
        """From the call to an idle stream; None for a launch that also compiled its kernel."""
        elapsed = time.perf_counter_ns() - self.started_ns
        if self.call.kernel.mode != word.mode.jit:
            return elapsed
        now = triton_generations.compiled_count(self.fn)
        return elapsed if now is not None and now == self._variants else None

    def _post_state(self, pre: State) -> Dict[str, Any]:
        assert self.launch is not None
        pre.fetch()
        started_ns = time.perf_counter_ns()
        images = images_of(self.session)
        post = images.file(self.launch, "post")
        try:
            chunks = pre.compare(post.fd)
            post.close()
        except BaseException:
            images.discard(post)
            raise
        self._post = post
        self.copy_ns[key.post] = time.perf_counter_ns() - started_ns
        return {key.post: post.reference, key.chunks: [list(chunk) for chunk in chunks]}

    def _condition_holds(self) -> Optional[str]:
        if self.pre is None:
            raise Unsupported(f"--when {self.condition} needs the values")
        if self.condition == word.when.nonfinite:
            return conditions.nonfinite(self.reachable, self.pre)
        assert self.again is not None and self.launch is not None
        images = images_of(self.session)
        after = State(self.reachable, images.surviving(self.launch, "post"), self.chunk, self.drain_s)
        try:
            return conditions.differs(self.reachable, self.pre, after, self.again, self.drain)
        finally:
            images.discard(after.image)

    def _complete(self, fields: Dict[str, Any]) -> None:
        base: Dict[str, Any] = {
            key.launch: self.launch,
            key.post: None,
            key.chunks: [],
            key.condition: None,
            key.detail: None,
            key.copy_ns: self.copy_ns,
            key.keep: True,
        }
        if self.pre is not None and not self._is_in_ring:
            self.pre.image.close()  # the file, or the command line's own descriptor, keeps the bytes
        self.session.write(RecordKind.COMPLETE, {**base, **fields})
        image = self.pre.image if self.pre is not None and self._is_in_ring else None
        self.pre = self._post = None  # kept: nothing takes the files back any more
        for launch, oldest in self._remember_last((self.launch, image)):
            with contextlib.suppress(OSError):  # then one more than was asked for is sealed
                self._forget(launch, oldest)
        self._settle("kept")

    @property
    def _is_in_ring(self) -> bool:
        """A memfd whose launch `--last` may yet drop: it stays open, to be used again then."""
        return bool(self.session.options.last) and self.pre is not None and self.pre.image.path is None

    def _forget(self, launch: int, image: Any) -> None:
        """``--last N``: this one made room. Its files go with a DROPPED record."""
        reason = f"not among the last {self.session.options.last}"
        self.session.write(RecordKind.DROPPED, {key.launch: launch, key.reason: reason})
        if image is not None:
            images_of(self.session).discard(image)
        for kind in ("pre", "post"):
            with contextlib.suppress(OSError):
                os.unlink(self.session.path(f"{launch}.{kind}"))

    def _give_back(self) -> None:
        """The bytes of a launch that is not kept. First of all: the record of it may need the room."""
        if self.pre is not None:
            images_of(self.session).discard(self.pre.image)
            self.pre = None
        if self._post is not None:
            images_of(self.session).discard(self._post)
            self._post = None


def is_fault(error: BaseException) -> bool:
    """Whether an exception is the kernel's own failing, rather than a launch that never began."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"InterpreterError", "AcceleratorError"}:
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "CUDA error" in text or "Triton Error" in text or "HIP error" in text
    )


def describe_device(kind: str, index: int) -> Dict[str, Any]:
    if kind != word.device_kind.cpu:
        return torch_device.describe_device(index)
    name = platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            name = next(
                (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), name
            )
    except OSError:
        pass
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if sys.platform == "linux" else None
    return {
        key.kind: word.device_kind.cpu,
        key.name: name,
        key.arch: platform.machine(),
        key.ordinal: 0,
        key.memory_bytes: memory,
        key.driver: None,
    }
