#!/usr/bin/env bash
# shims.sh PYTHON: build shims/ into build/shims, where a checkout looks first. PYTHON may have cuda.h.
set -euo pipefail
cd "$(dirname "$0")/.."

# As tests/native/building.py does: one process at a time builds there, tests too.
mkdir -p build
exec 9>build/shims.lock
flock 9

# ninja is named: the one that pip's build used may have been in an environment that is gone.
generator=()
if ninja=$(command -v ninja); then generator=(-G Ninja -DCMAKE_MAKE_PROGRAM="$ninja"); fi
cmake -S shims -B build/shims "${generator[@]}" \
    -DPython_EXECUTABLE="$1" -DKERNCAP_REQUIRE_CUDA=ON -DKERNCAP_TESTS=ON --log-level=WARNING >/dev/null 9>&-
cmake --build build/shims --parallel "${JOBS:-2}" 9>&-
ls -l build/shims/cuda/libkerncap_cuda.so build/shims/hip/libkerncap_hip.so
