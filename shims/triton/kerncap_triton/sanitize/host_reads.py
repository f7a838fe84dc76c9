"""Operations of torch that read unwritten memory: from `torch.empty`, and never stored to.

What is unwritten is known by its pattern (`fresh`), in whole words of 8 bytes. An operation that only moves
values, or chooses among them, carries the pattern along; one that computes with them, or shows them, is
reported with the place of the allocation. Tensors on the CPU only: on a GPU each look would wait for it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

from ..call import python_stack
from . import fresh_memory
from .messages import HostRead

_WORD = len(fresh_memory.PATTERN)
# Values go where they are wanted, or nowhere: looking at them comes later.
_MOVES = frozenset([
    "clone", "copy", "copy_", "_to_copy", "cat", "stack", "where", "masked_fill", "masked_fill_", "index",
    "index_select", "gather", "take", "take_along_dim", "constant_pad_nd", "masked_select", "index_put",
    "index_put_", "index_copy", "index_copy_", "scatter", "scatter_", "slice_scatter", "select_scatter",
    "diagonal_scatter", "as_strided_scatter", "masked_scatter", "masked_scatter_", "repeat", "roll", "flip",
    "_pin_memory", "repeat_interleave", "_unsafe_index", "_unsafe_index_put", "_unsafe_view", "tril",
    "triu", "tril_", "triu_", "index_fill", "index_fill_", "put", "put_", "embedding", "_foreach_copy",
    "_foreach_copy_", "_reshape_copy",
])  # fmt: skip
# What is written in place without being read; of the others that is so of their out= argument.
_ONLY_WRITES = frozenset([
    "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_", "geometric_", "cauchy_",
    "log_normal_", "bernoulli_", "resize_", "set_", "resize_as_", "as_strided_", "copy_", "index_put_",
    "index_copy_", "scatter_", "masked_fill_", "masked_scatter_", "index_fill_", "put_", "tril_", "triu_",
    "squeeze_", "unsqueeze_", "transpose_", "t_", "detach_", "_foreach_copy_", "_foreach_zero_",
    "_resize_output_",
])  # fmt: skip
# Factories, and questions about a tensor that its values have no part in.
_READ_NOTHING = ("empty", "new_", "zeros_like", "ones_like", "full_like", "rand", "sym_", "is_", "_is_")


class _Operation:
    """What an overload does to its arguments, by its schema."""

    def __init__(self, func: Any) -> None:
        schema = func._schema
        self.name = schema.name
        base = schema.name.rpartition("::")[2]
        self.moves = base in _MOVES or base.endswith("_copy")
        self.copies = base in ("clone", "_to_copy")  # each element, to the same index
        self.resizes = base in ("resize_", "resize_as_")
        self.read: List[Tuple[int, str]] = []
        aliases = any(one.alias_info is not None and not one.alias_info.is_write for one in schema.returns)
        if aliases or base.startswith(_READ_NOTHING):  # a view
            return
        if not schema.name.startswith("aten::"):  # a library's own: what it launches is looked at by itself
            return
        for index, one in enumerate(schema.arguments):
            written = one.alias_info is not None and one.alias_info.is_write
            if "Tensor" in str(one.type) and not (written and (one.kwarg_only or base in _ONLY_WRITES)):
                self.read.append((index, one.name))


class Reads:
    """``report`` gets the first read of what was allocated at one line."""

    def __init__(self, torch: Any, report: Callable[[HostRead], None]) -> None:
        self._torch = torch
        self._report = report
        self._operations: Dict[Any, _Operation] = {}
        self._reported: "set[Any]" = set()
        self._folder = torch.__file__.rpartition("/")[0] + "/"

    def mode(self) -> Any:
        from torch.utils._python_dispatch import TorchDispatchMode

        reads = self

        class WatchesReads(TorchDispatchMode):
            @classmethod
            def ignore_compile_internals(cls) -> bool:
                return True

            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return reads.call(func, args, kwargs or {})

        return WatchesReads()

    def call(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        operation = self._operations.get(func)
        if operation is None:
            operation = self._operations[func] = _Operation(func)
        carried: "list[tuple[Any, Any]]" = []
        if operation.read and fresh_memory.any_left():
            try:
                carried = self._look(operation, args, kwargs)
            except Exception:
                pass  # what can't be looked at counts as written
        before = args[0].untyped_storage().nbytes() if operation.resizes else 0
        result = func(*args, **kwargs)
        try:
            if operation.resizes:
                fresh_memory.fill_grown(args[0], before)
            elif carried:
                self._carry(operation, carried, result)
        except Exception:
            pass
        return result

    def _look(self, operation: _Operation, args: Any, kwargs: Dict[str, Any]) -> "list[tuple[Any, Any]]":
        """Arguments with unwritten elements, and which these are; reported unless they are only moved."""
        found = []
        for index, name in operation.read:
            value = args[index] if index < len(args) else kwargs.get(name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                unwritten = self._unwritten(tensor)
                if unwritten is None:
                    continue
                found.append((tensor, unwritten))
                if not operation.moves:
                    self._say(operation, name, tensor, unwritten)
        return found

    def _unwritten(self, tensor: Any) -> Any:
        """Of each element whether nobody wrote it; None if somebody wrote them all."""
        torch = self._torch
        if not isinstance(tensor, torch.Tensor) or not fresh_memory.is_plain(torch, tensor):
            return None
        storage = tensor.untyped_storage()
        if tensor.device.type != "cpu" or not tensor.numel() or not fresh_memory.may_be_unwritten(storage):
            return None
        itemsize, size = tensor.element_size(), int(storage.nbytes())
        step = max(_WORD, itemsize)
        steps = zip(tensor.size(), tensor.stride())
        end = (tensor.storage_offset() + sum((n - 1) * stride for n, stride in steps) + 1) * itemsize
        # The whole words around the tensor's elements.
        first = tensor.storage_offset() * itemsize // step * step
        last = min(-(-end // step) * step, size // step * step)
        if first >= last:
            return None
        if not fresh_memory.holds_pattern(storage, first, last):
            if not first and last == size // step * step:
                fresh_memory.forget(storage)
            return None
        count = (last - first) // _WORD
        words = torch.tensor([], dtype=torch.int64).set_(storage, first // _WORD, (count,), (1,))
        same = words == fresh_memory.WORD
        elements = same.repeat_interleave(_WORD // itemsize) if itemsize <= _WORD else same.view(-1, 2).all(1)
        short = (end - first) // itemsize - elements.numel()
        if short > 0:
            elements = torch.nn.functional.pad(elements, (0, short))
        unwritten = elements.as_strided(
            tensor.size(), tensor.stride(), tensor.storage_offset() - first // itemsize
        )
        return unwritten if bool(unwritten.any()) else None

    def _carry(self, operation: _Operation, carried: "list[tuple[Any, Any]]", result: Any) -> None:
        """The results may hold the pattern now, by which they are looked at in their turn."""
        made = fresh_memory.place_of(carried[0][0].untyped_storage())
        for tensor in result if isinstance(result, (list, tuple)) else (result,):
            if not isinstance(tensor, self._torch.Tensor) or not fresh_memory.is_plain(self._torch, tensor):
                continue
            if operation.copies:  # into another layout or type the pattern does not come along by itself
                self._mark(tensor, carried[0][1])
            fresh_memory.carry(self._torch, tensor, made)

    def _mark(self, tensor: Any, unwritten: Any) -> None:
        """Give a converted tensor the pattern in words of which all elements are unwritten."""
        torch = self._torch
        per_word = _WORD // tensor.element_size()
        if not per_word or tensor.storage_offset() or not tensor.untyped_storage().nbytes() >= _WORD:
            return
        marks = torch.empty_strided(tensor.size(), tensor.stride(), dtype=torch.bool).fill_(False)
        marks.copy_(unwritten)
        flat = torch.tensor([], dtype=torch.bool)
        flat.set_(
            marks.untyped_storage(), 0, (marks.untyped_storage().nbytes() // per_word * per_word,), (1,)
        )
        whole = flat.view(-1, per_word).all(1)
        words = torch.tensor([], dtype=torch.int64)
        words.set_(tensor.untyped_storage(), 0, (whole.numel(),), (1,))
        words[whole] = fresh_memory.WORD

    def _say(self, operation: _Operation, argument: str, tensor: Any, unwritten: Any) -> None:
        read = self._of_the_program(python_stack())
        made = self._of_the_program(fresh_memory.place_of(tensor.untyped_storage()))
        key = tuple(made[-1:] or read[-1:])
        if key in self._reported:
            return
        self._reported.add(key)
        first = unwritten.nonzero()[0].tolist()
        self._report(
            HostRead(
                operation=operation.name,
                argument=argument,
                dtype=str(tensor.dtype).replace("torch.", "", 1),
                shape=[int(n) for n in tensor.shape],
                unwritten=int(unwritten.sum()),
                first=[int(n) for n in first],
                stack=list(read),
                allocated=list(made),
            )
        )

    def _of_the_program(self, stack: fresh_memory.Stack) -> fresh_memory.Stack:
        """Without torch's own frames at the end."""
        end = len(stack)
        while end and stack[end - 1][0].startswith(self._folder):
            end -= 1
        return stack[:end]


def watch(torch: Any, report: Callable[[HostRead], None]) -> None:
    """From now on in this thread, and in backward passes from it: reads by torch of what nobody wrote."""
    Reads(torch, report).mode().__enter__()
    fresh_memory.own_modes = 1
