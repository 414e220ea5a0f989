#!/bin/sh
# Build the wheel, install it into a clean environment and use it away from the repository.
set -eu
cd "$(dirname "$0")/.."

rm -rf dist
.venv/bin/python -m pip wheel --quiet --no-deps --wheel-dir dist .
wheel=$(ls "$PWD"/dist/hearthkv-*.whl)
for member in hearthkv/py.typed hearthkv/proto/hearthkv/v1/block.proto; do
    .venv/bin/python -m zipfile --list "$wheel" | grep "^$member " >/dev/null ||
        { echo "$wheel has no $member" >&2; exit 1; }
done

away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
cd "$away"
python=$(readlink -f "$OLDPWD/.venv/bin/python")
"$python" -m venv venv
venv/bin/python -m pip install --quiet --disable-pip-version-check "$wheel"
# The client alone must do without what only the servers and the demo need.
venv/bin/python -c 'import hearthkv, hearthkv.client'
venv/bin/python -m pip install --quiet --disable-pip-version-check "$wheel[demo]"
venv/bin/python -c 'import hearthkv, router, cachenode, router.server, cachenode.server'
venv/bin/hearthkv --help >help.txt
grep -qi usage help.txt || { cat help.txt; exit 1; }
echo "$(basename "$wheel") installs and runs in a clean environment"
