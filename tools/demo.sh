#!/usr/bin/env bash
# The main job in four commands, on whatever this machine has. Each command is shown before it runs.
set -euo pipefail
cd "$(dirname "$0")/.."

run() {
    printf '\n$ %s\n' "$*"
    "$@"
}

# Without a GPU, Triton's interpreter runs the kernel on CPU tensors.
if ! python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    printf '$ export TRITON_INTERPRET=1\n'
    export TRITON_INTERPRET=1
fi
mkdir -p build
out=$(mktemp -d build/demo-XXXXXX)
trap 'rm -rf "$out"' EXIT

run kerncap capture -k softmax_kernel -o "$out" -- python samples/softmax/run.py
reproducer=$(find "$out" -mindepth 2 -maxdepth 2 -name manifest.json -printf '%h\n' | head -n 1)
if [[ -z $reproducer ]]; then
    echo "Result: FAIL (nothing was captured)"
    exit 1
fi
run kerncap replay "$reproducer"
run kerncap verify "$reproducer"
run kerncap sanitize "$reproducer"
