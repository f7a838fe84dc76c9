"""Writes what the hook records, and cubins, beside this file: `python make.py`.

Needs nvidia-cutlass-dsl[cu13] and no GPU. The recorded files are of nvidia-cutlass-dsl 4.8.1.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[3]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        os.environ.update(CUTE_DSL_ARCH="sm_90a", CUTE_DSL_KEEP="cubin", CUTE_DSL_DUMP_DIR=name)
        session = Path(name, "session.json")
        session.write_text("{}")
        sys.path[:0] = [str(ROOT / "shims" / "triton"), str(HERE)]
        from kerncap_triton import importer

        importer.install(str(session))
        made = compiled()
        for path in Path(name, "cute-dsl").iterdir():
            call = json.loads(path.read_text().replace(str(HERE), "/app"))
            kernel = call["function"]["name"].rpartition(".")[2]
            (HERE / f"{kernel}.json").write_text(json.dumps(call, indent=1) + "\n")
            (HERE / f"{kernel}.cubin").write_bytes(made[kernel])
    shutil.rmtree(HERE / "__pycache__", ignore_errors=True)


def compiled() -> dict[str, bytes]:
    import cuda.bindings.driver as driver
    import cutlass
    import kernels
    from cutlass import cute
    from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_tensor

    def row() -> object:
        return make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(),), assumed_align=16)

    def strided() -> object:
        shape = (cute.sym_int(), cute.sym_int(divisibility=4))
        return make_fake_tensor(cutlass.Float16, shape, (cute.sym_int64(divisibility=4), 1), assumed_align=8)

    pair = kernels.Pair(64, kernels.Mode.SUBTRACT, cutlass.Float16)
    stream = driver.CUstream(0)
    return {
        "scaled_add": cute.compile(
            kernels.launch, row(), row(), row(), cutlass.Float32(2.0), stream
        ).__cubin__,
        "kernel": cute.compile(pair, strided(), strided(), kernels.product, 3).__cubin__,
    }


if __name__ == "__main__":
    main()
