#!/usr/bin/env bash
# viewer.sh: kerncap/viewer/page.html from its sources, with the packages of its lock file.
# Those are in build/viewer, so that nothing looks for our own files among them.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v npm >/dev/null; then
    echo "make viewer: npm is not there; \`make setup\` brings it, or install Node.js 22 or newer" >&2
    exit 4
fi
packages=build/viewer
here=kerncap/viewer
mkdir -p "$packages"
if ! cmp -s "$here/package-lock.json" "$packages/package-lock.json"; then
    cp "$here"/package.json "$here"/package-lock.json "$here"/.npmrc "$packages"
    (cd "$packages" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) || {
        rm -f "$packages/package-lock.json" # the next call tries again
        exit 1
    }
fi
ln -sfn ../../"$packages"/node_modules "$here/node_modules"
(cd "$here" && npm run --silent build >"../../$packages/build.log" 2>&1) || {
    cat "$packages/build.log" >&2
    exit 1
}
echo "$here/page.html: $(wc -c <"$here/page.html") bytes; \`kerncap view\` serves it, and so does any web server"
