#!/bin/sh
# Makes .venv with the locked dependencies and the command `tidegate`.
#
#   scripts/setup.sh            what the service needs
#   scripts/setup.sh dev        also what tests, lint and benchmarks need
#
# Checks Python and Java first, installs Java where it may (Debian, as root) and otherwise says what to type; with `dev`
# the same goes for the programs that tests run.
# As root it also makes the system account `tidegate`, as which a service that root starts runs.
# A second run with nothing to do ends at once.
set -eu
cd "$(dirname "$0")/.."

kind=${1:-runtime}
lock=requirements/$kind.lock
stamp=.venv/tidegate-setup
archive_stamp=.venv/tidegate-archived-classes
# Debian packages for tests, each with a program of the same name.
test_packages="chromium restic"

say() { printf 'setup: %s\n' "$*"; }

fail() {
    printf 'setup: %s\n' "$@" >&2
    exit 1
}

debian() { command -v apt-get >/dev/null 2>&1; }

root() { [ "$(id -u)" = 0 ]; }

how_to_install() {
    # $1: Debian packages, $2: Fedora packages, $3: Homebrew packages
    if debian; then echo "sudo apt-get update && sudo apt-get install -y $1"
    elif command -v dnf >/dev/null 2>&1; then echo "sudo dnf install -y $2"
    elif command -v brew >/dev/null 2>&1; then echo "brew install $3"
    else echo "install one of: $1 (Debian), $2 (Fedora), $3 (Homebrew)"
    fi
}

good_python() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        if good_python "$candidate"; then
            "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1 && echo "$candidate" && return
            fail "$candidate lacks the module venv. Type:" \
                "  $(how_to_install "$("$candidate" -c 'import sys; print("python3.%d-venv" % sys.version_info[1])')" python3 python@3.13)"
        fi
    done
    fail "Python 3.11 or newer is needed. Type:" \
        "  $(how_to_install 'python3 python3-venv' python3.12 python@3.13)" \
        "or name one: PYTHON=/path/to/python3 make setup"
}

java_version() {
    # 17 for 'openjdk version "17.0.15"', 8 for 'java version "1.8.0_392"', 0 without Java
    java -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1 | grep . || echo 0
}

check_java() {
    [ "$(java_version)" -ge 17 ] && return
    if debian && root; then
        say "installing Java"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends openjdk-17-jre-headless ||
            DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends default-jre-headless
        [ "$(java_version)" -ge 17 ] && return
    fi
    fail "Java 17 or newer is needed and was not found. Type:" \
        "  $(how_to_install openjdk-17-jre-headless java-21-openjdk-headless openjdk@21)" \
        "and run this again."
}

check_test_packages() {
    [ "$kind" = dev ] || return 0
    missing=
    for package in $test_packages; do
        command -v "$package" >/dev/null 2>&1 || missing="${missing:+$missing }$package"
    done
    [ -n "$missing" ] || return 0
    if debian && root; then
        say "installing $missing"
        apt-get update -qq
        # shellcheck disable=SC2086  # several packages are several words
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing && return
    fi
    say "some tests will fail without: $missing. Type:" "$(how_to_install "$missing" "$missing" "$missing")"
}

make_account() {
    root && ! id -u tidegate >/dev/null 2>&1 || return 0
    say "making the system account tidegate, as which the service runs when root starts it"
    useradd --system --user-group --no-create-home --shell /usr/sbin/nologin tidegate ||
        fail "the account could not be made: make it by other means, or name one in the setting service.account"
}

archive_classes() {
    # Anew for another Java, and for another Spark (see below).
    java=$(java -version 2>&1 | cksum)
    grep -qsxF "$java" "$archive_stamp" && return
    say "archiving the classes of Spark, so that it starts in half the time"
    if .venv/bin/python -m tidegate.pipeline.archive_classes; then
        echo "$java" >"$archive_stamp"
    else
        say "Spark will run without the archive, and start slower"
    fi
}

wanted=$(cat requirements/build.lock "$lock" pyproject.toml | cksum)

# What `dev` installed serves `runtime` as well.
if .venv/bin/tidegate --version >/dev/null 2>&1 &&
    { grep -qsx "$kind $wanted" "$stamp" ||
        { [ "$kind" = runtime ] && grep -qsx "also-runtime $wanted" "$stamp"; }; }; then
    check_java
    check_test_packages
    make_account
    archive_classes
    exit 0
fi

check_java
check_test_packages
make_account
python=$(find_python)
if ! { [ -x .venv/bin/pip ] && good_python .venv/bin/python; }; then
    say "making .venv with $("$python" --version)"
    "$python" -m venv --clear .venv
fi
install() { .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"; }

rm -f "$stamp" "$archive_stamp"
say "installing $lock (the first time this takes a few minutes)"
install --require-hashes -r requirements/build.lock
# Without isolation the few packages that come as source are built with the locked tools above.
install --require-hashes --no-build-isolation -r "$lock"
install --no-deps --no-build-isolation --editable .

{
    echo "$kind $wanted"
    if [ "$kind" = dev ]; then
        echo "also-runtime $(cat requirements/build.lock requirements/runtime.lock pyproject.toml | cksum)"
    fi
} >"$stamp"
archive_classes
say "ready: .venv/bin/tidegate"
