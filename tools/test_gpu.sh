#!/usr/bin/env bash
# The tests marked gpu, with the torch and triton of PYTHON. With WHEELHOUSE set (made by
# `make wheelhouse` on a machine with a network) nothing is downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}

if [[ -n ${WHEELHOUSE:-} ]]; then
    venv=build/gpu-venv
    pips=("$WHEELHOUSE"/pip-*.whl)
    bash tools/make_venv.sh "$venv" "$PYTHON" "${pips[0]}"
    # --no-deps: what the wheelhouse leaves out (torch, triton, numpy) is PYTHON's. The checkout is
    # installed editable, so that its tests never meet an older wheel of kerncap.
    others=()
    for wheel in "$WHEELHOUSE"/*.whl; do
        case $(basename "$wheel") in
            kerncap-* | pip-*) ;;
            *) others+=("$wheel") ;;
        esac
    done
    "$venv/bin/python" -m pip install --quiet --no-index --no-deps "${others[@]}"
    "$venv/bin/python" -m pip install --quiet --no-index --no-deps --no-build-isolation --editable .
    PATH="$PWD/$venv/bin:$PATH" bash tools/shims.sh "$venv/bin/python"
else
    venv=${VENV:-.venv}
    make --no-print-directory setup
fi
"$venv/bin/kerncap" doctor
exec "$venv/bin/python" -m pytest -m gpu --require-gpu "$@"
