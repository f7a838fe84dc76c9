"""Gluon kernels with the mistakes that Triton's ConSan is tested with; with CASE "right…" they have none."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    clc,
    tcgen05_commit,
    tcgen05_copy,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def barriers(CASE: gl.constexpr, USE: gl.constexpr):
    """One warp group and barriers only."""
    bars = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    bar = bars.index(0)
    if CASE != "no init":
        mbarrier.init(bar, count=2 if CASE == "too few" else 1)
    mbarrier.init(bars.index(1), count=1)
    if CASE == "invalid" or CASE == "right again":
        mbarrier.invalidate(bar)
    if CASE == "again" or CASE == "right again":
        mbarrier.init(bar, count=1)
    if USE == "expect":
        mbarrier.expect(bar, 64)
    if USE == "invalidate":
        mbarrier.invalidate(bar)
    if USE == "arrive":
        mbarrier.arrive(bar, count=3 if CASE == "underflow" else 1)
    if CASE == "too many":
        mbarrier.arrive(bar, count=1)
    mbarrier.wait(bars.index(1 if CASE == "other barrier" else 0), 0)


@gluon.jit
def loaded(desc, out_ptr, CASE: gl.constexpr):
    """Two TMA copies, of two slots or of one."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    slots = gl.allocate_shared_memory(desc.dtype, [2] + desc.block_type.shape, desc.layout)
    bars = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    size: gl.constexpr = desc.block_type.nbytes
    mbarrier.init(bars.index(0), count=1)
    mbarrier.init(bars.index(1), count=1)
    second: gl.constexpr = 0 if CASE == "older barrier" or CASE == "right newer barrier" else 1
    one: gl.constexpr = CASE == "one barrier" or CASE == "right one barrier" or CASE == "bytes of one"
    mbarrier.expect(bars.index(0), size * 2 if one and CASE != "bytes of one" else size)
    tma.async_load(desc, [0, 0], bars.index(0), slots.index(0))
    if second == 0:
        mbarrier.wait(bars.index(0), 0)
        value = slots.index(0).load(layout)
    if not one:
        mbarrier.expect(bars.index(1), size + 16 if CASE == "bytes over" else size)
    tma.async_load(desc, [64, 0], bars.index(0 if one else 1), slots.index(second))
    if CASE == "stored meanwhile":
        slots.index(1).store(gl.zeros([64, 64], desc.dtype, layout))
    if CASE != "other barrier" and CASE != "one barrier":
        mbarrier.wait(bars.index(0), 0)
    if CASE != "older barrier" and CASE != "one of two" and not one:
        mbarrier.wait(bars.index(1), 0)
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    value = slots.index(0).load(layout) + slots.index(second).load(layout)
    gl.store(out_ptr + rows * 64 + columns, value)


@gluon.jit
def stored(desc, CASE: gl.constexpr):
    """Two TMA stores; their sources are written again."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    value = gl.full([64, 64], 1, desc.dtype, layout)
    slots = gl.allocate_shared_memory(desc.dtype, [2] + desc.block_type.shape, desc.layout)
    slots.index(0).store(value)
    slots.index(1).store(value)
    fence_async_shared()
    tma.async_store(desc, [0, 0], slots.index(0))
    tma.async_store(desc, [64, 0], slots.index(1))
    tma.store_wait(1)
    slots.index(1 if CASE == "second source" else 0).store(value)
    tma.store_wait(0)


@gluon.jit
def tensor(desc, CASE: gl.constexpr):
    """tcgen05: products, their commits, and copies to tensor memory."""
    layout: gl.constexpr = gl.BlockedLayout([1, 64], [32, 1], [4, 1], [0, 1])
    a = gl.allocate_shared_memory(desc.dtype, [128, 64], desc.layout)
    b = gl.allocate_shared_memory(desc.dtype, [64, 64], desc.layout)
    value = gl.full([128, 64], 1, desc.dtype, layout)
    a.store(value)
    b.store(gl.full([64, 64], 1, desc.dtype, layout))
    fence_async_shared()
    bars = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(4):
        mbarrier.init(bars.index(i), count=1)
    memory: gl.constexpr = TensorMemoryLayout([128, 64], col_stride=1)
    acc = allocate_tensor_memory(gl.float32, [2, 128, 64], memory)
    if CASE == "uninitialised":
        tcgen05_mma(a, b, acc.index(0), use_acc=True, mbarriers=[bars.index(0)])
    else:
        tcgen05_mma(a, b, acc.index(0), use_acc=False, mbarriers=[bars.index(0)])
    tcgen05_mma(a, b, acc.index(1), use_acc=False)
    tcgen05_commit(bars.index(1))
    if CASE == "first product":
        mbarrier.wait(bars.index(0), 0)
        acc.index(1).store(gl.zeros([128, 64], gl.float32, layout))
    if CASE == "right first product":
        mbarrier.wait(bars.index(0), 0)
        acc.index(0).store(gl.zeros([128, 64], gl.float32, layout))
    if CASE == "operand fetched":
        mbarrier.expect(bars.index(2), desc.block_type.nbytes)
        tma.async_load(desc, [0, 0], bars.index(2), a)
    if CASE == "operand stored":
        a.store(value)
    if CASE == "accumulator read":
        a.store(acc.index(0).load(layout).to(desc.dtype))
    if CASE == "accumulator written":
        acc.index(1).store(gl.zeros([128, 64], gl.float32, layout))
    mbarrier.wait(bars.index(0), 0)
    mbarrier.wait(bars.index(1), 0)


@gluon.jit
def moved(in_ptr, out_ptr, CASE: gl.constexpr):
    """A copy from shared to tensor memory."""
    memory: gl.constexpr = TensorMemoryLayout([128, 64], col_stride=1)
    target = allocate_tensor_memory(gl.int32, [128, 64], memory)
    layout: gl.constexpr = target.get_reg_layout()
    rows = gl.arange(0, 128, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    flat: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    source = gl.allocate_shared_memory(gl.int32, [128, 64], flat, gl.load(in_ptr + rows * 64 + columns))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    fence_async_shared()
    tcgen05_copy(source, target)
    tcgen05_commit(bar)
    if CASE == "source stored":
        source.store(gl.zeros([128, 64], gl.int32, layout))
    if CASE != "result read":
        mbarrier.wait(bar, 0)
    gl.store(out_ptr + rows * 64 + columns, target.load(layout))


@gluon.jit
def again(desc, in_ptr, n, CASE: gl.constexpr):
    """A tcgen05 operand that is filled again while a product may read it."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
    a = gl.allocate_shared_memory(desc.dtype, [128, 64], desc.layout)
    a.store(gl.full([128, 64], 1, desc.dtype, layout))
    b = gl.allocate_shared_memory(desc.dtype, [64, 64], desc.layout)
    b.store(gl.full([64, 64], 1, desc.dtype, layout))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    acc = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout([128, 64], col_stride=1))
    offsets = gl.arange(0, 128, gl.SliceLayout(1, layout))[:, None] * 64
    offsets += gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    fence_async_shared()
    tcgen05_mma(a, b, acc, use_acc=False)
    if CASE == "copied":
        async_copy.async_load(a, in_ptr + offsets)
        async_copy.commit_group()
        async_copy.wait_group(0)
    for i in range(n):
        value = gl.load(in_ptr + i * 8192 + offsets)
        operand = gl.allocate_shared_memory(desc.dtype, [128, 64], desc.layout, value)
        fence_async_shared()
        tcgen05_mma(operand, b, acc)
        if CASE != "allocated":
            tcgen05_commit(bar)
            mbarrier.wait(bar, i % 2)
    if CASE == "allocated":
        tcgen05_commit(bar)
        mbarrier.wait(bar, 0)


@gluon.jit
def ring(a_desc, b_desc, n, SLOTS: gl.constexpr):
    """tcgen05 with one product in flight: three slots are enough, two are not."""
    a = gl.allocate_shared_memory(a_desc.dtype, [SLOTS] + a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [SLOTS] + b_desc.block_type.shape, b_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    size: gl.constexpr = a_desc.block_type.nbytes + b_desc.block_type.nbytes
    acc = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout([128, 64], col_stride=1))
    for i in gl.static_range(SLOTS):
        mbarrier.init(full.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(done.index(i), count=1)
    mbarrier.expect(full.index(0), size)
    tma.async_load(a_desc, [0, 0], full.index(0), a.index(0))
    tma.async_load(b_desc, [0, 0], full.index(0), b.index(0))
    for k in range(n):
        ahead = k + 1
        if ahead < n:
            to = ahead % SLOTS
            mbarrier.expect(full.index(to), size)
            tma.async_load(a_desc, [0, ahead * 64], full.index(to), a.index(to))
            tma.async_load(b_desc, [ahead * 64, 0], full.index(to), b.index(to))
        at = k % SLOTS
        mbarrier.wait(full.index(at), k // SLOTS % 2)
        tcgen05_mma(a.index(at), b.index(at), acc, use_acc=k != 0, mbarriers=[done.index(k % 2)])
        if k > 0:
            mbarrier.wait(done.index((k - 1) % 2), (k - 1) // 2 % 2)
    mbarrier.wait(done.index((n - 1) % 2), (n - 1) // 2 % 2)


@gluon.jit
def warp_group(a_desc, b_desc, n, CASE: gl.constexpr):
    """wgmma with one product in flight."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    spread: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    SLOTS: gl.constexpr = 2 if CASE == "two slots" else 3
    a = gl.allocate_shared_memory(a_desc.dtype, [SLOTS] + a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [SLOTS] + b_desc.block_type.shape, b_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [SLOTS, 1], mbarrier.MBarrierLayout())
    size: gl.constexpr = a_desc.block_type.nbytes + b_desc.block_type.nbytes
    for i in gl.static_range(SLOTS):
        mbarrier.init(full.index(i), count=1)
    mbarrier.expect(full.index(0), size)
    tma.async_load(a_desc, [0, 0], full.index(0), a.index(0))
    tma.async_load(b_desc, [0, 0], full.index(0), b.index(0))
    acc = gl.zeros([64, 64], gl.float32, layout)
    for k in range(n):
        if k + 1 < n:
            to = (k + 1) % SLOTS
            mbarrier.expect(full.index(to), size)
            tma.async_load(a_desc, [0, k * 64 + 64], full.index(to), a.index(to))
            tma.async_load(b_desc, [k * 64 + 64, 0], full.index(to), b.index(to))
        at = k % SLOTS
        mbarrier.wait(full.index(at), k // SLOTS % 2)
        acc = warpgroup_mma(a.index(at), b.index(at), acc, is_async=True)
        if CASE == "stored":
            a.index(at).store(gl.zeros([64, 64], a_desc.dtype, spread))
        acc = warpgroup_mma_wait(1, deps=(acc,))
        if CASE == "stored, one in flight":
            a.index(at).store(gl.zeros([64, 64], a_desc.dtype, spread))
    acc = warpgroup_mma_wait(0, deps=(acc,))


@gluon.jit
def copies(in_ptr, CASE: gl.constexpr):
    """Two groups of asynchronous copies."""
    layout: gl.constexpr = gl.BlockedLayout([4], [32], [4], [0])
    slots = gl.allocate_shared_memory(gl.float32, [2, 512], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    pointers = in_ptr + gl.arange(0, 512, layout=layout)
    async_copy.async_load(slots.index(0), pointers)
    async_copy.commit_group()
    async_copy.async_load(slots.index(1), pointers)
    async_copy.commit_group()
    async_copy.wait_group(2 if CASE == "too many in flight" else 1)
    async_copy.async_load(slots.index(0), pointers)
    async_copy.commit_group()
    async_copy.wait_group(0)


_FLAT = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
_LANES = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))


@gluon.jit
def _write(slots, bars, CASE: gl.constexpr, WAIT: gl.constexpr, SLOT: gl.constexpr, FREE: gl.constexpr, n):
    """Waits for the barriers of FREE, writes the slot, arrives at WAIT."""
    for i in range(n):
        for free in gl.static_range(2):
            if FREE + free < 4 and CASE != "no wait of the writer" and not (CASE == "one wait" and free == 1):
                mbarrier.wait(bars.index(FREE + free), (i + 1) % 2)
        slots.index(SLOT).store(gl.full([128], 1, gl.float32, _LANES))
        mbarrier.arrive(bars.index(WAIT), count=1)
        if CASE == "right two slots" or CASE == "other slot":
            slots.index(SLOT + 1).store(gl.full([128], 1, gl.float32, _LANES))


@gluon.jit
def _read(slots, bars, CASE: gl.constexpr, WAIT: gl.constexpr, OUT: gl.constexpr, FREE: gl.constexpr, n):
    """Waits for WAIT, reads slot 0, arrives at FREE."""
    total = gl.full([128], 0, gl.float32, _LANES)
    for i in range(n):
        if CASE != "no wait of a reader":
            mbarrier.wait(bars.index(WAIT), i % 2)
        value = slots.index(1 if CASE == "other slot" else 0).load(_LANES)
        mbarrier.arrive(bars.index(FREE), count=1)
        total += value
    slots.index(OUT).store(total)


@gluon.jit
def partitions(n, CASE: gl.constexpr):
    """One partition writes a slot n times, two read it; barriers 0, 1: written; 2, 3: read."""
    slots = gl.allocate_shared_memory(gl.float32, [5, 128], _FLAT)
    bars = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=1)
    for i in gl.static_range(1, 4):
        mbarrier.init(bars.index(i), count=2 if CASE == "count of two" else 1)
    gl.warp_specialize(
        [
            (_write, (slots, bars, CASE, 0, 0, 2, n)),
            (_read, (slots, bars, CASE, 0, 3, 2, n)),
            (_read, (slots, bars, CASE, 0, 4, 3, n)),
        ],
        [4, 4], [32, 32],
    )  # fmt: skip


@gluon.jit
def _copying(in_ptr, slots, bars, CASE: gl.constexpr):
    pointers = in_ptr + gl.arange(0, 128, layout=_LANES)
    async_copy.async_load(slots.index(0), pointers)
    async_copy.commit_group()
    async_copy.async_load(slots.index(1), pointers)
    async_copy.commit_group()
    async_copy.wait_group(1)
    mbarrier.arrive(bars.index(0), count=1)


@gluon.jit
def _copied(in_ptr, slots, bars, CASE: gl.constexpr):
    mbarrier.wait(bars.index(0), 0)
    slots.index(2).store(slots.index(1 if CASE == "second copy" else 0).load(_LANES))


@gluon.jit
def copied_apart(in_ptr, CASE: gl.constexpr):
    """A partition copies and waits, another one reads."""
    slots = gl.allocate_shared_memory(gl.float32, [3, 128], _FLAT)
    bars = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=1)
    gl.warp_specialize(
        [(_copying, (in_ptr, slots, bars, CASE)), (_copied, (in_ptr, slots, bars, CASE))], [4], [32]
    )


@gluon.jit
def _filling(desc, slot, bars, CASE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    slot.store(gl.full([64, 64], 1, desc.dtype, layout))
    if CASE == "right fence of the writer":
        fence_async_shared()
    mbarrier.arrive(bars.index(0), count=1)
    if CASE == "fence after the arrival":
        fence_async_shared()


@gluon.jit
def _sending(desc, slot, bars, CASE: gl.constexpr):
    if CASE == "fence before the wait":
        fence_async_shared()
    mbarrier.wait(bars.index(0), 0)
    if CASE == "right fence of the reader":
        fence_async_shared()
    tma.async_store(desc, [0, 0], slot)
    tma.store_wait(0)


@gluon.jit
def fenced(desc, CASE: gl.constexpr):
    """A partition writes, another one starts a TMA store."""
    slot = gl.allocate_shared_memory(desc.dtype, [64, 64], desc.layout)
    bars = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=1)
    gl.warp_specialize(
        [(_filling, (desc, slot, bars, CASE)), (_sending, (desc, slot, bars, CASE))], [4], [32]
    )


@gluon.jit
def _multiplying(slots, bars, CASE: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    acc = gl.zeros([64, 64], gl.float32, layout)
    acc = warpgroup_mma(slots.index(0), slots.index(0), acc, is_async=True)
    acc = warpgroup_mma(slots.index(1), slots.index(1), acc, is_async=True)
    acc = warpgroup_mma_wait(1, deps=(acc,))
    mbarrier.arrive(bars.index(0), count=1)
    acc = warpgroup_mma_wait(0, deps=(acc,))


@gluon.jit
def _refilling(slots, bars, CASE: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    mbarrier.wait(bars.index(0), 0)
    slots.index(1 if CASE == "second product" else 0).store(gl.full([64, 64], 1, gl.float16, layout))


@gluon.jit
def multiplied_apart(CASE: gl.constexpr):
    """A partition multiplies, another one fills an operand again."""
    spread: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2)
    slots = gl.allocate_shared_memory(gl.float16, [2, 64, 64], shared)
    bars = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=1)
    for i in gl.static_range(2):
        slots.index(i).store(gl.full([64, 64], 1, gl.float16, spread))
    fence_async_shared()
    gl.warp_specialize([(_multiplying, (slots, bars, CASE)), (_refilling, (slots, bars, CASE))], [4], [32])


@gluon.jit
def _waiting(bars, PLAN: gl.constexpr):
    for i in gl.static_range(len(PLAN)):
        if PLAN[i][0] == "arrive":
            mbarrier.arrive(bars.index(PLAN[i][1]), count=1)
        else:
            mbarrier.wait(bars.index(PLAN[i][1]), PLAN[i][2])


@gluon.jit
def waits(ONE: gl.constexpr, OTHER: gl.constexpr, COUNT: gl.constexpr, BEFORE: gl.constexpr):
    """Two partitions that arrive and wait."""
    bars = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=COUNT)
    if BEFORE:
        mbarrier.arrive(bars.index(0), count=1)
    gl.warp_specialize([(_waiting, (bars, ONE)), (_waiting, (bars, OTHER))], [4], [32])


@gluon.jit
def _using(part, bars, out, READS: gl.constexpr, WAITS: gl.constexpr, layout: gl.constexpr):
    if WAITS:
        mbarrier.wait(bars.index(0), 0)
    if READS:
        out.store(part.load(layout))
    else:
        part.store(gl.full(part.shape, 1, gl.float32, layout))
    if not WAITS:
        mbarrier.arrive(bars.index(0), count=1)


@gluon.jit
def parts(CASE: gl.constexpr):
    """Parts of one allocation, used by two partitions."""
    layout: gl.constexpr = gl.BlockedLayout([1, 32], [32, 1], [4, 1], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])
    value = gl.full([128, 64], 1, gl.float32, layout)
    memory = gl.allocate_shared_memory(gl.float32, [128, 64], shared, value)
    out = gl.allocate_shared_memory(gl.float32, [128, 32], shared)
    bars = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=1)
    waits: gl.constexpr = CASE == "right order"
    if CASE == "right apart":
        gl.warp_specialize(
            [
                (_using, (memory.slice(0, 32, dim=1), bars, out, False, False, layout)),
                (_using, (memory.slice(32, 32, dim=1), bars, out, True, False, layout)),
            ], [4], [32],
        )  # fmt: skip
    else:
        gl.warp_specialize(
            [
                (_using, (memory, bars, out, False, False, layout)),
                (_using, (memory.slice(32, 32, dim=1), bars, out, True, waits, layout)),
            ], [4], [32],
        )  # fmt: skip


@gluon.jit
def tensor_parts(CASE: gl.constexpr):
    """Parts of one allocation of tensor memory, used by two partitions."""
    layout: gl.constexpr = gl.BlockedLayout([1, 32], [32, 1], [4, 1], [0, 1])
    shared: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0])
    value = gl.full([128, 64], 1, gl.float32, layout)
    whole: gl.constexpr = TensorMemoryLayout([128, 64], col_stride=1)
    memory = allocate_tensor_memory(gl.float32, [128, 64], whole, value)
    out = gl.allocate_shared_memory(gl.float32, [128, 32], shared)
    bars = gl.allocate_shared_memory(gl.int64, [1, 1], mbarrier.MBarrierLayout())
    mbarrier.init(bars.index(0), count=1)
    start: gl.constexpr = 32 if CASE == "right apart" else 16
    gl.warp_specialize(
        [
            (_using, (memory.slice(0, 32), bars, out, True, False, layout)),
            (_using, (memory.slice(start, 32), bars, out, False, CASE == "right order", layout)),
        ], [4], [32],
    )  # fmt: skip


@gluon.jit
def cancelled(out_ptr, CASE: gl.constexpr):
    """Cluster launch control, in blocks of their own."""
    result = gl.allocate_shared_memory(gl.int64, [2], _FLAT)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, 8 if CASE == "half the bytes" else 16)
    clc.try_cancel(result, bar)
    if CASE != "no wait":
        mbarrier.wait(bar, 0)
    response = clc.load_result(result)
    gl.store(out_ptr, response.is_canceled())
