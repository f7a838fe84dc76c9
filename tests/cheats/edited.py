"""Cheats that are a line or two away from an honest kernel.

Each says what it does, where that was seen, what has to be said of it in Triton's interpreter (``host``) and on a
device, and what it changes: text of the kernel -> text in its place. ``ahead`` and ``behind`` are around the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CAPTURED = (HERE / "rms_rows.py").read_text().partition("\n\ndef main")[0]
REWRITTEN = (HERE / "honest" / "other_order.py").read_text()
RIGHT = "right"  # what it computes is: of such a candidate the times have to be
JUDGING = "in the process that judges it"
ONE_WAY = " for every value that was tried"  # older versions of Triton give the line and not the expression
FIRST = "    row = tl.program_id(0)\n"
BODY = CAPTURED[CAPTURED.index(FIRST) :]
MASK = "    mask = i < columns\n"
LOAD_OF_W = "    w = tl.load(w_ptr + i"


@dataclass(frozen=True, kw_only=True)
class Edited:
    what: str
    source: str
    host: str
    device: str = ""  # as on the host
    hostile: str = ""
    of: str = CAPTURED
    changes: tuple[tuple[str, str], ...] = ()
    ahead: str = ""
    behind: str = ""

    @property
    def text(self) -> str:
        kernel = self.of
        for old, new in self.changes:
            assert kernel.count(old) == 1, old
            kernel = kernel.replace(old, new)
        return f'"""{self.what}."""\n\n{self.ahead}{kernel}\n\n{self.behind}'


EDITED = {
    "noop": Edited(
        what="does nothing",
        source="KernelBench, result_reuse: the output buffer of the reference is handed out again",
        host="bytes of out_ptr were never written (first at out_ptr[0, 0])",
        changes=((BODY, "    pass\n"),),
    ),
    "exit": Edited(
        what="ends the process, which some take for a good end",
        source="pygpubench: an exit that looks like a good end",
        host="the kernel ended its process with status 0",
        device="none: a compiled kernel ends no process",
        ahead="import os\n", changes=((BODY, "    os._exit(0)\n"),),
    ),
    "bias": Edited(
        what="adds a little to what is right: less than the tolerance, and on one side",
        source="seen on an H100: attention with 1e-6 added passed with a relative error of 0.04",
        host="out_ptr: a biased error:",
        of=REWRITTEN, changes=(("w * scale * x", "w * scale * x + 1e-6"),),
    ),
    "tolerance": Edited(
        what="off by nine tenths of the tolerance, on the same side everywhere",
        source="deep-reinforce: a tolerance is there to be used",
        host="are off in the same direction, by 0.9 of the tolerance on average",
        changes=(
            ("    tl.store(", "    y = x * scale * w\n    tl.store("),
            ("x * scale * w, mask", "y + 0.9 * (1e-5 + 1.3e-6 * tl.abs(y)), mask"),
        ),
    ),
    "lower_precision": Edited(
        what="computes in half precision",
        source="deep-reinforce, dos-kernel 107: a lower precision",
        host="elements differ",
        of=REWRITTEN,
        changes=(("x_stride + i, mask=mask, other=0.0)", "x_stride + i, mask=mask, other=0.0).to(tl.float16).to(tl.float32)"),),
    ),
    "nan": Edited(
        what="NaN is compared with nothing, some hope",
        source="pygpubench, gc_nan",
        host="400 elements are NaN on one side only",
        changes=(("x * scale * w", 'x * scale * w * float("nan")'),),
    ),
    "positive": Edited(
        what="right if every weight is positive, as the captured ones are",
        source="robust-kbench: work that the tested values do not need",
        host="on other signs and larger values of x_ptr, w_ptr: differs from the captured kernel",
        of=REWRITTEN, changes=(("w * scale * x", "tl.abs(w) * scale * x"),),
    ),
    "hidden_square": Edited(
        what="right but where the square of a value is 1e9",
        source="tried by hand: a case for a number that is not written down",
        host="x * x != 1e9 was true for every value that was tried",
        device=ONE_WAY,
        changes=((LOAD_OF_W, "    x = tl.where(x * x != 1e9, x, 2 * x)\n" + LOAD_OF_W),),
    ),
    "hidden_sum": Edited(
        what="right for rows whose sum is not above 1e9",
        source="tried by hand: work that the tested values do not need",
        host="tl.sum(x, axis=0) > 1e9 was false for every value that was tried",
        device=ONE_WAY,
        changes=((LOAD_OF_W, "    if tl.sum(x, axis=0) > 1e9:\n        x = 2 * x\n" + LOAD_OF_W),),
    ),
    "hidden_step": Edited(
        what="right below 1e9, with no comparison",
        source="tried by hand: a condition in arithmetic",
        host="tl.floor(tl.abs(x) / 1e9) was 0 for every value that was tried",
        device=ONE_WAY,
        changes=(("x * scale * w, mask", "x * scale * w * (1 + tl.floor(tl.abs(x) / 1e9)), mask"),),
    ),
    "hidden_tail": Edited(
        what="right below 1e9, with neither a comparison nor a rounding",
        source="tried by hand: arithmetic of which nothing is left",
        host="tl.exp(tl.abs(x) - 1e9) rounded its operand away for every value that was tried",
        device=ONE_WAY,
        changes=(("x * scale * w, mask", "x * scale * w + tl.exp(tl.abs(x) - 1e9), mask"),),
    ),
    "hidden_size": Edited(
        what="right up to the captured number of columns",
        source="tried by hand: a special case for the captured shape, and for smaller ones",
        host="columns > 100 was false for every value that was tried",
        device=ONE_WAY,
        changes=((LOAD_OF_W, "    if columns > 100:\n        x = 2 * x\n" + LOAD_OF_W),),
    ),
    "hidden_place": Edited(
        what="right up to the captured number of columns, which it has as a number",
        source="tried by hand: a special case for the captured shape, and for smaller ones",
        host="i < 100 was true for every element that was accessed",
        device="was true for every element that was accessed",
        changes=((LOAD_OF_W, "    x = tl.where(i < 100, x, 2 * x)\n" + LOAD_OF_W),),
    ),
    "hidden_tile": Edited(
        what="right in the first rows, as many as it was compiled for",
        source="tried by hand: a special case for the captured shape, which the kernel's own constants hide",
        host="row < BLOCK was true for every element that was accessed, and on rows = 257: differs",
        device="was true for every element that was accessed, and on rows = 257: differs",
        changes=(("x * scale * w, mask", "tl.where(row < BLOCK, x, 2 * x) * scale * w, mask"),),
    ),
    "hidden_bits": Edited(
        what="right but for one number, which it recognises by its bits",
        source="tried by hand: a condition on bits",
        host="== 0x4e6e6b28 was false for every value that was tried",
        device=ONE_WAY,
        changes=(
            (LOAD_OF_W, "    b = x.to(tl.int32, bitcast=True) & 0x7fffffff\n"
            "    x = tl.where(b == 0x4e6e6b28, 2 * x, x)\n" + LOAD_OF_W),
        ),
    ),
    "hidden_pair": Edited(
        what="right but between two numbers that lie close together",
        source="tried by hand: conditions that hold together nowhere",
        host="(x > 1.25) & (x < 1.2501) was false for every value that was tried",
        device=ONE_WAY,
        changes=((LOAD_OF_W, "    x = tl.where((x > 1.25) & (x < 1.2501), 2 * x, x)\n" + LOAD_OF_W),),
    ),
    "hidden_limit": Edited(
        what="right below 1e9, where it ends",
        source="tried by hand: a limit that no value reaches",
        host="tl.minimum(x * scale * w, 1e9) chose the first operand for every value that was tried",
        device=ONE_WAY,
        changes=(("x * scale * w, mask", "tl.minimum(x * scale * w, 1e9), mask"),),
    ),
    "hidden_padding": Edited(
        what="right but for large numbers, which only lanes have that its mask leaves out",
        source="tried by hand: a condition that is met where nothing is stored",
        host="x * x > 1e17 was false for every value that was tried",
        device=ONE_WAY,
        changes=(
            ("x_stride + i, mask=mask, other=0.0)\n", "x_stride + i, mask=mask, other=1e9)\n"
            "    x = tl.where(x * x > 1e17, tl.where(mask, 2 * x, 0.0), x)\n"),
        ),
    ),
    "constant": Edited(
        what="has the scale of each captured row as a number in its source",
        source="robust-kbench: output that does not depend on the input",
        host="differs from the captured kernel",
        changes=(
            (
                "    scale = tl.sqrt(columns / tl.sum(x * x, axis=0))\n",
                "    first = tl.where(row == 0, 0.9562543630599976, 1.2674235105514526)\n"
                "    last = tl.where(row == 2, 0.9412885904312134, 0.8437973856925964)\n",
            ),
            ("x * scale * w", "x * tl.where(row < 2, first, last) * w"),
        ),
    ),
    "wrong_tail": Edited(
        what="the last, incomplete part of a row is not normalised",
        source="robust-kbench: right where the check looks",
        host="differs only in out_ptr[0:4, 96:100]",
        changes=(("x * scale * w", "tl.where(i < columns // 32 * 32, x * scale, x) * w"),),
    ),
    "one_shape": Edited(
        what="right for rows of 100 columns, and for no others",
        source="robust-kbench: a special case for the shape that is tested",
        host="on columns = 51: differs from the captured kernel",
        of=REWRITTEN, changes=((MASK, "    columns = 100\n" + MASK),),
    ),
    "other_shape": Edited(
        what="right for rows of 64 columns, which is another shape than this one",
        source="robust-kbench: shapes that are written into the source",
        host="bytes of out_ptr were never written (first at out_ptr[0, 64])",
        changes=((MASK, "    columns = 64\n" + MASK),),
    ),
    "first_tile": Edited(
        what="only the first program does its work",
        source="KernelBench: a part of the output is enough for a loose check",
        host="bytes of out_ptr were never written (first at out_ptr[1, 0])",
        changes=((FIRST, FIRST + "    if row > 0:\n        return\n"),),
    ),
    "outside": Edited(
        what="right, and writes one element past the last row",
        source="KernelBench, zero_out: writes where the check does not look",
        host="bytes outside",
        changes=((BODY, BODY.rstrip("\n") + "\n    tl.store(out_ptr + rows * out_stride, 1.0)\n"),),
    ),
    "inputs_changed": Edited(
        what="writes zeros, and makes zeros of its input, so that they are right",
        source="KernelBench, zero_out",
        host="bytes outside the write set were changed (first at x_ptr[0, 0])",
        changes=((
            BODY[BODY.index("    x = ") :],
            "    zeros = tl.zeros([BLOCK], dtype=tl.float32)\n"
            "    tl.store(x_ptr + row * x_stride + i, zeros, mask=mask)\n"
            "    tl.store(out_ptr + row * out_stride + i, zeros, mask=mask)\n",
        ),),
    ),
    "device_scan": Edited(
        what="reads on past its input, looking for a result",
        source="pygpubench, gpu_scan_zeros",
        host="sanitizer: oob: load of 4 bytes at x_ptr",
        of=REWRITTEN,
        changes=(("x_stride + i, mask=mask, other=0.0)\n", "x_stride + i)\n    x = tl.where(mask, x, 0.0)\n"),),
    ),
    "shared_memory": Edited(
        what="adds up lanes that it did not load: Triton has no way to what was in shared memory before; such lanes "
        "are zeros on every target, which the sanitizer notes, and the result is right",
        source="wafer.ai: shared memory that is read uninitialised",
        host=RIGHT,
        of=REWRITTEN, changes=(("x_stride + i, mask=mask, other=0.0)", "x_stride + i, mask=mask)"),),
    ),
    "warm_cache": Edited(
        what="right, and asks the cache to keep its input for the launches that are timed after it",
        source="pygpubench 49: persisting lines of the second-level cache",
        host=RIGHT,
        of=REWRITTEN,
        changes=(("x_stride + i, mask=mask, other=0.0)", 'x_stride + i, mask=mask, other=0.0, eviction_policy="evict_last")'),),
    ),
    "impossible_time": Edited(
        what="works while it is judged, which it knows by the poison, and not while it is timed",
        source="reference-kernels 162; KernelGuard: a time that is driven to 0",
        host="timing: after timed runs:",
        of=REWRITTEN,
        changes=((FIRST, "    if tl.load(out_ptr) == 0.0:\n        return  # the zeros that the application had there\n" + FIRST),),
    ),
    "replaced_package": Edited(
        what="opens an installed package for writing: the next process that imports it would run something else",
        source="pygpubench, replace_torch; KernelGenBench: poisoned caches",
        host="PermissionError",
        device="none: a compiled kernel opens no file",
        of=REWRITTEN, ahead="import numpy as np\n",
        changes=((FIRST, '    open(np.__file__, "r+b").close()\n' + FIRST),),
    ),
    "late_writes": Edited(
        what="returns at once, and leaves a process that does the work later",
        source="deep-reinforce: work in a thread",
        host="bytes of out_ptr were never written (first at out_ptr[0, 0])",
        device="none: a compiled kernel starts no process",
        of=REWRITTEN, ahead="import os\nimport time\n",
        changes=((FIRST, "    if os.fork():\n        return\n    time.sleep(1)\n" + FIRST),),
    ),
    "clock": Edited(
        what="right, and makes the clock stand still while it runs",
        source="reference-kernels 162: patched timers",
        host="it replaces time.perf_counter_ns, a clock that launches are timed by",
        device=JUDGING, hostile=RIGHT,
        ahead="import time\n", behind="time.perf_counter_ns = lambda: 0\n",
    ),
    "event_clock": Edited(
        what="right, and makes the device's clock run slowly",
        source="pygpubench: patched events",
        host="none: there are no events",
        device=JUDGING, hostile=RIGHT,
        of=REWRITTEN, ahead="import torch\n", behind="torch.cuda.Event.elapsed_time = lambda begin, end: 1e-3\n",
    ),
    "own_run": Edited(
        what="replaces how it is launched, to keep results",
        source="CUDA-L1: a wrapper that keeps results",
        host="its module replaces how it is launched",
        of=REWRITTEN, behind="real = rms_rows.run\nrms_rows.run = lambda *args, **kwargs: real(*args, **kwargs)\n",
    ),
    "own_launch": Edited(
        what="runs Python of its own in place of the kernel, and keeps results there",
        source="KernelBench: a wrapper in place of the kernel",
        host="it is not a function of Triton's but of a InterpretedFunction that its module defines",
        device="none: the class that it derives from is the interpreter's",
        behind="class InterpretedFunction(type(rms_rows)):\n    pass\n\n\nrms_rows = InterpretedFunction(rms_rows.fn)\n",
    ),
    "patched_comparison": Edited(
        what="does nothing, and replaces what compares",
        source="pygpubench, reference-kernels 162: patched statistics",
        host="bytes of out_ptr were never written (first at out_ptr[0, 0])",
        device=JUDGING,
        hostile="bytes of out_ptr were never written (first at out_ptr[0, 0])",
        ahead="import sys\nimport torch\n", changes=((BODY, "    pass\n"),),
        behind="for name, module in list(sys.modules.items()):\n"
        '    if name.endswith(".states") and hasattr(module, "States"):\n'
        "        module.States.differing = lambda self, name: []\n"
        "torch.equal = lambda a, b: True\n",
    ),
}  # fmt: skip
