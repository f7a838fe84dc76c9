#!/usr/bin/env bash
# What `make setup` does: .venv with everything that this machine can use. Options come from the
# Makefile's variables: PYTHON, VENV, TORCH_INDEX, TORCH_VERSION, TRITON_VERSION, LIGER_VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."

has() { "$VENV/bin/python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }
step() { printf '\n== %s\n' "$*"; }

# An environment that works is kept: after a change of pyproject.toml only the difference is installed.
if "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    step "virtual environment in $VENV: kept"
else
    step "virtual environment in $VENV from $PYTHON"
    bash tools/make_venv.sh "$VENV" "$PYTHON"
fi
pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }
install() { pip install --no-compile --progress-bar off "$@"; }

# pip compiles one file after another before it goes on; this runs beside what follows. What is compiled is kept.
compile() {
    local packages
    packages=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    "$VENV/bin/python" -m compileall -q -q "$packages" >/dev/null || true # some packages bring files that can't be
}

gpu=no
if command -v nvidia-smi >/dev/null && nvidia-smi -L >/dev/null 2>&1; then gpu=yes; fi

if has torch; then
    step "torch: the one that $PYTHON has"
else
    wanted=torch
    if [[ $gpu == no ]]; then wanted="torch==$TORCH_VERSION"; fi
    step "$wanted ${TORCH_INDEX:+from $TORCH_INDEX}"
    if [[ $gpu == no && -z $TORCH_INDEX ]]; then
        echo "(no NVIDIA GPU here: TORCH_INDEX=<PyTorch's CPU index> saves some gigabytes where pip's default is a CUDA build)"
    fi
    install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$wanted"
fi
compile &
compiling=$!
if has triton; then
    step "triton: already there"
else
    step "triton $TRITON_VERSION"
    install "triton==$TRITON_VERSION"
fi

step "kerncap[dev], editable"
install --quiet --editable ".[dev]"

# Somebody else's kernels, for the tests. Its own dependencies are torch and triton, which are settled.
step "liger-kernel $LIGER_VERSION, for the tests"
if ! install --quiet --no-deps "liger-kernel==$LIGER_VERSION"; then
    if [[ ${CI:-} == true ]]; then exit 1; fi
    echo "liger-kernel could not be installed: its tests will be skipped"
fi

wait "$compiling"
compile &
compiling=$!

step "its native shims"
PATH="$(cd "$VENV/bin" && pwd):$PATH" bash tools/shims.sh "$VENV/bin/python"
wait "$compiling"

step "ready"
"$VENV/bin/python" - <<'PY'
import importlib.metadata as m
print(", ".join(f"{n} {m.version(n)}" for n in ("kerncap", "torch", "triton", "numpy")))
PY
