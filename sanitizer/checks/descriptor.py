"""The contract of tensor descriptors, which nothing checks when they are made on the device.

Sources: the docstring of `triton.language.make_tensor_descriptor` (base 16-byte aligned, sizes not negative,
leading strides multiples of 16 bytes, last dimension contiguous), `triton.tools.tensor_descriptor`'s own
assertions for host descriptors (sizes positive), `descriptor_gather` and `descriptor_scatter` in Triton's
semantics (8 rows and 32 bytes a row at least), and `cuTensorMapEncodeTiled` in the CUDA driver API (sizes up
to 2**31, strides below 2**40 bytes, 16 bytes of the innermost dimension in a block). Blocks above 256 along
an axis are no violation: the compiler splits them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.alignment import address_of
from kerncap.sanitizer.checks.make_finding import accuse_descriptor
from kerncap.sanitizer.checks.value_origin import operations_behind
from kerncap.sanitizer.diagnose.place import value_at
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, boolean, ne
from kerncap.sanitizer.symbolic.solve import Unknown, Unsat
from kerncap.sanitizer.ttir.ir import Location
from kerncap.sanitizer.walk.access import Access, DescriptorUse

ALIGNMENT_BYTES = 16
LARGEST_SIZE = (1 << 31) - 1  # Triton passes sizes as signed 32-bit integers
LARGEST_STRIDE_BYTES = (1 << 40) - 1
LEAST_INNER_BYTES = 16
LEAST_GATHER_ROWS = 8
LEAST_GATHER_ROW_BYTES = 32

# What is wrong if it holds, the number to show, and the text around that number.
Clause = tuple[Expr, "Expr | None", str]


def check(analysis: Analysis, access: Access) -> Verdict | None:
    """Every clause of the contract of the descriptor behind ``access``, or None."""
    use = access.descriptor
    if use is None:
        return None
    how, contents, doubt = "interval", False, None
    findings: list[Finding] = []
    for broken, number, text in _clauses(analysis, access, use):
        answer = analysis.solver.satisfiable(access.path, use.base.guard, broken)
        if isinstance(answer, Unsat):
            how, contents = answer.how, contents or answer.contents
        elif isinstance(answer, Unknown):
            doubt = doubt or answer.reason
        else:
            shown = None if number is None else value_at(analysis, number, answer.assignment)
            message = text.format("unknown" if shown is None else shown)
            verdict = accuse_descriptor(analysis, access, use.base, answer, message, _made_at(access))
            findings.extend(verdict.findings)
    if findings:
        return Violated(tuple(findings))
    return Unproven(doubt) if doubt is not None else Proved(how, contents)


def _clauses(analysis: Analysis, access: Access, use: DescriptorUse) -> Iterator[Clause]:
    size = use.element_bytes
    address = address_of(analysis.launch, use.base)
    yield (
        ne(address % ALIGNMENT_BYTES, 0),
        address % ALIGNMENT_BYTES,
        "the descriptor's base is {} bytes past a multiple of 16 bytes",
    )
    for axis, extent in enumerate(use.shape):
        least = 1 if use.host else 0
        yield extent < least, extent, f"the descriptor's size along axis {axis} is {{}}"
        yield (
            extent > LARGEST_SIZE,
            extent,
            f"the descriptor's size along axis {axis} is {{}}, over 2**31 - 1",
        )
    for axis, stride in enumerate(use.strides[:-1]):
        stride_bytes = stride * size
        yield (
            ne(stride_bytes % ALIGNMENT_BYTES, 0),
            stride_bytes,
            f"the descriptor's stride along axis {axis} is {{}} bytes, not a multiple of 16",
        )
        yield (
            stride_bytes < 0,
            stride_bytes,
            f"the descriptor's stride along axis {axis} is negative: {{}} bytes",
        )
        yield (
            stride_bytes > LARGEST_STRIDE_BYTES,
            stride_bytes,
            f"the descriptor's stride along axis {axis} is {{}} bytes, 2**40 or more",
        )
    if use.strides:
        yield (
            ne(use.strides[-1], 1),
            use.strides[-1],
            "the descriptor's last stride is {} elements: the last dimension must be contiguous",
        )
    yield from _static_clauses(access, use)


def _static_clauses(access: Access, use: DescriptorUse) -> Iterator[Clause]:
    """What the compiler's front end mostly refuses by itself; a host descriptor may still have it."""
    inner = use.block_shape[-1] * use.element_bytes if use.block_shape else 0
    if inner < LEAST_INNER_BYTES:
        yield TRUE, None, f"the descriptor's block has {inner} bytes in its last dimension: 16 at least"
    if not access.operation.name.endswith(("descriptor_gather", "descriptor_scatter")):
        return
    rows = access.shape[0] if access.shape else 1
    few = f"a descriptor gather or scatter of {rows} rows: 8 at least"
    yield boolean(rows < LEAST_GATHER_ROWS), None, few
    yield (
        boolean(inner < LEAST_GATHER_ROW_BYTES),
        None,
        f"a descriptor gather or scatter of rows of {inner} bytes: 32 at least",
    )


def _made_at(access: Access) -> Location:
    """Where a device descriptor is made; the access itself for one that came from the host."""
    if access.pointer_operand is not None:
        for operation in operations_behind(access.pointer_operand):
            if operation.name.endswith("make_tensor_descriptor"):
                return operation.location
    return access.location
