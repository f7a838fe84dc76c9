"""TTIR's operations on floats, over `Numbers`: everything else runs as in the sanitizer's evaluator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from kerncap.sanitizer.concrete.dataflow import MEMORY
from kerncap.sanitizer.concrete.machine import Machine, Step
from kerncap.sanitizer.concrete.ops_arith import float_predicate
from kerncap.sanitizer.concrete.ops_reduce import reduction
from kerncap.sanitizer.concrete.plan import unknown_operation
from kerncap.sanitizer.concrete.values import (
    Incomplete,
    Tile,
    Unknown,
    Unsupported,
    Value,
    either,
    element_of,
    full,
    numpy_type,
    shape_of,
    where,
)
from kerncap.sanitizer.equality.choices import EXTREMES, NumberChoice, number_choice, swapped_axis
from kerncap.sanitizer.equality.comparisons import compared
from kerncap.sanitizer.equality.degrees import LARGEST_POWER, VARIABLE, Degree, degree_of, summed, widest
from kerncap.sanitizer.equality.field_draw import Field
from kerncap.sanitizer.equality.function_names import FUNCTIONS, is_integer_power, of_symbol, test_of_symbol
from kerncap.sanitizer.equality.numbers import Array, NotModelled
from kerncap.sanitizer.equality.place_operations import PlacePlan
from kerncap.sanitizer.equality.places import extreme_along, extreme_degree
from kerncap.sanitizer.equality.plan_values import (
    check_values,
    from_integers,
    in_type,
    is_float,
    is_made_whole,
    reduced_by,
    tiles_of,
    why_unknown,
)
from kerncap.sanitizer.launch import ScalarArgument
from kerncap.sanitizer.ttir.ir import Dense, FloatType, IntType, Operation, Type
from kerncap.sanitizer.ttir.ir import Value as Name
from kerncap.sanitizer.ttir.tensors_only import SHARED

_CASTS = frozenset(("arith.extf", "arith.truncf", "arith.convertf", "tt.fp_to_fp"))
_MOVES = frozenset(
    (
        *("arith.select", "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.view"),
        *("tt.unsplat", "tt.trans", "tt.join", "tt.cat", "tt.split", "tt.gather", "tt.map_elementwise"),
        "ttg.convert_layout",
    )
)
# What makes booleans of floats, and so integers that hang on comparisons.
_OF_ALL_LANES = frozenset(("tt.reduce", "tt.scan", "tt.histogram", "tt.dot"))


class ExactPlan(PlacePlan):
    """A launch over `Numbers`."""

    def argument(self, name: Name, index: int) -> Value:
        if index == 0:  # of the next programs
            self._decided_at_end()
            self.degrees.start()
        given = self.launch.arguments[index]
        if is_float(name.type) and isinstance(given, ScalarArgument):
            self.degrees.put(name, VARIABLE)
            return Tile(self.numbers.scalar(given.name, in_type(float(given.value), name.type)))
        return super().argument(name, index)

    def _step(self, operation: Operation) -> Step:
        if operation.name in MEMORY:
            step = self._memory_step(operation)
        elif operation.name in SHARED:
            return self._shared_step(operation, super()._step(operation))
        elif not any(is_float(one.type) for one in (*operation.results, *operation.operands)):
            step = super()._step(operation)
            step = self._on_decided(operation, step) if self._decides and operation.results else step
        else:
            try:
                step = self._float_step(operation)
            except Unsupported as reason:
                return unknown_operation(operation, f"{where(operation)}: not modelled, {reason}")

        step = self._with_places(operation, step)

        def guarded(m: Machine) -> None:
            try:
                step(m)
            except NotModelled as reason:
                raise Incomplete(f"{where(operation)}: not modelled, {reason}") from None

        return guarded

    def _on_decided(self, operation: Operation, inner: Step) -> Step:
        """An operation on integers, which may be made of comparisons of floats."""
        shape = shape_of(operation.operands[0].type) if operation.operands else ()
        lanes = math.prod(shape) if operation.name in _OF_ALL_LANES else 1

        def step(m: Machine) -> None:
            self.degrees.forget(operation)
            inner(m)
            if operation.regions and operation.name not in _OF_ALL_LANES:
                return
            found = summed([self.degrees.of(one) for one in operation.operands]).times(lanes)
            for result in operation.results:
                self.degrees.put(result, found)

        return step

    # --- floats ---------------------------------------------------------------------------------------------

    def _float_step(self, operation: Operation) -> Step:
        name = operation.name
        if name == "arith.constant":
            return self._constant(operation)
        exchanged = swapped_axis(operation) if name == "tt.bitcast" else None
        if exchanged is not None:
            return self._exchanged(operation, *exchanged)
        if name in ("tt.bitcast", "arith.bitcast"):
            raise Unsupported("the bits of a float")
        if name in ("arith.fptosi", "arith.fptoui"):
            return self._made_whole(operation)
        if name in ("ub.poison", "llvm.mlir.undef"):
            raise Unsupported("an undefined float")
        if name in ("tt.reduce", "tt.scan"):
            return self._reduction(operation)
        if name == "tt.dot":
            return self._product(operation)
        if name in _MOVES:
            return self._moved(operation, super()._step(operation))
        if name in _CASTS:
            return self._computed(operation, "cast", lambda x: x)
        owner = operation.operands[0].owner if name in ("arith.sitofp", "arith.uitofp") else None
        if isinstance(owner, Operation) and owner.name in ("arith.fptosi", "arith.fptoui"):
            return self._computed(operation, "cast", lambda x: x)
        if name in ("arith.sitofp", "arith.uitofp"):
            return self._computed(operation, "cast", from_integers(self.numbers, operation))
        if name == "arith.cmpf":
            return self._comparison(operation)
        symbol = str(operation.attributes.get("symbol", ""))
        if is_integer_power(symbol):
            return self._integer_power(operation)
        test = test_of_symbol(symbol)
        if test is not None and not is_float(operation.results[0].type):
            return self._test(operation, test)
        if name == "tt.clampf":
            return self._computed(operation, "clamp", self._clamp(operation))
        function = self._function(operation)
        apply = self.numbers.apply
        return self._computed(operation, function, lambda *arrays: apply(function, *arrays))

    def _function(self, operation: Operation) -> str:
        if operation.name == "tt.extern_elementwise":
            symbol = str(operation.attributes.get("symbol", ""))
            if not all(is_float(one.type) for one in (*operation.operands, *operation.results)):
                raise Unsupported(f"{symbol} of integers")
            return of_symbol(symbol)
        found = FUNCTIONS.get(operation.name)
        if found is None:
            raise Unsupported(operation.name)
        return found

    def _test(self, operation: Operation, function: str) -> Step:
        wanted = numpy_type(element_of(operation.results[0].type))
        apply = self.numbers.apply
        return self._computed(operation, function, lambda x: apply(function, x).astype(wanted))

    def _computed(self, operation: Operation, function: str, compute: Callable[..., Array]) -> Step:
        operands, result = operation.operands, operation.results[0]
        self.functions.add(function)

        def step(m: Machine) -> None:
            tiles = tiles_of(m, operation)
            if tiles is None:
                return
            found = compute(*(tile.data for tile in tiles))
            m.env[result] = Tile(found, either(*(tile.undefined for tile in tiles)))
            given = [self.degrees.of(one) for one in operands]
            self.degrees.put(result, self._degree(function, given))

        return step

    def _exchanged(self, operation: Operation, floats: Name, axis: int) -> Step:
        result, shape = operation.results[0], shape_of(operation.results[0].type)

        def step(m: Machine) -> None:
            tile = m.env[floats]
            if isinstance(tile, Tile):
                check_values(tile)
                m.env[result] = Tile(np.flip(full(tile.data, shape), axis + 1))
                self.degrees.put(result, self.degrees.of(floats))
            else:
                m.env[result] = Unknown(why_unknown(tile, operation))

        return step

    def _made_whole(self, operation: Operation) -> Step:
        """Any function of a float, by the type that it has between."""
        if not is_made_whole(operation):
            raise Unsupported("an integer of a float")
        kind = element_of(operation.results[0].type)
        assert isinstance(kind, IntType)
        function = f"{operation.name.removeprefix('arith.')} of {kind.width} bits"
        return self._computed(operation, function, lambda x: self.numbers.apply(function, x))

    def _integer_power(self, operation: Operation) -> Step:
        base, exponent = operation.operands
        result = operation.results[0]
        self.functions.add("mul")

        def step(m: Machine) -> None:
            tiles = tiles_of(m, operation)
            if tiles is None:
                return
            x, counts = (one.data for one in tiles)
            count = int(counts.reshape(-1)[0])
            if abs(count) > LARGEST_POWER or (counts != count).any():
                raise NotModelled("powers that are large or several")
            found, degree = self.numbers.constant(1.0), Degree()
            for _ in range(abs(count)):
                found = self.numbers.apply("mul", found, x)
                degree = degree_of("mul", [degree, self.degrees.of(base)])
            if count < 0:
                found, degree = self.numbers.apply("reciprocal", found), degree_of("reciprocal", [degree])
            m.env[result] = Tile(np.broadcast_to(found, x.shape), either(*(tile.undefined for tile in tiles)))
            self.degrees.put(result, degree.after([self.degrees.of(exponent)]))

        return step

    def _moved(self, operation: Operation, inner: Step) -> Step:
        choice = number_choice(operation) if operation.name == "arith.select" and self.numbers.free else None
        if choice is not None and choice.decided is None:
            self.degrees.extremes.add(operation.results[0])

        def step(m: Machine) -> None:
            self.degrees.forget(operation)
            inner(m)
            if operation.regions or choice is not None and self._chosen(m, operation, choice):
                return
            moved = operation.operands
            decided = [self.degrees.of(one) for one in moved if not is_float(one.type)]
            found = widest([self.degrees.of(one) for one in moved if is_float(one.type)]).after(decided)
            for result in operation.results:
                self.degrees.put(result, found)

        return step

    def _chosen(self, m: Machine, operation: Operation, choice: NumberChoice) -> bool:
        """Put a maximum that is written as a choice in place of the choice, but for NaN."""
        [result], (_, *both) = operation.results, operation.operands
        values = [m.env[one] for one in both]
        decided = None if choice.decided is None else m.env[choice.decided]
        tiles = [one for one in values if isinstance(one, Tile)]
        if len(tiles) < 2 or not (decided is None or isinstance(decided, Tile)):
            return False
        apply = self.numbers.apply
        first, second = (one.data for one in tiles)
        either_of = {"first": first, "second": second}
        found = [
            either_of[kind] if kind in either_of else apply(kind, first, second) for kind in choice.kinds
        ]
        data, chosen = found[0], m.env[result]
        if decided is not None:
            check_values(decided)
            data = np.where(decided.data, found[1], data)
        nan = apply("isnan", first) | apply("isnan", second)
        if nan.any():
            if not isinstance(chosen, Tile):
                return False
            data = np.where(nan, chosen.data, data)
        m.env[result] = Tile(data, either(*(one.undefined for one in tiles)))
        self.functions.update(kind for kind in choice.kinds if kind not in either_of)
        degrees = [self._degree("maximum", [self.degrees.of(one) for one in both])]
        if choice.decided is not None:
            degrees = [degrees[0].after([self.degrees.of(choice.decided)])]
        self.degrees.put(result, degrees[0])
        return True

    def _comparison(self, operation: Operation) -> Step:
        predicate, result = float_predicate(operation), operation.results[0]

        def step(m: Machine) -> None:
            tiles = tiles_of(m, operation)
            if tiles is None:
                return
            given = [self.degrees.of(one) for one in operation.operands]
            x, y = (one.data for one in tiles)
            found = compared(self.numbers, predicate, x, y, given, ordered=not self.numbers.free)
            self.functions.add(found.function)
            m.env[result] = Tile(found.holds, either(*(tile.undefined for tile in tiles)))
            self.degrees.put(result, found.degree)

        return step

    def _clamp(self, operation: Operation) -> Callable[..., Array]:
        every = operation.attributes.get("propagateNan") in ("all", 0xFFFF)
        low, high = ("maximum", "minimum") if every else ("maxnum", "minnum")
        apply = self.numbers.apply
        return lambda x, least, most: apply(high, apply(low, x, least), most)

    def _constant(self, operation: Operation) -> Step:
        result, value = operation.results[0], operation.attributes["value"]
        shape = shape_of(result.type)
        values = value.values if isinstance(value, Dense) else (value,)
        words = np.concatenate([self.numbers.constant(in_type(float(one), result.type)) for one in values])
        tile = Tile(words.reshape(1, *(shape if len(values) > 1 else (1,) * len(shape))))

        def step(m: Machine) -> None:
            m.env[result] = tile
            self.degrees.put(result, Degree())

        return step

    def _reduction(self, operation: Operation) -> Step:
        scan = operation.name == "tt.scan"
        backwards = bool(operation.attributes.get("reverse"))
        exact = self.numbers

        def recognise(of: Operation) -> str | None:
            name = reduced_by(of)
            if name == "arith.addf":
                return "sum"
            return EXTREMES.get(name or "") if isinstance(exact, Field) and exact.free and not scan else None

        def quick(
            of: Operation, tile: Tile, shape: Sequence[int], axis: int, function: str, watch: bool
        ) -> Tile:
            check_values(tile)
            data = full(tile.data, shape)
            if function != "sum":
                self.functions.add(function)
                assert isinstance(exact, Field)
                return Tile(extreme_along(exact, function, data, axis))
            if not scan:
                return Tile(exact.sum(data, axis))
            data = np.flip(data, axis) if backwards else data
            total = exact.running_sum(data, axis)
            return Tile(np.flip(total, axis) if backwards else total)

        build = reduction(quick, recognise, self._differ)
        inner, function = build(self, operation), recognise(operation)
        axis = int(operation.attributes["axis"])
        terms = shape_of(operation.operands[0].type)[axis]

        def step(m: Machine) -> None:
            self.degrees.forget(operation)
            given = self.degrees.of(operation.operands[0])
            inner(m)
            if function is None:
                return
            [operand], [result] = operation.operands, operation.results
            numbers, found = m.env[operand], m.env[result]
            if function == "sum":
                degree = degree_of(function, [given], terms=terms)
            elif isinstance(numbers, Tile) and isinstance(found, Tile):
                degree = extreme_degree(
                    given, full(numbers.data, shape_of(operand.type)), found.data, axis + 1
                )
            else:
                degree = given.times(terms)
            self.degrees.put(result, degree)

        return step if scan else self._reduced_places(operation, step)

    def _differ(self, kind: Type, x: Array, y: Array) -> Array:
        """Where a reduction gives different results in two orders; rounding does not count."""
        if not isinstance(kind, FloatType):
            return np.asarray(x != y)
        exact = self.numbers
        return exact.differ(x, y) if isinstance(exact, Field) else np.zeros((), np.bool_)

    def _product(self, operation: Operation) -> Step:
        left, right, start = operation.operands[:3]
        result = operation.results[0]
        if not (is_float(left.type) and is_float(right.type)):
            raise Unsupported("a product of integers into floats")
        a, b = shape_of(left.type), shape_of(right.type)

        def step(m: Machine) -> None:
            tiles = tiles_of(m, operation)
            if tiles is None:
                return
            check_values(*tiles)
            x, y, c = tiles[:3]
            total = self.numbers.product(full(x.data, a), full(y.data, b))
            m.env[result] = Tile(self.numbers.apply("add", total, c.data))
            product = degree_of("product", [self.degrees.of(left), self.degrees.of(right)], terms=a[-1])
            self.degrees.put(result, degree_of("add", [product, self.degrees.of(start)]))

        return step
