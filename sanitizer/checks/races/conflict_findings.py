"""From a conflict to findings: one per operation of the pair, each with the other one in it."""

from __future__ import annotations

from dataclasses import replace

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.races.ordering.sync_words import line_of
from kerncap.sanitizer.checks.races.pairs import Race
from kerncap.sanitizer.checks.races.sides import Side
from kerncap.sanitizer.checks.races.witness_values import Open, Values, Writer, compare
from kerncap.sanitizer.diagnose.confirm import confirm
from kerncap.sanitizer.diagnose.finding_sentence import access_finding, describe_place, spot_of
from kerncap.sanitizer.diagnose.place import linear_program, place_of, value_at
from kerncap.sanitizer.findings import Finding, OtherAccess, Place
from kerncap.sanitizer.symbolic.expr import Variable

_VERBS = {"load": "loads", "store": "stores to", "atomic": "atomically updates"}
_VALUES: dict[Values | None, str] = {
    None: "",
    "same": "; they store the same value",
    "differ": "; their values differ",
    "differ for some": "; their values differ for some contents of memory",
    "in part": "; the bytes that they store overlap in part",
}
EQUAL_THERE = (
    "two programs store to one place; they store the same value for these contents, not shown for all"
)
_TOGETHER = {"load": "load", "store": "store to", "atomic": "update"}


def race_findings(analysis: Analysis, race: Race) -> tuple[Finding, ...] | str:
    """One finding for an operation that meets itself, else one for each side; why not, if not confirmed.

    Two stores that are equal at the witness, or whose values are not known, are left to the evaluation of all
    programs.
    """
    for side, point in ((race.left, race.left_point), (race.right, race.right_point)):
        if side.condition.unknown_reasons or _rests_on_atomics(side):
            continue  # whether it runs depends on the order of programs: no single run confirms it
        answer = confirm(analysis, side.access, side.target, point)
        if not answer.holds:
            return f"a conflict between programs was found but not confirmed: {answer.reason}"
    values: Values | None = None
    if race.left.access.kind == race.right.access.kind == "store":
        compared = _compare(analysis, race)
        if isinstance(compared, Open):
            return compared.reason
        values = compared
    one = _finding(analysis, race, values, race.left, race.left_point, race.right, race.right_point)
    other = _finding(analysis, race, values, race.right, race.right_point, race.left, race.left_point)
    if race.left.access.operation is not race.right.access.operation:
        return one, other
    # An operation that meets itself: the first program first.
    return (min(one, other, key=lambda finding: finding.place.program_id[::-1]),)


def _compare(analysis: Analysis, race: Race) -> Values | Open:
    if race.identical is not None:
        return "same" if race.identical else "differ"
    starts, writers = [], []
    for side, point in ((race.left, race.left_point), (race.right, race.right_point)):
        start = value_at(analysis, side.address, point)
        if start is None:
            return Open("where two programs store is not known")
        starts.append(start)
        program = place_of(analysis, side.access, point).program_id
        writers.append(Writer(side.access.operation, linear_program(analysis.launch, program)))
    first = max(starts)
    size = min(starts[0] + race.left.width, starts[1] + race.right.width) - first
    whole = starts[0] == starts[1] and race.left.width == race.right.width
    if whole and _values_differ(analysis, race):
        return "differ"
    found = compare(analysis, writers[0], writers[1], first, size, whole=whole)
    return Open(EQUAL_THERE) if found == "same" else found


def _values_differ(analysis: Analysis, race: Race) -> bool:
    """Whether the expressions of what both store say so at the witness."""
    one, other = race.left.access.value, race.right.access.value
    if one is None or other is None or one.sort != other.sort:
        return False
    here, there = value_at(analysis, one, race.left_point), value_at(analysis, other, race.right_point)
    return here is not None and there is not None and here != there


def _rests_on_atomics(side: Side) -> bool:
    return bool(side.access.path.unknown_reasons or side.access.mask.unknown_reasons)


def _finding(
    analysis: Analysis,
    race: Race,
    values: Values | None,
    side: Side,
    point: dict[Variable, int],
    other: Side,
    elsewhere: dict[Variable, int],
) -> Finding:
    here = place_of(analysis, side.access, point, side.target)
    there = place_of(analysis, other.access, elsewhere, other.target)
    finding = access_finding(
        analysis,
        side.access,
        "race",
        side.target,
        point,
        message_of(
            side.access.kind, here, other.access.kind, there,
            line_of(other.access.location) if other.access.location != side.access.location else None,
            values, race.detail,
        ),
        contents=race.contents,
        note="same-value" if values == "same" else None,
    )  # fmt: skip
    return replace(finding, other=OtherAccess(other.access.kind, other.access.location, there))


def message_of(
    kind: str,
    here: Place,
    other_kind: str,
    there: Place,
    other_line: str | None,
    values: Values | None,
    detail: str,
) -> str:
    """One sentence: who, what, where, and what is known of the values."""
    spot, other_spot = spot_of(here), spot_of(there)
    if kind == other_kind and spot == other_spot:
        text = (
            f"programs {here.program_id} and {there.program_id} both {_TOGETHER[kind]} {spot}"
            f" in lanes {_lane(here)} and {_lane(there)}{_iterations(here, there)}"
        )
        if other_line is not None:
            text += f", the second one at {other_line}"
    else:
        text = (
            f"{describe_place(here)} {_VERBS[kind]} {spot}, and"
            f" {describe_place(there)} {_VERBS[other_kind]} {'it' if spot == other_spot else other_spot}"
        )
        if other_line is not None:
            text += f" at {other_line}"
    text += _VALUES[values]
    return f"{text}; {detail}" if detail else text


def _lane(place: Place) -> str:
    return str(place.lane[0]) if len(place.lane) == 1 else str(place.lane) if place.lane else "0"


def _iterations(here: Place, there: Place) -> str:
    texts = [", ".join(f"{name} = {value}" for name, value in place.iterations) for place in (here, there)]
    return ", " + " and ".join(texts) if any(texts) else ""
