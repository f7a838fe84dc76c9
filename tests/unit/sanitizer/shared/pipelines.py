"""Gluon kernels of the kinds that Triton's tutorials teach; CASE is the mistake in one step, or "right"."""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    TensorMemoryScalesLayout,
    allocate_tensor_memory,
    clc,
    tcgen05_commit,
    tcgen05_mma,
    tcgen05_mma_scaled,
)
from triton.experimental.gluon.language.nvidia.blackwell import tma as blackwell_tma
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma


@gluon.jit
def gathered(desc, at_ptr, CASE: gl.constexpr):
    """Rows by their numbers into shared memory, doubled, and back."""
    rows: gl.constexpr = gl.SliceLayout(0, gl.BlockedLayout([1, 4], [32, 1], [1, 4], [1, 0]))
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    at = gl.load(at_ptr + gl.arange(0, 32, rows))
    source = gl.allocate_shared_memory(desc.dtype, [32, 64], desc.layout)
    result = gl.allocate_shared_memory(desc.dtype, [32, 64], desc.layout)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    mbarrier.expect(bar, desc.block_type.nbytes * (16 if CASE == "bytes of half the rows" else 32))
    blackwell_tma.async_gather(desc, at, 0, bar, source)
    if CASE != "no wait":
        mbarrier.wait(bar, 0)
    result.store(source.load(layout) * 2)
    fence_async_shared()
    blackwell_tma.async_scatter(desc, at, 64, result)
    if CASE == "source written again":
        result.store(gl.zeros([32, 64], desc.dtype, layout))
    tma.store_wait(0)
    if CASE == "used after invalidate":
        mbarrier.invalidate(bar)
        mbarrier.wait(bar, 1)


@gluon.jit
def convolved(desc, out_desc, taps, CASE: gl.constexpr):
    """Windows of an image, one for each tap, in turn in two slots."""
    slots = gl.allocate_shared_memory(desc.dtype, [2] + desc.block_type.shape, desc.layout)
    bars = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(2):
        mbarrier.init(bars.index(i), count=1)
    for tap in range(taps):
        slot = tap % 2
        mbarrier.expect(bars.index(slot), desc.block_type.nbytes)
        if CASE != "slot still sent":
            tma.store_wait(1)
        tma.async_load_im2col(desc, [0, 0, 0, 0], [0, 0], bars.index(slot), slots.index(slot))
        if CASE == "phase of the tap":
            mbarrier.wait(bars.index(slot), tap & 1)
        elif CASE != "no wait":
            mbarrier.wait(bars.index(slot), tap // 2 & 1)
        tma.async_store(out_desc, [tap * 64, 0], slots.index(slot))
    tma.store_wait(0)


@gluon.jit
def scaled(a_desc, b_desc, a_ptr, n, CASE: gl.constexpr):
    """Products of scaled operands; scales go to tensor memory in order, or by a copy from shared memory."""
    scales: gl.constexpr = TensorMemoryScalesLayout()
    a = gl.allocate_shared_memory(a_desc.dtype, a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, b_desc.block_type.shape, b_desc.layout)
    a_scale = allocate_tensor_memory(gl.uint8, [128, 4], scales)
    b_scale = allocate_tensor_memory(gl.uint8, [128, 4], scales)
    acc = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    loaded = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(loaded, count=1)
    mbarrier.init(done, count=1)
    registers: gl.constexpr = a_scale.get_reg_layout()
    use_acc = False
    for k in range(n):
        mbarrier.expect(loaded, a_desc.block_type.nbytes + b_desc.block_type.nbytes)
        tma.async_load(a_desc, [0, k * 128], loaded, a)
        tma.async_load(b_desc, [0, k * 128], loaded, b)
        if CASE != "operands not waited for":
            mbarrier.wait(loaded, k & 1)
        value = gl.full([128, 4], 127, gl.uint8, registers)
        a_scale.store(value)
        b_scale.store(value)
        tcgen05_mma_scaled(
            a, b.permute((1, 0)), acc, a_scale, b_scale, "e4m3", "e4m3", use_acc=use_acc, mbarriers=[done]
        )
        if CASE == "scales in use":
            a_scale.store(value)
        if CASE != "products not waited for":
            mbarrier.wait(done, k & 1)
        use_acc = True
    if CASE == "products not waited for":
        mbarrier.wait(done, n - 1 & 1)
    layout: gl.constexpr = acc.get_reg_layout()
    rows = gl.arange(0, 128, gl.SliceLayout(1, layout))[:, None]
    columns = gl.arange(0, 128, gl.SliceLayout(0, layout))[None, :]
    gl.store(a_ptr + rows * 128 + columns, acc.load(layout))


@gluon.jit
def _tiles_loaded(a_desc, b_desc, a, b, ready, empty, tiles, steps, CASE: gl.constexpr):
    at = 0
    for tile in range(tiles):
        for k in range(steps):
            slot = at % 3
            if CASE != "operands overwritten":
                mbarrier.wait(empty.index(slot), (at // 3 & 1) ^ 1)
            mbarrier.expect(ready.index(slot), a_desc.block_type.nbytes + b_desc.block_type.nbytes)
            tma.async_load(a_desc, [tile * 128, k * 64], ready.index(slot), a.index(slot))
            tma.async_load(b_desc, [0, k * 64], ready.index(slot), b.index(slot))
            at += 1


@gluon.jit
def _tiles_multiplied(a, b, acc, ready, empty, full, free, tiles, steps, CASE: gl.constexpr):
    at = 0
    for tile in range(tiles):
        slot = tile % 2
        if CASE != "accumulator overwritten":
            mbarrier.wait(free.index(slot), (tile // 2 & 1) ^ 1)
        for k in range(steps):
            stage = at % 3
            mbarrier.wait(ready.index(stage), at // 3 & 1)
            tcgen05_mma(a.index(stage), b.index(stage).permute((1, 0)), acc.index(slot), use_acc=k > 0)
            if CASE == "operands given back early":
                mbarrier.arrive(empty.index(stage), count=1)
            else:
                tcgen05_commit(empty.index(stage))
            at += 1
        if CASE == "arrival without a commit":
            mbarrier.arrive(full.index(slot), count=1)
        else:
            tcgen05_commit(full.index(slot))


@gluon.jit
def _tiles_stored(c_desc, acc, full, free, tiles, CASE: gl.constexpr):
    layout: gl.constexpr = acc.index(0).get_reg_layout()
    out = gl.allocate_shared_memory(c_desc.dtype, c_desc.block_type.shape, c_desc.layout)
    for tile in range(tiles):
        slot = tile % 2
        if CASE == "phase of the other slot":
            mbarrier.wait(full.index(slot), tile & 1)
        else:
            mbarrier.wait(full.index(slot), tile // 2 & 1)
        if CASE == "accumulator given back early":
            mbarrier.arrive(free.index(slot), count=1)
        value = acc.index(slot).load(layout)
        if CASE == "other accumulator given back":
            mbarrier.arrive(free.index(1 - slot), count=1)
        elif CASE != "accumulator given back early" and CASE != "accumulator not given back":
            mbarrier.arrive(free.index(slot), count=1)
        if CASE != "result still sent":
            tma.store_wait(0)
        out.store(value.to(c_desc.dtype))
        fence_async_shared()
        tma.async_store(c_desc, [tile * 128, 0], out)
    tma.store_wait(0)


@gluon.jit
def persistent(a_desc, b_desc, c_desc, tiles, steps, CASE: gl.constexpr):
    """Products of tiles: partitions load, multiply and store, with two accumulators."""
    a = gl.allocate_shared_memory(a_desc.dtype, [3] + a_desc.block_type.shape, a_desc.layout)
    b = gl.allocate_shared_memory(b_desc.dtype, [3] + b_desc.block_type.shape, b_desc.layout)
    acc = allocate_tensor_memory(gl.float32, [2, 128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    ready = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [3, 1], mbarrier.MBarrierLayout())
    full = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [2, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(3):
        mbarrier.init(ready.index(i), count=1)
        mbarrier.init(empty.index(i), count=1)
    for i in gl.static_range(2):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(free.index(i), count=1)
    gl.warp_specialize(
        [
            (_tiles_stored, (c_desc, acc, full, free, tiles, CASE)),
            (_tiles_loaded, (a_desc, b_desc, a, b, ready, empty, tiles, steps, CASE)),
            (_tiles_multiplied, (a, b, acc, ready, empty, full, free, tiles, steps, CASE)),
        ], [1, 1], [24, 24],
    )  # fmt: skip


@gluon.jit
def attended(q_desc, k_desc, v_desc, out_ptr, n, CASE: gl.constexpr):
    """Attention: the scores become the operand of the second product, in tensor memory."""
    q = gl.allocate_shared_memory(q_desc.dtype, q_desc.block_type.shape, q_desc.layout)
    k = gl.allocate_shared_memory(k_desc.dtype, k_desc.block_type.shape, k_desc.layout)
    v = gl.allocate_shared_memory(v_desc.dtype, v_desc.block_type.shape, v_desc.layout)
    bars = gl.allocate_shared_memory(gl.int64, [4, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(4):
        mbarrier.init(bars.index(i), count=1)
    scores = allocate_tensor_memory(gl.float32, [128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    weights = allocate_tensor_memory(gl.float16, [128, 128], TensorMemoryLayout([128, 128], col_stride=1))
    acc = allocate_tensor_memory(gl.float32, [128, 64], TensorMemoryLayout([128, 64], col_stride=1))
    layout: gl.constexpr = scores.get_reg_layout()
    of_acc: gl.constexpr = acc.get_reg_layout()
    acc.store(gl.zeros([128, 64], gl.float32, of_acc))
    mbarrier.expect(bars.index(3), q_desc.block_type.nbytes)
    tma.async_load(q_desc, [0, 0], bars.index(3), q)
    if CASE != "queries not waited for":
        mbarrier.wait(bars.index(3), 0)
    for block in range(n):
        phase = block & 1
        mbarrier.expect(bars.index(0), k_desc.block_type.nbytes + v_desc.block_type.nbytes)
        tma.async_load(k_desc, [block * 128, 0], bars.index(0), k)
        tma.async_load(v_desc, [block * 128, 0], bars.index(0), v)
        mbarrier.wait(bars.index(0), phase)
        tcgen05_mma(q, k.permute((1, 0)), scores, use_acc=False, mbarriers=[bars.index(1)])
        if CASE != "scores not waited for":
            mbarrier.wait(bars.index(1), phase)
        weights.store(gl.exp(scores.load(layout)).to(gl.float16))
        if CASE != "rescaled meanwhile":
            acc.store(acc.load(of_acc) * 0.5)
        tcgen05_mma(weights, v, acc, mbarriers=[bars.index(2)])
        if CASE == "rescaled meanwhile":
            acc.store(acc.load(of_acc) * 0.5)
        if CASE != "values not waited for":
            mbarrier.wait(bars.index(2), phase)
    if CASE == "values not waited for":
        mbarrier.wait(bars.index(2), n - 1 & 1)
    rows = gl.arange(0, 128, gl.SliceLayout(1, of_acc))[:, None]
    columns = gl.arange(0, 64, gl.SliceLayout(0, of_acc))[None, :]
    gl.store(out_ptr + rows * 64 + columns, acc.load(of_acc))


@gluon.jit
def stolen(out_ptr, CASE: gl.constexpr):
    """Blocks that take over the work of others until nothing is left to do."""
    answer = gl.allocate_shared_memory(gl.int64, [2], gl.SwizzledSharedLayout(1, 1, 1, order=[0]))
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    works = True
    phase = 0
    tile = gl.program_id(0)
    while works:
        mbarrier.expect(bar, 16)
        clc.try_cancel(answer, bar)
        gl.store(out_ptr + tile, tile)
        if CASE != "no wait":
            mbarrier.wait(bar, phase)
        found = clc.load_result(answer)
        works = found.is_canceled()
        tile = found.program_id(0)
        if CASE != "the same phase":
            phase ^= 1
