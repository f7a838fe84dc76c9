#!/usr/bin/env bash
# amd_gpu.sh: the emulated AMD GPU of tests/rigs/amd_gpu in build/amd-gpu: ROCm 6 (kept if complete), the libraries,
# `run`, and the headers that programs for it are compiled with. ROCM=7: also build/amd-gpu-7, the same with ROCm 7.
set -euo pipefail
cd "$(dirname "$0")/.."
here=build/amd-gpu
case ${ROCM:-6} in
    6 | 7) ;;
    *)
        echo "make amd-gpu: ROCM=$ROCM: 6 or 7" >&2
        exit 1
        ;;
esac

for tool in cmake ninja g++; do
    if ! command -v "$tool" >/dev/null; then
        echo "make amd-gpu: $tool is missing (apt-get install g++; cmake and ninja come with make setup)" >&2
        exit 1
    fi
done

mkdir -p "$here/include"
tests/rigs/amd_gpu/rocm/setup.sh "$here/rocm"
for folder in hip hsa; do
    ln -sfn "../rocm/usr/include/$folder" "$here/include/$folder"
done
cmake -S tests/rigs/amd_gpu -B "$here/cmake" -G Ninja -DCMAKE_MAKE_PROGRAM="$(command -v ninja)" \
    -DAMD_GPU_ROCM="$PWD/$here/rocm" --log-level=WARNING >/dev/null
cmake --build "$here/cmake" --parallel "${JOBS:-2}"
# By rename: a program that runs on the old one keeps it.
put() {
    local name
    name=$(basename "$1")
    cmp -s "$1" "$2/$name" && return
    cp "$1" "$2/$name.new"
    mv "$2/$name.new" "$2/$name"
}
both=("$here/cmake/libkerncap_amd_gpu.so" "$here/cmake/libkerncap_amd_register.so" tests/rigs/amd_gpu/run)
for file in "${both[@]}" "$here/cmake/librocprofiler-register.so.0"; do
    put "$file" "$here"
done
if [ "${ROCM:-6}" = 7 ]; then
    newer=$here-7
    mkdir -p "$newer"
    tests/rigs/amd_gpu/rocm/setup.sh "$newer/rocm" 7
    ln -sfn ../amd-gpu/include "$newer/include"
    for file in "${both[@]}"; do
        put "$file" "$newer"
    done
    here=$newer
fi
echo "$here/run PROGRAM: runs it on an emulated AMD GPU with $(cat "$here/rocm/.complete")"
