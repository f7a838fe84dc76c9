#!/usr/bin/env bash
# make_venv.sh FOLDER PYTHON [PIP_WHEEL]
#
# A virtual environment in FOLDER that also sees what PYTHON sees, if PYTHON has a torch: that torch
# is the user's and is never replaced or copied. PIP_WHEEL serves where there is no network.
set -euo pipefail

folder=$1
python=$2
pip_wheel=${3:-}

"$python" - <<'PY' || exit 4
import sys
if sys.version_info < (3, 10):
    sys.exit(f"kerncap needs Python 3.10 or newer, {sys.executable} is {sys.version.split()[0]}: make setup PYTHON=python3.12")
PY

options=()
if "$python" -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'; then
    options+=(--system-site-packages)
fi

# Debian splits ensurepip off into python3-venv; an interpreter with pip can do without it.
if [[ -z $pip_wheel ]] && "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    "$python" -m venv --clear "${options[@]}" "$folder"
elif ! "$python" -c 'import venv' 2>/dev/null; then
    echo "make_venv: $python has no venv module. On Debian or Ubuntu: sudo apt-get install python3-venv" >&2
    exit 4
else
    "$python" -m venv --clear --without-pip "${options[@]}" "$folder"
    if [[ -n $pip_wheel ]]; then
        "$folder/bin/python" "$pip_wheel/pip" install --quiet --no-index "$pip_wheel"
    elif "$python" -m pip --version >/dev/null 2>&1; then
        "$python" -m pip --python "$folder/bin/python" install --quiet pip
    else
        echo "make_venv: $python has neither ensurepip nor pip." >&2
        echo "make_venv: on Debian or Ubuntu: sudo apt-get install python3-venv python3-pip" >&2
        exit 4
    fi
fi

# --system-site-packages shows the base interpreter's packages. If PYTHON is itself in a virtual
# environment, its own packages (and torch with them) need a path file.
if [[ ${#options[@]} -gt 0 ]]; then
    "$python" - "$folder" <<'PY'
import pathlib, subprocess, sys, sysconfig
if sys.prefix != sys.base_prefix:
    target = subprocess.check_output(
        [sys.argv[1] + "/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    ).strip()
    paths = dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib")))
    pathlib.Path(target, "zz_parent_environment.pth").write_text("\n".join(paths) + "\n")
PY
fi
