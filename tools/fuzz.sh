#!/usr/bin/env bash
# fuzz.sh PYTHON SECONDS: the campaigns whole. `make test` runs a seeded slice of each.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$1
seconds=$2

# Properties have no clock, so the number of examples follows the seconds: 5,100 and 20,100 for 300 s.
export KERNCAP_FUZZ_EXAMPLES=$((seconds * 17)) KERNCAP_FUZZ_CASES=$((seconds * 67))
echo "== properties, $KERNCAP_FUZZ_EXAMPLES examples each"
"$python" -m pytest -m "hypothesis and not gpu" --hypothesis-profile=campaign --timeout=3600 tests/unit
KERNCAP_FUZZ_ARCHIVES=${KERNCAP_FUZZ_ARCHIVES:-100000} "$python" -m pytest --timeout=7200 tests/fuzz

echo "== the sanitizer against brute force, ${KERNCAP_FUZZ_LAUNCHES:=10000} launches"
"$python" -W ignore -m tests.fuzz.sanitizer.campaign --launches "$KERNCAP_FUZZ_LAUNCHES"

shopt -s nullglob
targets=(tests/fuzz/fuzz_*.py)
if [[ ${#targets[@]} -gt 0 ]] && ! "$python" -c 'import atheris' 2>/dev/null; then
    echo "== atheris"
    "$python" -m pip install --quiet --progress-bar off atheris
fi
# -S: atheris can instrument only what the path finds, and the editable install's finder would be first.
packages=$("$python" -c "import sysconfig; print(sysconfig.get_path('purelib'))")
for target in "${targets[@]}"; do
    name=$(basename "$target" .py)
    corpus=build/fuzz/$name
    mkdir -p "$corpus"
    echo "== $name, $seconds s (corpus: $corpus)"
    PYTHONPATH=$packages "$python" -S "$target" "$corpus" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=25 \
        -artifact_prefix="$corpus/" -print_final_stats=1
done
