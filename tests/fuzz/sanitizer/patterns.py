"""Shapes of code that sanitizers get wrong: values carried around a loop, branches on data, descriptors, …"""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.sanitizer.arithmetic import Arithmetic
from tests.fuzz.sanitizer.case import Tensor

Weighted = tuple[Callable[[], None], float]


class Patterns(Arithmetic):
    """Each method writes one; `statements` mixes them with the everyday ones."""

    def patterns(self) -> list[Weighted]:
        """Those that may stand anywhere, with their weights."""
        found: list[Weighted] = [
            (self.one_arange_twice, 1.5), (self.two_writers, 1.5), (self.permutation, 1),
            (self.loaded_mask, 1),
            (self.promise, 2), (self.descriptor, 2), (self.view_with_holes, 0.5), *self.computed(),
        ]  # fmt: skip
        if self.depth == 0:
            found.append((self.return_midway, 0.7))
        return found

    def nested(self) -> list[Weighted]:
        """Those that hold statements or loops."""
        return [(self.carried_loop, 3), (self.data_branch, 1), (self.binary_search, 0.8)]

    # --- loops and branches --------------------------------------------------------------------------

    def carried_loop(self) -> None:
        """A number that goes around the loop in some way, read before or behind its update."""
        w = self.w
        trips = w.number(w.choose.randint(0, 7), "n")
        head = w.pick(
            (f"range({trips})", f"range(0, {trips})", f"range(1, {w.pick(w.coordinates).name} + 1)")
        )
        counter, width = w.name("k"), w.pick((1, 2, 4))
        lanes = w.let("o", f"tl.arange(0, {width})") if width > 1 else ""
        row = f"{w.linear().name} * {w.number(w.pick((8, 16, 64)), 's')}" if w.chance(0.7) else ""
        a = w.let("j", f"tl.program_id(0) * 0 + {w.pick((0, 0, 1, 5))}")
        b = w.let("j", f"tl.program_id(0) * 0 + {w.pick((0, 3, 8))}")
        place = " + ".join(one for one in (row, a, lanes) if one)
        reads = w.chance(0.7)
        tensor = w.tensor(read=reads)

        def touch() -> None:
            mask = f"{lanes} + {a} < {w.number(w.pick((4, 8, 20)), 'n')}" if lanes and w.chance(0.4) else None
            mask = None if mask is None else w.let("m", mask)
            if reads:
                self.add(self.load(f"{tensor} + {place}", mask, share_other=0.9), (width,) if lanes else ())
            else:
                self.store(f"{tensor} + {place}", f"{counter} * 1.0", mask)

        with w.block(f"for {counter} in {head}:"):
            late = w.chance(0.4)
            if not late:
                touch()
            self._carried_update(a, b, counter)
            if late:
                touch()
        if w.chance(0.3):
            self.add(self.load(f"{w.tensor(read=True)} + {a}", None), ())

    def _carried_update(self, a: str, b: str, counter: str) -> None:
        w = self.w
        step, limit = w.pick((1, 2, 4, -1)), w.number(w.pick((4, 9, 12)), "n")
        updates = [
            f"{a} += {step}", f"{a} = {a} * 2 + 1", f"{a} = {limit} - {a}", f"{a} = ({a} + 3) % {limit}",
            f"{a} = tl.where({counter} % 2 == 0, {a} + {step}, {a})", f"{a} = {a} ^ 4",
            f"{a} = tl.minimum({a} + {step}, {limit})", f"{a} += {counter}", f"{a}, {b} = {b}, {a}",
            f"{a}, {b} = {b}, {a} + {b}", f"{a} = {counter} * {step}", f"{a} = {a} // 2 + {step}",
            f"{a} = {b}", f"{a} += {b}",
        ]  # fmt: skip
        style = w.choose.random()
        if style < 0.6:
            w.line(w.pick(updates))
        elif style < 0.8:
            tests = (f"{counter} > 1", f"{a} < {limit}", self.condition())
            with w.block(f"if {w.pick(tests)}:"):
                w.line(w.pick(updates))
            if w.chance(0.4):
                with w.block("else:"):
                    w.line(f"{a} += {w.pick((1, 3))}")
        else:
            if w.chance(0.5):  # from cell to cell, as in a linked list
                cells, _ = self.indices(w.pick((4, 12)))
                w.line(f"{a} = tl.load({cells} + {a}).to(tl.int32)")
            w.line(f"{b} += {w.pick((1, 2))}")
            w.line(w.pick((f"{a} += {b}", f"{a} = {b} * {w.pick((1, 3))}", f"{a} += 1")))

    def data_branch(self) -> None:
        w = self.w
        flags, _ = self.indices(w.pick((2, 5)))
        flag = w.let("i", f"tl.load({flags} + {w.linear().name})")
        with w.block(f"if {flag} {w.pick(('> 0', '== 1', '!= 2'))}:"):
            self.statement()
        if w.chance(0.3):
            with w.block("else:"):
                self.statement()

    def return_midway(self) -> None:
        """Only outside of other blocks: Triton has no other return."""
        w = self.w
        test = self.condition()
        if w.chance(0.6):
            flags, _ = self.indices(3)
            test = f"{w.let('i', f'tl.load({flags} + {w.linear().name})')} {w.pick(('> 0', '== 0', '!= 1'))}"
        with w.block(f"if {test}:"):
            w.line("return")

    def binary_search(self) -> None:
        w = self.w
        rows = w.tensor("i32", read=True, contents=(0, w.pick((3, 6))), rising=True)
        w.steering.add(rows)
        low, high, middle = w.name("l"), w.name("h"), w.name("m")
        w.line(f"{low} = tl.program_id(0) * 0")
        w.line(f"{high} = tl.program_id(0) * 0 + {w.number(w.pick((1, 7, 8, 20)), 'n')}")
        wanted = w.let("t", f"{w.linear().name} * {w.pick((1, 3))}")
        with w.block(f"while {low} {w.pick(('<', '<', '<', '<='))} {high}:"):
            w.line(f"{middle} = ({low} + {high}) // 2")
            with w.block(f"if tl.load({rows} + {middle}) {w.pick(('<', '<='))} {wanted}:"):
                w.line(f"{low} = {middle} + 1")
            with w.block("else:"):
                w.line(f"{high} = {middle}{w.pick(('', '', ' - 1'))}")
        self.add(self.load(f"{w.tensor(read=True)} + {low}", None), ())

    # --- tiles ---------------------------------------------------------------------------------------

    def one_arange_twice(self) -> None:
        """A square whose rows and columns are the same arange."""
        w = self.w
        width = w.pick((2, 4, 8))
        lanes = w.let("o", f"tl.arange(0, {width})")
        row, column = f"{lanes}[:, None]", f"{lanes}[None, :]"
        if w.chance(0.3):
            row, column = column, row
        base = w.let("b", f"{w.linear().name} * {w.number(w.near(width * width, 0.1), 's')}")
        offset = w.let("o", f"{base} + {row} * {w.number(w.near(width, 0.1), 's')} + {column}")
        masks = (f"{row} <= {column}", f"({row} < {width - 1}) & ({column} < {width})", f"{row} != {column}",
                 f"{row} + {column} < {w.number(w.pick((width, 2 * width - 2)), 'n')}", None)  # fmt: skip
        text = w.pick(masks)
        mask = None if text is None else w.let("m", text)
        value = f"({row} * 2.0 + {column})" if w.chance(0.5) else f"{base} + {row} - {column}"
        if w.chance(0.5):
            value = self.load(f"{w.tensor(read=True)} + {offset}", mask, share_other=0.6)
            if w.chance(0.4):
                self.add(value, (width, width))
                return
        if w.chance(0.3):
            offset = w.let("o", f"{base} + {column} * {width} + {row}")
            value, mask = (f"tl.trans({value})", None) if value.isidentifier() else (value, mask)
        self.store(f"{w.tensor(read=False)} + {offset}", f"({value}).to(tl.float32)", mask)

    def two_writers(self) -> None:
        """One tensor, written at two places: halves, halos, a neighbour's tile, a counter beside a store."""
        w = self.w
        tile = w.flat_tile(writes=True)
        if tile.top < 1:
            return
        tensor, o = w.tensor(read=False), tile.name
        half = w.number(w.choose.randint(1, tile.top), "n")
        style = w.choose.random()
        if style < 0.4:
            self.store(f"{tensor} + {o}", f"{o} * 1.0", w.let("m", f"{o} < {half}"))
            other = w.let("m", f"{o} {w.pick(('>=', '>=', '>=', '>'))} {half}{w.pick(('', '', ' - 1'))}")
            self.store(f"{tensor} + {o}", self.value_for(tile), other)
        elif style < 0.6:
            self.store(f"{tensor} + {o}", f"{self.total} + {o}", self.mask_of(tile))
            beyond = w.number(w.near(tile.top + 1, 0.3), "d")
            self.store(f"{tensor} + {beyond} + {o}", "2.0", self.mask_of(tile))
        elif style < 0.8:
            shift = w.number(w.pick((1, -1, tile.shape[0], 0, 0, tile.top + 1)), "d")
            text = f"({o} + {shift} >= 0) & ({o} + {shift} <= {w.number(tile.top, 'n')})"
            self.add(self.load(f"{tensor} + {o} + {shift}", w.let("m", text), share_other=1.0), tile.shape)
            self.store(f"{tensor} + {o}", "1.0", self.mask_of(tile))
        else:
            mask = w.let("m", f"{o} < {half}")
            at = f"{tensor} + {o} % {w.number(w.pick((2, 4)), 'n')}"
            w.line(f"tl.atomic_add({at}, 1.0, mask={mask}, sem='relaxed')")
            self.store(f"{tensor} + {o}", self.value_for(tile), w.let("m", f"{o} >= {w.pick((half, 4, 4))}"))

    def permutation(self) -> None:
        """A scatter whose indices are all different, or were so before somebody divided them."""
        w = self.w
        tile = w.flat_tile(writes=True)
        mask = self.mask_of(tile)
        indices = w.tensor(w.pick(("i32", "i64")), read=True, contents=(0, 1 << 12), distinct=True)
        w.steering.add(indices)
        at = self.load(f"{indices} + {tile.name}", mask, "i", 0.9)
        place = w.pick((at, at, at, f"{at} // 2", f"{at} * 2 + {w.number(1, 'd')}", f"{at} % 512"))
        self.store(f"{w.tensor(read=False)} + {place}", self.value_for(tile), mask)

    def loaded_mask(self) -> None:
        w = self.w
        tile = w.flat_tile(writes=True)
        mask = self.mask_of(tile)
        kind = w.pick(("i8", "i32"))
        flags = w.tensor(kind, read=True, contents=(0, 3))
        w.steering.add(flags)
        flag = self.load(f"{flags} + {tile.name}", mask, "i", 1.0)
        kept = w.let("m", f"{flag} {w.pick(('> 0', '!= 0', '== 2', '< 3'))}")
        if mask is not None and w.chance(0.5):
            kept = w.let("m", f"{kept} & {mask}")
        stored = w.chance(0.5)
        other = 0.5 if stored else 0.9
        value = self.load(f"{w.tensor(read=True)} + {tile.name}", kept, share_other=other)
        if stored:
            self.store(f"{w.tensor(read=False)} + {tile.name}", value, kept)
        else:
            self.add(value, tile.shape)

    # --- promises, descriptors, views ----------------------------------------------------------------

    def promise(self) -> None:
        """The next line after what it is about, as the sanitizer names that line."""
        w = self.w
        if w.chance(0.3):
            one = w.pick(w.coordinates)
            w.line(f"tl.assume({one.name} < {w.number(w.near(one.extent, 0.3), 'n')})")
            return
        width = w.pick((4, 8, 16))
        step, plus = w.pick((width, width, width // 2, 6)), w.pick((0, 0, 0, 4, 2))
        start = w.let("b", f"{w.linear().name} * {w.number(step, 's')} + {w.number(plus, 'c')}")
        if w.chance(0.5):
            w.line(f"{start} = tl.multiple_of({start}, {w.pick((2, 4, width))})")
        lanes = f"tl.arange(0, {width})"
        bent = (lanes, lanes, f"{lanes} * 2", f"{lanes} // 4", f"({lanes} ^ 1)", f"{lanes} % 6")
        o = w.let("o", f"{start} + {w.pick(bent)}")
        if w.chance(0.7):
            hint, amounts = w.pick((("max_contiguous", (2, 4, width)), ("max_constancy", (2, 4)),
                                    ("multiple_of", (2, 4, width))))  # fmt: skip
            w.line(f"{o} = tl.{hint}({o}, {w.pick(amounts)})")
        self.add(self.load(f"{w.tensor(read=True)} + {o}", None), (width,))

    def descriptor(self) -> None:
        """Tiles through tensor descriptors: what is outside of their shape is not touched."""
        w = self.w
        rows, columns = w.pick((1, 2, 4)), w.pick((4, 8))
        first, second = w.pick(w.coordinates), w.pick(w.coordinates)
        height = first.extent * rows - w.pick((0, 0, 1))
        width = -(-second.extent * columns // 4) * 4
        stride = w.number(width + w.pick((0, 0, 0, 4, 1)), "s")
        height, width = w.near(max(height, 1), 0.1), max(width - w.pick((0, 0, 3)), 1)
        shape = f"{w.number(height, 'n')}, {w.number(width, 'n')}"
        reads = w.chance(0.6)
        tensor = w.tensor(read=reads)
        made = w.let(
            "d", f"tl.make_tensor_descriptor({tensor}, [{shape}], [{stride}, 1], [{rows}, {columns}])"
        )
        shift = w.pick(("", "", "", " - 1", " + 2"))
        place = f"[{first.name} * {rows}{shift}, {second.name} * {columns}]"
        if reads:
            self.add(w.let("v", f"{made}.load({place})"), (rows, columns))
        else:
            value = f"tl.zeros(({rows}, {columns}), tl.float32) + {w.pick((self.total, first.name))}"
            w.line(f"{made}.store({place}, {value})")

    def view_with_holes(self) -> None:
        """Rows with room between them, as a slice of a wider tensor has; bounds are those of the view."""
        w = self.w
        w.view_bounds = True
        rows, width = w.pick((2, 4)), w.pick((2, 4, 8))
        columns = w.choose.randint(1, width)
        pitch = width + w.pick((0, 1, 3))
        name = w.name("x")
        w.tensors[name] = Tensor(name, "f32", columns=columns, pitch=pitch)
        r = w.let("r", f"{w.linear().name} * {rows} + tl.arange(0, {rows})")
        c = w.let("c", f"tl.arange(0, {width})")
        mask = w.let("m", f"({c}[None, :] < {w.number(w.near(columns, 0.2), 'n')}) & ({r}[:, None] >= 0)")
        offset = f"{r}[:, None] * {w.number(w.near(pitch, 0.1), 's')} + {c}[None, :]"
        self.add(self.load(f"{name} + {offset}", mask, share_other=0.9), (rows, width))
