#!/bin/sh
# Builds the clients that are to be had as Go modules only, into .tools. What is there already stays.
set -eu
cd "$(dirname "$0")/.."

# Its releases have no version numbers that Go knows; this is the one of March 2025.
mc=github.com/minio/mc@v0.0.0-20250313080218-cf909e1063a9

[ -x .tools/mc ] && exit 0
command -v go >/dev/null 2>&1 || {
    echo "clients: Go 1.23 or newer is needed to build mc, and the command go was not found" >&2
    exit 1
}
echo "clients: building $mc (this takes a few minutes)"
mkdir -p .tools
GOBIN=$PWD/.tools go install "$mc"
