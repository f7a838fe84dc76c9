"""One case under both: brute force, and the sanitizer as a user gets it. Where they differ, and how."""

from __future__ import annotations

import ast
import random
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from tests.fuzz.sanitizer.case import Case, brute_force, fitted, interpret, launch_of, with_zeros
from tests.fuzz.sanitizer.judge import Verdict
from tests.fuzz.sanitizer.language import dtype_of
from tests.fuzz.sanitizer.statements import generate
from tests.fuzz.sanitizer.tile import Undecidable

_NO_VALUE = {
    "arith.divsi": "div", "arith.divui": "div", "arith.remsi": "rem", "arith.remui": "rem",
    "arith.shli": "shl", "arith.shrsi": "shr", "arith.shrui": "shr",
}  # fmt: skip
_SOURCE = {ast.FloorDiv: "div", ast.Mod: "rem", ast.LShift: "shl", ast.RShift: "shr"}
KINDS = MISSED, FALSE_ALARM, CRASH, WITNESS = "missed", "false alarm", "crash", "witness"


@dataclass(frozen=True)
class Disagreement:
    kind: str
    text: str


@dataclass
class Outcome:
    """``skipped``: why the case says nothing. ``checks`` counts verdicts by kind; ``answer`` is a user's."""

    case: Case
    disagreements: list[Disagreement] = field(default_factory=list)
    skipped: str | None = None
    buggy: bool = False
    zeros: bool = False  # buggy only where a target has something else than zeros in left-out lanes
    # By brute force: not if it depends on an order of programs that was not tried, or if nothing accesses
    # memory, of which yes is never said.
    decided: bool = True
    answer: str = ""
    checks: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)


def prepare(seed: int, variant: int = 0) -> Case:
    """A launch of the kernel of a seed, with storages that fit, or nearly so. Raises Undecidable."""
    case = generate(seed)
    choose = random.Random(seed ^ 0x5EED if not variant else f"{seed}.{variant}")
    if variant:
        case = _varied(case, variant, choose)
    machine = interpret(case)
    spare = {
        one.name: choose.choices((0, -1, choose.randint(-8, -2), choose.randint(1, 40)), (24, 1, 1, 6))[0]
        for one in case.tensors
    }
    case = fitted(case, machine, spare)
    if case.view_bounds:
        case = replace(case, tensors=tuple(_shortened(one, choose) for one in case.tensors))
    return case


def _varied(case: Case, variant: int, choose: random.Random) -> Case:
    """Another launch of the same kernel: other contents, and now and then other numbers and another grid."""
    numbers = dict(case.numbers)
    for name, number in numbers.items():
        if name not in case.constexprs and choose.random() < 0.25:
            numbers[name] = choose.choice(
                (
                    number + 1,
                    number - 1,
                    number + choose.choice((-3, 2, 5)),
                    number * 2,
                    number // 2,
                    0,
                    1,
                    -1,
                )
            )
    x, y, z = case.grid
    if choose.random() < 0.4:
        x = choose.choice((x + 1, max(x - 1, 1), 1, x * 2, min(x * 16, 200)))
    if y > 1 and choose.random() < 0.2:
        y = choose.choice((1, y + 1))
    return replace(case, variant=variant, numbers=numbers, grid=(x, y, z))


def _shortened(tensor: Any, choose: random.Random) -> Any:
    """A tensor that may end before its storage does."""
    rest = tensor.size - tensor.origin
    return replace(tensor, length=max(rest - choose.choice((0, 0, 1)), 1)) if rest > 0 else tensor


def run(seed: int, variant: int = 0) -> Outcome:
    """Generate, and compare."""
    try:
        case = prepare(seed, variant)
    except Undecidable as reason:
        return Outcome(replace(generate(seed), variant=variant), skipped=str(reason))
    return compare(case)


def compare(case: Case) -> Outcome:
    from kerncap.report.sanitize_answer import counts_of_all
    from kerncap.sanitizer.engine import sanitize
    from kerncap.sanitizer.options import Options

    outcome = Outcome(case)
    clock = time.perf_counter
    start = clock()
    try:
        verdict = brute_force(case)
    except Undecidable as reason:
        outcome.skipped = str(reason)
        return outcome
    outcome.buggy = bool(verdict.must) or verdict.uses_unwritten
    outcome.zeros = outcome.buggy and not (verdict.uses_unwritten or with_zeros(case).must)
    outcome.decided = outcome.buggy or (bool(verdict.lines) and not verdict.any_order)
    outcome.seconds["oracle"] = clock() - start
    start = clock()
    try:
        launch = launch_of(case)
    except Exception as error:
        # Triton refuses it (or the front end does, which says so in the text): nothing to compare.
        outcome.skipped = f"not compiled: {type(error).__name__}"
        outcome.reasons[str(error)[-300:]] += 1
        return outcome
    outcome.seconds["compile"] = clock() - start
    start = clock()
    try:
        report = sanitize(launch, Options(bounds="view" if case.view_bounds else "storage"))
    except Exception:
        outcome.disagreements.append(Disagreement(CRASH, traceback.format_exc()))
        return outcome
    outcome.seconds["sanitize"] = clock() - start
    outcome.answer = counts_of_all([report]).answer.value
    _Comparison(outcome, verdict, launch, report).run()
    return outcome


class _Comparison:
    def __init__(self, outcome: Outcome, verdict: Verdict, launch: Any, report: Any) -> None:
        self.outcome = outcome
        self.case = outcome.case
        self.verdict = verdict
        self.launch = launch
        self.report = report

    def run(self) -> None:
        from kerncap.sanitizer.engine import memory_operations
        from kerncap.sanitizer.findings import Proved, Unproven
        from kerncap.sanitizer.ttir import read_module

        for one in self.report.settled:
            word = "proved" if isinstance(one.verdict, Proved) else "violated"
            if isinstance(one.verdict, Unproven):
                word = "unproven"
                self.outcome.reasons[f"{one.check}: {one.verdict.reason}"] += 1
            self.outcome.checks[word] += 1
        # What the compiler removed (an equal load, a store that never happens) can't be reported.
        self.module = read_module(self.launch.ttir)
        compiled = {_line(one) for one in memory_operations(self.module)}
        # What a promise hangs on stands on its own line or on the one before.
        promised = {
            _line(one) + more for one in self.report.settled if one.check == "promise" for more in (0, 1)
        }
        described = {key[1] for key in self.verdict.must if key[0] == "descriptor"}
        there = {"promise": promised, "descriptor": described}
        for key, points in sorted(self.verdict.must.items(), key=str):
            if key[1] in there.get(key[0], compiled) and (key[0] != "race" or self._met(key, compiled)):
                self._reported(*key, points)
        for key in sorted(self.verdict.outside, key=str):
            # Whatever wrapped, or was undefined, on the way there: such a launch is not safe.
            if self.outcome.answer == "pass" and key[1] in compiled:
                self._differs(MISSED, f"{key[2]} is left at line {key[1]}, and the launch is said to be safe")
        steered = (self.verdict.steered & compiled) - self._portable()
        if self.outcome.answer == "pass" and steered:
            self._differs(MISSED, f"an undefined mask at {steered}, and all is said to be safe")
        read = {key[1] for key in self.verdict.unwritten}
        if self.outcome.answer == "pass" and self.verdict.uses_unwritten and read <= compiled:
            self._differs(MISSED, f"what nobody wrote is used, of line {sorted(read)}, and all is said safe")
        # A mask that is right by zeros is noted, and not what comes of it.
        noted = {"uninit"} if self._portable() else set()
        unsafe = {key for key in self.verdict.must if key[1] in compiled and key[0] not in noted}
        self.outcome.zeros |= self.outcome.buggy and not (unsafe or self.verdict.uses_unwritten)
        if self.outcome.answer == "pass" and unsafe and not self.outcome.zeros:
            self._differs(MISSED, f"{sorted(unsafe, key=str)}, and all is said to be safe")
        for finding in self.report.findings:
            if not self.verdict.any_order:
                self._justified(finding)
        if self.outcome.disagreements and self._is_removed():
            self.outcome.disagreements.clear()
            self.outcome.skipped = "the compiler has removed what gives no value"
        if self.outcome.disagreements and self._order_matters():
            self.outcome.disagreements.clear()
            self.outcome.skipped = "where it accesses depends on who wins a race"
        if self.outcome.disagreements and self._outside_steers():
            self.outcome.disagreements.clear()
            self.outcome.skipped = "where it accesses depends on what lies outside of a tensor"

    def _met(self, key: Any, compiled: set[int]) -> bool:
        """Whether the other half of a race is in the compiled kernel as well."""
        _, line, argument = key
        return any(
            {place[0] for place in pair} <= compiled
            for pair in self.verdict.races
            if (line, argument) in {(place[0], place[2]) for place in pair}
        )

    def _is_removed(self) -> bool:
        """A division or a shift that has no value is in the source, and not in what it was compiled to."""
        from kerncap.sanitizer.ttir.ir import walk

        kept = Counter(
            (_line(one), _NO_VALUE[one.name])
            for function in self.module.functions.values()
            if function.body is not None
            for one in walk(function.body)
            if one.name in _NO_VALUE
        )
        written = Counter(
            (node.lineno, _SOURCE[type(node.op)])
            for node in ast.walk(ast.parse(self.case.source))
            if isinstance(node, ast.BinOp) and type(node.op) in _SOURCE
        )
        return any(kept[one] < written[one] for one in self.verdict.failed)

    def _order_matters(self) -> bool:
        """Addresses or masks come from memory that other programs write meanwhile: any order is right."""
        steering = {one.same_as or one.name for one in self.case.tensors if one.name in self.case.steering}
        raced = {place for pair in self.verdict.races for place in pair if place[1] != "store"}
        owners = {self.case.tensor(place[2]).same_as or place[2] for place in raced if place[2]}
        return bool(steering & owners)

    def _outside_steers(self) -> bool:
        """Addresses or masks come from beyond a tensor, and that is reported: anything may stand there."""
        reported = {(one.check, _line(one), one.argument) for one in self.report.findings}
        beyond = {key for key in self.verdict.must if key[0] in ("oob", "overflow")}
        return any(key[2] in self.case.steering for key in beyond & reported)

    def _differs(self, kind: str, text: str) -> None:
        self.outcome.disagreements.append(Disagreement(kind, text))

    def _portable(self) -> set[int]:
        """Lines that are noted: right on this target, which has zeros in lanes that a load leaves out."""
        from kerncap.sanitizer.findings import Violated

        return {
            _line(one)
            for one in self.report.settled
            if isinstance(one.verdict, Violated)
            and all(finding.note == "portability" for finding in one.verdict.findings)
        }

    def _reported(self, check: str, line: int, argument: str | None, points: set[Any]) -> None:
        from kerncap.sanitizer.findings import Unproven, Violated

        # A promise or a descriptor is settled elsewhere than where the source has it.
        apart = check in ("promise", "descriptor")
        here = [one for one in self.report.settled if one.check == check and (apart or _line(one) == line)]
        findings = [f for one in here if isinstance(one.verdict, Violated) for f in one.verdict.findings]
        # To brute force a left-out lane is undefined, whatever a target puts there.
        if any(self._is_meant(f, argument) and f.note != "same-value" and _line(f) == line for f in findings):
            return
        if any(isinstance(one.verdict, Unproven) for one in here):
            return
        if not points or (check, line, argument) in self.verdict.may:
            return
        if self.verdict.failed and self.outcome.answer == "fail":  # after that a launch may do anything
            return
        # That a sum or a store is right by the zeros in left-out lanes is noted, or it is not decided.
        if check == "uninit" and (check, line, argument) not in with_zeros(self.case).must:
            return
        if check == "uninit" and self.verdict.steered:  # what comes of it is reported where it began
            return
        said = ", ".join(
            f"{f.argument}{' (note)' if f.note else ''}: {f.message}" for f in findings
        ) or ", ".join(repr(one.verdict) for one in here)
        point = min(points)
        self._differs(
            MISSED, f"{check} at line {line} in {argument}, e.g. {point}; it says: {said or 'nothing'}"
        )

    def _is_meant(self, finding: Any, argument: str | None) -> bool:
        """A race is reported once, also if its pointers come from several tensors of one storage."""
        if finding.argument == argument:
            return True
        if finding.check != "race" or finding.argument is None or argument is None:
            return False
        one, other = self.case.tensor(finding.argument), self.case.tensor(argument)
        return (one.same_as or one.name) == (other.same_as or other.name)

    def _justified(self, finding: Any) -> None:
        line = _line(finding)
        key = (finding.check, line, finding.argument)
        if finding.argument is None and any(one[:2] == key[:2] for one in self.verdict.must):
            return  # an address of which nobody knows where it leads
        if finding.other is not None and finding.other.place.program_id == finding.place.program_id:
            # To brute force a value with a left-out lane in it is undefined, whatever a target puts there.
            if not _sides(finding, line) <= self.verdict.lanes | with_zeros(self.case).lanes:
                self._differs(FALSE_ALARM, f"{key}: {finding.message}")
            return
        if key not in self.verdict.must:
            if key not in self.verdict.may and not self._equal_by_chance(finding, line):
                self._differs(FALSE_ALARM, f"{key}: {finding.message}")
            return
        if key in self.verdict.may | self.verdict.placeless:
            return
        place = finding.place
        if finding.check == "race":
            self._pair(finding, line)
        elif finding.check == "promise":
            lanes = {(pid, _short(lane)) for pid, lane, _ in self.verdict.must[key]}
            if (tuple(place.program_id), _short(place.lane)) not in lanes:
                self._differs(WITNESS, f"{key}: {place} is none of {sorted(lanes)[:8]}: {finding.message}")
        elif finding.check == "descriptor":
            if tuple(place.program_id) not in {pid for pid, _, _ in self.verdict.must[key]}:
                self._differs(WITNESS, f"{key}: {place}: {finding.message}")
        elif place.offset_bytes is None:
            # A float that a GPU may round otherwise gives no one place.
            if "float32" not in self.case.source or "at an unknown place" not in finding.message:
                self._differs(WITNESS, f"{key} without an offset: {finding.message}")
        else:
            width = dtype_of(self.case.tensor(finding.argument).kind).itemsize
            witness = (tuple(place.program_id), place.offset_bytes / width)
            points = {(pid, offset) for pid, _, offset in self.verdict.must[key]}
            exact = {(pid, _short(lane), offset) for pid, lane, offset in self.verdict.must[key]}
            if witness not in points:
                self._differs(WITNESS, f"{key}: {witness} is none of {sorted(points)[:8]}: {finding.message}")
            elif (witness[0], _short(place.lane), witness[1]) not in exact:
                self._differs(WITNESS, f"{key}: lane {place.lane}: {finding.message}")

    def _equal_by_chance(self, finding: Any, line: int) -> bool:
        """Two programs store where they must not; that these data make both store the same proves nothing."""
        said = "values differ for some contents" in finding.message
        return said and _sides(finding, line) in [set(pair) for pair in self.verdict.identical]

    def _pair(self, finding: Any, line: int) -> None:
        if finding.other is None:
            self._differs(WITNESS, f"a race with nobody: {finding.message}")
            return
        sides = _sides(finding, line)
        if self._equal_by_chance(finding, line):
            return
        if not any(set(pair) == sides for pair in self.verdict.races):
            self._differs(WITNESS, f"race of {sorted(sides, key=str)}: {finding.message}")


def _sides(finding: Any, line: int) -> set[tuple[int, str, str | None]]:
    """The two places of a race: line, access, argument."""
    other = finding.other
    return {(line, finding.access, finding.argument), (_line(other), other.access, other.place.argument)}


def _line(one: Any) -> int:
    frames = one.location.frames
    return int(frames[0].line) if frames else 0


def _short(lane: Any) -> tuple[int, ...]:
    """A lane without axes that tell nothing: the compiler may drop or add those of extent 1."""
    found = tuple(lane)
    return () if not any(found) else found
