"""TTIR's operations on floats, over `Numbers`: everything else runs as in the sanitizer's evaluator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from kerncap.sanitizer.concrete.atomics import in_order
from kerncap.sanitizer.concrete.dataflow import ATOMICS, LOADS, MEMORY, STORES, WRITERS, Dataflow
from kerncap.sanitizer.concrete.machine import Machine, Step, Track
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.ops_arith import float_predicate
from kerncap.sanitizer.concrete.ops_memory import Access, locator, stored_operand
from kerncap.sanitizer.concrete.ops_reduce import prefix, reduction, tree
from kerncap.sanitizer.concrete.plan import Plan, unknown_operation
from kerncap.sanitizer.concrete.values import (
    BlockPointer,
    Descriptor,
    Incomplete,
    Pointers,
    Tile,
    Unknown,
    Unsupported,
    Value,
    element_of,
    full,
    numpy_type,
    shape_of,
    where,
)
from kerncap.sanitizer.equality.chosen_extremes import extreme_of
from kerncap.sanitizer.equality.degrees import VARIABLE, Degree, Degrees, degree_of, summed, widest
from kerncap.sanitizer.equality.float_memory import FloatMemory
from kerncap.sanitizer.equality.function_names import FUNCTIONS, of_symbol, test_of_symbol
from kerncap.sanitizer.equality.numbers import Array, Ints, NotModelled, Numbers
from kerncap.sanitizer.equality.plan_values import (
    from_integers,
    in_memory,
    in_type,
    is_float,
    is_sum,
    spread,
    tiles_of,
    why_unknown,
)
from kerncap.sanitizer.launch import Launch, ScalarArgument
from kerncap.sanitizer.ttir.ir import (
    Dense,
    FloatType,
    Function,
    Module,
    Operation,
)
from kerncap.sanitizer.ttir.ir import Value as Name

_CASTS = frozenset(("arith.extf", "arith.truncf", "arith.convertf", "tt.fp_to_fp"))
_MOVES = frozenset(
    (
        *("arith.select", "tt.splat", "tt.expand_dims", "tt.broadcast", "tt.reshape", "tt.view"),
        *("tt.unsplat", "tt.trans", "tt.join", "tt.cat", "tt.split", "tt.gather", "tt.map_elementwise"),
    )
)
# What makes booleans of floats, and so integers that hang on comparisons.
_DECIDING = frozenset(("arith.cmpf", "math.isnan", "math.isinf", "math.isfinite"))
_OF_ALL_LANES = frozenset(("tt.reduce", "tt.scan", "tt.histogram", "tt.dot"))
_FILLER = 77  # of integers that a load leaves out, if it is not zero
_ATOMICS = {"add": "add", "fadd": "add", "max": "maxnum", "min": "minnum"}


class ExactPlan(Plan):
    """``names``: of the launch's storages, for what is drawn; ``filler``: in lanes that a load leaves out."""

    def __init__(
        self,
        module: Module,
        function: Function,
        launch: Launch,
        numbers: Numbers,
        names: Sequence[str],
        filler: Array | None = None,
    ) -> None:
        super().__init__(module, function, launch, Track(left_out=False), None, None)
        self.numbers = numbers
        self.memory = Memory(launch)
        self.floats = FloatMemory(launch, self.memory, numbers, names)
        flow = Dataflow(module, function, launch)
        self.degrees = Degrees(flow)
        self._decides = any(one.name in _DECIDING for one in flow.operations)
        stores = [one for one in flow.operations if one.name in WRITERS]
        self._controls_of_stores = [self._controls(one) for one in stores]
        self._decided = Degree()
        self.functions: set[str] = set()  # that were met
        self.left_out = False  # whether a load left out lanes, of which nothing is said
        self._filler = filler

    def hangs_on(self) -> Degree:
        """Of all that is stored; and of what decided that a store did not run."""
        self._decided_at_end()
        return widest([*self.degrees.stored.values(), self._decided])

    def _decided_at_end(self) -> None:
        every = (Degree().after(map(self.degrees.of, one)) for one in self._controls_of_stores)
        self._decided = widest([self._decided, *every])

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
        elif not any(is_float(one.type) for one in (*operation.results, *operation.operands)):
            step = super()._step(operation)
            return self._on_decided(operation, step) if self._decides and operation.results else step
        else:
            try:
                step = self._float_step(operation)
            except Unsupported as reason:
                return unknown_operation(operation, f"{where(operation)}: not modelled, {reason}")

        def guarded(m: Machine) -> None:
            try:
                step(m)
            except NotModelled as reason:
                raise Incomplete(f"{where(operation)}: not modelled, {reason}") from None

        return guarded

    def _degree(self, function: str, given: list[Degree]) -> Degree:
        return degree_of(function, given, ordered=not self.numbers.free)

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
        if name in ("tt.bitcast", "arith.bitcast"):
            raise Unsupported("the bits of a float")
        if name in ("arith.fptosi", "arith.fptoui"):
            raise Unsupported("an integer of a float")
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
        if name in ("arith.sitofp", "arith.uitofp"):
            return self._computed(operation, "cast", from_integers(self.numbers, operation))
        if name == "arith.cmpf":
            return self._comparison(operation)
        test = test_of_symbol(str(operation.attributes.get("symbol", "")))
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
            m.env[result] = Tile(compute(*(tile.data for tile in tiles)))
            given = [self.degrees.of(one) for one in operands]
            self.degrees.put(result, self._degree(function, given))

        return step

    def _moved(self, operation: Operation, inner: Step) -> Step:
        extreme = extreme_of(operation) if operation.name == "arith.select" and self.numbers.free else None
        if extreme is not None:
            self.degrees.extremes.add(operation.results[0])

        def step(m: Machine) -> None:
            self.degrees.forget(operation)
            inner(m)
            if operation.regions or extreme is not None and self._chosen(m, operation, extreme):
                return
            moved = operation.operands
            decided = [self.degrees.of(one) for one in moved if not is_float(one.type)]
            found = widest([self.degrees.of(one) for one in moved if is_float(one.type)]).after(decided)
            for result in operation.results:
                self.degrees.put(result, found)

        return step

    def _chosen(self, m: Machine, operation: Operation, extreme: str) -> bool:
        """Put a maximum that is written as a choice in place of the choice, but for NaN."""
        [result], (_, *both) = operation.results, operation.operands
        chosen, *values = (m.env[one] for one in (result, *both))
        if not (isinstance(chosen, Tile) and all(isinstance(one, Tile) for one in values)):
            return False
        first, second = (one.data for one in values if isinstance(one, Tile))
        apply = self.numbers.apply
        nan = apply("isnan", first) | apply("isnan", second)
        m.env[result] = Tile(np.where(nan, chosen.data, apply(extreme, first, second)))
        self.functions.add(extreme)
        self.degrees.put(result, self._degree(extreme, [self.degrees.of(one) for one in both]))
        return True

    def _comparison(self, operation: Operation) -> Step:
        predicate = float_predicate(operation)
        equality = predicate[1:] in ("eq", "ne")
        exact = equality or predicate in ("ord", "uno", "true", "false")
        function = "equals" if equality else "isnan" if exact else "compare"
        result = operation.results[0]
        numbers = self.numbers

        def compared(x: Array, y: Array) -> Array:
            return numbers.compare(predicate, x, y)

        def compared_at_will(x: Array, y: Array) -> Array:
            found, equal = numbers.compare(predicate, x, y), numbers.may_equal(x, y)
            return found | equal if predicate[1:] == "eq" else found & ~equal

        of_constants = self._computed(operation, function, compared)
        of_any = self._computed(operation, function, compared_at_will if equality else compared)

        def step(m: Machine) -> None:
            given = [self.degrees.of(one) for one in operation.operands]
            constant = not any(one.total for one in given)
            if constant and not exact:
                tiles = [m.env[one] for one in operation.operands]
                if not all(isinstance(t, Tile) and self.numbers.in_order(t.data) for t in tiles):
                    raise NotModelled("an order of constants that are computed")
            (of_constants if constant else of_any)(m)
            if constant:
                self.degrees.put(result, widest(given))

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

        def quick(
            of: Operation, tile: Tile, shape: Sequence[int], axis: int, recognised: object, watch: bool
        ) -> Tile:
            data = full(tile.data, shape)
            if not scan:
                return Tile(self.numbers.sum(data, axis))
            data = np.flip(data, axis) if backwards else data
            total = self.numbers.running_sum(data, axis)
            return Tile(np.flip(total, axis) if backwards else total)

        build = reduction(prefix if scan else tree, quick, is_sum)
        inner, sums = build(self, operation), is_sum(operation) is not None
        terms = shape_of(operation.operands[0].type)[int(operation.attributes["axis"])]

        def step(m: Machine) -> None:
            self.degrees.forget(operation)
            given = self.degrees.of(operation.operands[0])
            inner(m)
            if sums:
                self.degrees.put(operation.results[0], degree_of("sum", [given], terms=terms))

        return step

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
            x, y, c = tiles[:3]
            total = self.numbers.product(full(x.data, a), full(y.data, b))
            m.env[result] = Tile(self.numbers.apply("add", total, c.data))
            product = degree_of("product", [self.degrees.of(left), self.degrees.of(right)], terms=a[-1])
            self.degrees.put(result, degree_of("add", [product, self.degrees.of(start)]))

        return step

    # --- memory ---------------------------------------------------------------------------------------------

    def _memory_step(self, operation: Operation) -> Step:
        element = in_memory(operation)
        if not isinstance(element, FloatType):
            return self._on_integers(operation, super()._step(operation))
        name = operation.name
        if name in LOADS:
            return self._load(operation, element)
        if name in STORES and name != "tt.descriptor_reduce":
            return self._store(operation, element)
        if name in ("tt.atomic_rmw", "tt.descriptor_reduce"):
            return self._atomic(operation, element)
        return unknown_operation(operation, f"{where(operation)}: not modelled, of floats")

    def _on_integers(self, operation: Operation, inner: Step) -> Step:
        pointer = operation.operands[0]
        loads = operation.name in LOADS
        value = None
        if not loads and len(operation.operands) > 1:
            value = stored_operand(operation) if operation.name in STORES else operation.operands[1]
        controls = self._controls(operation)
        combines = operation.name in ATOMICS or operation.name == "tt.descriptor_reduce"
        lanes = 1 if value is None else math.prod(shape_of(value.type))
        mask = operation.segment("mask") if operation.name == "tt.load" else None

        def step(m: Machine) -> None:
            at = m.env.get(pointer)
            base = at.base if isinstance(at, Descriptor | BlockPointer) else at
            inner(m)
            if not isinstance(base, Pointers):
                return
            arguments = [base.argument] if isinstance(base.argument, int) else np.unique(base.argument)
            self.floats.integers_at([self.memory.storage_of(int(one)) for one in arguments])
            degree = Degree() if value is None else self.degrees.of(value)
            degree = degree.after([*self._steered(operation), *map(self.degrees.of, controls)])
            stored = [self.degrees.stored.get(self.memory.storage_of(int(one))) for one in arguments]
            before = widest(one for one in stored if one is not None)
            if not loads:
                if combines:
                    degree = summed([before, degree.times(m.count * lanes)])
                self._stores(base.argument, degree)
            for result in operation.results:
                self.degrees.put(result, widest([degree, before]))
            if mask is not None and "other" not in operation.attributes.get("operand_segments", {}):
                lanes_of, found = m.env[mask], m.env[operation.results[0]]
                if isinstance(lanes_of, Tile) and isinstance(found, Tile):
                    filler = None if self._filler is None else np.array(_FILLER, dtype=found.data.dtype)
                    m.env[operation.results[0]] = Tile(self._filled(found.data, lanes_of.data, filler))

        return step

    def _load(self, operation: Operation, element: FloatType) -> Step:
        result = operation.results[0]
        shape = shape_of(result.type)
        locate, _ = locator(operation, shape)
        segments = operation.attributes.get("operand_segments", {})
        other = operation.segment("other") if "other" in segments else None
        pointer = operation.operands[0]

        def step(m: Machine) -> None:
            addresses, mask = locate(m)
            access = Access(m, addresses, mask, shape)
            offsets, lanes, argument = addresses.offsets, access.lanes, addresses.argument
            if lanes is not None and lanes.shape != offsets.shape:
                offsets, lanes = np.broadcast_arrays(offsets, lanes)
            data = self.floats.gather(spread(argument, offsets), offsets, lanes, element)
            if addresses.inside is not None and self._pads_nan(m.env[pointer], operation):
                data = np.where(addresses.inside, data, self.numbers.constant(np.nan))
            degree = self._stored_degree(argument).after(self._steered(operation))
            if mask is not None and other is not None:
                filler = m.env[other]
                if isinstance(filler, Tile):
                    data = np.where(mask.data, data, filler.data)
                    degree = widest([degree, self.degrees.of(other)])
                elif not mask.data.all():
                    raise Incomplete(why_unknown(filler, operation))
            elif mask is not None:
                data = self._filled(data, mask.data, self._filler)
            m.env[result] = Tile(data)
            self.degrees.put(result, degree)

        return step

    def _filled(self, data: Array, mask: Array, filler: Array | None) -> Array:
        self.left_out = self.left_out or not mask.all()
        return data if filler is None else np.where(mask, data, filler)

    @staticmethod
    def _pads_nan(pointer: Value, operation: Operation) -> bool:
        padding = pointer.padding if isinstance(pointer, Descriptor) else operation.attributes.get("padding")
        return padding in ("nan", 2)

    def _stored_degree(self, argument: object) -> Degree:
        stored = self.degrees.stored
        if isinstance(argument, int):
            return widest([VARIABLE, stored.get(self.memory.storage_of(argument), VARIABLE)])
        return widest([VARIABLE, *stored.values()])

    def _stores(self, argument: object, degree: Degree) -> None:
        stored = self.degrees.stored
        arguments = [argument] if isinstance(argument, int) else np.unique(np.asarray(argument))
        for one in arguments:
            storage = self.memory.storage_of(int(one))
            stored[storage] = widest([degree, stored.get(storage, Degree())])

    def _store(self, operation: Operation, element: FloatType) -> Step:
        name = stored_operand(operation)
        shape = shape_of(name.type)
        locate, _ = locator(operation, shape)
        controls = self._controls(operation)

        def step(m: Machine) -> None:
            addresses, mask = locate(m)
            access = Access(m, addresses, mask, shape)
            value = m.env[name]
            if not isinstance(value, Tile):
                raise Incomplete(why_unknown(value, operation))
            whole = access.spread(value.data)
            lanes = None if access.lanes is None else np.broadcast_to(access.lanes, whole)
            offsets = np.broadcast_to(addresses.offsets, whole)
            words = np.broadcast_to(value.data, whole)
            self.floats.scatter(spread(addresses.argument, offsets), offsets, lanes, words, element)
            steered = [*self._steered(operation), *map(self.degrees.of, controls)]
            self._stores(addresses.argument, self.degrees.of(name).after(steered))

        return step

    def _combined(self, function: str, operands: Array, old: Array, lanes: Ints) -> Array:
        return self.numbers.apply(function, old, operands[lanes])

    def _controls(self, operation: Operation) -> list[Name]:
        """What decides whether a memory operation runs, if floats can."""
        return self.degrees.flow.controls_of(operation) if self._decides else []

    def _steered(self, operation: Operation) -> list[Degree]:
        """What decides where a memory operation goes."""
        segments = operation.attributes.get("operand_segments", {})
        values = {segments.get("value"), segments.get("other")}
        if operation.name in STORES and "value" not in segments:
            values.add(len(operation.operands) - 1)
        return [self.degrees.of(one) for at, one in enumerate(operation.operands) if at not in values]

    def _atomic(self, operation: Operation, element: FloatType) -> Step:
        kind = str(operation.attributes.get("rmw_op" if operation.name == "tt.atomic_rmw" else "kind"))
        function = _ATOMICS.get(kind)
        if function is None:
            return unknown_operation(operation, f"{where(operation)}: not modelled, {kind} of floats")
        name = operation.operands[1] if operation.name == "tt.atomic_rmw" else operation.operands[-1]
        shape = shape_of(name.type)
        locate, _ = locator(operation, shape)
        found = Unknown(f"{where(operation)} gives back what depends on the order of programs")
        self.functions.add(function)
        controls = self._controls(operation)

        def step(m: Machine) -> None:
            addresses, mask = locate(m)
            access = Access(m, addresses, mask, shape)
            value = m.env[name]
            if not isinstance(value, Tile):
                raise Incomplete(why_unknown(value, operation))
            whole = (m.count, *shape)
            offsets = np.broadcast_to(addresses.offsets, whole)
            lanes = None if access.lanes is None else np.broadcast_to(access.lanes, whole)
            words = np.broadcast_to(value.data, whole)
            argument = spread(addresses.argument, offsets)
            most = 1  # at one place
            for held, places, here in self.floats.located(argument, offsets, lanes, element):
                most = max(most, int(np.unique(places, return_counts=True)[1].max(initial=1)))
                mine = words.reshape(-1) if here is None else words[here]
                combine = partial(self._combined, function, mine)
                held.write(places, in_order(places, held.read(places), combine)[1])
            added = self.degrees.of(name)
            added = degree_of("sum", [added], terms=most) if function == "add" else added.times(most)
            given = [added, self._stored_degree(addresses.argument)]
            steered = [*self._steered(operation), *map(self.degrees.of, controls)]
            self._stores(addresses.argument, self._degree(function, given).after(steered))
            for result in operation.results:
                m.env[result] = found

        return step
