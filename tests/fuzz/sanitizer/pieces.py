"""What statements of generated kernels are made of: masks, loads, stores, conditions."""

from __future__ import annotations

from tests.fuzz.sanitizer.generate import Tile, Writer


class Pieces:
    """``total``: the f32 scalar that everything loaded goes into, so that no load is dead."""

    def __init__(self, writer: Writer) -> None:
        self.w = writer
        self.total = "total"
        self.depth = 0

    def statement(self) -> None:
        """Any statement, nested in another one."""
        raise NotImplementedError

    def mask_of(self, tile: Tile) -> str | None:
        """A mask by bounds: right, one off, or none."""
        w = self.w
        if w.chance(0.2):
            return None
        span = max(abs(tile.top), 1)
        bound = w.near(max(tile.top + 1 - w.pick((0, 0, 1, 3, span // 4)), 0), 0.1)
        compare = w.pick(("<", "<", "<", "<", "<", "<="))
        text = f"{tile.name} {compare} {w.number(bound, 'n')}"
        if w.chance(0.12):
            text = f"({text}) & ({tile.name} >= {w.number(w.pick((0, 1)), 'n')})"
        return w.let("m", text)

    def add(self, value: str, shape: tuple[int, ...]) -> None:
        """Into the total."""
        text = value
        for _ in shape:
            text = f"tl.sum({text}, 0)"
        self.w.line(f"{self.total} += {text}")

    def load(self, place: str, mask: str | None, name: str = "v", share_other: float = 0.75) -> str:
        w = self.w
        if mask is None:
            return w.let(name, f"tl.load({place})")
        other = ", other=0" if w.chance(share_other) else ""
        return w.let(name, f"tl.load({place}, mask={mask}{other})")

    def store(self, place: str, value: str, mask: str | None) -> None:
        self.w.line(f"tl.store({place}, {value}{'' if mask is None else f', mask={mask}'})")

    def value_for(self, tile: Tile) -> str:
        """Something to store: differs between programs, or (now and then) not."""
        w = self.w
        return str(w.pick((f"{tile.name}.to(tl.float32)", f"{self.total} + {tile.name}", "1.0", self.total)))

    def indices(self, span: int) -> tuple[str, str]:
        """An index tensor with values from 0 to ``span``, now and then outside; and its type."""
        w = self.w
        low = w.pick((0, 0, 0, 0, -1, -3))
        kind = w.pick(("i32", "i32", "i64"))
        name = w.tensor(kind, read=True, contents=(low, span))
        w.steering.add(name)
        return name, kind

    def condition(self) -> str:
        w = self.w
        one = w.pick(w.coordinates)
        bound = w.number(w.choose.randint(0, one.extent), "n")
        tests = (f"< {bound}", f"== {bound}", f">= {bound}", "% 2 == 0", "!= 0", "> 0")
        return f"{one.name} {w.pick(tests)}"
