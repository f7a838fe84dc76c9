"""Gluon kernels whose asynchronous operations are in order, or broken in the way that ``BROKEN`` names."""

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma, warpgroup_mma, warpgroup_mma_wait


@gluon.jit
def copied(x_ptr, out_ptr, n, BLOCK: gl.constexpr, BROKEN: gl.constexpr):
    """Two slots, filled one block ahead by asynchronous copies."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    slots = gl.allocate_shared_memory(gl.float32, [2, BLOCK], flat)
    lanes = gl.arange(0, BLOCK, layout=layout)
    async_copy.async_load(slots.index(0), x_ptr + lanes)
    if BROKEN != "uncommitted":
        async_copy.commit_group()
    for block in range(n):
        behind = (block + 1) % 2 if BROKEN != "same slot" else block % 2
        if BROKEN == "out of bounds":
            behind = block + 1
        async_copy.async_load(slots.index(behind), x_ptr + (block + 1) * BLOCK + lanes)
        async_copy.commit_group()
        async_copy.wait_group(1 if BROKEN != "no wait" else 2)
        gl.store(out_ptr + block * BLOCK + lanes, slots.index(block % 2).load(layout))
    async_copy.wait_group(0)


@gluon.jit
def fetched(desc, out_desc, n, BROKEN: gl.constexpr):
    """Three slots, each with a barrier; blocks are fetched, doubled in place and stored by the TMA."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    slots = gl.allocate_shared_memory(desc.dtype, [3] + desc.block_type.shape, desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    size: gl.constexpr = desc.block_type.nbytes
    announced: gl.constexpr = size // 2 if BROKEN == "half the bytes" else size
    for i in gl.static_range(3):
        if BROKEN != "no init":
            mbarrier.init(full.index(i), count=2 if BROKEN == "count" else 1)
    if BROKEN != "no expect":
        mbarrier.expect(full.index(0), announced)
    tma.async_load(desc, [0, 0], full.index(0), slots.index(0))
    for block in range(n):
        ahead = block + 1
        # The store that read the slot is over.
        tma.store_wait(1 if BROKEN != "no store wait" else 3)
        mbarrier.expect(full.index(ahead % 3), size)
        tma.async_load(desc, [ahead * 64, 0], full.index(ahead % 3), slots.index(ahead % 3))
        slot = block % 3
        if BROKEN == "wrong phase":
            mbarrier.wait(full.index(slot), 1 - block // 3 % 2)
        elif BROKEN == "phase of the slot":
            mbarrier.wait(full.index(slot), block % 2)
        elif BROKEN != "no wait":
            mbarrier.wait(full.index(slot), block // 3 % 2)
        value = slots.index(slot).load(layout)
        slots.index(slot).store(value + value)
        tma.async_store(out_desc, [block * 64, 0], slots.index(slot))
    mbarrier.wait(full.index(n % 3), n // 3 % 2)
    tma.store_wait(0)


@gluon.jit
def multiplied(a_desc, b_desc, c_ptr, n, BROKEN: gl.constexpr):
    """wgmma on two slots: a slot is fetched again when the product that reads it is over."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    a = gl.allocate_shared_memory(a_desc.dtype, [2] + a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [2] + b_desc.block_type.shape, b_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    size: gl.constexpr = a_desc.block_type.nbytes + b_desc.block_type.nbytes
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
    mbarrier.expect(full.index(0), size)
    tma.async_load(a_desc, [0, 0], full.index(0), a.index(0))
    tma.async_load(b_desc, [0, 0], full.index(0), b.index(0))
    acc = gl.zeros([64, 64], gl.float32, layout)
    for k in range(n):
        slot = k % 2
        mbarrier.wait(full.index(slot), k // 2 % 2)
        product = warpgroup_mma(a.index(slot), b.index(slot), acc, is_async=True)
        acc = warpgroup_mma_wait(0 if BROKEN == "" else 1, deps=(product,))
        mbarrier.expect(full.index(1 - slot), size)
        tma.async_load(a_desc, [0, k * 64 + 64], full.index(1 - slot), a.index(1 - slot))
        tma.async_load(b_desc, [k * 64 + 64, 0], full.index(1 - slot), b.index(1 - slot))
        if BROKEN == "slot in use":
            mbarrier.expect(full.index(slot), size)
            tma.async_load(a_desc, [0, k * 64 + 64], full.index(slot), a.index(slot))
            tma.async_load(b_desc, [k * 64 + 64, 0], full.index(slot), b.index(slot))
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    gl.store(c_ptr + rows * 64 + columns, acc)


@gluon.jit
def _fetch(desc, slots, full, free, n, BROKEN: gl.constexpr):
    for block in range(n):
        slot = block % 2
        if BROKEN != "no free":
            mbarrier.wait(free.index(slot), 1 - block // 2 % 2)
        mbarrier.expect(full.index(slot), desc.block_type.nbytes)
        tma.async_load(desc, [block * 64, 0], full.index(slot), slots.index(slot))


@gluon.jit
def _use(slots, full, free, out_ptr, n, BROKEN: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    for block in range(n):
        slot = block % 2
        mbarrier.wait(full.index(slot), block // 2 % 2)
        if BROKEN == "early arrive":
            mbarrier.arrive(free.index(slot), count=1)
        value = slots.index(slot).load(layout)
        if BROKEN != "early arrive" and BROKEN != "no arrive":
            mbarrier.arrive(free.index(slot), count=1)
        gl.store(out_ptr + block * 4096 + rows * 64 + columns, value)


@gluon.jit
def specialised(desc, out_ptr, n, BROKEN: gl.constexpr):
    """One partition of warps fetches, the default warps use."""
    slots = gl.allocate_shared_memory(desc.dtype, [2] + desc.block_type.shape, desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    gl.warp_specialize(
        [(_use, (slots, full, free, out_ptr, n, BROKEN)), (_fetch, (desc, slots, full, free, n, BROKEN))],
        [1], [24],
    )  # fmt: skip


@triton.jit
def matmul(a_desc, b_desc, c_desc, M, N, K, PROGRAMS: tl.constexpr, APART: tl.constexpr):
    """For Triton's own pipeline, persistent."""
    tiles = tl.cdiv(M, 128) * tl.cdiv(N, 128)
    for tile in tl.range(tl.program_id(0), tiles, PROGRAMS, flatten=APART, warp_specialize=APART):
        row, column = tile % tl.cdiv(M, 128), tile // tl.cdiv(M, 128)
        acc = tl.zeros((128, 128), tl.float32)
        for k in range(tl.cdiv(K, 64)):
            a = a_desc.load([row * 128, k * 64])
            b = b_desc.load([column * 128, k * 64])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([row * 128, column * 128], acc.to(tl.float16))


@triton.jit
def attention(q_desc, k_desc, v_desc, o_desc, n, APART: tl.constexpr):
    row = tl.program_id(0) * 128
    q = q_desc.load([row, 0])
    top = tl.full([128], float("-inf"), tl.float32)
    weight = tl.zeros([128], tl.float32)
    acc = tl.zeros([128, 64], tl.float32)
    for at in tl.range(0, n, 128, warp_specialize=APART):
        scores = tl.dot(q, k_desc.load([at, 0]).T)
        new = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - new[:, None])
        scale = tl.exp2(top - new)
        acc = tl.dot(p.to(tl.float16), v_desc.load([at, 0]), acc * scale[:, None])
        weight = weight * scale + tl.sum(p, 1)
        top = new
    o_desc.store([row, 0], (acc / weight[:, None]).to(tl.float16))


@triton.jit
def matmul_by_pointers(a_ptr, b_ptr, c_ptr, K, stride):
    rows, columns, ks = tl.arange(0, 64), tl.arange(0, 64), tl.arange(0, 32)
    a = a_ptr + rows[:, None] * stride + ks[None, :]
    b = b_ptr + ks[:, None] * stride + columns[None, :]
    acc = tl.zeros((64, 64), tl.float32)
    for k in range(0, K, 32):
        acc = tl.dot(tl.load(a + k), tl.load(b + k * stride), acc)
    tl.store(c_ptr + rows[:, None] * stride + columns[None, :], acc)


@gluon.jit
def released(n, BROKEN: gl.constexpr):
    """Each block arrives for the slot before its own: the first one has none, and does not."""
    empty = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(empty.index(i), count=1)
    for block in range(n):
        mbarrier.arrive(empty.index((block - 1) % 2), count=1, pred=block >= (0 if BROKEN == "first" else 1))
