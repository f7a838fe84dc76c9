#!/usr/bin/env bash
# gpu_session.sh STEP...: one visit to a machine with a GPU and no network, by one command.
#   tests[=PYTEST ARGUMENTS]        tests marked gpu (default: those of the CUDA shim)
#   "bench[=NAME OPTION...]"        one benchmark, or all that need a GPU
#   "run=COMMAND"                   any command, with the environment's programs first on the path
# WHEELHOUSE: as `make wheelhouse` leaves it. OUT: where logs go (default: build/gpu-out). build/gpu-venv is kept.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
OUT=${OUT:-build/gpu-out}
wheelhouse=${WHEELHOUSE:-wheelhouse}
venv=$PWD/build/gpu-venv
scratch=${TMPDIR:-/tmp}/kerncap-gpu
python=$(command -v "${PYTHON:-python3}") # before the new environment's own comes first on the path
mkdir -p "$OUT" "$scratch"
unset PYTHONDONTWRITEBYTECODE # each command would compile its modules again, as in no installation
export PYTHONUNBUFFERED=1 PATH="$venv/bin:$PATH:/usr/local/cuda/bin"

setup() {
    if [[ ! -e $venv/.ready ]]; then
        pips=("$wheelhouse"/pip-*.whl)
        bash tools/make_venv.sh "$venv" "$python" "${pips[0]}" || return
        # What the machine has of CUDA, torch and Triton is what is tested: no wheel may shadow it.
        mapfile -t wheels < <(find "$wheelhouse" -name '*.whl' | grep -vE '/((kerncap|pip|numpy|torch|triton)-|cuda_|nvidia)[^/]*$')
        "$venv/bin/python" -m pip install --quiet --no-index --no-deps "${wheels[@]}" || return
        touch "$venv/.ready"
    fi
    "$venv/bin/python" -m pip install --quiet --no-index --no-deps --no-build-isolation --editable . || return
    bash tools/shims.sh "$venv/bin/python" || return
    nvidia-smi --query-gpu=index,name,driver_version,memory.used --format=csv
    kerncap doctor || true
}

step() {
    local given worst name value=""
    if [[ $1 == *=* ]]; then value=${1#*=}; fi
    read -ra given <<<"$value"
    case ${1%%=*} in
        tests)
            timeout 480 python -m pytest -m gpu --require-gpu -n "${WORKERS:-4}" --dist loadfile -q --durations=12 \
                --basetemp="$scratch/pytest" --junitxml="$OUT/junit.xml" "${given[@]:-tests/integration/cuda/gpu}"
            ;;
        bench)
            if [[ ${#given[@]} -gt 0 ]]; then timeout 300 python "benchmarks/${given[0]}.py" "${given[@]:1}"; return; fi
            for name in fresh_replays replay_rate kernel_time snapshot launch_overhead; do step "bench=$name" || worst=1; done
            return "${worst:-0}"
            ;;
        run) timeout 500 bash -c "$value" ;;
        *) echo "gpu_session: no step ${1%%=*}" >&2 && return 2 ;;
    esac
}

failed=()
setup >"$OUT/setup.log" 2>&1 || { tail -40 "$OUT/setup.log" && exit 1; }
tail -25 "$OUT/setup.log"
for each in "$@"; do
    printf '\n##### %s (%d s)\n' "$each" "$SECONDS"
    step "$each" 2>&1 | tee -a "$OUT/steps.log" || failed+=("$each")
done
# What is said of launches, never the memory of one.
find "$scratch" -type f \( -name '*.json' -o -name records \) -size -1024k -print0 | tar --null -czf "$OUT/records.tgz" -T - 2>/dev/null
printf '\n##### done in %d s; failed: %s\n' "$SECONDS" "${failed[*]:-nothing}"
[[ ${#failed[@]} -eq 0 ]]
