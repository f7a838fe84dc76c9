"""Kernels whose results are not determined: by order, by lanes that meet, by integers without a value."""

import triton
import triton.language as tl


@triton.jit
def concatenated(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N // 2)
    both = tl.cat(tl.load(x_ptr + at), tl.load(x_ptr + N // 2 + at), can_reorder=True)
    tl.store(y_ptr + tl.arange(0, N), both)


@triton.jit
def _difference(a, b):
    return a - b


@triton.jit
def _mean(a, b):
    return (a + b) * 0.5


@triton.jit
def alternating(x_ptr, y_ptr, N: tl.constexpr):
    tl.store(y_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, N)), 0, _difference))


@triton.jit
def mean_of_means(x_ptr, y_ptr, N: tl.constexpr):
    tl.store(y_ptr, tl.reduce(tl.load(x_ptr + tl.arange(0, N)), 0, _mean))


@triton.jit
def running_mean(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.associative_scan(tl.load(x_ptr + at), 0, _mean))


@triton.jit
def lanes_that_meet(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at // 2, tl.load(x_ptr + at))


@triton.jit
def lanes_queued(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.atomic_add(x_ptr + at // 4, 1))


@triton.jit
def lanes_exchanged(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_xchg(y_ptr + at // 4, at)


@triton.jit
def lanes_compared(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.atomic_cas(y_ptr + at // 4, tl.zeros_like(at), at + 1)


@triton.jit
def added_and_limited(x_ptr, y_ptr, N: tl.constexpr):
    tl.atomic_add(y_ptr, 2)
    tl.atomic_min(y_ptr, 3)


@triton.jit
def added_and_limited_apart(x_ptr, y_ptr, N: tl.constexpr):
    tl.atomic_add(y_ptr, 2)
    tl.atomic_min(y_ptr + 1, 3)


@triton.jit
def promised(x_ptr, y_ptr, N: tl.constexpr):
    tl.assume(tl.load(x_ptr) == 7)
    tl.store(y_ptr, tl.load(x_ptr))


@triton.jit
def queued(x_ptr, y_ptr, count_ptr):
    slot = tl.atomic_add(count_ptr, 1)
    tl.store(y_ptr + slot, tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def moved_in_place(x_ptr, y_ptr, n):
    program = tl.program_id(0)
    tl.store(x_ptr + program, tl.load(x_ptr + program + 1, mask=program + 1 < n, other=0.0))


@triton.jit
def moved_to_the_right(x_ptr, y_ptr, n):
    """As if no other program had run before, if they run in lockstep or from the last."""
    program = tl.program_id(0)
    tl.store(x_ptr + program + 1, tl.load(x_ptr + program))


@triton.jit
def stored_and_read_apart(x_ptr, y_ptr, n):
    program = tl.program_id(0)
    tl.store(y_ptr + program, tl.load(x_ptr + program))
    tl.store(x_ptr + program, tl.load(y_ptr + (program + 1) % n))


@triton.jit
def doubled_in_place(x_ptr, y_ptr, n):
    program = tl.program_id(0)
    tl.store(x_ptr + program, tl.load(x_ptr + program))
    tl.store(x_ptr + program, tl.load(x_ptr + program) * 2)


@triton.jit
def padded_over_the_next(x_ptr, y_ptr, count_ptr):
    """The next one's word is zero, if they run in lockstep or from the last."""
    program = tl.program_id(0)
    tl.store(y_ptr + program, tl.load(x_ptr + program))
    tl.store(y_ptr + program + 1, 0.0)


@triton.jit
def summed_by_the_first(x_ptr, y_ptr, count_ptr):
    program = tl.program_id(0)
    tl.store(y_ptr + 1 + program, tl.load(x_ptr + program))
    if tl.atomic_add(count_ptr, 1) == 0:
        tl.store(y_ptr, tl.sum(tl.load(y_ptr + 1 + tl.arange(0, 8))))


@triton.jit
def summed_by_the_last(x_ptr, y_ptr, count_ptr):
    program = tl.program_id(0)
    tl.store(y_ptr + 1 + program, tl.load(x_ptr + program))
    if tl.atomic_add(count_ptr, 1) == 7:
        tl.store(y_ptr, tl.sum(tl.load(y_ptr + 1 + tl.arange(0, 8))))


@triton.jit
def exchanged(y_ptr):
    tl.atomic_xchg(y_ptr, tl.program_id(0))


@triton.jit
def largest_program(y_ptr):
    tl.atomic_max(y_ptr, tl.program_id(0))


@triton.jit
def shifted_by_the_width(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.load(x_ptr + at) << (32 + at * 0))


@triton.jit
def divided_by_zero(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, (7 // x).to(tl.float32))


@triton.jit
def divided_but_by_zero(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(y_ptr + at, tl.where(x == 0, 0, 7 // x).to(tl.float32))


@triton.jit
def stored_outside(x_ptr, y_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y_ptr + at, tl.load(x_ptr + at))
    tl.store(y_ptr + 100000 + at, tl.load(x_ptr + at))


@triton.jit
def signed(x_ptr, y_ptr):
    x = tl.load(x_ptr)
    if x > 0.0:
        tl.store(y_ptr, x)
    if x < 0.0:
        tl.store(y_ptr, x)


@triton.jit
def copied(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr))
