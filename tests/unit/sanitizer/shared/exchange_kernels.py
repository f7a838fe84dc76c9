"""Gluon kernels whose blocks use each other's memory, or elements by their indices; CASE is the mistake."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.blackwell import clc
from triton.experimental.gluon.language.nvidia.blackwell import tma as blackwell_tma
from triton.experimental.gluon.language.nvidia.hopper import async_store, cluster, mbarrier, tma


@gluon.jit
def exchanged(x_ptr, out_ptr, CASE: gl.constexpr):
    """Blocks hold rows, and store them to the buffer's columns, which each loads of its own part."""
    cut: gl.constexpr = [[0, 0]] if CASE == "both store all" else [[1, 0]]
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=cut)
    columns: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0], cga_layout=[[0, 1]])
    x = (
        gl.arange(0, 32, gl.SliceLayout(1, rows))[:, None] * 32
        + gl.arange(0, 32, gl.SliceLayout(0, rows))[None, :]
    )
    value = gl.load(x_ptr + x)
    memory = gl.allocate_shared_memory(gl.float32, [32, 32], flat)
    if CASE != "not begun":
        cluster.barrier(relaxed=True)
    memory.store(value)
    if CASE != "no barrier":
        cluster.barrier(relaxed=CASE == "relaxed")
    if CASE == "loaded by rows":
        value = memory.load(rows)
    else:
        own = memory.load(columns)
        y = gl.arange(0, 32, gl.SliceLayout(1, columns))[:, None] * 32
        gl.store(out_ptr + y + gl.arange(0, 32, gl.SliceLayout(0, columns))[None, :], own)
    if CASE == "stored again":
        memory.store(value)
    gl.store(out_ptr + x, value)


@gluon.jit
def sent(out_ptr, n, CASE: gl.constexpr):
    """The same with stores that arrive at the other block's barrier."""
    rows: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    columns: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 1]])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0], cga_layout=[[0, 1]])
    memory = gl.allocate_shared_memory(gl.float32, [32, 32], flat)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    size: gl.constexpr = memory.nbytes_per_cta // 2 if CASE == "own bytes" else memory.nbytes_per_cta
    for step in range(n):
        mbarrier.expect(full, size)
        if CASE != "no barrier":
            cluster.barrier()
        async_store(memory, gl.full([32, 32], 1, gl.float32, rows), full)
        if CASE != "no wait":
            mbarrier.wait(full, step % 2)
        y = gl.arange(0, 32, gl.SliceLayout(1, columns))[:, None] * 32
        gl.store(out_ptr + y + gl.arange(0, 32, gl.SliceLayout(0, columns))[None, :], memory.load(columns))


@gluon.jit
def announced(desc, out_ptr, n, CASE: gl.constexpr):
    """The first block announces a tile to all, and fetches it for all."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], cga_layout=[[0, 0]])
    tile = gl.allocate_shared_memory(desc.dtype, desc.block_type.shape, desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=2 if CASE == "count" else 1)
    for block in range(n):
        if CASE != "no barrier":
            cluster.barrier()
        mbarrier.expect(bar, desc.nbytes_per_cta, from_cta=0)
        if CASE == "announced by each too":
            mbarrier.arrive(bar, count=1)
        tma.async_load(desc, [block * 64, 0], bar, tile, multicast=True)
        if CASE != "no wait":
            mbarrier.wait(bar, block % 2)
        rows = gl.arange(0, 64, gl.SliceLayout(1, layout))[:, None]
        columns = gl.arange(0, 64, gl.SliceLayout(0, layout))[None, :]
        gl.store(out_ptr + block * 4096 + rows * 64 + columns, tile.load(layout))


@gluon.jit
def mirrored(at_ptr, out_ptr, CASE: gl.constexpr):
    """Elements of the other block, by indices."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0], cga_layout=[[1]])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0], cga_layout=[[1]])
    memory = gl.allocate_shared_memory(gl.int32, [256], flat)
    at = gl.arange(0, 256, layout)
    others = gl.load(at_ptr + at) if CASE == "indices from memory" else 255 - at
    if CASE == "one too far":
        others = others + 1
    memory.store(at)
    if CASE != "no barrier":
        cluster.barrier()
    if CASE == "scattered":
        memory.scatter(at, others, axis=0)
        cluster.barrier()
        found = memory.load(layout)
    else:
        found = memory.gather(others, axis=0)
    if CASE == "stored again":
        memory.store(found)
    gl.store(out_ptr + at, found)


@gluon.jit
def picked(x_ptr, out_ptr, n, CASE: gl.constexpr):
    """One block: elements by indices, while a copy writes the other half of the buffer."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0])
    memory = gl.allocate_shared_memory(gl.int32, [512], flat)
    at = gl.arange(0, 256, layout)
    memory.slice(0, 256).store(at)
    async_copy.async_load(memory.slice(256, 256), x_ptr + at)
    async_copy.commit_group()
    for step in range(n):
        if CASE == "every other one":
            where = at * 2
        elif CASE == "into the copy":
            where = at + 64 * step
        elif CASE == "by the program":
            where = (at + gl.program_id(0)) % 256
        else:
            where = gl.where(at < 128, at, 255 - at)
        gl.store(out_ptr + at, memory.gather(where, axis=0))
    async_copy.wait_group(0)


@gluon.jit
def picked_by_halves(x_ptr, out_ptr, CASE: gl.constexpr):
    """Each block picks of its rows: the upper ones of the left half, which nothing writes meanwhile."""
    layout: gl.constexpr = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0], cga_layout=[[1, 0]])
    flat: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[1, 0], cga_layout=[[1, 0]])
    memory = gl.allocate_shared_memory(gl.int32, [32, 64], flat)
    rows = gl.arange(0, 32, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 32, gl.SliceLayout(0, layout))[None, :]
    memory.slice(0, 32, dim=1).store(rows + columns)
    async_copy.async_load(memory.slice(32, 32, dim=1), x_ptr + rows * 32 + columns)
    async_copy.commit_group()
    if CASE == "followed together":
        bar = mbarrier.allocate_mbarrier(two_ctas=True)
        mbarrier.init(bar, count=1)
        mbarrier.arrive(bar, count=1)
        mbarrier.wait(bar, 0)
    upper = 32 if CASE == "into the copy" else 0
    found = memory.gather(gl.where(rows < 16, columns, 31 - columns) + upper, axis=1)
    async_copy.wait_group(0)
    gl.store(out_ptr + rows * 32 + columns, found)


@gluon.jit
def taken_by_clusters(out_ptr, CASE: gl.constexpr):
    """Cluster launch control: the first block asks again once all blocks, which get the answer, have read it.

    They meet, or give it back by a barrier that all of them or each two share.
    """
    bits: gl.constexpr = gl.num_ctas().bit_length() - 1
    own: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, order=[0], cga_layout=[[0]] * bits)
    if CASE == "given back by all":
        every: gl.constexpr = mbarrier.MBarrierLayout(cga_layout=[[0]] * bits)
        free = gl.allocate_shared_memory(gl.int64, [1], every)
    else:
        free = mbarrier.allocate_mbarrier(two_ctas=CASE == "given back in pairs")
    mbarrier.init(free, count=1)
    answer = gl.allocate_shared_memory(gl.int64, [2], own)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    works = True
    phase = 0
    tile = gl.program_id(0)
    while works:
        mbarrier.expect(bar, 8 if CASE == "bytes" else 16)
        if CASE == "given back by all" or CASE == "given back in pairs":
            mbarrier.wait(free, phase ^ 1)
        elif CASE != "no barrier":
            cluster.barrier()
        clc.try_cancel(answer, bar)
        gl.store(out_ptr + tile, tile)
        if CASE != "no wait":
            mbarrier.wait(bar, phase)
        found = clc.load_result(answer)
        mbarrier.arrive(free, count=1)
        works = found.is_canceled()
        tile = found.program_id(0)
        if CASE != "the same phase":
            phase ^= 1


@gluon.jit
def rows_by_halves(desc, at_ptr, CASE: gl.constexpr):
    """TMA: each block gathers its rows, and scatters them."""
    cut: gl.constexpr = [[0, 0]] if CASE == "for both" else [[0, 1]]
    parent: gl.constexpr = gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0], cga_layout=cut)
    at = gl.load(at_ptr + gl.arange(0, 32, gl.SliceLayout(0, parent)))
    tile = gl.allocate_shared_memory(desc.dtype, [32, 64], desc.layout)
    bar = mbarrier.allocate_mbarrier()
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, tile.nbytes_per_cta * 2 if CASE == "all bytes" else tile.nbytes_per_cta)
    blackwell_tma.async_gather(desc, at, 0, bar, tile, multicast=CASE == "for both")
    if CASE != "no wait":
        mbarrier.wait(bar, 0)
    blackwell_tma.async_scatter(desc, at, 64, tile)
    tma.store_wait(0)
