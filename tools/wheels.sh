#!/usr/bin/env bash
# wheels.sh PYTHON FOLDER: the wheel with the native shims, for every Linux with glibc 2.28, and the one without them
# for everything else. The first is kept only if its shims keep that promise.
# MACHINE=aarch64: the first for that machine, by Debian's cross compiler (g++-aarch64-linux-gnu).
# BUILD=here: with what PYTHON has, and what `make setup` left in build/shims; else pip builds from nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
folder=$2
here=()
alone=()
if [[ ${BUILD:-} == here ]]; then
    here=(--no-build-isolation --config-settings "build-dir=build/${MACHINE:-shims}")
    mkdir -p build
    alone=(flock --close build/shims.lock) # as tools/shims.sh
    PATH="$(cd "$(dirname "$python")" && pwd):$PATH" # ninja
fi
PATH="$(cd "$(dirname "$python")" && pwd):$PATH" bash tools/viewer.sh # both hold its page
machine=${MACHINE:-$(uname -m)}
tag=py3-none-manylinux_2_28_$machine
settings=(--config-settings "wheel.tags=$tag")
if [[ $machine != "$(uname -m)" ]]; then
    for each in SYSTEM_NAME=Linux "SYSTEM_PROCESSOR=$machine" "CXX_COMPILER=$machine-linux-gnu-g++"; do
        settings+=(--config-settings "cmake.define.CMAKE_$each")
    done
fi
rm -f "$folder"/kerncap-*-"$tag".whl "$folder"/kerncap-*-none-any.whl
"${alone[@]}" "$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder" "${settings[@]}" "${here[@]}" .
if ! "$python" tools/check_glibc.py "$folder"/kerncap-*-"$tag".whl; then
    rm -f "$folder"/kerncap-*-"$tag".whl
    exit 1
fi
KERNCAP_NO_SHIM=1 "$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder" .
