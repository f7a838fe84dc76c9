#!/usr/bin/env bash
# No tracked file may name this machine's folders or a package registry's host: a clone builds anywhere,
# from whatever index pip is set up with.
set -euo pipefail
cd "$(dirname "$0")/.."

status=0
complain() {
    echo "check_tree: $1" >&2
    status=1
}

# Written in pieces, so that this file does not find itself.
hosts="pypi\\.or""g|pythonhosted\\.or""g|download\\.pytorch\\.or""g|pypi\\.nvidia\\.co""m|anaconda\\.or""g|deb\\.debian\\.or""g|docker\\.i""o"
if git grep -nIE "$hosts"; then complain "a registry's host is named above"; fi

home=$(printf '%s' "${HOME:-}" | sed 's/[.[\*^$+?(){|]/\\&/g')
here=$(pwd -P | sed 's/[.[\*^$+?(){|]/\\&/g')
patterns="$here(/|\$|[^a-z0-9_-])"
# A short home such as /root is also an example in texts; below it lies only what is ours.
if [[ -n $home && $home != / ]]; then patterns="$patterns|$home/"; fi
if git grep -nIE "$patterns"; then complain "an absolute path of this machine is named above"; fi

# A file that is deleted and not yet committed is not there for stat.
large=$({ git ls-files -z | xargs -0 -r stat -c '%s %n' 2>/dev/null || true; } | awk '$1 > 1000000 {print $2}')
if [[ -n $large ]]; then complain "larger than 1 MB: $large"; fi

if [[ $status -eq 0 ]]; then echo "check_tree: all good"; fi
exit "$status"
