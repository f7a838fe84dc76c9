"""Gluon kernels for clusters of blocks, which keep to their parts or leave them as CASE says."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    clc,
    tcgen05_commit,
    tcgen05_mma,
)
from triton.experimental.gluon.language.nvidia.hopper import (
    async_store,
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
        if CASE == "arrival from the first":
            mbarrier.arrive(full.index(slot), count=1, from_cta=0)
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
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0], cga_layout=cut)
    read: gl.constexpr = other if CASE == "copy of other halves" else layout
    rows = gl.arange(0, 64, gl.SliceLayout(1, read))[:, None]
    columns = gl.arange(0, 64, gl.SliceLayout(0, read))[None, :]
    memory = gl.allocate_shared_memory(gl.float32, [64, 64], flat)
    if CASE == "store of other halves":
        memory.store(gl.zeros([64, 64], gl.float32, other))
    async_copy.async_load(memory, x_ptr + rows * 64 + columns)
    async_copy.commit_group()
    if CASE != "no wait":
        async_copy.wait_group(0)
    if CASE == "gather":
        indices = gl.zeros([64, 64], gl.int32, layout)
        value = memory.gather(indices, axis=0)
    elif CASE == "columns":
        value = memory.slice(0, 32, dim=1).load(layout)
    elif CASE == "rows":
        value = memory.slice(0, 32, dim=0).load(layout)
    else:
        value = memory.load(layout)
    if CASE == "allocated with other halves":
        again = gl.allocate_shared_memory(gl.float32, [64, 64], flat, gl.zeros([64, 64], gl.float32, other))
        value = value + again.load(layout)
    if CASE == "sent to the other":
        bar = mbarrier.allocate_mbarrier()
        mbarrier.init(bar, count=1)
        async_store(memory, value, bar)
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
def tensor_by_halves(a_desc, b_desc, CASE: gl.constexpr):
    """tcgen05: as above, or by both blocks together."""
    pair: gl.constexpr = CASE == "pair"
    columns: gl.constexpr = b_desc.block_type.shape[1]
    layout: gl.constexpr = TensorMemoryLayout(
        [128, columns], col_stride=1, cga_layout=[(1, 0)], two_ctas=pair
    )
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    acc = allocate_tensor_memory(gl.float32, [256, columns], layout)
    full = mbarrier.allocate_mbarrier(two_ctas=pair)
    done = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    mbarrier.expect(full, a_desc.nbytes_per_cta + b_desc.nbytes_per_cta)
    tma.async_load(a_desc, [0, 0], full, a)
    tma.async_load(b_desc, [0, 0], full, b, multicast=CASE == "multicast copy")
    mbarrier.wait(full, 0)
    if CASE == "multicast commit":
        tcgen05_mma(a, b, acc, use_acc=False, multicast=True, mbarriers=[done])
    elif CASE == "commit for several":
        tcgen05_mma(a, b, acc, use_acc=False)
        tcgen05_commit(done, descs=[a, b])
    else:
        tcgen05_mma(a, b, acc, use_acc=False, mbarriers=[done])
    if CASE != "no wait":
        mbarrier.wait(done, 0)
    value = acc.load(acc.get_reg_layout())
    memory = gl.allocate_shared_memory(
        gl.float32, [256, columns], gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0], cga_layout=[[1, 0]])
    )
    memory.store(value)


@gluon.jit
def taken_over(n):
    """Cluster launch control answers all blocks of the cluster."""
    layout: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0], cga_layout=[[0]])
    answer = gl.allocate_shared_memory(gl.int64, [2], layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, 16)
    clc.try_cancel(answer, bar)
    mbarrier.wait(bar, 0)


@gluon.jit
def met(CASE: gl.constexpr):
    """Partitions that wait for each other, by a barrier of each block or by one of both."""
    bar = mbarrier.allocate_mbarrier(two_ctas=CASE == "one barrier")
    mbarrier.init(bar, count=1)
    gl.warp_specialize([(_arrives, (bar,)), (_waits, (bar,))], [4], [24])


@gluon.jit
def _arrives(bar):
    mbarrier.arrive(bar, count=1)


@gluon.jit
def _waits(bar):
    mbarrier.wait(bar, 0)
