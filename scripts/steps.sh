# Steps of ./dev: each runs with its output in target/dev-logs, has a limit of minutes, and ends
# with everything that it started.
# Read by ./dev and by the scripts that it reads.
# Knows processes and minutes; nothing of what a step does.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev has "root" and "log_dir"

# -------------------------------------------------------------------------------------------------
# Messages

on_terminal=no bold='' dim='' red='' green='' plain=''
if [[ -t 1 ]]; then
    on_terminal=yes bold=$'\e[1m' dim=$'\e[2m' red=$'\e[31m' green=$'\e[32m' plain=$'\e[0m'
fi

say() { printf '%s\n' "$*"; }
die() {
    printf '%s%s%s\n' "$red" "dev: $1" "$plain" >&2
    shift
    [[ $# -eq 0 ]] || printf '     %s\n' "$@" >&2
    exit 1
}

duration() { # SECONDS
    local seconds=$1
    if ((seconds < 60)); then
        printf '%d s' "$seconds"
    else
        printf '%d min %02d s' $((seconds / 60)) $((seconds % 60))
    fi
}

ticker_pid=''

stop_ticker() {
    [[ -n $ticker_pid ]] || return 0
    kill "$ticker_pid" 2>/dev/null || true
    wait "$ticker_pid" 2>/dev/null || true
    ticker_pid=''
}

# On a terminal, redraws one line twice a second while a step runs: its number, name and age, and
# the crate that is compiled.
start_ticker() { # LABEL LOG
    [[ $on_terminal == yes ]] || return 0
    (
        trap '' INT
        began=$SECONDS
        while :; do
            last=$(grep -aE '^ +(Compiling|Checking|Building|Downloaded) ' "$2" 2>/dev/null |
                tail -n 1 | awk '{print $2}') || true
            printf '\r\e[K%s … %s%s %s%s' \
                "$1" "$dim" "$(duration $((SECONDS - began)))" "$last" "$plain"
            sleep 0.5
        done
    ) &
    ticker_pid=$!
}

# -------------------------------------------------------------------------------------------------
# Limits

# Minutes that a step may take: about four times what it takes on two idle cores. A step that hangs
# is ended then and reported as failed, before the caller of all steps gives up.
declare -A step_minutes_max=(
    ["X driver"]=5 ["web viewer"]=10 ["programs"]=25 ["a session and a viewer"]=5
    ["format"]=3 ["shell scripts"]=3 ["rules of the tree"]=10 ["clippy"]=15
    ["test programs"]=15 ["program tests"]=20 ["library tests"]=50 ["fuzz"]=12 ["web lint"]=5
    ["web tests"]=20 ["end to end"]=20
    ["smoke"]=8 ["packages"]=10 ["./dev test"]=90
)
step_minutes_max_else=40
# All tests together, from the start of this script; no step begins after that. On a busy machine
# THINC_TEST_MINUTES gives more, and each step more in proportion.
test_minutes_max_here=58
test_minutes_max=${THINC_TEST_MINUTES:-$test_minutes_max_here}
steps_end_at='' # in SECONDS; empty: no such end

step_seconds_max() { # NAME
    local minutes=${step_minutes_max[$1]:-$step_minutes_max_else}
    local seconds=$((minutes * 60 * test_minutes_max / test_minutes_max_here))
    if [[ -n $steps_end_at ]] && ((steps_end_at - SECONDS < seconds)); then
        seconds=$((steps_end_at - SECONDS))
    fi
    echo $((seconds > 0 ? seconds : 0))
}

# -------------------------------------------------------------------------------------------------
# Running

step_index=0 steps_total=0 step_log='' step_status=0
# "SECONDS NAME" of each step that has ended.
step_times=()
step_pid='' step_clock_pid=''

# The processes of the running step: its process group, and every descendant that left it.
step_processes() {
    cat /proc/[0-9]*/stat 2>/dev/null | awk -v first="$step_pid" '
        {
            pid = $1
            sub(/^.*\) /, "")
            if ($1 == "Z") next
            parent[pid] = $2
            if ($3 == first) ours[pid] = 1
        }
        END {
            do {
                more = 0
                for (pid in parent)
                    if (!(pid in ours) && (parent[pid] in ours)) more = ours[pid] = 1
            } while (more)
            for (pid in ours) print pid
        }' || true
}

stop_clock() {
    [[ -z $step_clock_pid ]] || kill "$step_clock_pid" 2>/dev/null || true
    step_clock_pid=''
}

# Ends the running step and everything that it started: SIGTERM first, so that it can clean up.
end_step() {
    local pids
    stop_clock
    [[ -n $step_pid ]] || return 0
    mapfile -t pids < <(step_processes)
    kill -TERM "${pids[@]}" 2>/dev/null || true
    for _ in {1..50}; do
        kill -0 "${pids[@]}" 2>/dev/null || break
        sleep 0.1
    done
    # Those that are left, and what they started meanwhile.
    mapfile -t -O "${#pids[@]}" pids < <(step_processes)
    kill -KILL "${pids[@]}" 2>/dev/null || true
    step_pid=''
}

# Runs one step with its output in target/dev-logs; sets step_status and step_log.
# Never call it in an "if" or beside "||": the shell would then ignore set -e inside the step.
run_step() { # NAME COMMAND…
    local name=$1 began=$SECONDS label limit begun ended
    shift
    step_index=$((step_index + 1))
    mkdir -p "$log_dir"
    step_log=$log_dir/$(printf '%02d' "$step_index")-$(tr -c 'a-z0-9\n' '-' <<<"${name,,}").log
    : >"$step_log"
    label=$(printf '[%d/%d] %s' "$step_index" "$steps_total" "$name")
    limit=$(step_seconds_max "$name")
    if ((limit == 0)); then
        step_status=124
        say "$label ${red}failed${plain}: not begun after $test_minutes_max minutes of tests" |
            tee "$step_log"
        return
    fi
    [[ $on_terminal == yes ]] || say "$label …"
    start_ticker "$label" "$step_log"
    set +e
    set -m # a process group of its own
    (
        set +m
        set -e
        "$@"
    ) >"$step_log" 2>&1 </dev/null &
    step_pid=$!
    begun=$step_pid
    set +m
    sleep "$limit" >/dev/null 2>&1 &
    step_clock_pid=$!
    wait -n -p ended "$step_pid" "$step_clock_pid"
    step_status=$?
    if [[ $ended == "$step_clock_pid" ]]; then
        step_status=124
        end_step
    else
        step_pid=''
        stop_clock
    fi
    set -e
    stop_ticker
    step_times+=("$((SECONDS - began)) $name")
    [[ $on_terminal == no ]] || printf '\r\e[K'
    if [[ $ended != "$begun" ]]; then
        say "$label ${red}failed${plain}: ended at its limit of $(duration "$limit")," \
            "with all it had started" | tee -a "$step_log"
    elif ((step_status == 0)); then
        say "$label ${green}done${plain} ${dim}in $(duration $((SECONDS - began)))${plain}"
    else
        say "$label ${red}failed${plain} after $(duration $((SECONDS - began)))"
    fi
}

# A table of what each step took.
say_step_times() {
    local entry
    for entry in "${step_times[@]}"; do
        printf '%14s  %s\n' "$(duration "${entry%% *}")" "${entry#* }"
    done
}

# However this script ends, none of its processes stays.
leave() {
    end_lanes
    stop_ticker
    end_step
}

show_log_tail() { # [LINES]
    say "--- the end of ${step_log#"$root"/}:"
    tail -n "${1:-40}" "$step_log" | sed 's/^/    /'
    say "---"
}

# The failures in a long log, each with the lines that follow it, then the end of the log.
show_failures() {
    local failure='^ *(test .* FAILED|thread .* panicked|error|FAIL|not ok|.*Assertion)'
    failure+='|AddressSanitizer|runtime error'
    say "--- what failed in ${step_log#"$root"/}:"
    # A failure may be indented: the log of a fresh root holds the end of another log.
    { grep -nE "$failure" -A 8 "$step_log" || true; } |
        head -n 80 | cut -c 1-300 | sed 's/^/    /'
    show_log_tail 15
}

must_step() { # NAME COMMAND…: as run_step, but this script ends if it fails
    run_step "$@"
    ((step_status == 0)) && return
    show_log_tail
    die "$1 failed; the whole log is ${step_log#"$root"/}"
}
