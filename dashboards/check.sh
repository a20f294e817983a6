#!/usr/bin/env bash
# Checks the alerts and every query of the dashboards with promtool (Debian: apt-get install prometheus jq).
# That they name metrics and labels which exist is checked by tests/tidy.rs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

promtool check config prometheus.yml
promtool check rules alerts.yml
promtool test rules alerts_test.yml

# A dashboard's queries as recording rules, Grafana's variables filled in, so that promtool parses them.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for dashboard in *.json; do
    jq '{groups: [{name: input_filename, rules: [
            .. | objects | select(has("expr")) | .expr
            | gsub("\\$__rate_interval|\\$__interval|\\$__range"; "5m") | gsub("\\$[a-z_]+"; "x")
            | {record: "dashboard:query", expr: ., labels: {}}
        ] | to_entries | map(.value + {labels: {query: (.key | tostring)}})}]}' \
        "$dashboard" >"$scratch/$dashboard.yml"
    promtool check rules "$scratch/$dashboard.yml"
done
