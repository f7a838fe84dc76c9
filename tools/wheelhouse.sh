#!/usr/bin/env bash
# wheelhouse.sh PYTHON FOLDER: what a machine with no network needs to install kerncap and to run
# `make test-gpu`, for Python WHEELHOUSE_PYTHON. torch, triton and numpy are taken as found there.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
folder=$2
dependencies=(
    "blake3>=1.0" "click>=8.1" "detect-secrets>=1.5,<2" "msgspec>=0.19" "rich>=13" "zstandard>=0.22"
    "optuna>=4" "python-constraint2>=2.2" "distributed>=2024.4"
    "pytest>=8.2" "pytest-timeout>=2.3" "pytest-xdist>=3.8" "hypothesis>=6.100" "jsonschema>=4.20"
    "scikit-build-core>=1.0" "pyelftools>=0.30" "z3-solver>=4.13" pip
)
# pip evaluates markers for its own Python, not for WHEELHOUSE_PYTHON: name what only 3.10 needs.
if [[ $WHEELHOUSE_PYTHON == 3.10 ]]; then dependencies+=(exceptiongroup tomli typing-extensions); fi
platforms=(--platform "$WHEELHOUSE_PLATFORM" --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64)
case $WHEELHOUSE_PLATFORM in
    *_x86_64) ;;
    *) platforms=(--platform "$WHEELHOUSE_PLATFORM") ;;
esac
download=("$python" -m pip download --quiet --progress-bar off --dest "$folder" --only-binary ":all:"
    --python-version "$WHEELHOUSE_PYTHON" --implementation cp "${platforms[@]}")

rm -rf "$folder"
mkdir -p "$folder"
bash tools/wheels.sh "$python" "$folder"
"${download[@]}" "${dependencies[@]}"
"${download[@]}" --no-deps "liger-kernel==$LIGER_VERSION"
rm -f "$folder"/numpy-*.whl # Optuna asks for it

bytes=$(du -sb "$folder" | cut -f1)
ls -l "$folder"
echo "$folder: $((bytes / 1000000)) MB for Python $WHEELHOUSE_PYTHON"
if ((bytes > 80000000)); then
    echo "wheelhouse: over 80 MB: something large came in (torch, triton and numpy must not)" >&2
    exit 1
fi
