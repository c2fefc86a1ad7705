#!/bin/sh
# How many instructions does each case of a function bench execute, inside what it measures? One run
# of each under callgrind: the same figure on a busy machine and an idle one, unlike a time.
# Usage: bench/instructions.sh PROGRAM [WORD…]   PROGRAM is a built bench; only cases that a WORD is
# part of.
set -eu
program=$1
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$program" --bench --list --format terse | sed -n 's/: benchmark$//p' >"$folder/cases"
[ $# -gt 0 ] || set -- ''
for word; do grep -F -- "$word" "$folder/cases"; done | while IFS= read -r case; do
    # A case is chosen by a regular expression, whose special characters its name may hold.
    pattern=$(printf '%s' "$case" | sed 's/[][()+.*^$|\\{}?]/\\&/g')
    valgrind --tool=callgrind --callgrind-out-file="$folder/out" --toggle-collect='*measured*' \
        "$program" --bench --test "^$pattern\$" >"$folder/log" 2>&1 </dev/null ||
        { cat "$folder/log" >&2; exit 1; }
    count=$(sed -n 's/^summary: \|^totals: //p' "$folder/out" | tail -n 1)
    printf '%14s  %s\n' "$count" "$case"
done
