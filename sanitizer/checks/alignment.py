"""Misaligned accesses: an address that is not a multiple of its element's size.

The GPU stops at one ("misaligned address"), wherever it points. Pointer casts and byte offsets make them.
"""

from __future__ import annotations

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.make_finding import accuse
from kerncap.sanitizer.checks.smallest_witness import smallest
from kerncap.sanitizer.diagnose.place import base_address
from kerncap.sanitizer.findings import Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.symbolic.expr import Expr, ne
from kerncap.sanitizer.symbolic.solve import Unknown, Unsat
from kerncap.sanitizer.walk.access import Access, Target


def check(analysis: Analysis, access: Access) -> Verdict | None:
    """None for single bytes, and for descriptors, whose base and strides have a contract of their own."""
    if access.width_bytes <= 1 or access.descriptor is not None:
        return None
    how, contents, doubt = "interval", False, None
    for target in access.targets:
        crooked = ne(address_of(analysis.launch, target) % access.width_bytes, 0)
        where = (access.path, access.mask, target.guard)
        answer = analysis.solver.satisfiable(*where, crooked)
        if isinstance(answer, Unsat):
            how, contents = answer.how, contents or answer.contents
        elif isinstance(answer, Unknown):
            doubt = doubt or answer.reason
        else:
            point = smallest(analysis, access, (*where, crooked), answer)
            text = f"the address is not a multiple of the element's {access.width_bytes} bytes"
            verdict = accuse(analysis, access, "alignment", target, point, text)
            if isinstance(verdict, Violated):
                return verdict
            doubt = doubt or verdict.reason
    return Unproven(doubt) if doubt is not None else Proved(how, contents)


def address_of(launch: Launch, target: Target) -> Expr:
    """The absolute address in bytes."""
    return base_address(launch, target.argument) + target.offset_bytes
