"""What an interpreter-patching sanitizer is known to get wrong: one place each, wrong and right."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from tests.integration.sanitizer.suite.cases import case
from tests.integration.sanitizer.suite.tensors import half, ints, izeros, rand, zeros

# --- equal-sized aranges are two variables ---------------------------------------------------------


@case((1,), x_ptr=rand(16, 20), out_ptr=zeros(16, 16), BLOCK=16)
@triton.jit
def square_tile_overruns_off_the_diagonal(x_ptr, out_ptr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    # On the diagonal, 21·i stays below 320; row 15, column 0 does not with a stride of 22.
    at = rows[:, None] * 22 - cols[None, :]
    x = tl.load(x_ptr + at, mask=at >= 0, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + rows[:, None] * BLOCK + cols[None, :], x)


@case((1,), x_ptr=rand(16, 20), out_ptr=zeros(16, 16), BLOCK=16)
@triton.jit
def square_tile_masked_off_the_diagonal(x_ptr, out_ptr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    cols = tl.arange(0, BLOCK)
    at = rows[:, None] * 22 - cols[None, :]
    x = tl.load(x_ptr + at, mask=(at >= 0) & (at < 320), other=0.0)
    tl.store(out_ptr + rows[:, None] * BLOCK + cols[None, :], x)


# --- branch conditions on the program id -----------------------------------------------------------


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), BLOCK=16)
@triton.jit
def branch_taken_by_the_last_program_only(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    if pid == 3:
        x = tl.load(x_ptr + offs + 1)  # BUG: oob argument=x_ptr
    else:
        x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x)


@case((4,), x_ptr=rand(64), out_ptr=zeros(64), BLOCK=16)
@triton.jit
def branch_not_taken_by_the_last_program(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    if pid < 3:
        x = tl.load(x_ptr + offs + 1)
    else:
        x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x)


# --- atomics are accesses --------------------------------------------------------------------------


@case((4,), counts_ptr=izeros(60), BLOCK=16)
@triton.jit
def atomic_out_of_bounds(counts_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + offs, 1)  # BUG: oob argument=counts_ptr


@case((4,), counts_ptr=izeros(60), n=60, BLOCK=16)
@triton.jit
def atomic_masked(counts_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts_ptr + offs, 1, mask=offs < n)


@case((4,), lock_ptr=izeros(3), out_ptr=izeros(4))
@triton.jit
def compare_and_swap_out_of_bounds(lock_ptr, out_ptr):
    pid = tl.program_id(0)
    old = tl.atomic_cas(lock_ptr + pid, 0, 1)  # BUG: oob argument=lock_ptr
    tl.store(out_ptr + pid, old)


# --- 32 bits wrap around, and a remainder may be negative ------------------------------------------


@case(
    (4,), huge={"x_ptr": (4, 1_000_000_000)}, x_ptr=rand(4), out_ptr=zeros(4, 16), stride=1_000_000_000,
    BLOCK=16,
)  # fmt: skip
@triton.jit
def row_times_stride_in_32_bits(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    # BUG: overflow argument=x_ptr
    x = tl.load(x_ptr + row * stride + cols)
    tl.store(out_ptr + row * BLOCK + cols, x)


@case(
    (4,), huge={"x_ptr": (4, 1_000_000_000)}, x_ptr=rand(4), out_ptr=zeros(4, 16), stride=1_000_000_000,
    BLOCK=16,
)  # fmt: skip
@triton.jit
def row_times_stride_in_64_bits(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr + row * BLOCK + cols, tl.load(x_ptr + row * stride + cols))


@case((4,), x_ptr=rand(16), out_ptr=zeros(4, 4), BLOCK=4)
@triton.jit
def remainder_of_a_negative_index(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + (pid * BLOCK + lane - 1) % 16)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid * BLOCK + lane, x)


@case((4,), x_ptr=rand(16), out_ptr=zeros(4, 4), BLOCK=4)
@triton.jit
def remainder_of_a_negative_index_masked(x_ptr, out_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    at = (pid * BLOCK + lane - 1) % 16
    tl.store(out_ptr + pid * BLOCK + lane, tl.load(x_ptr + at, mask=at >= 0, other=0.0))


# --- all bytes of an element -----------------------------------------------------------------------


@case((1,), x_ptr=torch.arange(34, dtype=torch.uint8), out_ptr=izeros(9))
@triton.jit
def last_word_is_half_outside(x_ptr, out_ptr):
    lane = tl.arange(0, 16)
    words = x_ptr.to(tl.pointer_type(tl.int32))
    x = tl.load(words + lane, mask=lane < 9, other=0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + lane, x, mask=lane < 9)


@case((1,), x_ptr=torch.arange(36, dtype=torch.uint8), out_ptr=izeros(9))
@triton.jit
def last_word_is_inside(x_ptr, out_ptr):
    lane = tl.arange(0, 16)
    words = x_ptr.to(tl.pointer_type(tl.int32))
    tl.store(out_ptr + lane, tl.load(words + lane, mask=lane < 9, other=0), mask=lane < 9)


# --- a mask from memory has lanes ------------------------------------------------------------------


@case(
    (2,), keep_ptr=ints([1] * 12 + [0] * 4 + [0] * 15 + [1], torch.int8), x_ptr=rand(28), out_ptr=zeros(32),
    BLOCK=16,
)  # fmt: skip
@triton.jit
def loaded_mask_lets_one_lane_out(keep_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(keep_ptr + offs) != 0
    x = tl.load(x_ptr + offs, mask=keep, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x)


@case((2,), keep_ptr=ints([1] * 28 + [0] * 4, torch.int8), x_ptr=rand(28), out_ptr=zeros(32), BLOCK=16)
@triton.jit
def loaded_mask_keeps_all_lanes_in(keep_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.load(keep_ptr + offs) != 0
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=keep, other=0.0))


# --- stores are carried out ------------------------------------------------------------------------


@case((2,), index_ptr=izeros(32), x_ptr=rand(32), out_ptr=zeros(32), BLOCK=16)
@triton.jit
def index_written_then_read(index_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(index_ptr + offs, offs + 1)
    tl.debug_barrier()
    index = tl.load(index_ptr + offs)
    x = tl.load(x_ptr + index)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x)


@case((2,), index_ptr=ints([99] * 32), x_ptr=rand(32), out_ptr=zeros(32), BLOCK=16)
@triton.jit
def stale_index_overwritten_before_its_use(index_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(index_ptr + offs, 31 - offs)
    tl.debug_barrier()
    index = tl.load(index_ptr + offs)
    tl.store(out_ptr + offs, tl.load(x_ptr + index))


# --- contents are part of what is remembered -------------------------------------------------------


@case((2,), "first", index_ptr=ints(range(8)), x_ptr=rand(8), out_ptr=zeros(8), BLOCK=4)
@case((2,), "second", index_ptr=ints([0, 1, 2, 3, 4, 5, 6, 8]), x_ptr=rand(8), out_ptr=zeros(8), BLOCK=4)
@case((2,), "third", index_ptr=ints([7] * 8), x_ptr=rand(8), out_ptr=zeros(8), BLOCK=4)
@triton.jit
def same_launch_other_contents(index_ptr, x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.load(index_ptr + offs))  # BUG(second): oob argument=x_ptr
    tl.store(out_ptr + offs, x)


# --- pointers that are bumped ----------------------------------------------------------------------


@case((2,), x_ptr=rand(2, 40), out_ptr=zeros(2), k=40, BLOCK=16)
@triton.jit
def masked_tail_with_a_bumped_pointer(x_ptr, out_ptr, k, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    at = x_ptr + pid * k + lane
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.cdiv(k, BLOCK)):
        acc += tl.load(at, mask=lane < k - i * BLOCK, other=0.0)
        at += BLOCK
    tl.store(out_ptr + pid, tl.sum(acc, 0))


@case((2,), x_ptr=rand(2, 40), out_ptr=zeros(2), k=40, BLOCK=16)
@triton.jit
def masked_tail_bumped_before_the_load(x_ptr, out_ptr, k, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    at = x_ptr + pid * k + lane
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(tl.cdiv(k, BLOCK)):
        at += BLOCK
        acc += tl.load(at, mask=lane < k - i * BLOCK, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, tl.sum(acc, 0))


@case((1,), x_ptr=rand(64), out_ptr=zeros(16), BLOCK=16)
@triton.jit
def pointer_for_the_next_iteration_never_used(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    at = x_ptr + lane
    acc = tl.zeros((BLOCK,), tl.float32)
    for _ in range(4):
        acc += tl.load(at)
        at += 4 * BLOCK
        at -= 3 * BLOCK
    tl.store(out_ptr + lane, acc)


@case((1,), x_ptr=rand(64), out_ptr=zeros(16), BLOCK=16)
@triton.jit
def next_iteration_prefetched(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lane = tl.arange(0, BLOCK)
    at = x_ptr + lane
    acc = tl.zeros((BLOCK,), tl.float32)
    ahead = tl.load(at)
    for _ in range(4):
        at += BLOCK
        acc += ahead
        ahead = tl.load(at)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + lane, acc + ahead)


# --- early returns, conditions on a loop's counter -------------------------------------------------


@case((4,), x_ptr=rand(2, 16), out_ptr=zeros(2, 16), rows=2, BLOCK=16)
@triton.jit
def rows_past_the_end_return_early(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if row >= rows:
        return
    cols = tl.arange(0, BLOCK)
    tl.store(out_ptr + row * BLOCK + cols, tl.load(x_ptr + row * BLOCK + cols))


@case((4,), x_ptr=rand(2, 16), out_ptr=zeros(4, 16), rows=2, BLOCK=16)
@triton.jit
def rows_past_the_end_load_before_they_return(x_ptr, out_ptr, rows, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * BLOCK + cols)  # BUG: oob argument=x_ptr
    if row >= rows:
        return
    tl.store(out_ptr + row * BLOCK + cols, x)


@case((3,), x_ptr=rand(8, 3), out_ptr=zeros(8, 3), steps=8)
@triton.jit
def recurrence_skips_the_first_step(x_ptr, out_ptr, steps):
    lane = tl.program_id(0)
    for t in range(steps):
        x = tl.load(x_ptr + t * 3 + lane)
        if t > 0:
            x += tl.load(x_ptr + (t - 1) * 3 + lane)
        tl.store(out_ptr + t * 3 + lane, x)


@case((3,), x_ptr=rand(8, 3), out_ptr=zeros(8, 3), steps=8)
@triton.jit
def recurrence_reads_before_the_first_step(x_ptr, out_ptr, steps):
    lane = tl.program_id(0)
    for t in range(steps):
        x = tl.load(x_ptr + t * 3 + lane)
        if t >= 0:
            x += tl.load(x_ptr + (t - 1) * 3 + lane)  # BUG: oob argument=x_ptr
        tl.store(out_ptr + t * 3 + lane, x)


# --- loop bounds differ by program, loops are long -------------------------------------------------


@case((4,), x_ptr=rand(10), out_ptr=zeros(4))
@triton.jit
def each_program_has_its_own_bound(x_ptr, out_ptr):
    pid = tl.program_id(0)
    total = 0.0
    for i in range(pid * 3):
        total += tl.load(x_ptr + i)
    tl.store(out_ptr + pid, total)


@case((5,), x_ptr=rand(10), out_ptr=zeros(5))
@triton.jit
def last_program_loops_too_far(x_ptr, out_ptr):
    pid = tl.program_id(0)
    total = 0.0
    for i in range(pid * 3):
        total += tl.load(x_ptr + i)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, total)


@case((1,), x_ptr=rand(700), out_ptr=zeros(1), n=700)
@triton.jit
def seven_hundred_iterations(x_ptr, out_ptr, n):
    total = 0.0
    for i in range(n):
        total += tl.load(x_ptr + i)
    tl.store(out_ptr, total)


@case((1,), heavy=True, x_ptr=rand(700), out_ptr=zeros(1), n=700)
@triton.jit
def seven_hundred_iterations_and_one(x_ptr, out_ptr, n):
    total = 0.0
    at = x_ptr
    for _ in range(n + 1):
        total += tl.load(at)  # BUG: oob argument=x_ptr
        at += 1
    tl.store(out_ptr, total)


# --- what must not crash ---------------------------------------------------------------------------


@case((2,), x_ptr=rand(32, 16), out_ptr=zeros(32, 16), m=32, B=16)
@triton.jit
def descriptor_within_its_tensor(x_ptr, out_ptr, m, B: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [m, B], [B, 1], [B, B])
    out = tl.make_tensor_descriptor(out_ptr, [m, B], [B, 1], [B, B])
    row = tl.program_id(0) * B
    out.store([row, 0], x.load([row, 0]))


@case((2,), x_desc=TensorDescriptor(half(20, 16), [32, 16], [16, 1], [16, 16]), out_ptr=half(32, 16), B=16)
@triton.jit
def descriptor_of_more_than_its_tensor(x_desc, out_ptr, B: tl.constexpr):
    row = tl.program_id(0) * B
    x = x_desc.load([row, 0])  # BUG: oob argument=x_desc
    tl.store(out_ptr + (row + tl.arange(0, B))[:, None] * B + tl.arange(0, B)[None, :], x)


@case((2,), x_ptr=rand(2, 16), table_ptr=rand(16), out_ptr=zeros(2), BLOCK=16)
@triton.jit
def argmax_in_an_address(x_ptr, table_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.argmax(tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK)), 0)
    tl.store(out_ptr + row, tl.load(table_ptr + best))


@case((2,), x_ptr=torch.arange(32.0), table_ptr=rand(15), out_ptr=zeros(2), BLOCK=16)
@triton.jit
def argmax_in_an_address_of_a_short_table(x_ptr, table_ptr, out_ptr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.argmax(tl.load(x_ptr + row * BLOCK + tl.arange(0, BLOCK)), 0)
    x = tl.load(table_ptr + best)  # BUG: oob argument=table_ptr
    tl.store(out_ptr + row, x)


@case((3,), lock_ptr=izeros(1), total_ptr=zeros(1))
@triton.jit
def spin_lock(lock_ptr, total_ptr):
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + tl.program_id(0))
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@case((3,), lock_ptr=izeros(1), total_ptr=zeros(1))
@triton.jit
def spin_lock_never_taken(lock_ptr, total_ptr):
    before = tl.load(total_ptr)  # BUG: race argument=total_ptr
    tl.store(total_ptr, before + tl.program_id(0) + 1)  # BUG: race argument=total_ptr
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr, 0)


@case((3,), x_ptr=rand(40), out_ptr=zeros(40), n=40)
@triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"] // 3)})
@triton.jit
def block_by_heuristics(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@case((3,), x_ptr=rand(40), out_ptr=zeros(40), n=40)
@triton.heuristics({"MASKED": lambda arguments: arguments["n"] % 8 != 0, "BLOCK": lambda arguments: 16})
@triton.jit
def mask_left_out_by_heuristics(x_ptr, out_ptr, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n if MASKED else offs >= 0
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, x, mask=mask)  # BUG: oob argument=out_ptr


@case(lambda meta: (triton.cdiv(40, meta["BLOCK"]),), x_ptr=rand(40), out_ptr=zeros(40), n=40)
@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"])
@triton.jit
def block_by_autotune(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)


@case((0,), x_ptr=rand(4), out_ptr=zeros(4), BLOCK=16)
@triton.jit
def empty_grid(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@case((2,), x_ptr=rand(0), out_ptr=zeros(32), n=0, BLOCK=16)
@triton.jit
def empty_tensor_all_masked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n, other=1.0))


@case((2,), x_ptr=rand(0), out_ptr=zeros(32), n=0, BLOCK=16)
@triton.jit
def empty_tensor_first_element(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.load(x_ptr)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + offs, first + n)


# --- what a solver may not decide ------------------------------------------------------------------


@case((60,), x_ptr=rand(999), out_ptr=zeros(60))
@triton.jit
def product_of_program_ids_hits_once(x_ptr, out_ptr):
    pid = tl.program_id(0)
    # Of sixty programs, number 58 alone is past the end.
    at = (pid * pid * 37 + 11 * pid) % 1009
    x = tl.load(x_ptr + at)  # BUG: oob argument=x_ptr
    tl.store(out_ptr + pid, x)


@case((60,), x_ptr=rand(1009), out_ptr=zeros(60))
@triton.jit
def product_of_program_ids_in_range(x_ptr, out_ptr):
    pid = tl.program_id(0)
    at = (pid * pid * 37 + 11 * pid) % 1009
    tl.store(out_ptr + pid, tl.load(x_ptr + at))


# --- strided views as a footprint ------------------------------------------------------------------


@case(
    (6, 6), "view", bounds="view", x_ptr=rand(192, 200)[::2, 3:195:2], out_ptr=zeros(96, 96), sm=400, sn=2,
    n=96, B=16,
)  # fmt: skip
@case((6, 6), "storage", x_ptr=rand(192, 200)[::2, 3:195:2], out_ptr=zeros(96, 96), sm=400, sn=2, n=96, B=16)
@triton.jit
def strided_view_of_96_by_96(x_ptr, out_ptr, sm, sn, n, B: tl.constexpr):
    rm = tl.program_id(0) * B + tl.arange(0, B)
    rn = tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(x_ptr + rm[:, None] * sm + rn[None, :] * sn)
    tl.store(out_ptr + rm[:, None] * n + rn[None, :], x)


@case(
    (6, 6), heavy=True, bounds="view", x_ptr=rand(192, 200)[::2, 3:195:2], out_ptr=zeros(96, 96), sm=400,
    n=96, B=16,
)  # fmt: skip
@triton.jit
def strided_view_between_its_elements(x_ptr, out_ptr, sm, n, B: tl.constexpr):
    rm = tl.program_id(0) * B + tl.arange(0, B)
    rn = tl.program_id(1) * B + tl.arange(0, B)
    x = tl.load(x_ptr + rm[:, None] * sm + rn[None, :])  # BUG: oob argument=x_ptr
    tl.store(out_ptr + rm[:, None] * n + rn[None, :], x)
