#!/bin/sh
# The ROCm user space for the emulated GPU: libamdhip64, ROCr, comgr, hiprtc, with the libc they were built for,
# unpacked from Debian packages into a folder of their own. The system stays as it is; no chroot, no root.
#
#   rocm/setup.sh PREFIX [ROCM [SUITE]]
#
# ROCM is 6, with the headers to compile for it, or 7, without. SUITE is forky for the one and experimental for the
# other; ../README.md has the reason. The packages come from the mirror that this system's apt already uses for
# Debian. A prefix that is complete is kept.
set -eu

die() {
    echo "rocm/setup.sh: $1" >&2
    exit 1
}

[ $# -ge 1 ] || die "usage: rocm/setup.sh PREFIX [ROCM [SUITE]]"
prefix=$1
rocm=${2:-6}
libraries=usr/lib/x86_64-linux-gnu
needed="usr/lib64/ld-linux-x86-64.so.2 $libraries/libc.so.6 $libraries/libamdhip64.so.6 $libraries/libhiprtc.so.6
    $libraries/libhsa-runtime64.so.1 $libraries/libamd_comgr.so.3 $libraries/libdrm_amdgpu.so.1"
case $rocm in
    6)
        suite=${3:-forky}
        below=""
        packages="libamdhip64-6 libhiprtc6 libhiprtc-builtins6 libdrm-amdgpu1"
        headers="libamdhip64-dev libhsa-runtime-dev libdrm-dev linux-libc-dev"
        needed="$needed usr/include/hip/hip_runtime.h usr/include/hsa/hsa_ext_amd.h usr/include/hsa/hsa_api_trace.h
            usr/include/libdrm/amdgpu.h usr/include/linux/kfd_ioctl.h"
        ;;
    7)
        suite=${3:-experimental}
        below=sid # experimental is no whole suite
        packages="libamdhip64-7 libhiprtc7 libhiprtc-builtins7 libdrm-amdgpu1 librocprofiler-register-0"
        headers=""
        needed="$needed $libraries/librocprofiler-register.so.0 $libraries/libamdhip64.so"
        ;;
    *) die "ROCm $rocm: 6 or 7" ;;
esac
hip=${packages%% *}

# Whether folder $1 has all that the rig opens or compiles with; says what is missing.
has_all() {
    for file in $needed; do
        if [ ! -e "$1/$file" ]; then
            echo "$file"
            return 1
        fi
    done
}

if [ -f "$prefix/.complete" ] && has_all "$prefix" >/dev/null; then
    echo "$prefix: $(cat "$prefix/.complete")"
    exit 0
fi

by_hand="a prefix made on another machine can be copied to $prefix"
for tool in apt-get apt-cache dpkg-deb; do
    command -v "$tool" >/dev/null || die "no $tool here: ROCm comes from Debian packages; $by_hand"
done
[ "$(uname -m)" = x86_64 ] || die "this machine is $(uname -m): ROCm's packages are for x86_64"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f "$keyring" ] || die "no $keyring to check packages with: install debian-archive-keyring"
# shellcheck disable=SC2016 # these are apt's fields
mirror=$(apt-get indextargets --format '$(ORIGIN) $(SITE)' 2>/dev/null |
    awk '$1 == "Debian" && !/security/ { print $2; exit }')
[ -n "$mirror" ] || die "apt here knows no Debian mirror (run apt-get update first); $by_hand"

mkdir -p "$prefix" || die "can't make $prefix"
prefix=$(cd "$prefix" && pwd)
work=$(mktemp -d "$prefix.XXXXXX")
trap 'rm -rf "$work"; rmdir "$prefix" 2>/dev/null || true' EXIT
trap 'exit 1' HUP INT TERM
apt=$work/apt
mkdir -p "$apt/etc/apt/apt.conf.d" "$apt/etc/apt/preferences.d" "$apt/var/lib/apt/lists/partial" \
    "$apt/var/cache/apt/archives/partial" "$apt/var/lib/dpkg" "$work/unpacked"
: >"$apt/var/lib/dpkg/status"
for each in $suite $below; do
    echo "deb [signed-by=$keyring] $mirror $each main"
done >"$apt/etc/apt/sources.list"
# Dates are not checked, signatures are: a container's clock may be far off.
cat >"$apt/apt.conf" <<CONF
Dir "$apt";
Dir::State::status "$apt/var/lib/dpkg/status";
APT::Architecture "amd64";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Acquire::Check-Date "false";
CONF
APT_CONFIG=$apt/apt.conf
export APT_CONFIG

last_line() { grep -v '^ *$' "$work/log" | tail -n 1; }
apt-get -qq -o APT::Update::Error-Mode=any update >"$work/log" 2>&1 ||
    die "can't read the package lists of $suite (no network?): $(last_line)"
apt-cache show "$hip" >/dev/null 2>&1 ||
    die "$suite has no $hip: name a suite that has HIP $rocm, as rocm/setup.sh $prefix $rocm SUITE"

# What runs comes with all that it needs; of what is only compiled with, the headers alone.
# shellcheck disable=SC2086 # lists of packages
(cd "$apt/var/cache/apt/archives" &&
    apt-get -qq -y --download-only -t "$suite" install $packages &&
    { [ -z "$headers" ] || apt-get -qq download $headers; }) >"$work/log" 2>&1 ||
    die "can't download ROCm from $suite: $(last_line)"
for deb in "$apt"/var/cache/apt/archives/*.deb; do
    dpkg-deb -x "$deb" "$work/unpacked" || die "can't unpack $(basename "$deb") (no space left?)"
done
if [ "$rocm" = 7 ]; then # what was linked with HIP 6 runs on it; hipGetProcAddress opens the name with no number
    for library in libamdhip64 libhiprtc; do
        ln -s $library.so.7 "$work/unpacked/$libraries/$library.so.6"
        ln -s $library.so.7 "$work/unpacked/$libraries/$library.so"
    done
fi
missing=$(has_all "$work/unpacked") || die "the packages of $suite have no $missing: another suite may have it"

version=$(apt-cache policy "$hip" | awk '$1 == "Candidate:" { print $2 }')
echo "HIP $version from Debian $suite" >"$work/unpacked/.complete"
rm -rf "$prefix"
mv "$work/unpacked" "$prefix"
chmod 755 "$prefix"
echo "$prefix: $(cat "$prefix/.complete"), $(du -sh "$prefix" | cut -f 1)"
