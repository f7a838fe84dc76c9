#!/usr/bin/env bash
# smoke_aarch64.sh: smoke.sh for the wheel for aarch64 on another machine: cross-built, with Debian's Python for it
# under QEMU. Nothing of the system changes: packages are unpacked in build/aarch64, and QEMU is registered in a user
# namespace (Linux 6.7 or newer). Needs apt, and g++-aarch64-linux-gnu.
set -euo pipefail
cd "$(dirname "$0")/.."

here=$PWD/build/aarch64
if [[ ! -e $here/ready ]]; then
    rm -rf "$here"
    mkdir -p "$here"/{apt,emulator,root}
    sets() { # those of another architecture, apart from the system's own
        local to=$here/apt/$1
        mkdir -p "$to"/{state/lists,cache/archives}/partial
        : >"$to/status"
        printf '%s\n' -o "APT::Architecture=$1" -o "APT::Architectures=$1" -o "Dir::State=$to/state" \
            -o "Dir::State::status=$to/status" -o "Dir::Cache=$to/cache" -o APT::Sandbox::User=root -qq
    }
    mapfile -t host < <(sets "$(dpkg --print-architecture)")
    mapfile -t other < <(sets arm64)
    apt-get "${host[@]}" update
    apt-get "${other[@]}" update
    (cd "$here/apt" && apt-get "${host[@]}" download qemu-user-static && dpkg -x qemu-user-static_*.deb "$here/emulator")
    apt-get "${other[@]}" install -y --download-only --no-install-recommends python3-venv libstdc++6
    for package in "$here"/apt/arm64/cache/archives/*.deb; do dpkg -x "$package" "$here/root"; done
    rm -r "$here/apt"
    touch "$here/ready"
fi

# The first 20 bytes of a program for it, and which of their bits count.
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
export EMULATOR=":kerncap-aarch64:M::$magic:$mask:$here/emulator/usr/bin/qemu-aarch64-static:PF"
export QEMU_LD_PREFIX=$here/root MACHINE=aarch64
# shellcheck disable=SC2016 # expanded inside
exec unshare --user --map-root-user --mount bash -euc '
    mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
    printf %s "$EMULATOR" >/proc/sys/fs/binfmt_misc/register
    exec bash tools/smoke.sh "$QEMU_LD_PREFIX/usr/bin/python3"'
