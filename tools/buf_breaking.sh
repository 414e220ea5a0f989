#!/bin/sh
# Compare the contract with the last release, or with the main branch before the first one.
set -eu
cd "$(dirname "$0")/.."

base=$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null) ||
    base=$(git rev-parse --verify --quiet main || git rev-parse --verify --quiet origin/main) ||
    base=
if [ -z "$base" ] || ! git cat-file -e "$base:proto" 2>/dev/null; then
    echo "buf breaking: no earlier contract to compare with"
    exit 0
fi

# A plain folder as the base works in shallow clones and worktrees as well.
old=$(mktemp -d)
trap 'rm -rf "$old"' EXIT
git archive "$base" proto buf.yaml | tar -x -C "$old"
.venv/bin/buf breaking --against "$old"
