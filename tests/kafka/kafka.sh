#!/usr/bin/env bash
# Apache Kafka for tests and by hand: KRaft brokers on loopback, each a small JVM with a folder of its own.
#
#   kafka.sh fetch                       copy Kafka's jars by pom.xml (needs Maven; once a version)
#   kafka.sh start [options]             format, start and wait until every broker serves
#       --brokers 1|3                    how many (1); three are a quorum and keep three replicas
#       --dir DIR                        where everything lies (./target/kafka); empty or absent
#       --port P                         brokers listen on P, P+1, … and their controllers right behind (19092)
#       --heap SIZE                      of each JVM (512m)
#       --set NAME=VALUE                 one more broker property; may be repeated
#       --until-stdin-closes             leave a guard behind that ends the cluster, and removes DIR unless
#                                        SENDONCE_TEST_KEEP is set, once standard input closes
#   kafka.sh stop [--now]                end all brokers, in good order or by SIGKILL
#   kafka.sh kill N                      SIGKILL broker N (from 1)
#   kafka.sh restart N                   start broker N again and wait until it serves
#   kafka.sh freeze N | thaw N           SIGSTOP, SIGCONT
#   kafka.sh status                      one line a broker
#   kafka.sh bootstrap                   print the cluster's bootstrap.servers
#   kafka.sh topics | groups | configs | offsets  ARGS
#                                        Kafka's own command-line tools, --bootstrap-server filled in
#
# --dir goes with every command that speaks of a running cluster. Only processes that this script started are ever
# signalled: a process file is believed only while that process runs on this folder's own server.properties.
#
# Needs Java 17 or newer, and Maven for fetch (Debian: apt-get install openjdk-17-jre-headless maven). The jars go to
# $SENDONCE_TEST_CACHE, by default ~/.cache/sendonce.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version=$(sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' "$here/pom.xml")
cache=${SENDONCE_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sendonce}
jars=$cache/kafka-$version
# A start takes 5 s on an idle machine of two cores; this bounds it on a busy one.
start_seconds_max=120
stop_seconds_max=30

fail() {
    echo "kafka.sh: $*" >&2
    exit 1
}

usage() {
    sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}"
}

java_command() {
    local java=${JAVA_HOME:+$JAVA_HOME/bin/}java found
    found=$("$java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1) || true
    [ "${found:-0}" -ge 17 ] || fail "Kafka $version needs Java 17 or newer (Debian: apt-get install openjdk-17-jre-headless)"
    echo "$java"
}

need_jars() {
    [ -e "$jars/kafka_2.13-$version.jar" ] || fail "Kafka $version is not there yet: run tests/kafka/kafka.sh fetch"
}

# Copies beside the final place and renames, so that a copy cut short is never taken for a whole one.
fetch() {
    if [ -e "$jars/kafka_2.13-$version.jar" ]; then
        echo "Kafka $version is in $jars" >&2
        return
    fi
    command -v mvn >/dev/null || fail "fetch needs Maven (Debian: apt-get install maven)"
    mkdir -p "$cache"
    local partial
    partial=$(mktemp -d "$cache/kafka-$version.partial.XXXXXX")
    mvn -B -q -f "$here/pom.xml" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$partial"
    # Someone else may have finished first: theirs is as good.
    mv -T "$partial" "$jars" 2>/dev/null || rm -rf "$partial"
    need_jars
    echo "Kafka $version is in $jars" >&2
}

tool() {
    local class=$1
    shift
    "$(java_command)" -Xmx256m -XX:TieredStopAtLevel=1 -Dlog4j2.level=ERROR -cp "$jars/*" "$class" "$@"
}

# Reads what start wrote: brokers, port, heap.
read_cluster() {
    [ -r "$dir/cluster" ] || fail "no cluster in $dir"
    brokers=$(sed -n 's/^brokers=//p' "$dir/cluster")
    port=$(sed -n 's/^port=//p' "$dir/cluster")
    heap=$(sed -n 's/^heap=//p' "$dir/cluster")
}

bootstrap() {
    local node list=()
    for ((node = 1; node <= brokers; node++)); do list+=("127.0.0.1:$((port + node - 1))"); done
    (IFS=,; echo "${list[*]}")
}

# Prints the process of a broker that this script started and that still runs.
pid_of() {
    local node=$1 pid
    pid=$(cat "$dir/node-$node/pid" 2>/dev/null) || return 1
    tr '\0' '\n' <"/proc/$pid/cmdline" 2>/dev/null | grep -qxF "$dir/node-$node/server.properties" || return 1
    echo "$pid"
}

# A killed process loses its command line first and its sockets last: it has gone once none of its threads is left.
wait_until_gone() {
    local pid=$1
    while [ -e "/proc/$pid/task" ] && ! { grep -qs '^State:.Z' "/proc/$pid/status" && [ "$(ls "/proc/$pid/task" 2>/dev/null)" = "$pid" ]; }; do
        sleep 0.05
    done
}

check_node() {
    [[ "${1:-}" =~ ^[0-9]+$ ]] && [ "$1" -ge 1 ] && [ "$1" -le "$brokers" ] || fail "which broker? 1 to $brokers"
}

write_properties() {
    local node=$1 voters=() other
    for ((other = 1; other <= brokers; other++)); do voters+=("$other@127.0.0.1:$((port + brokers + other - 1))"); done
    mkdir -p "$dir/node-$node"
    {
        echo "process.roles=broker,controller"
        echo "node.id=$node"
        echo "controller.quorum.voters=$(IFS=,; echo "${voters[*]}")"
        echo "listeners=PLAINTEXT://127.0.0.1:$((port + node - 1)),CONTROLLER://127.0.0.1:$((port + brokers + node - 1))"
        echo "advertised.listeners=PLAINTEXT://127.0.0.1:$((port + node - 1))"
        echo "controller.listener.names=CONTROLLER"
        echo "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        echo "log.dirs=$dir/node-$node/logs"

        echo "auto.create.topics.enable=false"
        echo "default.replication.factor=$brokers"
        echo "offsets.topic.replication.factor=$brokers"
        echo "transaction.state.log.replication.factor=$brokers"
        echo "min.insync.replicas=$((brokers / 2 + 1))"
        echo "transaction.state.log.min.isr=$((brokers / 2 + 1))"

        # Quick to join, and tests may ask for short sessions.
        echo "group.initial.rebalance.delay.ms=0"
        echo "group.min.session.timeout.ms=1000"
        echo "group.consumer.min.session.timeout.ms=1000"
        echo "group.consumer.min.heartbeat.interval.ms=100"
        # A killed broker is noticed in 5 s instead of 9.
        echo "broker.session.timeout.ms=5000"
        echo "broker.heartbeat.interval.ms=500"
        # Small on a machine of two cores.
        echo "offsets.topic.num.partitions=8"
        echo "transaction.state.log.num.partitions=8"
        echo "num.network.threads=2"
        echo "num.io.threads=4"
        echo "background.threads=2"
        echo "log.cleaner.dedupe.buffer.size=16777216"
        printf '%s\n' "${properties[@]}"
    } >"$dir/node-$node/server.properties"
}

launch() {
    local node=$1 java
    java=$(java_command)
    [ ! -e "$dir/node-$node/broker.log" ] || cat "$dir/node-$node/broker.log" >>"$dir/node-$node/broker.log.before"
    # Its own session: a Ctrl-C at the terminal, or the end of the test, is not for the broker to hear.
    setsid "$java" "-Xms$heap" "-Xmx$heap" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.awt.headless=true \
        "-Dlog4j2.configurationFile=$here/log4j2.xml" -cp "$jars/*" kafka.Kafka "$dir/node-$node/server.properties" \
        </dev/null >"$dir/node-$node/broker.log" 2>&1 &
    echo $! >"$dir/node-$node/pid"
}

# The broker says that it serves once it is unfenced; the port opens a little earlier.
wait_until_serving() {
    local node=$1 until=$((SECONDS + start_seconds_max))
    until grep -q 'Kafka Server started' "$dir/node-$node/broker.log"; do
        if ! pid_of "$node" >/dev/null && ! kill -0 "$(cat "$dir/node-$node/pid")" 2>/dev/null; then
            tail -n 30 "$dir/node-$node/broker.log" >&2
            fail "broker $node has ended; its log: $dir/node-$node/broker.log"
        fi
        [ "$SECONDS" -lt "$until" ] || fail "broker $node does not serve after $start_seconds_max s; its log: $dir/node-$node/broker.log"
        sleep 0.1
    done
}

# Ends the cluster when whoever started it has gone, however it went. It keeps no file of the caller's open but that one.
leave_guard() {
    exec 3<&0
    setsid bash -c 'cat <&3 >/dev/null
        "$0" stop --now --dir "$1"
        [ -n "${SENDONCE_TEST_KEEP:-}" ] || rm -rf "$1"' "$here/kafka.sh" "$dir" </dev/null >/dev/null 2>&1 &
    exec 3<&-
}

start() {
    need_jars
    [ -z "$(ls -A "$dir" 2>/dev/null)" ] || fail "$dir is not empty: stop what runs there and remove it, or name another --dir"
    case $brokers in 1 | 3) ;; *) fail "--brokers is 1 or 3" ;; esac
    mkdir -p "$dir"
    printf 'brokers=%s\nport=%s\nheap=%s\n' "$brokers" "$port" "$heap" >"$dir/cluster"
    [ -z "$guarded" ] || leave_guard

    local node formats=() format
    for ((node = 1; node <= brokers; node++)); do
        write_properties "$node"
        tool kafka.tools.StorageTool format --cluster-id c2VuZG9uY2UtdGVzdHMtMQ \
            --config "$dir/node-$node/server.properties" >"$dir/node-$node/format.log" 2>&1 &
        formats+=($!)
    done
    node=1
    for format in "${formats[@]}"; do
        wait "$format" || { cat "$dir/node-$node/format.log" >&2; fail "the storage of broker $node could not be formatted"; }
        node=$((node + 1))
    done
    for ((node = 1; node <= brokers; node++)); do launch "$node"; done
    for ((node = 1; node <= brokers; node++)); do wait_until_serving "$node"; done
    bootstrap
}

stop() {
    local node pid pids=() signal=TERM until=$((SECONDS + stop_seconds_max))
    [ -z "$now" ] || signal=KILL
    for ((node = 1; node <= brokers; node++)); do
        pid=$(pid_of "$node") || continue
        pids+=("$pid")
        kill "-$signal" "$pid" 2>/dev/null || true
        kill -CONT "$pid" 2>/dev/null || true
    done
    for ((node = 1; node <= brokers; node++)); do
        while pid=$(pid_of "$node"); do
            # The last of three has no quorum left to say goodbye to.
            [ "$SECONDS" -lt "$until" ] || kill -KILL "$pid" 2>/dev/null || true
            sleep 0.05
        done
        rm -f "$dir/node-$node/pid"
    done
    for pid in "${pids[@]}"; do wait_until_gone "$pid"; done
    rm -f "$dir/cluster"
}

signal_node() {
    local signal=$1 node=$2 pid
    check_node "$node"
    pid=$(pid_of "$node") || fail "broker $node does not run"
    kill "-$signal" "$pid"
    [ "$signal" = KILL ] || return 0
    wait_until_gone "$pid"
    rm -f "$dir/node-$node/pid"
}

restart() {
    check_node "$1"
    need_jars
    ! pid_of "$1" >/dev/null || fail "broker $1 runs"
    launch "$1"
    wait_until_serving "$1"
}

status() {
    local node pid
    for ((node = 1; node <= brokers; node++)); do
        if pid=$(pid_of "$node"); then
            echo "broker $node: 127.0.0.1:$((port + node - 1)), process $pid"
        else
            echo "broker $node: 127.0.0.1:$((port + node - 1)), does not run"
        fi
    done
}

command=${1:-}
[ $# -eq 0 ] || shift
dir=$PWD/target/kafka brokers=1 port=19092 heap=512m guarded='' now=''
properties=() rest=()
while [ $# -gt 0 ]; do
    case $1 in
        --dir) mkdir -p "$(dirname "$2")"; dir=$(cd "$(dirname "$2")" && pwd)/$(basename "$2"); shift 2 ;;
        --brokers) brokers=$2; shift 2 ;;
        --port) port=$2; shift 2 ;;
        --heap) heap=$2; shift 2 ;;
        --set) properties+=("$2"); shift 2 ;;
        --until-stdin-closes) guarded=yes; shift ;;
        --now) now=yes; shift ;;
        *) rest+=("$1"); shift ;;
    esac
done

case $command in
    fetch) fetch ;;
    start) start ;;
    stop) [ -e "$dir/cluster" ] || exit 0; read_cluster; stop ;;
    kill) read_cluster; signal_node KILL "${rest[0]:-}" ;;
    freeze) read_cluster; signal_node STOP "${rest[0]:-}" ;;
    thaw) read_cluster; signal_node CONT "${rest[0]:-}" ;;
    restart) read_cluster; restart "${rest[0]:-}" ;;
    status) read_cluster; status ;;
    bootstrap) read_cluster; bootstrap ;;
    topics) read_cluster; tool org.apache.kafka.tools.TopicCommand --bootstrap-server "$(bootstrap)" "${rest[@]}" ;;
    groups) read_cluster; tool org.apache.kafka.tools.consumer.group.ConsumerGroupCommand --bootstrap-server "$(bootstrap)" "${rest[@]}" ;;
    configs) read_cluster; tool org.apache.kafka.tools.ConfigCommand --bootstrap-server "$(bootstrap)" "${rest[@]}" ;;
    offsets) read_cluster; tool org.apache.kafka.tools.GetOffsetShell --bootstrap-server "$(bootstrap)" "${rest[@]}" ;;
    help | -h | --help) usage ;;
    *) usage >&2; exit 64 ;;
esac
