#!/usr/bin/env bash
# smoke.sh PYTHON: the wheel alone, in an environment with neither torch nor triton, away from the checkout.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run() {
    printf '$ %s\n' "$*"
    "$@"
}

bash tools/wheels.sh .venv/bin/python "$work/dist"
"$python" -m venv "$work/venv" 2>/dev/null || bash tools/make_venv.sh "$work/venv" "$python"
"$work/venv/bin/python" -m pip install --quiet --progress-bar off "$work"/dist/kerncap-*-manylinux*.whl

cd "$work"
export PATH="$work/venv/bin:$PATH"
run kerncap --version
run kerncap --help
python - <<'PY'
import importlib.util as u
found = [n for n in ("torch", "triton", "z3") if u.find_spec(n)]
assert not found, f"this environment should be empty, but it has {found}"
import kerncap.replay  # from replay/
import ctypes
from kerncap import env
shim = env.cuda_shim()
assert shim is not None, "the wheel should have brought the CUDA shim"
assert ctypes.CDLL(str(shim)).kerncap_cuda_live() == 0, "nobody asked it to capture"
PY

# 4 says that nothing can run here, which is true; the report itself must be one JSON document.
status=0
kerncap doctor --json >doctor.json || status=$?
echo "kerncap doctor --json: exit status $status"
[[ $status -eq 0 || $status -eq 4 ]]
python -m json.tool doctor.json >/dev/null

mapfile -t manifests < <(find "$root/tests/golden" -name manifest.json | sort)
[[ ${#manifests[@]} -gt 0 ]] || {
    echo "smoke: no golden reproducer under tests/golden" >&2
    exit 1
}
for manifest in "${manifests[@]}"; do
    run kerncap inspect "$(dirname "$manifest")"
    kerncap inspect --json "$(dirname "$manifest")" | python -m json.tool >/dev/null
done

# What is given away is made of files beside the code: templates, styles, scripts.
run kerncap report "$root/tests/golden/v1.3" -o report.html
grep -q 'Content-Security-Policy' report.html
run kerncap view -o viewer.html
grep -q 'Content-Security-Policy' viewer.html
run kerncap export "$root/tests/golden/v1.1" --as cmake -o project
[[ -s project/CMakeLists.txt && -s project/main.cpp ]]
run kerncap diff "$root/tests/golden/v1.2" "$root/tests/golden/v1.2"
kerncap schema verify | python -m json.tool >/dev/null

# The sanitizer needs neither torch nor triton nor z3; what only z3 can answer is undecided, and says how to get it.
ttir=$root/tests/golden/v1.2/code/kernel.ttir
run kerncap sanitize "$ttir" --grid 2 --arg x_ptr=f32[256] --arg out_ptr=f32[256] --arg n=256 | tee sanitize.txt
grep -q '^Result: PASS (1 launch; memory operations: 2 proved)$' sanitize.txt
status=0
run kerncap sanitize "$root/tests/golden/v1.2" || status=$?
[[ $status -eq 1 ]]
cat >needs_z3.ttir <<'TTIR'
module {
  tt.func public @never(%x_ptr: !tt.ptr<f32>) {
    %x = tt.get_program_id x : i32
    %y = tt.get_program_id y : i32
    %either = arith.xori %x, %y : i32
    %sum = arith.addi %x, %y : i32
    %more = arith.cmpi sgt, %either, %sum : i32
    %one = arith.constant 1.0 : f32
    %at = tt.addptr %x_ptr, %x : !tt.ptr<f32>, i32
    tt.store %at, %one, %more : !tt.ptr<f32>
    tt.return
  }
}
TTIR
status=0
run kerncap sanitize needs_z3.ttir --grid 2000000000,60000 --arg 'x_ptr=f32[4]' --check oob | tee sanitize.txt || status=$?
[[ $status -eq 5 ]]
grep -q '^Result: UNDECIDED (' sanitize.txt
grep -q "unproven\[oob\]: .*pip install 'kerncap\[sanitizer\]'" sanitize.txt

# The wheel without shims reads the same reproducers.
python -m pip install --quiet --progress-bar off --no-deps --force-reinstall "$work"/dist/kerncap-*-none-any.whl
run kerncap inspect "$(dirname "${manifests[0]}")" >/dev/null
python -c 'from kerncap import env; assert env.cuda_shim() is None'
echo "smoke: all good"
