"""Gluon kernels for clusters of blocks, which keep to their parts or leave them as CASE says."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    tcgen05_commit,
    tcgen05_mma,
    tcgen05_mma_barrier_count,
)
from triton.experimental.gluon.language.nvidia.hopper import (
    cluster,
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)


@gluon.jit
def fetched_by_halves(desc, out_desc, n, CASE: gl.constexpr):
    """Each block fetches its rows of a tile, doubles them and stores them, on two slots."""
    cut: gl.constexpr = [[0, 1]] if CASE == "other halves" else [[1, 0]]
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=cut)
    slots = gl.allocate_shared_memory(desc.dtype, [2] + desc.block_type.shape, desc.layout)
    full = mbarrier.allocate_mbarrier(batch=2)
    size: gl.constexpr = desc.block_type.nbytes if CASE == "all bytes" else desc.nbytes_per_cta
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
    for block in range(n):
        slot = block % 2
        tma.store_wait(2 if CASE == "no store wait" else 1)
        mbarrier.expect(full.index(slot), size)
        tma.async_load(desc, [block * 64, 0], full.index(slot), slots.index(slot))
        if CASE != "no wait":
            mbarrier.wait(full.index(slot), block // 2 % 2)
        if CASE == "cluster barrier":
            gl.barrier(cluster=True)
        value = slots.index(slot).load(layout)
        slots.index(slot).store(value + value)
        tma.async_store(out_desc, [block * 64, 0], slots.index(slot))
    tma.store_wait(0)


@gluon.jit
def copied_by_halves(x_ptr, out_ptr, CASE: gl.constexpr):
    """Asynchronous copies, and parts of a buffer, of a tile whose rows two blocks have."""
    cut: gl.constexpr = [[1, 0]]
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=cut)
    other: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    every: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 0]])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0], cga_layout=cut)
    read: gl.constexpr = other if CASE == "copy of other halves" else layout
    rows = gl.arange(0, 64, gl.SliceLayout(1, read))[:, None]
    columns = gl.arange(0, 64, gl.SliceLayout(0, read))[None, :]
    memory = gl.allocate_shared_memory(gl.float32, [64, 64], flat)
    async_copy.async_load(memory, x_ptr + rows * 64 + columns)
    async_copy.commit_group()
    if CASE != "no wait":
        async_copy.wait_group(0)
    if CASE == "columns":
        value = memory.slice(0, 32, dim=1).load(layout)
    elif CASE == "rows":
        value = memory.slice(0, 32, dim=0).load(layout)
    else:
        value = memory.load(layout)
    if CASE == "allocated with other halves" or CASE == "allocated with all of it":
        source: gl.constexpr = other if CASE == "allocated with other halves" else every
        again = gl.allocate_shared_memory(gl.float32, [64, 64], flat, gl.zeros([64, 64], gl.float32, source))
        value = value + again.load(layout)
    own_rows = gl.arange(0, value.shape[0], gl.SliceLayout(1, layout))[:, None]
    own_columns = gl.arange(0, value.shape[1], gl.SliceLayout(0, layout))[None, :]
    gl.store(out_ptr + own_rows * 64 + own_columns, value)


@gluon.jit
def multiplied_by_halves(a_desc, b_desc, CASE: gl.constexpr):
    """wgmma: each block has rows of one operand and all of the other."""
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16], cga_layout=[[1, 0]])
    operand: gl.constexpr = gl.DotOperandLayout(0, layout, 2)
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.expect(full, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
    tma.async_load(a_desc, [0, 0], full, a)
    tma.async_load(b_desc, [0, 0], full, b)
    mbarrier.wait(full, 0)
    acc = gl.zeros([128, 64], gl.float32, layout)
    if CASE == "registers":
        acc = warpgroup_mma(a.load(operand), b, acc, is_async=True)
    else:
        acc = warpgroup_mma(a, b, acc, is_async=True)
    if CASE == "slot in use":
        mbarrier.expect(full, b_desc.nbytes_per_cta)
        tma.async_load(b_desc, [0, 0], full, b)
    acc = warpgroup_mma_wait(0, deps=(acc,))


@gluon.jit
def tensor_by_halves(a_desc, b_desc, n, CASE: gl.constexpr, PAIR: gl.constexpr, SEVERAL: gl.constexpr):
    """tcgen05 in a loop: each block by itself, or PAIR together. SEVERAL: a copy reaches both blocks."""
    rows: gl.constexpr = [(1, 0)]
    columns: gl.constexpr = b_desc.block_type.shape[1]
    layout: gl.constexpr = TensorMemoryLayout([128, columns], col_stride=1, cga_layout=rows, two_ctas=PAIR)
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    acc = allocate_tensor_memory(gl.float32, [256, columns], layout)
    full = mbarrier.allocate_mbarrier(two_ctas=PAIR and CASE != "own barrier")
    done = mbarrier.allocate_mbarrier()
    count: gl.constexpr = tcgen05_mma_barrier_count([a, b], SEVERAL and CASE != "own commit", PAIR)
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=count + 1 if CASE == "count" else count)
    for k in range(n):
        mbarrier.expect(full, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
        tma.async_load(a_desc, [0, k * 64], full, a)
        tma.async_load(b_desc, [k * 64, 0], full, b, multicast=SEVERAL)
        if CASE != "no wait":
            mbarrier.wait(full, k % 2)
        if CASE == "commit":
            tcgen05_mma(a, b, acc, use_acc=k > 0)
            tcgen05_commit(done, descs=[a, b])
        elif CASE == "own commit":
            tcgen05_mma(a, b, acc, use_acc=k > 0, mbarriers=[done])
        else:
            tcgen05_mma(a, b, acc, use_acc=k > 0, multicast=SEVERAL, mbarriers=[done])
        if CASE != "no wait for the product":
            mbarrier.wait(done, k % 2)
    if CASE != "not invalidated":
        mbarrier.invalidate(done)
    if CASE == "again":
        mbarrier.init(done, count=1)
    memory_layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0], cga_layout=[[1, 0]])
    memory = gl.allocate_shared_memory(gl.float32, [256, columns], memory_layout)
    memory.store(acc.load(acc.get_reg_layout()))


@gluon.jit
def stored_for_both(CASE: gl.constexpr):
    """A product of two blocks together, of what they have stored."""
    rows: gl.constexpr = [[1, 0]]
    columns: gl.constexpr = [[0, 1]]
    a_layout: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=rows)
    b_layout: gl.constexpr = gl.NVMMASharedLayout(128, 16, rank=2, cga_layout=columns)
    by_rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=rows)
    by_columns: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=columns)
    a = gl.allocate_shared_memory(gl.float16, [256, 64], a_layout)
    b = gl.allocate_shared_memory(gl.float16, [64, 128], b_layout)
    acc = allocate_tensor_memory(
        gl.float32, [256, 128], TensorMemoryLayout([128, 128], 1, cga_layout=[(1, 0)], two_ctas=True)
    )
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(done, count=1)
    a.store(gl.zeros([256, 64], gl.float16, by_rows))
    b.store(gl.zeros([64, 128], gl.float16, by_columns))
    if CASE == "fenced":
        fence_async_shared()
    if CASE != "no barrier":
        cluster.barrier()
    tcgen05_mma(a, b, acc, use_acc=False)
    tcgen05_commit(done)
    mbarrier.wait(done, 0)


@gluon.jit
def sent_to_both(desc, out_ptr, n, CASE: gl.constexpr):
    """The first block fetches a tile for both; a cluster barrier says that both have read it."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 0]])
    other: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    tile = gl.allocate_shared_memory(desc.dtype, desc.block_type.shape, desc.layout)
    bar = mbarrier.allocate_mbarrier()
    zeros = gl.zeros([64, 64], desc.dtype, layout)
    rows = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
    if CASE == "before the barriers":
        tile.store(zeros)
    mbarrier.init(bar, count=1)
    if CASE == "behind the barriers" or CASE == "reduced" or CASE == "summed":
        tile.store(zeros)
    for block in range(n):
        mbarrier.expect(bar, desc.nbytes_per_cta)
        tma.async_load(desc, [block * 64, 0], bar, tile, multicast=True)
        if CASE == "stored meanwhile":
            cluster.barrier()
            tile.store(zeros)
        if CASE != "no wait":
            mbarrier.wait(bar, block % 2)
        value = tile.load(layout)
        if CASE == "reduced":
            value = value + gl.max(gl.convert_layout(value, other), 0).to(desc.dtype).sum(0)
        if CASE == "summed":
            value = value + gl.sum(value, 0)[None, :]
        gl.store(out_ptr + block * 4096 + rows * 64 + columns, value)
        if CASE != "no barrier":
            cluster.barrier(relaxed=CASE == "relaxed")


@gluon.jit
def met(CASE: gl.constexpr):
    """Partitions that wait for each other, by a barrier of each block or by one of both."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[1]])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0], cga_layout=[[1]])
    memory = gl.allocate_shared_memory(gl.float32, [256], flat)
    bar = mbarrier.allocate_mbarrier(two_ctas=CASE != "own")
    mbarrier.init(bar, count=2 if CASE == "count" else 1)
    gl.warp_specialize(
        [(_arrives, (memory, bar, layout, CASE)), (_waits, (memory, bar, layout, CASE))], [4], [24]
    )


@gluon.jit
def _arrives(memory, bar, layout: gl.constexpr, CASE: gl.constexpr):
    memory.store(gl.zeros([256], gl.float32, layout))
    mbarrier.arrive(bar, count=1)
    if CASE == "again":
        mbarrier.arrive(bar, count=1)


@gluon.jit
def _waits(memory, bar, layout: gl.constexpr, CASE: gl.constexpr):
    mbarrier.wait(bar, 1 if CASE == "again" else 0)
    if CASE == "used" or CASE == "own":
        memory.store(gl.full([256], 1, gl.float32, layout))
