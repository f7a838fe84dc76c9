#!/usr/bin/env bash
# regenerate.sh [NVCC]: snapshot_ptx.h from snapshot.cu. Needed only when snapshot.cu changes.
#
# nvcc 13 writes PTX for sm_75 at the oldest. The kernels use nothing that is newer than PTX 6.4 for
# sm_52, so the two lines that say otherwise are lowered: drivers from CUDA 10 on compile the result
# (tests/native/test_kernels.py has ptxas assemble it for every architecture that it knows).
set -euo pipefail
cd "$(dirname "$0")"
nvcc=${1:-nvcc}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$nvcc" -ptx -arch=compute_75 -O3 -o "$work/snapshot.ptx" snapshot.cu
{
    echo '// Made by regenerate.sh from snapshot.cu: PTX of the shim'"'"'s own kernels.'
    echo '#ifndef KERNCAP_CUDA_KERNELS_SNAPSHOT_PTX_H'
    echo '#define KERNCAP_CUDA_KERNELS_SNAPSHOT_PTX_H'
    echo
    echo 'namespace kerncap::cuda {'
    echo
    echo 'constexpr char snapshot_ptx[] = R"ptx('
    sed -e 's/^\.version .*/.version 6.4/' -e 's/^\.target .*/.target sm_52/' -e '/^\/\//d' -e '/^\t\/\//d' \
        -e '/^$/d' "$work/snapshot.ptx"
    echo ')ptx";'
    echo
    echo '}  // namespace kerncap::cuda'
    echo
    echo '#endif  // KERNCAP_CUDA_KERNELS_SNAPSHOT_PTX_H'
} > snapshot_ptx.h
