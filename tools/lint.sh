#!/usr/bin/env bash
# lint.sh BIN: every check, all of them run even when one fails.
set -euo pipefail
cd "$(dirname "$0")/.."

bin=$1
failed=()
check() {
    local name=$1
    shift
    echo "== $name"
    "$@" || failed+=("$name")
}

mapfile -t cpp < <(git ls-files --cached --others --exclude-standard '*.h' '*.hpp' '*.c' '*.cc' '*.cpp')
mapfile -t shell < <(git ls-files --cached --others --exclude-standard '*.sh' .ci/run)

check "ruff check" "$bin/ruff" check .
check "ruff format" "$bin/ruff" format --check .

cache=.mypy_cache
check "mypy (the package)" "$bin/mypy" --cache-dir "$cache/package" -p kerncap
# The hook's folder goes to the front of the target's path: its modules have names of their own there.
check "mypy (the hook)" env -C shims/triton "$bin/mypy" --config-file "$PWD/pyproject.toml" \
    --cache-dir "$PWD/$cache/hook" --explicit-package-bases .
check "import-linter" "$bin/lint-imports" --cache-dir .import_linter_cache
check "import-linter (the hook)" env -C shims/triton "$bin/lint-imports" \
    "$PWD/tools/hook_imports.ini" --cache-dir "$PWD/.import_linter_cache"

check "words" "$bin/python" tools/words.py
check "contract (its mirrors)" "$bin/python" tools/contract.py --check
check "contract (literals)" "$bin/python" tools/contract_check.py

if [[ ${#cpp[@]} -gt 0 ]]; then
    check "clang-format" "$bin/clang-format" --dry-run --Werror "${cpp[@]}"
fi
if command -v shellcheck >/dev/null; then
    check "shellcheck" shellcheck "${shell[@]}"
elif [[ ${CI:-} == true ]]; then
    failed+=("shellcheck (not installed)")
else
    echo "== shellcheck: not installed here, skipped (apt-get install shellcheck)"
fi

if [[ ${#failed[@]} -gt 0 ]]; then
    printf 'lint: FAIL: %s\n' "${failed[@]}" >&2
    exit 1
fi
echo "lint: all good"
