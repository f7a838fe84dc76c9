#!/usr/bin/env bash
# amd_session.sh [STEP...]: what kerncap does on a machine with an AMD GPU, as a table to paste into an issue; some
# ten minutes. Steps: doctor self-test hip hip-python triton (default: all). Needs ROCm, kerncap on the path
# (pip install 'kerncap[hip]'), and this checkout for its samples.
# OUT: where logs and reproducers go (default: build/amd-out). ARCH: as hipcc has it (default: native).
# LAUNCHER: words in front of each program under capture, as for a container or an emulated GPU.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
OUT=${OUT:-build/amd-out}
hipcc=${HIPCC:-hipcc}
read -ra launcher <<<"${LAUNCHER:-}"
rm -rf "$OUT" && mkdir -p "$OUT" || exit
rows=() failed=0

# row NAME RESULT SECONDS WORDS
row() {
    rows+=("| $1 | $2 | $3 | $(printf '%s' "${4//|/\\|}" | sed "s|$HOME|~|g" | cut -c1-160) |")
    printf '%-34s %s\n' "$1" "$2"
}

# step NAME STATUS COMMAND...: runs it; its exit status has to be STATUS.
step() {
    local name=$1 wanted=$2 log status begin=$SECONDS said
    log=$OUT/${name//[^a-z0-9]/-}.log
    shift 2
    timeout 180 "$@" >"$log" 2>&1
    status=$?
    said=$(grep '^Result' "$log" | tail -1)
    [[ -n $said ]] || said=$(grep -v '^ *$' "$log" | tail -1)
    if [[ $status -eq $wanted ]]; then
        row "$name" pass "$((SECONDS - begin)) s" "$said"
        return 0
    fi
    failed=1
    row "$name" "**FAIL**, status $status" "$((SECONDS - begin)) s" "$said"
    return 1
}

# sample NAME KERNEL WRONG PROGRAM...: captured and replayed; its own source is a right candidate, WRONG is none.
sample() {
    local name=$1 kernel=$2 wrong=$3 manifest found unedited
    shift 3
    step "$name: capture" 0 kerncap capture -k "$kernel" -o "$OUT/$name" -- "${launcher[@]}" "$@" || return
    for manifest in "$OUT/$name"/*/manifest.json; do found=${manifest%/manifest.json}; done
    step "$name: replay" 0 kerncap replay "$found" -n 20
    cp -r "$found/source" "$OUT/$name-copy"
    unedited=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["source"]["file"]["path"])' "$manifest")
    step "$name: unedited candidate" 0 kerncap verify "$found" --candidate "$OUT/$name-copy/${unedited#source/}"
    step "$name: wrong candidate fails" 1 kerncap verify "$found" --candidate "$wrong"
}

hip_program() {
    if ! command -v "$hipcc" >/dev/null; then
        row "hip: compile" skipped "" "no hipcc"
        return
    fi
    step "hip: compile" 0 "$hipcc" --offload-arch="${ARCH:-native}" -g -O2 samples/hip_blend/run.hip -o "$OUT/blend" || return
    step "hip: list" 0 kerncap list -- "${launcher[@]}" "$OUT/blend"
    sample hip '^blend$' samples/hip_blend/wrong.hip "$OUT/blend"
}

hip_python() {
    if python3 -c 'import hip' 2>/dev/null; then
        sample hip-python axpy samples/hip_python_axpy/wrong.hip python3 samples/hip_python_axpy/run.py
    else
        row hip-python skipped "" "Python has no hip-python"
    fi
}

triton_on_torch() {
    if python3 -c 'import torch, triton; assert torch.version.hip' 2>/dev/null; then
        sample triton softmax samples/softmax/wrong.py python3 samples/softmax/run.py
    else
        row triton skipped "" "Python has no torch for ROCm with Triton"
    fi
}

[[ $# -gt 0 ]] || set -- doctor self-test hip hip-python triton
for each in "$@"; do
    case $each in
        doctor) step doctor 0 kerncap doctor ;;
        self-test) step self-test 0 kerncap doctor --self-test ;;
        hip) hip_program ;;
        hip-python) hip_python ;;
        triton) triton_on_torch ;;
        *) echo "amd_session: no step $each" >&2 && exit 2 ;;
    esac
done
{
    kerncap --version
    uname -sr
    cat /opt/rocm/.info/version 2>/dev/null
    grep -hE '^ *(ok|MISSING) +(ROCr|HIP shim|compilers|hip-python|torch|triton) ' "$OUT/doctor.log" 2>/dev/null
    printf '\n| step | result | time | said |\n|---|---|---|---|\n'
    printf '%s\n' "${rows[@]}"
} | sed "s|$HOME|~|g" >"$OUT/table.md"
printf '\n%s: paste it into an issue; the logs are beside it\n' "$OUT/table.md"
exit "$failed"
