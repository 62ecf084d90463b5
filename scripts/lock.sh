#!/bin/sh
# Writes requirements/*.lock: names, versions and hashes, for every Python from 3.11 on, and no address.
set -eu
cd "$(dirname "$0")/.."

uv=.venv/bin/uv
[ -x "$uv" ] || uv=$(command -v uv) || {
    echo "lock: uv is missing. Type: .venv/bin/pip install uv" >&2
    exit 1
}

compile() {
    output=$1
    shift
    "$uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-header --no-annotate "$@" --output-file "$output"
    if grep -n '://' "$output"; then
        echo "lock: $output holds an address (above); it must not" >&2
        exit 1
    fi
}

compile requirements/build.lock requirements/build.in
# The tests' tools are the pickier ones: what they can live with is what the service gets.
compile requirements/dev.lock pyproject.toml --group dev
compile requirements/runtime.lock pyproject.toml --constraint requirements/dev.lock
