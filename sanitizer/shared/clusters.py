"""Which part of a tensor or a buffer each block of a cluster has, and which operations leave that part.

As long as none does, all blocks do the same with their own parts, and one of them is followed for all.
An operation whose registers are laid out otherwise than its buffer reaches the blocks that `routes` says.
Source: Triton's TritonGPUAttrDefs.td (CGALayout, LinearEncodingAttr); its lowering to PTX.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from kerncap.sanitizer.shared.operands import has, short
from kerncap.sanitizer.shared.views import Box, memory_type
from kerncap.sanitizer.ttir.ir import Attribute, Module, OpaqueType, Operation, TensorType, Type
from kerncap.sanitizer.ttir.type_text import cut_first_comma

# For each bit of a block's number the axis and how far the part moves on it; None: it does not move.
Share = tuple[tuple[int, int] | None, ...]
_Bases = list[list[int]]
_MAX_DEPTH = 4
_BASES = r"\s*=\s*(\[[\[\]\d,\s]*\])"
_IN_SHARES = re.compile(r"\bCGALayout" + _BASES)
_IN_ELEMENTS = re.compile(r"\b(\w+)" + _BASES)
_BASIS, _STEP = re.compile(r"\[([\d,\s]+)\]"), re.compile(r"\d{1,9}")
_SLICE = re.compile(r"#ttg\.slice<\{\s*dim = (\d+), parent = (.*)\}>$", re.DOTALL)
_OPERAND = re.compile(r"#ttg\.dot_op<\{\s*opIdx = ([01]), parent = (#[\w.]+(?:<\{.*?\}>)?)", re.DOTALL)
_ROUTED = frozenset(("ttg.local_load", "ttg.local_store", "ttg.local_alloc", "ttng.async_shared_store"))
_REGISTERS = _ROUTED | {"ttg.async_copy_global_to_local"}
_INDEXED = frozenset(("ttg.local_gather", "ttg.local_scatter"))
_OF_ROWS = frozenset(("ttng.async_tma_gather", "ttng.async_tma_scatter"))
_CANCELS = frozenset(("ttng.clc_try_cancel", "ttng.async_clc_try_cancel"))
_ON_BARRIER = frozenset(
    ("ttng.init_barrier", "ttng.inval_barrier", "ttng.barrier_expect", "ttng.arrive_barrier",
     "ttng.wait_barrier", "ttng.tc_gen5_commit")
)  # fmt: skip
_TRANSFERS = frozenset(
    ("ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather", "ttng.async_shared_store")
)
_MULTICAST = frozenset(("ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather", "ttng.tc_gen5_mma"))
_BETWEEN_BLOCKS = frozenset(("tt.reduce", "tt.scan", "tt.gather", "tt.histogram", "ttng.fence"))
_NOT_KNOWN = 1 << 30  # blocks, more than any cluster has


@dataclass(frozen=True)
class Cluster:
    """``blocks``: how many a cluster has, a power of two.

    ``pairs``: whether tcgen05 is by two blocks together; None: the module is of a Triton before the one whose
    barriers in clusters are known.
    """

    blocks: int
    pairs: bool | None
    aliases: Mapping[str, Attribute]

    @classmethod
    def of(cls, module: Module) -> Cluster:
        blocks = module.attributes.get("ttg.num-ctas", 1)
        pairs = module.attributes.get("ttng.two-ctas")
        known = pairs if isinstance(pairs, bool) else None
        some = isinstance(blocks, int) and blocks > 0
        return cls(blocks if some else _NOT_KNOWN, known, module.aliases)

    def share(self, type_: Type) -> Share | None:
        """Of a tensor or a memory descriptor; None if its layout is not understood."""
        if self.blocks == 1:
            return ()
        memory = memory_type(type_)
        if memory is not None and isinstance(type_, OpaqueType):
            body = cut_first_comma(type_.text.partition("<")[2][:-1])[1]
            return self._share(cut_first_comma(body)[0], memory.shape)
        return self._share(type_.encoding, type_.shape) if isinstance(type_, TensorType) else None

    def size_bytes(self, type_: Type) -> int | None:
        """Of one block's part of a buffer."""
        memory, share = memory_type(type_), self.share(type_)
        if memory is None or share is None:
            return None
        return memory.size_bytes >> sum(one is not None for one in share)

    def part(self, type_: Type, block: int) -> Box | None:
        """A block's part of a tensor or a buffer; None if it is not one box, or not known."""
        memory, share = memory_type(type_), self.share(type_)
        shape = type_.shape if isinstance(type_, TensorType) else memory.shape if memory is not None else ()
        if share is None:
            return None
        box = []
        for axis, size in enumerate(shape):
            moves = [(bit, one[1]) for bit, one in enumerate(share) if one is not None and one[0] == axis]
            if sorted(by for _, by in moves) != [size >> at for at in range(len(moves), 0, -1)]:
                return None
            low = sum(by for bit, by in moves if block >> bit & 1)
            box.append((low, low + (size >> len(moves))))
        return tuple(box)

    def routes(self, registers: Type, memory: Type, block: int) -> list[tuple[int, Box | None, int]]:
        """Whose parts of a buffer a block's registers are stored to, or loaded from.

        For each such block the box of the buffer (None: all of it) and how many elements. A box ends where
        the buffer does if the other block has nothing behind it, so that boxes together are the buffer.
        """
        whole, mine = memory_type(memory), self.part(registers, block)
        assert whole is not None
        if self.share(registers) == self.share(memory):
            moved = sum(one is not None for one in self.share(memory) or ())
            return [(block, None, prod(whole.shape) >> moved)]
        found: list[tuple[int, Box | None, int]] = []
        for other in range(self.blocks):
            theirs = self.part(memory, other)
            assert mine is not None and theirs is not None  # or `crossing` had named the operation
            both = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(mine, theirs, strict=True)]
            if all(low < high for low, high in both):
                box = self.filled_out(both, theirs, whole.shape)
                found.append((other, box, prod(high - low for low, high in both)))
        return found

    @staticmethod
    def filled_out(box: Iterable[tuple[int, int]], part: Box, shape: tuple[int, ...]) -> Box:
        """Of a block's part, in the buffer's coordinates: what is not the block's belongs to its edges."""
        return tuple(
            (0 if low == first else low, size if high == last else high)
            for (low, high), (first, last), size in zip(box, part, shape, strict=True)
        )

    def sharing(self, type_: Type, block: int) -> list[int]:
        """The blocks that have the same part as ``block``, in order."""
        found = [block]
        for bit, one in enumerate(self.share(type_) or ()):
            if one is None:
                found += [other ^ 1 << bit for other in found]
        return sorted(found)

    @staticmethod
    def sender(operation: Operation, block: int) -> int:
        """Whose arrival a block's barrier gets: of the bits of its number, the operation says which count."""
        mask = operation.attributes.get("fromCTA", -1)
        return block & mask if isinstance(mask, int) else block

    def first(self, type_: Type, block: int) -> int:
        return self.sharing(type_, block)[0]

    def reached(self, module: Module, names: Container[str], blocks: int) -> str:
        """The first reason of `crossing`."""
        reasons = (self.crossing(one, blocks) for one in module.operations() if one.name in names)
        return next(filter(None, reasons), "")

    def synchronised(self, module: Module, blocks: int) -> str:
        """What may have the compiler add a barrier of the cluster, that orders more than is seen here."""
        if blocks == 1:
            return ""
        for one in module.operations():
            if one.name == "ttg.convert_layout":
                before, after = self.share(one.operands[0].type), self.share(one.results[0].type)
                moves = before is None or before != after
            else:
                moves = one.name in _BETWEEN_BLOCKS or one.name.startswith("tt.atomic")
            if moves:
                return f"{one.name} between blocks of a cluster is not modelled"
        return ""

    def crossing(self, operation: Operation, blocks: int) -> str:
        """Why it may touch what is another block's in a way that is not followed, as a sentence; else "".

        ``blocks``: how many are followed. If one is for all, it must stay in its part.
        """
        if self.blocks == 1:
            return ""
        name = short(operation)
        alone = blocks == 1
        if self.pairs and alone:
            return "tcgen05 by two blocks of a cluster is not modelled"
        if self.pairs is None and (not alone or operation.name.startswith("ttng.tc_gen5_")):
            return f"{name} in clusters of an older Triton is not modelled"
        if any("multicast" in flag.lower() and has(operation, flag) for flag in operation.attributes):
            first = [memory_type(one.type) for one in operation.operands[:2]]
            in_tensor_memory = any(one is not None and one.tensor_memory for one in first)
            if alone or operation.name not in _MULTICAST or in_tensor_memory:
                return f"{name} with multicast is not modelled"
        if self.sender(operation, self.blocks - 1) != self.blocks - 1 and alone:
            return f"{name} from another block of the cluster is not modelled"
        if operation.name in _CANCELS and alone:
            return f"{name} answers all blocks of a cluster, which is not modelled"
        memories = [one.type for one in operation.operands if memory_type(one.type) is not None]
        if operation.name == "ttng.tc_gen5_commit" and len(memories) > 1 and alone:
            return f"{name} for several blocks of a cluster is not modelled"
        return (
            self._barriers(operation, memories, alone)
            or self._registers(operation, memories, alone)
            or self._indexed(operation, memories, alone)
            or self._parts(operation, memories)
        )

    def _barriers(self, operation: Operation, memories: list[Type], alone: bool) -> str:
        products = operation.name.startswith(("ttng.tc_gen5_", "ttng.tmem_copy"))
        # The layouts of operands say which blocks learn of their end.
        if products and not alone and any(self.share(one) is None for one in memories):
            return _unknown(operation)
        if operation.name in _ON_BARRIER:
            barriers = memories[:1]
        elif operation.name in _TRANSFERS or operation.name in _CANCELS:
            if any(self.share(one) is None for one in memories):
                return _unknown(operation)
            barriers = memories[1:]
        elif products:
            barriers = [one for one in memories if _is_barrier(one)]
        else:
            return ""
        for one in barriers:
            share = self.share(one)
            if share is None:
                return _unknown(operation)
            sent = operation.name in _OF_ROWS | _CANCELS or self.sender(operation, -1) != -1
            if None in share and (alone or products or sent):
                return "a barrier that several blocks of a cluster share is not modelled"
        return ""

    def _registers(self, operation: Operation, memories: list[Type], alone: bool) -> str:
        """Each block's registers have to hold its own part of the buffer, or known parts of others'."""
        if operation.name not in _REGISTERS:
            return ""
        types = [one.type for one in (*operation.operands, *operation.results)]
        tensors = [one for one in types if isinstance(one, TensorType)][:1]
        if not tensors:
            return ""
        memory = next(filter(memory_type, types))
        shares = self.share(tensors[0]), self.share(memory)
        if None in shares:
            return _unknown(operation)
        if shares[0] == shares[1]:
            return ""
        whole = memory_type(memory)
        fits = whole is not None and whole.shape == tensors[0].shape
        known = not alone and operation.name in _ROUTED and fits and self._apart(memory)
        # Of a value that several blocks have, which one stores it is not known.
        loads = operation.name == "ttg.local_load" and self.part(tensors[0], 0) is not None
        if known and (loads or self._apart(tensors[0])):
            return ""
        return f"{short(operation)} between blocks of a cluster is not modelled"

    def _apart(self, type_: Type) -> bool:
        """Whether each element is one block's only, and each block's elements are next to each other."""
        share = self.share(type_)
        return share is not None and None not in share and self.part(type_, 0) is not None

    def _indexed(self, operation: Operation, memories: list[Type], alone: bool) -> str:
        """Which blocks' rows or elements indices lead to."""
        if operation.name not in _INDEXED | _OF_ROWS:
            return ""
        tensors = [one.type for one in operation.operands if isinstance(one.type, TensorType)]
        if not memories or not tensors:
            return _unknown(operation)
        memory, indices = memories[0], tensors[0]
        shares = self.share(memory), self.share(indices)
        if shares[0] is None or shares[1] is None:
            return _unknown(operation)
        if operation.name in _OF_ROWS:
            own = tuple(one if one is not None and one[0] == 0 else None for one in shares[0]) == shares[1]
        else:
            axis = operation.attributes.get("axis")
            own = shares[0] == shares[1] and all(one is None or one[0] != axis for one in shares[0])
        if own or not alone and operation.name in _INDEXED and self._apart(memory) and self._apart(indices):
            return ""
        return f"{short(operation)} between blocks of a cluster is not modelled"

    def _parts(self, operation: Operation, memories: list[Type]) -> str:
        if operation.name not in ("ttg.memdesc_index", "ttg.memdesc_subslice", "ttng.tmem_subslice"):
            return ""
        share = self.share(memories[0])
        source, result = memory_type(memories[0]), memory_type(operation.results[0].type)
        if share is None or source is None or result is None:
            return _unknown(operation)
        if operation.name == "ttg.memdesc_index":
            cut = [0]
        else:
            sizes = zip(source.shape, result.shape, strict=False)
            cut = [axis for axis, (old, new) in enumerate(sizes) if old != new]
        if any(one is not None and one[0] in cut for one in share):
            return "a part of a buffer that is cut across blocks of a cluster is not modelled"
        return ""

    def _share(self, text: str, shape: tuple[int, ...]) -> Share | None:
        layout = self._resolved(text)
        if layout.startswith(("#ttg.linear<", "#ttg.shared_linear<")):
            return self._of_elements(layout, len(shape))
        bases = self._bases(text, _MAX_DEPTH)
        if bases is None or 1 << len(bases) != self.blocks:
            return None
        before = len(shape) - len(bases[0])  # slots of a buffer, which the layout does not know
        if before < 0 or any(len(one) != len(bases[0]) for one in bases):
            return None
        moved = [_one_axis(one) for one in bases]
        found: list[tuple[int, int] | None] = []
        for one in moved:
            if one is None:
                return None
            axis, by = one
            if by == 0:
                found.append(None)
                continue
            steps = sorted(step for at, step in filter(None, moved) if at == axis and step)
            size, rest = divmod(shape[before + axis], 1 << len(steps))
            if steps != [1 << bit for bit in range(len(steps))] or rest:
                return None
            found.append((before + axis, by * size))
        return tuple(found)

    def _of_elements(self, layout: str, rank: int) -> Share | None:
        """Of a layout that says where each bit of registers, lanes, warps and blocks leads."""
        all_bases = {name: _read(text) for name, text in _IN_ELEMENTS.findall(layout)}
        blocks = all_bases.pop("block", [])
        if 1 << len(blocks) != self.blocks:
            return None
        found: list[tuple[int, int] | None] = []
        for one in blocks:
            moved = _one_axis(one)
            if moved is None or len(one) != rank:
                return None
            axis, by = moved
            rest = [other for bases in all_bases.values() for other in bases]
            if by & (by - 1) or any(len(other) != rank or other[axis] & by for other in rest):
                return None
            found.append((axis, by) if by else None)
        return tuple(found)

    def _bases(self, text: str, depth: int) -> _Bases | None:
        """How many shares each bit of a block's number moves, on each axis of the layout."""
        layout = self._resolved(text)
        sliced, operand = _SLICE.match(layout), _OPERAND.match(layout)
        if depth and (sliced or operand):
            found = sliced or operand
            assert found is not None
            number, parent = int(found[1]), self._bases(found[2], depth - 1)
            if parent is None:
                return None
            if sliced:
                return [one[:number] + one[number + 1 :] for one in parent]
            axis = -1 if number == 0 else -2
            return [[0 if at == len(one) + axis else step for at, step in enumerate(one)] for one in parent]
        own = _IN_SHARES.search(layout)
        return None if own is None or "parent" in layout else _read(own[1])

    def _resolved(self, text: str) -> str:
        found = self.aliases.get(text, text)
        return found if isinstance(found, str) else ""


def _is_barrier(type_: Type) -> bool:
    memory = memory_type(type_)
    return memory is not None and memory.is_barrier


def _unknown(operation: Operation) -> str:
    return f"the layout of {short(operation)} across blocks of a cluster is not modelled"


def _read(text: str) -> _Bases:
    return [list(map(int, _STEP.findall(one))) for one in _BASIS.findall(text)]


def _one_axis(basis: list[int]) -> tuple[int, int] | None:
    """The axis that it moves on and how far (0: nowhere); None for several axes."""
    moved = [(axis, by) for axis, by in enumerate(basis) if by]
    return None if len(moved) > 1 else moved[0] if moved else (0, 0)
