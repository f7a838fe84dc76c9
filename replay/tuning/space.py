"""The search space of a kernel: read off the launch, the `@triton.autotune` list and the text; then as a
person pins, bounds and forbids.

Every parameter that is left out is named with its reason in ``pinned``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kerncap.errors import UsageError
from kerncap.format import Reproducer, schema
from kerncap.replay.outcome import Config
from kerncap.replay.tuning import cuda_text, heuristics, point, tiles
from kerncap.replay.tuning.constraints import Constraint, Legal, enumerate_legal, parse_constraint
from kerncap.replay.tuning.formula import Unknown, is_power_of_2
from kerncap.replay.tuning.grid import GridFunction, GridUnknown, arguments_of, has_value, plain, read_names
from kerncap.replay.tuning.point import Parameter, Point, Scalar
from kerncap.replay.tuning.space_file import SpaceFile, powers_of_two

OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # which triton.Config takes by name
# Those of AMD's compiler, which stand among the arguments there. Source: triton, HIPOptions.
AMD_OPTIONS = ("waves_per_eu", "matrix_instr_nonkdim", "kpack")
ALL_OPTIONS = (*OPTIONS, *AMD_OPTIONS)
_WARPS = (1, 2, 4, 8, 16)
_STAGES = (1, 2, 3, 4, 5)
_NEAR = 4  # a block size is tried from a quarter of the captured one to four times
_LEAST_BLOCK = 16
NOT_IN_FILE = "the space file does not name it"
_DEFAULTS = {"num_warps": 4, "num_stages": 3, "num_ctas": 1}


@dataclass(frozen=True)
class Wishes:
    """What a person asked for: ``pins`` name=value, ``bounds`` name=(low, high), ``forbids`` expressions."""

    file: SpaceFile = field(default_factory=SpaceFile)
    pins: Mapping[str, Scalar] = field(default_factory=dict)
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    forbids: tuple[str, ...] = ()


class LaunchSpace:
    """What configurations mean for one launch: its arguments, its grid, what is derived."""

    def __init__(self, reproducer: Reproducer) -> None:
        self.reproducer = reproducer
        self.manifest = reproducer.manifest
        self.arguments = arguments_of(self.manifest)
        self.scalars = {k: v for k, v in self.arguments.items() if isinstance(v, int | float | str)}
        self.derived = heuristics.of(reproducer)
        self.notes: list[str] = []
        self._text = {each.name: each.value for each in cuda_text.find(reproducer)}
        self.grid: GridFunction | None = None
        self.grid_problem = ""  # why it can't be recomputed
        self._listed_grids: dict[str, tuple[int, int, int]] = {}
        self._list_names: set[str] = set()
        self._configs: dict[str, Config] = {}
        self._check_derived()
        self._check_grid()

    def config(self, given: Point) -> Config:
        """A point as the engine takes it. Raises Unknown or GridUnknown, which `build` has ruled out for
        the space's own parameters."""
        key = point.key(given)
        found = self._configs.get(key)
        if found is None:
            found = self._configs[key] = self._config(given)
        return found

    def _config(self, given: Point) -> Config:
        arguments = {k: v for k, v in given.items() if k not in ALL_OPTIONS}
        options = {k: int(v) for k, v in given.items() if k in ALL_OPTIONS and isinstance(v, int)}
        known = {**self.arguments, **arguments}
        computed = {k: v for k, v in self.derived.values(known).items() if k not in given}
        computed = {k: v for k, v in computed.items() if self.arguments.get(k) != v or type(v) is bool}
        grid = None
        if self.grid is not None:
            try:
                grid = self.grid.grid({**known, **computed})
            except GridUnknown:
                grid = self._listed_grid(given)
                if grid is None:
                    raise
        elif self._listed_grids:
            grid = self._listed_grid(given)
        return Config({**arguments, **computed}, options, grid)

    def captured(self, name: str) -> Scalar:
        """The value that a parameter had."""
        if name in self._text:
            return self._text[name]
        if name in ALL_OPTIONS:
            value = self.manifest.launch.options.get(name)
            found = plain(value) if value is not None else _DEFAULTS.get(name)
            return found if isinstance(found, int) else None
        value = self.arguments.get(name)
        return value if isinstance(value, bool | int | float | str) else None

    def listed(self) -> list[dict[str, Scalar]]:
        """The `@triton.autotune` list's configurations."""
        tuned = self.manifest.autotune
        found = []
        for config in tuned.configs if tuned is not None else ():
            values = {name: plain(value) for name, value in config.kwargs.items()}
            values |= {name: plain(v) for name, v in config.options.items() if name in OPTIONS}
            if all(has_value(v) and not isinstance(v, tuple) for v in values.values()):
                found.append({k: v for k, v in values.items() if v is not None})
        return found

    def _listed_grid(self, given: Point) -> tuple[int, int, int] | None:
        """What the callable gave at capture, if these are values of the list."""
        values = {name: given.get(name, self.arguments.get(name)) for name in self._list_names}
        return self._listed_grids.get(repr(sorted(values.items())))

    def has_listed_grids(self) -> bool:
        """Whether the capture knew the grid of each configuration of the list."""
        return bool(self._listed_grids) and all(self._listed_grid(each) for each in self.listed())

    def _check_derived(self) -> None:
        for name in list(self.derived.names):
            if name not in self.arguments:
                self.derived = self.derived.without(name)
        try:
            found = self.derived.values(self.arguments)
            wrong = [name for name, value in found.items() if value != self.arguments[name]]
            problem = f"{', '.join(wrong)} differs from the captured value" if wrong else ""
        except Unknown as error:
            problem = str(error)
        if problem:
            self.notes.append(f"@triton.heuristics can't be recomputed: {problem}")
            self._unknown_derived = {n: self.derived.reads(n) for n in self.derived.names}
            self.derived = heuristics.Heuristics({}, {})
        else:
            self._unknown_derived = {}

    def _check_grid(self) -> None:
        launch, tuned = self.manifest.launch, self.manifest.autotune
        for config in tuned.configs if tuned is not None else ():
            values = {name: plain(value) for name, value in config.kwargs.items()}
            if config.grid is not None and all(has_value(v) for v in values.values()):
                self._list_names.update(values)
                self._listed_grids[repr(sorted(values.items()))] = config.grid
        if launch.grid_source is None:
            self.grid_problem = "it was given as numbers"
            return
        try:
            function = GridFunction(launch.grid_source)
            listed = [(each, self._listed_grid(each)) for each in self.listed()]
            for given, wanted in (({}, launch.grid), *listed):
                found = function.grid({**self.arguments, **given})
                if wanted is not None and found != wanted:
                    raise GridUnknown(f"it came out as {found}, captured was {wanted}")
            self.grid = function
        except GridUnknown as error:
            self.grid_problem = str(error)

    def grid_parameters(self, names: Sequence[str]) -> dict[str, str]:
        """Those of ``names`` that must keep their value, with the reason: what follows them is not known."""
        found = {}
        source = self.manifest.launch.grid_source
        if self.grid is None and self.grid_problem:
            if source is not None:
                read = read_names(source)
                depends = [name for name in names if name in read or not read]
                why = f"the grid depends on it and can't be recomputed: {self.grid_problem}"
            else:
                scaled = self._scaled()
                depends = [name for name in names if name in scaled]
                why = f"the grid goes with it, and {self.grid_problem}"
            found.update(dict.fromkeys(depends, why))
        for name, reads in self._unknown_derived.items():
            for each in [n for n in names if n in reads]:
                found[each] = f"{name} is computed of it, and that can't be recomputed"
        for config in self.manifest.autotune.configs if self.manifest.autotune is not None else ():
            hook = config.pre_hook
            if hook is not None and any(
                isinstance(a.value, schema.DescriptorValue) for a in self.manifest.arguments
            ):
                read = read_names(hook)
                for each in [n for n in names if n in read]:
                    found[each] = "the list's pre_hook makes descriptors of it, which stay as captured"
        return found

    def _scaled(self) -> set[str]:
        source = self.manifest.source
        if source is None or source.language != "python":
            return set()
        entry = tiles.entry_of(self.reproducer.source_text() or "", source.entry)
        return tiles.scales_program_id(entry) if entry is not None else set()


@dataclass
class Space:
    """Parameters with their values, constraints, the list's own configurations, and what is not tuned."""

    parameters: list[Parameter]
    constraints: list[Constraint]
    listed: list[Point]
    pinned: dict[str, str]
    notes: list[str]
    only_listed: bool = False
    scopes: list[Mapping[str, Any]] = field(default_factory=list)

    def legal(self) -> Legal:
        """The configurations that may be tried; of ``only_listed`` the list's."""
        if self.only_listed:
            return Legal(tuple(self.listed), len(self.listed), True)
        return enumerate_legal(self.parameters, self.constraints, self.scopes)

    def allows(self, given: Point) -> bool:
        """Whether every constraint allows a point in every launch."""
        return all(each.allows({**scope, **given}) for each in self.constraints for scope in self.scopes)

    def holds(self, given: Point) -> bool:
        """Whether a point, of an earlier search perhaps, is one that may be tried."""
        values = {p.name: {point.key({"v": value}) for value in p.values} for p in self.parameters}
        is_of_values = given.keys() == values.keys() and all(
            point.key({"v": value}) in values[name] for name, value in given.items()
        )
        is_listed = point.key(given) in map(point.key, self.listed)
        return (is_listed or (is_of_values and not self.only_listed)) and self.allows(given)


def build(spaces: Sequence[LaunchSpace], wishes: Wishes, compiled: bool) -> Space:
    """The space of a set of launches of one kernel. ``compiled``: not the interpreter.

    Raises UsageError for launches that are not of one kernel, and for wishes that name nothing.
    """
    first = spaces[0]
    for other in spaces[1:]:
        _same_kernel(first, other)
    parameters, pinned = _native(first) if _is_native(first) else _triton(spaces, compiled)
    held: dict[str, str] = {}
    for space in spaces:
        held |= space.grid_parameters(list(parameters))
    for name, reason in held.items():
        if name in wishes.file.parameters:
            continue  # who names its values takes the grid as it is
        parameters.pop(name, None)
        pinned[name] = reason
    known = _known_names(spaces, parameters, pinned)
    _apply(parameters, pinned, wishes, known, spaces)
    # The list's own configurations are tried all the same if the capture knows their grids.
    kept = set(held) if all(each.has_listed_grids() for each in spaces) else set()
    kept = {name for name in kept - set(parameters) if "pre_hook" not in held[name]}
    listed_points = _listed(spaces, parameters, kept)
    names = sorted({*known, *first.scalars})
    texts = [(text, False) for text in wishes.file.constraints] + [(text, True) for text in wishes.forbids]
    constraints = [parse_constraint(text, names, forbids) for text, forbids in texts]
    captured = {name: first.captured(name) for name in known if first.captured(name) is not None}
    scopes: list[Mapping[str, Any]] = [{**captured, **space.scalars} for space in spaces]
    found = Space(
        list(parameters.values()), constraints, [], pinned,
        list(dict.fromkeys(note for each in spaces for note in each.notes)),
        wishes.file.only_listed, scopes,
    )  # fmt: skip
    found.listed = [each for each in listed_points if found.allows(each)]
    if wishes.file.only_listed and not found.listed:
        raise UsageError("there is no @triton.autotune list to keep to, or nothing of it is allowed")
    return found


def _is_native(space: LaunchSpace) -> bool:
    return space.manifest.launch.mode == "native"


def _same_kernel(one: LaunchSpace, other: LaunchSpace) -> None:
    a, b = one.manifest, other.manifest
    where = f"{one.reproducer.path} and {other.reproducer.path}"
    if a.kernel.name != b.kernel.name:
        raise UsageError(f"{where} are of different kernels: {a.kernel.name}, {b.kernel.name}")
    text_a, text_b = one.reproducer.source_text(), other.reproducer.source_text()
    if text_a != text_b:
        raise UsageError(f"{where} have different sources: tune one of them")


def _triton(spaces: Sequence[LaunchSpace], compiled: bool) -> tuple[dict[str, Parameter], dict[str, str]]:
    first = spaces[0]
    pinned: dict[str, str] = {}
    if first.manifest.source is None:
        raise UsageError(
            f"{first.reproducer.path}: the kernel's source was not found, so there is nothing to tune"
        )
    listed = [each for space in spaces for each in space.listed()]
    found: dict[str, Parameter] = {}
    for argument in first.manifest.arguments:
        if argument.role != "constexpr":
            continue
        name = argument.name
        values = [space.captured(name) for space in spaces]
        same = all(type(v) is type(values[0]) and v == values[0] for v in values)
        reason = _argument(name, values[0], same, listed, first)
        if isinstance(reason, str):
            pinned[name] = reason
        else:
            found[name] = Parameter(name, "argument", reason, values[0] if same else None)
    entry = tiles.entry_of(first.reproducer.source_text() or "", first.manifest.source.entry)
    for name in options_of(first):
        value = first.captured(name)
        in_list = sorted({v for each in listed if isinstance(v := each.get(name), int)})
        if not compiled:
            pinned[name] = "the interpreter has no such thing"
        elif name not in ("num_warps", "num_stages"):
            if len(in_list) > 1:
                found[name] = Parameter(name, "option", _first(value, in_list), value)
        elif name == "num_stages" and entry is not None and not tiles.has_loop(entry):
            pinned[name] = "the kernel has no loop to pipeline"
        else:
            usual: tuple[int, ...] = _WARPS if name == "num_warps" else _STAGES
            if in_list:
                low, high = min(in_list), max(in_list)
                usual = tuple(v for v in sorted({*usual, *in_list}) if low <= v <= high)
            found[name] = Parameter(name, "option", _first(value, usual), value)
    return found, pinned


def options_of(space: LaunchSpace) -> tuple[str, ...]:
    """Those that the compiler of a launch has; none of a native one's."""
    if _is_native(space):
        return ()
    return ALL_OPTIONS if space.manifest.device.kind == "hip" else OPTIONS


def _argument(
    name: str, value: Scalar, same: bool, listed: Sequence[Point], first: LaunchSpace
) -> tuple[Scalar, ...] | str:
    """The values to try, or why there are none but the captured."""
    in_list = list({point.key({"v": each[name]}): each[name] for each in listed if name in each}.values())
    if in_list:
        if all(is_power_of_2(v) for v in in_list):
            numbers = [v for v in in_list if isinstance(v, int)]
            return _first(value, powers_of_two(min(numbers), max(numbers), name))
        return _first(value, in_list)
    if name in first.derived.names:
        read = ", ".join(sorted(first.derived.reads(name)))
        return f"computed by @triton.heuristics of {read or 'the launch'}"
    if listed:
        return "not in the @triton.autotune list"
    if not same:
        return "each launch of the set has its own"
    if isinstance(value, bool):
        return (value, not value)
    if isinstance(value, int) and is_power_of_2(value) and value > 1:
        low = max(min(_LEAST_BLOCK, value), value // _NEAR)
        return _first(value, powers_of_two(low, value * _NEAR, name))
    return "not a power of two" if isinstance(value, int) and value != 1 else "no block size"


def _first(value: Scalar, values: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The captured value first, if it is one of them; then those nearest to it."""
    if type(value) is not int or not all(type(v) is int for v in values):
        return tuple(dict.fromkeys([*[v for v in values if v == value], *values]))
    near = value.bit_length()
    numbers = [int(v or 0) for v in dict.fromkeys(values)]
    numbers.sort(key=lambda v: (v != value, abs(v.bit_length() - near), v))
    return tuple(numbers)


def _native(first: LaunchSpace) -> tuple[dict[str, Parameter], dict[str, str]]:
    found: dict[str, Parameter] = {}
    pinned: dict[str, str] = {}
    parameters = cuda_text.find(first.reproducer)
    if first.manifest.source is None or first.manifest.source.build is None:
        raise UsageError(
            f"{first.reproducer.path}: it does not hold the source and how it was compiled: nothing to tune"
        )
    for each in parameters:
        kind: point.Kind = "define" if each.position is None else "template"
        if is_power_of_2(each.value) and each.value > 1:
            values = powers_of_two(max(2, each.value // _NEAR), each.value * _NEAR, each.name)
            found[each.name] = Parameter(each.name, kind, _first(each.value, values), each.value)
        else:
            pinned[each.name] = "not a power of two"
    return found, pinned


def _known_names(
    spaces: Sequence[LaunchSpace], parameters: Mapping[str, Parameter], pinned: Mapping[str, str]
) -> set[str]:
    return {*parameters, *pinned, *options_of(spaces[0])}


def _apply(
    parameters: dict[str, Parameter],
    pinned: dict[str, str],
    wishes: Wishes,
    known: set[str],
    spaces: Sequence[LaunchSpace],
) -> None:
    """Put a person's values in the place of ours."""
    for where, names in (
        ("--space", wishes.file.parameters), ("--pin", wishes.pins), ("--bound", wishes.bounds)
    ):  # fmt: skip
        for name in names:
            if name not in known:
                raise UsageError(
                    f"{where}: the kernel has no parameter {name}; it has {', '.join(sorted(known))}"
                )
    given: dict[str, tuple[Scalar, ...]] = dict(wishes.file.parameters)
    given |= {name: (value,) for name, value in wishes.pins.items()}
    for name, (low, high) in wishes.bounds.items():
        if name in wishes.pins:
            pin = wishes.pins[name]
            if not isinstance(pin, int) or not low <= pin <= high:
                raise UsageError(f"--pin {name}={pin} is not within --bound {name}={low}:{high}")
            continue
        if name in wishes.file.parameters:
            values: tuple[Scalar, ...] = tuple(
                v for v in given[name] if isinstance(v, int) and low <= v <= high
            )
        elif name in parameters and not all(is_power_of_2(v) for v in parameters[name].values):
            values = tuple(range(low, high + 1))
        else:
            values = powers_of_two(low, high, f"--bound {name}={low}:{high}")
        if not values:
            raise UsageError(f"--bound {name}={low}:{high}: none of its values is between")
        given[name] = values
    if wishes.file.parameters and not wishes.file.only_listed:
        for name in [each for each in parameters if each not in given]:
            pinned[name] = NOT_IN_FILE
            del parameters[name]
    for name, values in given.items():
        captured = spaces[0].captured(name)
        kind: point.Kind = "option" if name in ALL_OPTIONS else "argument"
        if name in parameters:
            kind = parameters[name].kind
        pinned.pop(name, None)
        parameters[name] = Parameter(name, kind, _first(captured, values), captured, given=True)
        if len(values) == 1:
            pinned[name] = f"at {values[0]}, as given"


def _listed(
    spaces: Sequence[LaunchSpace], parameters: Mapping[str, Parameter], kept: set[str]
) -> list[Point]:
    """The list's configurations that keep to what is pinned, in the names of the parameters."""
    found: dict[str, Point] = {}
    for space in spaces:
        for values in space.listed():
            here = {name: value for name, value in values.items() if name in parameters or name in kept}
            dropped = {n: v for n, v in values.items() if n not in here and n not in OPTIONS}
            if any(value != space.captured(name) for name, value in dropped.items()):
                continue
            if any(here[p.name] not in p.values for p in parameters.values() if p.given and p.name in here):
                continue
            for name, parameter in parameters.items():
                if name not in here:
                    first = parameter.given or parameter.captured is None
                    here[name] = parameter.values[0] if first else parameter.captured
            ordered = {name: here[name] for name in (*parameters, *sorted(kept)) if name in here}
            found.setdefault(point.key(ordered), ordered)
    return list(found.values())
