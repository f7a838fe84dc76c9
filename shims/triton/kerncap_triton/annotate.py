"""A launch that the native shim captures: the hook chooses it and says what the shim can't know."""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Optional

from . import native_shims, torch_allocator, torch_device, triton_generations
from .call import Call
from .chosen_launch import Refused, Watch
from .compiled_kernel import Awaiting
from .contract import RecordKind, key, word
from .kernels import Counters
from .reachable_memory import Unsupported, check_memory, storage_of
from .session import Session

_FOR_GRAPH = (
    "this launch is inside a {0} graph capture, where nothing can be copied, "
    "and the {0} shim of this process can't take it when the graph is launched"
)

_ONE_PARAMETER = re.compile(r"^\*?[a-z0-9]+$")  # no tuple and no tensor descriptor


class Annotation(Watch):
    """ANNOTATION before the launch and after it; memory, gate and conditions are the shim's.

    The shim goes by the kernel's name in its image. Inductor's launchers know it; Triton's own run
    may have to compile first, so there the choice is made in the last step before the launch.
    """

    def __init__(
        self,
        session: Session,
        counters: Counters,
        call: Call,
        fn: Any,
        ordinal: int,
        config: Optional[str],
        shim: native_shims.Shim,
    ):
        super().__init__(session, counters, call, fn, ordinal, config)
        self.compiled_name: Optional[str] = None  # of the kernel in its image, once it is known
        self.token = 0
        self._shim = shim
        self._in_graph = False
        self._kernel: Any = None  # Triton's CompiledKernel, where the launch came as far as that
        self._awaiting: Optional[Awaiting] = None

    def begin(self) -> None:
        """Write ANNOTATION and choose the launch. Raises Unsupported or Refused with the reason."""
        if self._shim.is_disarmed:
            raise Refused(word.filter.ordinal)
        views = Views()
        arguments = self._encode_arguments(views.add)
        self.size = views.size
        if self.session.selection.exceeds_limit(self.size):
            raise Refused(word.filter.limit)
        self._in_graph = torch_device.is_capturing()
        if self._in_graph and not self._shim.takes_graphs:
            raise Unsupported(_FOR_GRAPH.format(self._shim.name))
        launch = {**self._describe(arguments, self._grid()), key.views: views.records}
        self.token = self.session.next_launch() + 1
        # The record comes first: should the process die at the launch, it is all that is left of us.
        self.session.write(
            RecordKind.ANNOTATION, {key.token: self.token, key.launch: launch, key.graph: self._in_graph}
        )
        if self.compiled_name is not None:
            self._choose(self.compiled_name)
        else:
            self._awaiting = Awaiting(self.fn, self._about_to_launch)

    def _about_to_launch(self, kernel: Any) -> None:
        self._kernel = kernel
        self.compiled_name = str(kernel.name)
        self._choose(self.compiled_name)

    def _choose(self, name: str) -> None:
        annotation = f"{os.path.basename(self.session.process_folder or '')}/{self.token}"
        self._shim.own(name)
        choose: Callable[[str, int, str], None] = (
            self._shim.choose_in_graph if self._in_graph else self._shim.choose
        )
        torch_allocator.offer(self._shim)
        choose(name, self.token, annotation)
        by_values = self.session.options.when == word.when.nonfinite
        types = self._parameter_types() if by_values else None
        if types:
            self._shim.choose_types(self.token, types)

    def _parameter_types(self) -> Optional[str]:
        """As compiled, in the order of the parameters; None if one argument becomes several of them."""
        names = self.call.kernel.arg_names
        source = getattr(self._kernel, "src", None)
        signature = self.call.signature or triton_generations.signature(source, names)
        kinds = [signature[name] for name in names if signature.get(name, "constexpr") != "constexpr"]
        return ",".join(kinds) if all(_ONE_PARAMETER.match(kind) for kind in kinds) else None

    def finish(self, result: Any) -> None:
        """The launch returned: say what it compiled to, and settle as the shim has decided."""
        self._stop_waiting()
        if self._in_graph and self.compiled_name is not None:
            return self._keep(result)  # as far as the hook can tell: the graph is launched later
        self._settle_with_shim(result, f"the {self._shim.name} shim saw no launch of it")

    def raised(self, error: BaseException) -> None:
        """The launch raised. A fault does too, and the shim may have kept that."""
        self._stop_waiting()
        self._settle_with_shim(self._kernel, f"the launch raised {type(error).__name__}: {error}")

    def _settle_with_shim(self, kernel: Any, not_launched: str) -> None:
        status = self._shim.outcome(self.token)
        if status == native_shims.KEPT:
            self._keep(kernel)
        elif status == native_shims.NOT_LAUNCHED:
            self.fail(not_launched)
        else:  # the reason of a failure stands in the shim's own record
            self._settle("dropped" if status == native_shims.DROPPED else "failed")

    def _keep(self, kernel: Any) -> None:
        self.session.write(
            RecordKind.ANNOTATION, {key.token: self.token, key.complete: self._compiled(kernel)}
        )
        self._remember_last(None)  # the shim drops what makes room; this keeps our counts right
        self._settle("kept")

    def fail(self, reason: str) -> None:
        """The capture did not work out; the next match gets its place."""
        if self.settled:
            return
        self._stop_waiting()
        if self.token:
            self._shim.outcome(self.token)  # takes the choice back
        try:
            self.session.failed(self.call.kernel.qualified_name, reason)
        finally:
            self._settle("failed")

    def _stop_waiting(self) -> None:
        if self._awaiting is not None:
            self._awaiting.stop()
            self._awaiting = None


class Views:
    """The typed windows of a launch by address; which regions they lie in, the shim finds out."""

    def __init__(self) -> None:
        self.records: List[Dict[str, Any]] = []
        self._storages: Dict[int, int] = {}

    @property
    def size(self) -> int:
        """Bytes of the storages behind the views: the least that the shim will copy."""
        return sum(self._storages.values())

    def add(self, name: str, tensor: Any) -> int:
        """The index of the tensor's view. Raises Unsupported for one without memory."""
        check_memory(name, tensor)
        try:
            address = int(tensor.data_ptr())
        except Exception as error:
            kind = type(tensor).__name__
            raise Unsupported(f"argument {name} ({kind}) has no address: {error}") from error
        storage = storage_of(tensor)
        if storage is not None:
            self._storages[storage[0]] = storage[1]
        else:
            self._storages[address] = int(tensor.numel()) * int(tensor.element_size())
        self.records.append(
            {
                key.storage: None if storage is None else list(storage),
                key.address: address,
                key.dtype: str(tensor.dtype).replace("torch.", "", 1),
                key.itemsize: int(tensor.element_size()),
                key.shape: [int(n) for n in tensor.shape],
                key.strides: [int(n) for n in tensor.stride()],
                key.name: name,
                key.requires_grad: bool(tensor.requires_grad),
            }
        )
        return len(self.records) - 1
