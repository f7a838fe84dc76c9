#!/usr/bin/env bash
# amd_gpu.sh: the emulated AMD GPU of tests/rigs/amd_gpu in build/amd-gpu: ROCm 6 (kept if complete), the library,
# `run`, and the headers that programs for it are compiled with.
set -euo pipefail
cd "$(dirname "$0")/.."
here=build/amd-gpu

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
for file in "$here/cmake/libkerncap_amd_gpu.so" tests/rigs/amd_gpu/run; do
    name=$(basename "$file")
    cmp -s "$file" "$here/$name" && continue
    cp "$file" "$here/$name.new"
    mv "$here/$name.new" "$here/$name"
done
echo "$here/run PROGRAM: runs it on an emulated AMD GPU with $(cat "$here/rocm/.complete")"
