"""What generated kernels do: loads and stores with masks, loops, branches, gathers, atomics, reductions."""

from __future__ import annotations

from typing import Any

from tests.fuzz.sanitizer.case import Case
from tests.fuzz.sanitizer.generate import Writer
from tests.fuzz.sanitizer.patterns import Patterns


def generate(seed: int) -> Case:
    """The case of a seed."""
    writer = Writer(seed)
    Statements(writer).kernel()
    return writer.case()


class Statements(Patterns):
    """The straight code, and the loops that everyday kernels are made of."""

    def kernel(self) -> None:
        w = self.w
        w.launch_grid()
        w.line("total = 0.0")
        if w.chance(0.12):
            self.early_return()
        for _ in range(w.pick((1, 1, 2, 2, 3))):
            self.statement()
        self.last_store()

    def statement(self) -> None:
        w = self.w
        kinds: list[tuple[Any, float]] = [
            (self.elementwise, 5), (self.matrix, 4), (self.gather, 3), (self.scatter, 1.5),
            (self.atomic, 1.2),
            (self.stencil, 2), (self.reduced_address, 1.5), (self.compaction, 1.2), (self.wide, 1.5),
            (self.chosen_pointer, 1), (self.scratch, 1), *self.patterns(),
        ]  # fmt: skip
        if self.depth < 2:
            kinds += [
                (self.recomputed_loop, 3), (self.bumped_loop, 3), (self.while_loop, 1.5), (self.branch, 3),
                (self.segments, 1.5), (self.persistent, 1.5), (self.triangle, 1.2), *self.nested(),
            ]  # fmt: skip
        run = w.choose.choices([one for one, _ in kinds], [weight for _, weight in kinds])[0]
        self.depth += 1
        run()
        self.depth -= 1

    # --- the end ---------------------------------------------------------------------------------------

    def last_store(self) -> None:
        w = self.w
        if w.chance(0.5):
            at = w.linear()
            place = f"{w.tensor(read=False)} + {at.name}"
            if w.chance(0.3):
                place += f" * {w.number(w.pick((1, 2, 3)), 's')}"
            self.store(place, self.total, None)
            return
        tile = w.flat_tile(writes=True)
        self.store(f"{w.tensor(read=False)} + {tile.name}", f"{self.total} + {tile.name}", self.mask_of(tile))

    # --- straight code -------------------------------------------------------------------------------

    def elementwise(self) -> None:
        w = self.w
        together = w.chance(0.5)
        tile = w.flat_tile(writes=together)
        mask = self.mask_of(tile)
        value = self.load(f"{w.tensor(read=True)} + {tile.name}", mask, share_other=0.3 if together else 0.9)
        if together:
            kept = mask if w.chance(0.85) else self.mask_of(tile)
            self.store(f"{w.tensor(read=False)} + {tile.name}", f"{value} * 2.0", kept)
        else:
            self.add(value, tile.shape)

    def matrix(self) -> None:
        w = self.w
        tile, above, beside, row, _ = w.square_tile()
        mask = w.pick((f"({above}) & ({beside})", f"({above}) & ({beside})", above, beside, None))
        full = None if mask is None else w.let("m", mask)
        style = w.choose.random()
        if style < 0.4:
            value = self.load(f"{w.tensor(read=True)} + {tile.name}", full, share_other=0.9)
            rows = w.let("v", f"tl.sum({value}, 1)")
            self.store(f"{w.tensor(read=False)} + {row.name}", rows, self.mask_of(row))
        elif style < 0.7:
            value = self.load(f"{w.tensor(read=True)} + {tile.name}", full, share_other=0.4)
            self.store(f"{w.tensor(read=False)} + {tile.name}", value, full)
        else:
            self.store(f"{w.tensor(read=False)} + {tile.name}", f"{tile.name}.to(tl.float32)", full)

    def stencil(self) -> None:
        w = self.w
        tile = w.flat_tile()
        shift = w.pick((-2, -1, 1, 2))
        other = w.let("o", f"{tile.name} + {w.number(shift, 'd')}")
        text = f"({other} >= {w.number(w.pick((0, 0, 0, 1, -1)), 'n')})"
        text += f" & ({other} {w.pick(('<', '<', '<='))} {w.number(max(tile.top + shift, 1), 'n')})"
        self.add(self.load(f"{w.tensor(read=True)} + {other}", w.let("m", text), share_other=0.9), tile.shape)

    def scratch(self) -> None:
        """Written, then read by the same program."""
        w = self.w
        tile = w.flat_tile(writes=True)
        place = f"{w.tensor(read=False)} + {tile.name}"
        self.store(place, self.value_for(tile), None if w.chance(0.7) else self.mask_of(tile))
        self.add(self.load(place, None if w.chance(0.7) else self.mask_of(tile), share_other=0.9), tile.shape)

    def atomic(self) -> None:
        w = self.w
        call = w.pick(("tl.atomic_add", "tl.atomic_add", "tl.atomic_max"))
        counter = w.tensor("i32", read=False, contents=(0, 1))
        if w.chance(0.3):
            place = f"{counter} + {w.linear().name} % {w.number(w.pick((1, 2, 3)), 'n')}"
            w.line(f"{call}({place}, 1, sem='relaxed')")
            return
        tile = w.flat_tile()
        mask = self.mask_of(tile)
        index = f"{tile.name} % {w.number(w.pick((4, 7, 16)), 'n')}" if w.chance(0.5) else tile.name
        extra = "" if mask is None else f", mask={mask}"
        w.line(f"{call}({counter} + {index}, {w.pick(('1', tile.name))}{extra}, sem='relaxed')")

    def chosen_pointer(self) -> None:
        w = self.w
        tile = w.flat_tile()
        left, right = w.tensor(read=True), w.tensor(read=True)
        half = w.number(max(tile.top // 2, 1), "n")
        other = f"{tile.name} - {half}" if w.chance(0.7) else tile.name
        pointers = f"tl.where({tile.name} < {half}, {left} + {tile.name}, {right} + ({other}))"
        self.add(self.load(w.let("a", pointers), self.mask_of(tile), share_other=0.9), tile.shape)

    def wide(self) -> None:
        """Offsets that need 64 bits, or nearly so."""
        w = self.w
        tile = w.flat_tile(w.pick((2, 4, 8)))
        stride = w.pick((1 << 20, 1 << 26, 100_000_007, (1 << 30) // max(tile.top, 1) * 3))
        wide = w.chance(0.4)
        text = f"{tile.name}.to(tl.int64)" if wide else tile.name
        offset = w.let("o", f"{text} * {w.number(stride, 's')}")
        if w.chance(0.35):
            offset = w.let("o", f"{offset} // {w.number(stride, 's')}")
        elif w.chance(0.4):
            offset = w.let("o", f"{offset} & 15" if w.chance(0.5) else f"{offset} % 16")
        mask = w.let("m", f"{tile.name} < {w.number(w.pick((1, 2, 4, tile.top)), 'n')}")
        self.add(self.load(f"{w.tensor(read=True)} + {offset}", mask, share_other=0.9), tile.shape)

    # --- what comes from memory ----------------------------------------------------------------------

    def gather(self) -> None:
        w = self.w
        tile = w.flat_tile()
        mask = self.mask_of(tile)
        indices, _ = self.indices(w.pick((4, 16, 40)))
        at = self.load(f"{indices} + {tile.name}", mask, "i", 0.85)
        if w.chance(0.25):
            checked = w.let("m", f"({at} >= 0) & ({at} < {w.number(w.pick((4, 15, 16, 40)), 'n')})")
            mask = checked if mask is None else w.let("m", f"{mask} & {checked}")
        if w.chance(0.3):
            width = w.pick((2, 4))
            columns = w.let("c", f"tl.arange(0, {width})")
            row = f"{at}[:, None] * {w.number(w.near(width), 's')} + {columns}[None, :]"
            full = None if mask is None else f"{mask}[:, None]"
            value = self.load(f"{w.tensor(read=True)} + {row}", full, share_other=0.9)
            self.add(value, (*tile.shape, width))
            return
        self.add(self.load(f"{w.tensor(read=True)} + {at}", mask, share_other=0.9), tile.shape)

    def scatter(self) -> None:
        w = self.w
        tile = w.flat_tile()
        mask = self.mask_of(tile)
        indices, _ = self.indices(w.pick((8, 64)))
        at = self.load(f"{indices} + {tile.name}", mask, "i", 0.9)
        if w.chance(0.9):
            own = w.linear()
            at = w.let("i", f"{own.name} * {w.number(64, 's')} + {at}")
        self.store(f"{w.tensor(read=False)} + {at}", self.value_for(tile), mask)

    def reduced_address(self) -> None:
        w = self.w
        tile = w.flat_tile()
        indices, kind = self.indices(w.pick((4, 16)))
        value = self.load(f"{indices} + {tile.name}", self.mask_of(tile), "i", 0.95)
        reduce = w.pick(("tl.max", "tl.sum", "tl.min"))
        at = w.let("i", f"{reduce}({value}, 0)")
        if kind == "i32" and w.chance(0.3):
            at = w.let("i", f"tl.maximum({at}, 0)")
        if w.chance(0.5):
            self.add(self.load(f"{w.tensor(read=True)} + {at}", None), ())
            return
        row = w.let("o", f"{at} + tl.arange(0, 4)")
        self.add(self.load(f"{w.tensor(read=True)} + {row}", None), (4,))

    def compaction(self) -> None:
        w = self.w
        width = w.pick((4, 8, 16))
        tile = w.flat_tile(width)
        mask = self.mask_of(tile)
        source = w.tensor(read=True)
        w.steering.add(source)
        value = self.load(f"{source} + {tile.name}", mask, share_other=1.0)
        keep = w.let("k", f"{value} > {w.pick(('0.0', '-4.0'))}")
        if mask is not None and w.chance(0.5):
            keep = w.let("k", f"{keep} & {mask}")
        place = w.let("i", f"tl.cumsum({keep}.to(tl.int32), 0) - {w.pick((1, 1, 1, 0))}")
        base = f"{w.linear().name} * {w.number(w.near(width, 0.2), 's')}"
        self.store(f"{w.tensor(read=False)} + {base} + {place}", value, keep)

    def segments(self) -> None:
        """A loop from one number in memory to the next, as with rows of different lengths."""
        w = self.w
        at = w.linear()
        starts = w.tensor("i32", read=True, contents=(0, w.pick((3, 6))), rising=True)
        w.steering.add(starts)
        low = w.let("i", f"tl.load({starts} + {at.name})")
        high = w.let("i", f"tl.load({starts} + {at.name} + {w.number(1, 'd')})")
        width = w.pick((2, 4))
        counter = w.name("k")
        with w.block(f"for {counter} in range({low}, {high}, {width}):"):
            o = w.let("o", f"{counter} + tl.arange(0, {width})")
            mask = w.let("m", f"{o} {w.pick(('<', '<', '<', '<='))} {high}")
            if w.chance(0.8):
                self.add(self.load(f"{w.tensor(read=True)} + {o}", mask, share_other=0.9), (width,))
            else:
                self.store(f"{w.tensor(read=False)} + {o}", f"{o} + {self.total}", mask)

    # --- control flow --------------------------------------------------------------------------------

    def early_return(self) -> None:
        with self.w.block(f"if {self.condition()}:"):
            self.w.line("return")

    def branch(self) -> None:
        w = self.w
        style = w.choose.random()
        if style < 0.5:
            with w.block(f"if {self.condition()}:"):
                self.statement()
            if w.chance(0.4):
                with w.block("else:"):
                    self.statement()
            return
        tile = w.flat_tile()
        shift = w.name("d")
        w.line(f"{shift} = {w.number(w.pick((0, 1)), 'c')} + 0")
        with w.block(f"if {self.condition()}:"):
            w.line(f"{shift} = {w.linear().name} + {w.pick((-1, 0, 1, 7))}")
        place = f"{w.tensor(read=True)} + {tile.name} + {shift}"
        self.add(self.load(place, self.mask_of(tile), share_other=0.9), tile.shape)

    def recomputed_loop(self) -> None:
        w = self.w
        width = w.pick((2, 4, 8))
        length = width * w.pick((1, 2, 3, 4)) - w.pick((0, 0, 1, width - 1))
        bound, counter = w.number(length, "K"), w.name("k")
        inner = w.let("o", f"tl.arange(0, {width})")
        by_index = w.chance(0.4)
        head = f"range(tl.cdiv({bound}, {width}))" if by_index else f"range(0, {bound}, {width})"
        if w.chance(0.1):
            head = head.replace("range(", "tl.range(", 1)
        row = w.linear()
        with w.block(f"for {counter} in {head}:"):
            at = f"{counter} * {width}" if by_index else counter
            o = w.let("o", f"{at} + {inner}")
            mask = w.pick(
                (f"{o} < {bound}", f"{inner} < {bound} - {at}", f"{o} < {bound}", f"{o} <= {bound}", None)
            )
            mask = None if mask is None else w.let("m", mask)
            stride = w.number(w.near(length, 0.15), "s")
            place = f"{row.name} * {stride} + {o}" if w.chance(0.9) else o
            if w.chance(0.3):
                self.store(f"{w.tensor(read=False)} + {place}", f"{self.total} + {o}", mask)
            else:
                self.add(self.load(f"{w.tensor(read=True)} + {place}", mask, share_other=0.9), (width,))
            if self.depth < 2 and w.chance(0.25):
                self.statement()

    def bumped_loop(self) -> None:
        w = self.w
        width = w.pick((2, 4, 8))
        length = width * w.pick((1, 2, 3, 5)) - w.pick((0, 0, 1, width - 1))
        bound, counter = w.number(length, "K"), w.name("k")
        row = w.linear()
        lanes = w.let("o", f"tl.arange(0, {width})")
        reads = w.chance(0.7)
        stride = w.number(w.near(length, 0.15), "s")
        pointer = w.let("a", f"{w.tensor(read=reads)} + {row.name} * {stride} + {lanes}")
        trips = w.pick(
            (f"tl.cdiv({bound}, {width})",) * 3 + (f"tl.cdiv({bound}, {width}) + 1", f"{bound} // {width}")
        )
        step = w.near(width, 0.08)
        with w.block(f"for {counter} in range(0, {trips}):"):
            if w.chance(0.1):
                w.line(f"{pointer} += {step}")
            mask = w.pick(
                (f"{lanes} < {bound} - {counter} * {width}",) * 3
                + (f"{lanes} + {counter} * {width} <= {bound}", None)
            )
            mask = None if mask is None else w.let("m", mask)
            if reads:
                self.add(self.load(pointer, mask, share_other=0.9), (width,))
            else:
                self.store(pointer, f"{self.total} + {lanes}", mask)
            w.line(f"{pointer} += {step}")
        if w.chance(0.1):
            self.add(self.load(pointer, w.let("m", f"{lanes} < 1"), share_other=1.0), (width,))

    def while_loop(self) -> None:
        w = self.w
        bound = w.number(w.choose.randint(1, 12), "n")
        step = w.pick((1, 1, 2, 3))
        at = w.name("j")
        start = w.linear().name if w.chance(0.4) else "0"
        w.line(f"{at} = {start} + 0" if start != "0" else f"{at} = tl.program_id(0) * 0")
        with w.block(f"while {at} < {bound}:"):
            place = w.pick(
                (at, f"{at} + {w.pick(w.coordinates).name}", f"{at} * {w.number(w.pick((2, 3)), 's')}")
            )
            if w.chance(0.9):
                self.add(self.load(f"{w.tensor(read=True)} + {place}", None), ())
            else:
                self.store(f"{w.tensor(read=False)} + {place}", f"{at} * 1.0", None)
            w.line(f"{at} += {step}")
        if w.chance(0.2):
            self.add(self.load(f"{w.tensor(read=True)} + {at}", None), ())

    def triangle(self) -> None:
        """As causal attention: how far the loop goes depends on the program."""
        w = self.w
        width = w.pick((2, 4))
        one = w.pick(w.coordinates)
        counter = w.name("k")
        plus = w.number(w.pick((1, 1, 1, 2, 0)), "c")
        length = w.number(w.near(one.extent * width), "n")
        with w.block(f"for {counter} in range(0, ({one.name} + {plus}) * {width}, {width}):"):
            o = w.let("o", f"{counter} + tl.arange(0, {width})")
            mask = w.let("m", f"{o} < {length}") if w.chance(0.5) else None
            self.add(self.load(f"{w.tensor(read=True)} + {o}", mask, share_other=0.9), (width,))

    def persistent(self) -> None:
        w = self.w
        width = w.pick((2, 4, 8))
        tiles = w.choose.randint(1, 12)
        count, counter = w.number(tiles, "n"), w.name("t")
        total = w.number(tiles * width - w.pick((0, 0, 1, width - 1)), "n")
        first = w.linear().name
        step = w.grid[0] * w.grid[1] * w.grid[2]
        stride = (
            "tl.num_programs(0)"
            if w.grid[1:] == (1, 1) and w.chance(0.6)
            else w.number(w.near(step, 0.1), "e")
        )
        if stride.lstrip("(").startswith("0") or w.numbers.get(stride) == 0:
            stride = "1"
        with w.block(f"for {counter} in range({first}, {count}, {stride}):"):
            o = w.let("o", f"{counter} * {width} + tl.arange(0, {width})")
            mask = w.let("m", f"{o} {w.pick(('<', '<', '<='))} {total}")
            value = self.load(f"{w.tensor(read=True)} + {o}", mask, share_other=0.5)
            self.store(f"{w.tensor(read=False)} + {o}", value, mask)
