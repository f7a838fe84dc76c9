"""Offsets by any integer or float arithmetic, and by what an atomic gave back."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.sanitizer.generate import Tile
from tests.fuzz.sanitizer.pieces import Pieces

Text = tuple[str, str]  # an expression, and the type of its elements
_SMALL = ("i8", "i16", "u8", "u16")
_NAMES = {
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32",
}  # fmt: skip


def cast(text: str, kind: str) -> str:
    return f"({text}).to(tl.{_NAMES[kind]})"


class Arithmetic(Pieces):
    """Each method of `computed` writes one statement; `expression` grows a tree."""

    def computed(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self.computed_offset, 5), (self.computed_mask, 2), (self.rounded_offset, 1.5),
            (self.claimed_slot, 0.8), (self.rearranged, 1.2), (self.truncated, 1),
            (self.counted, 0.8),
        ]  # fmt: skip

    # --- trees -----------------------------------------------------------------------------------------

    def leaf(self, tile: Tile) -> Text:
        w = self.w
        style = w.choose.random()
        if style < 0.45:
            return tile.name, "i32"
        if style < 0.6:
            return str(w.pick(w.coordinates).name), "i32"
        if style < 0.75:
            return w.number(w.pick((1, 2, 3, 5, 8, 31, 100, -1, -7)), "n"), "number"
        kind = w.pick(("i32", "i32", "i64", "i8", "i16"))
        contents = w.pick(((0, 16), (-4, 12), (1, 5), (0, 40), (0, 120)))
        name = w.tensor(kind, read=True, contents=contents)
        w.steering.add(name)
        return self.load(f"{name} + {tile.name}", self.mask_of(tile), "i", 0.93), kind

    def expression(self, tile: Tile, depth: int) -> Text:
        w = self.w
        if depth == 0 or w.chance(0.1):
            text, kind = self.leaf(tile)
            # A small type takes no number that it does not hold, which is Triton's own error.
            return (cast(text, "i32"), "i32") if kind in _SMALL and w.chance(0.7) else (text, kind)
        style = w.choose.random()
        if style < 0.6:
            return self.binary(tile, depth)
        text, kind = self.widened(self.expression(tile, depth - 1))
        if style < 0.72:
            to = w.pick(("i64", "i64", "i32", "i16", "i8", "u32", "u8", "u16"))
            # Arithmetic of two signs is an error for a division: back at once.
            back = "i64" if w.chance(0.3) else "i32"
            return cast(cast(text, to), back), back
        if style < 0.8:
            bound = self.w.number(w.pick((1, 4, 9, 30, -2)), "n")
            call = w.pick(("minimum", "maximum"))
            return f"tl.{call}({text}, {bound})", kind
        if style < 0.9:
            other, _ = self.widened(self.expression(tile, depth - 1))
            condition = f"({text}) {w.pick(('<', '>=', '==', '!='))} {w.number(w.pick((0, 3, 8, 20)), 'n')}"
            if w.chance(0.3):
                condition = f"({condition}) & ({tile.name} < {w.number(w.pick((2, tile.top, 7)), 'n')})"
            return f"tl.where({condition}, {cast(text, 'i64')}, {cast(other, 'i64')})", "i64"
        return w.pick(
            (f"-({text})", f"~({text})", f"tl.abs({text})", f"({text}) ^ {w.pick((1, 3, 8))}")
        ), kind

    def widened(self, one: Text) -> Text:
        """No bare number: those have no type and no methods."""
        text, kind = one
        if kind == "number":
            return f"(tl.program_id(0) * 0 + {text})", "i32"
        return (cast(text, "i32"), "i32") if kind in _SMALL else one

    def binary(self, tile: Tile, depth: int) -> Text:
        w = self.w
        left, kind = self.widened(self.expression(tile, depth - 1))
        if w.chance(0.5):
            right, other = self.widened(self.expression(tile, depth - 1))
        else:
            right, other = w.number(w.pick((1, 2, 3, 4, 7, 8, 16, 64, -1, -3)), "n"), "number"
        sign = w.choose.choices(
            ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"), (6, 4, 4, 3, 3, 2, 1, 1, 1.2, 1.5)
        )[0]
        kind = "i64" if "i64" in (kind, other) else "i32"
        if sign in ("//", "%") and other != "number" and w.chance(0.75):
            right = w.pick((f"(({right}) | 1)", f"tl.maximum({right}, 1)", f"(tl.abs({right}) + 1)",
                            f"tl.where(({right}) == 0, 3, {right})"))  # fmt: skip
        if sign in ("<<", ">>") and (other != "number" or w.chance(0.5)):
            right = w.pick((f"(({right}) & 7)", f"tl.minimum(tl.maximum({right}, 0), 5)", "2", right))
        return f"({left}) {sign} ({right})", kind

    def bounded(self, text: str) -> tuple[str, str | None]:
        """An offset in some range by the usual ways, and the mask that it needs, if any."""
        w = self.w
        size = w.pick((4, 8, 16, 40))
        number = w.number(size, "n")
        style = w.choose.random()
        at = w.let("o", text)
        if style < 0.25:
            return w.let("o", f"{at} & {size - 1 if size != 40 else 31}"), None
        if style < 0.45:
            return w.let("o", f"(({at}) % {number} + {number}) % {number}"), None
        if style < 0.6:
            low = w.let("o", f"tl.maximum({at}, 0)")
            return w.let("o", f"tl.minimum({low}, {number} - 1)"), None
        if style < 0.9:
            below = w.pick(("<", "<", "<", "<="))
            return at, w.let("m", f"({at} >= 0) & ({at} {below} {number})")
        if style < 0.95:
            return w.let("o", f"{at} % {number}"), w.let("m", f"{at} >= 0")
        return at, None

    # --- statements ------------------------------------------------------------------------------------

    def computed_offset(self) -> None:
        w = self.w
        tile = w.flat_tile(w.pick((2, 4, 8, 8)))
        text, _ = self.widened(self.expression(tile, w.pick((1, 2, 2, 3))))
        at, mask = self.bounded(text)
        mask = self.spread(mask, tile)
        self.access(at, mask, tile)

    def spread(self, mask: str | None, tile: Tile) -> str | None:
        """A mask in the tile's shape: an offset of coordinates alone is a scalar."""
        return None if mask is None else self.w.let("m", f"{mask} & ({tile.name} == {tile.name})")

    def access(self, at: str, mask: str | None, tile: Tile) -> None:
        """A load, a store or an atomic there."""
        w = self.w
        zero = f"{tile.name} * 0"
        style = w.choose.random()
        if style < 0.6:
            value = self.load(f"{w.tensor(read=True)} + ({at} + {zero})", mask, share_other=0.95)
            self.add(value, tile.shape)
        elif style < 0.85:
            own = f"{w.linear().name} * {w.number(64, 's')} + " if w.chance(0.85) else ""
            self.store(f"{w.tensor(read=False)} + ({own}{at} + {zero})", self.value_for(tile), mask)
        else:
            counter = w.tensor("i32", read=False, contents=(0, 1))
            extra = "" if mask is None else f", mask={mask}"
            w.line(f"tl.atomic_add({counter} + ({at} + {zero}), 1{extra}, sem='relaxed')")

    def computed_mask(self) -> None:
        w = self.w
        tile = w.flat_tile(w.pick((4, 8)))
        text, _ = self.widened(self.expression(tile, w.pick((1, 2))))
        test = f"({text}) {w.pick(('<', '>', '==', '!=', '>='))} {w.number(w.pick((0, 1, 5, 12)), 'n')}"
        mask = self.spread(w.let("m", test), tile)
        bound = self.mask_of(tile)
        if bound is not None and w.chance(0.7):
            mask = w.let("m", f"{mask} {w.pick(('&', '&', '&', '|'))} {bound}")
        self.access(tile.name, mask, tile)

    def truncated(self) -> None:
        """64 bits on the way, 32 in the end: right as long as the value fits."""
        w = self.w
        tile = w.flat_tile(w.pick((4, 8)))
        stride = w.number(w.pick((1 << 20, 1 << 26, 3 << 29, 5)), "s")
        wide = w.let("o", f"{tile.name}.to(tl.int64) * {stride}")
        back = w.pick(
            (f"{wide} // {stride}", f"{wide} >> {w.pick((3, 20))}", f"{wide} % {w.pick((8, 17))}", wide)
        )
        narrow = w.pick(("i32", "i32", "i16", "u32"))
        at = w.let("o", cast(back, narrow))
        if narrow == "u32":
            at = w.let("o", cast(at, "i64"))
        bound = w.number(w.near(tile.top + 1, 0.2), "n")
        self.access(at, w.let("m", f"({at} >= 0) & ({at} < {bound})") if w.chance(0.7) else None, tile)

    def rounded_offset(self) -> None:
        """Through floats and back."""
        w = self.w
        tile = w.flat_tile(w.pick((4, 8)))
        x = w.let("f", f"{tile.name}.to(tl.float32)")
        ways = (
            f"{x} * 0.5", f"{x} / {w.pick((2.0, 4.0, 3.0))}", f"{x} * 1.5 + 0.25", f"tl.sqrt(tl.abs({x}))",
            f"tl.floor({x} * 0.25)", f"{x} / ({x} - {w.pick((2.0, 1.0))})", f"{x} * {w.pick(('1e9', '3e8'))}",
            f"{tile.name} / {w.pick((2, 4, 8))}", f"{x} * 0.1",
        )  # fmt: skip
        y = w.let("f", w.pick(ways))
        at = w.let("o", cast(y, w.pick(("i32", "i32", "i64", "i8"))))
        at = w.let("o", cast(at, "i32")) if w.chance(0.5) else at
        offset, mask = self.bounded(at)
        self.access(offset, self.spread(mask, tile), tile)

    def claimed_slot(self) -> None:
        """Where to store is what an atomic gave back."""
        w = self.w
        w.any_order = True
        counter = w.tensor("i32", read=False, contents=(0, 1), fresh=False)
        call = w.pick(("add", "add", "add", "max", "xchg", "or"))
        step = w.pick((1, 1, 2, 4))
        slot = w.let("i", f"tl.atomic_{call}({counter}, {w.pick((step, step, w.pick(w.coordinates).name))})")
        limit = w.number(w.near(step * w.grid[0] * w.grid[1] * w.grid[2], 0.3), "n")
        test = w.pick((f"if {slot} < {limit}:", f"if {slot} >= 0:"))
        output = w.tensor(read=False)
        lanes = "" if step == 1 or w.chance(0.3) else f" + tl.arange(0, {step})"
        with w.block(test):
            self.store(
                f"{output} + {slot}{lanes}", w.pick((f"{slot} * 1.0", w.pick(w.coordinates).name)), None
            )

    def counted(self) -> None:
        """Sorted, or where the elements of each bin begin, as sorts by counting do it."""
        w = self.w
        tile = w.flat_tile(w.pick((4, 8)))
        mask = self.mask_of(tile)
        indices, _ = self.indices(w.pick((4, 8)))
        loaded = w.let("i", cast(self.load(f"{indices} + {tile.name}", mask, "i", 0.7), "i32"))
        if w.chance(0.4):
            self.access(w.let("o", f"tl.sort({loaded})"), self.mask_of(tile) if w.chance(0.3) else None, tile)
            return
        of = w.pick((mask, mask, None, f"({tile.name} < {w.number(w.near(tile.top), 'n')})"))
        bins = w.let("h", f"tl.histogram({loaded} & 7, 8{'' if of is None else f', mask={of}'})")
        at = w.let("o", f"tl.cumsum({bins}, 0) - {w.pick((bins, bins, 1))}")
        self.add(self.load(f"{w.tensor(read=True)} + {at}", None), (8,))

    def rearranged(self) -> None:
        """Tiles turned round, gathered from, mixed."""
        w = self.w
        width = w.pick((4, 8))
        tile = w.flat_tile(width)
        o = tile.name
        indices, _ = self.indices(w.pick((4, 8)))
        loaded = self.load(f"{indices} + {o}", self.mask_of(tile), "i", 0.95)
        style = w.choose.random()
        if style < 0.25:
            at = w.let("o", f"tl.flip({loaded}, 0)")
        elif style < 0.5:
            at = w.let("o", f"tl.{w.pick(('argmax', 'argmin'))}({loaded}, 0) + {o} * 0")
        elif style < 0.8:
            place = w.pick((f"{loaded} & {width - 1}", f"tl.arange(0, {width}) ^ 1", f"{loaded}"))
            at = w.let("o", f"tl.gather({o}, ({place}).to(tl.int32), 0)")
        else:
            mixed = w.let("o", f"tl.interleave({o}, ({loaded}).to(tl.int32))")
            self.add(self.load(f"{w.tensor(read=True)} + {mixed}", None), (2 * width,))
            return
        self.access(at, self.mask_of(tile) if w.chance(0.4) else None, tile)
