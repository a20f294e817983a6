#!/usr/bin/env bash
# Toxiproxy for tests and by hand: a TCP proxy that hangs, cuts and resets connections when told to over HTTP.
#
#   toxiproxy.sh fetch               build it with Go, once a version
#   toxiproxy.sh run [--port P]      serve its HTTP API on 127.0.0.1:P (8474) in the foreground, until standard input
#                                    closes (`sleep infinity | toxiproxy.sh run` by hand)
#
# Needs Go 1.19 or newer for fetch (Debian: apt-get install golang). The program goes to $SENDONCE_TEST_CACHE, by default
# ~/.cache/sendonce.
set -euo pipefail

module=github.com/Shopify/toxiproxy/v2
version=v2.5.0
# The hash of the module's content, as Go writes it into the program.
content=h1:i4LPT+qrSlKNtQf5QliVjdP08GyAH8+BUIc9gT0eahc=
cache=${SENDONCE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sendonce}
program=$cache/toxiproxy-$version

fail() {
    echo "toxiproxy.sh: $*" >&2
    exit 1
}

fetch() {
    if [ ! -x "$program" ]; then
        command -v go >/dev/null || fail "fetch needs Go (Debian: apt-get install golang)"
        mkdir -p "$cache"
        partial=$(mktemp -d "$cache/toxiproxy-$version.partial.XXXXXX")
        trap 'rm -rf "${partial:?}"' EXIT
        GOBIN=$partial go install "$module/cmd/server@$version"
        go version -m "$partial/server" | grep -qF "$content" || fail "$module $version is not the content that is pinned"
        mv "$partial/server" "$program"
    fi
    echo "Toxiproxy $version is $program" >&2
}

run() {
    [ -x "$program" ] || fail "Toxiproxy $version is not there yet: run tests/toxiproxy.sh fetch"
    exec 3<&0
    "$program" -host 127.0.0.1 -port "$port" </dev/null >&2 3<&- &
    server=$!
    cat <&3 >/dev/null &
    reader=$!
    trap 'kill "$server" "$reader" 2>/dev/null || true' EXIT
    wait -n
}

command=${1:-}
[ $# -eq 0 ] || shift
port=8474
while [ $# -gt 0 ]; do
    case $1 in
        --port) port=$2; shift 2 ;;
        *) fail "unknown option $1" ;;
    esac
done

case $command in
    fetch) fetch ;;
    run) run ;;
    *) sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" >&2; exit 64 ;;
esac
