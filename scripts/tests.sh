# `./dev test`: what the tests are, in which order they run and which run side by side.
# Read by ./dev, whose steps and builds it uses.
# Knows steps and cargo's packages; what a test asserts, only the test knows.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev has "root", "cargo", "locked" and the lists
# A lane counts in a subshell of its own, and its results come back through a file.
# shellcheck disable=SC2030,SC2031

tests_passed=0 tests_failed=0 tests_flaky=0
# A test that failed beside others and passes when it is repeated alone is flaky: it is named, and
# its first output stays in the log of its step. More of them than this are a failure.
tests_flaky_max=3

# Adds up the closing lines of cargo's test runner, of node's, and of the scripts
# ("N passed, N failed"); a step that prints neither counts as one test. What was repeated counts
# as it ended the second time.
count_results() { # LOG STATUS
    local counts passed failed line
    counts=$(awk '
        /^test result: / { p += $4; f += $6; seen = 1 }
        /^([a-z]+: )?[0-9]+ passed, [0-9]+ failed/ {
            sub(/^[a-z]+: /, "")
            p += $1
            f += $3
            seen = 1
        }
        /^(# |ℹ )(pass|fail) [0-9]+$/ { if ($2 == "pass") p += $3; else f += $3; seen = 1 }
        /^repeated: / { f -= 1 }
        END { if (seen) print p + 0, f + 0; else print "none" }' "$1")
    if [[ $counts == none ]]; then
        if (($2 == 0)); then passed=1 failed=0; else passed=0 failed=1; fi
    else
        read -r passed failed <<<"$counts"
        (($2 == 0 || failed > 0)) || failed=1
    fi
    tests_passed=$((tests_passed + passed)) tests_failed=$((tests_failed + failed))
    while read -r line; do
        tests_flaky=$((tests_flaky + 1))
        say "      $line passed when it was repeated; its failure is in ${1#"$root"/}"
    done < <(grep -a '^flaky: ' "$1")
    ! grep -aq '^flaky: ' "$1" || show_reasons "$1"
}

# Why tests failed, in few lines: of a panic its message, of a test in node its error and place.
# They are all that is left of a run of CI.
show_reasons() { # LOG
    awk '
        /^thread .* panicked/ { left = 5 }
        /^not ok .* - / && !/\.test\.mjs ended with/ { left = 16 }
        /^  (stack: |\.\.\.)/ { if (left > 3) left = 3 }
        left > 0 && !/^  (---|\.\.\.|duration_ms|failureType|code|name|stack)/ && lines < 40 {
            print "        " substr($0, 1, 200)
            lines += 1
        }
        { left -= 1 }' "$1"
}

test_step() { # NAME COMMAND…: a failure is shown and counted, and the next step runs
    run_step "$@"
    count_results "$step_log" "$step_status"
    ((step_status == 0)) || show_failures
}

# -------------------------------------------------------------------------------------------------
# Lanes: sequences of steps that run side by side

lane_pids=()

# Before a command: it yields the processor to everything else. Its niceness alone does not do
# that: Linux's autogroups (sched(7)) share the processor among sessions (setsid) first, and many
# tests have their own. So this command has one too, of a tenth of the others' weight; with less,
# tests of its own that wait for X would be late.
yielding=()
yield_to_others=(setsid --wait sh "$root/scripts/yielding.sh")

# A lane is a process of its own; its results are in FILE when it ends.
start_lane() { # FILE NICENESS FIRST_INDEX NAME:FUNCTION…
    (
        trap leave EXIT
        trap 'exit 143' TERM
        on_terminal=no lane_pids=()
        tests_passed=0 tests_failed=0 tests_flaky=0 step_times=() step_index=$3
        lane_results=$1
        renice -n "$2" "$BASHPID" >/dev/null
        (($2 == 0)) || yielding=("${yield_to_others[@]}")
        shift 3
        for entry in "$@"; do test_step "${entry%%:*}" "${entry#*:}"; done
        {
            echo "$tests_passed $tests_failed $tests_flaky"
            printf '%s\n' "${step_times[@]}"
        } >"$lane_results"
    ) &
    lane_pids+=($!)
}

# Waits for all lanes and adds their results; a lane that ended without results failed.
join_lanes() { # FILE…
    local file passed failed flaky times
    wait "${lane_pids[@]}" || true
    lane_pids=()
    for file in "$@"; do
        if [[ ! -s $file ]]; then
            tests_failed=$((tests_failed + 1))
            continue
        fi
        {
            read -r passed failed flaky
            mapfile -t times
        } <"$file"
        tests_passed=$((tests_passed + passed)) tests_failed=$((tests_failed + failed))
        tests_flaky=$((tests_flaky + flaky))
        step_times+=("${times[@]}")
    done
}

end_lanes() {
    ((${#lane_pids[@]} > 0)) || return 0
    kill -TERM "${lane_pids[@]}" 2>/dev/null || true
    wait "${lane_pids[@]}" 2>/dev/null || true
    lane_pids=()
}

# -------------------------------------------------------------------------------------------------
# cargo's tests

# Two sets of packages, each compiled once. The programs and what is tested with them, as they are
# published; and all others, with features that no program has: rules of the queue that can be
# switched off, encoders that are optional.
cargo_set() { # programs|libraries: sets "selection"
    selection=("${locked[@]}" --release)
    case $1 in
    programs) selection+=("${with_programs[@]}") ;;
    libraries)
        selection+=(--workspace "${with_programs[@]/#-p/--exclude}"
            --features "thinc-h264/x264 thinc-h264/openh264 thinc-h264/decoder thinc-video/shrink")
        ;;
    esac
}

# Compiles a set, and writes "FOLDER PROGRAM" for each of its test programs to its list.
build_tests() { # SET
    local selection
    cargo_set "$1"
    mkdir -p target/tests
    # Programs that are not tests are among the artifacts too: the profile tells them apart.
    local field='"manifest_path":"\([^"]*\)/Cargo.toml"'
    field+='.*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)"'
    "${yielding[@]}" "$cargo" test "${selection[@]}" --no-run \
        --message-format=json-render-diagnostics |
        sed -n "s|.*$field.*|\\1 \\2|p" >"target/tests/$1"
    [[ -s target/tests/$1 ]]
}

# Moves the test programs of the package in FOLDER from a list to another one.
move_tests() { # FROM FOLDER TO
    awk -v folder="$root/$2" '$1 == folder' "target/tests/$1" >"target/tests/$3"
    awk -v folder="$root/$2" '$1 != folder' "target/tests/$1" >"target/tests/$1.rest"
    mv "target/tests/$1.rest" "target/tests/$1"
    [[ -s target/tests/$3 ]]
}

# Runs the test programs of a list, each in its package's folder, as cargo does. Not by cargo: it
# would wait for the lock of the target folder, in which another lane compiles.
# Documentation has no examples that run, so there are no doc tests.
run_tests() { # LIST [THREADS [WORD]]: threads in each program; only those with WORD in their name
    local threads=${2:-$(nproc)} word=${3:-} folder program status=0 before
    while read -r folder program; do
        [[ ${program##*/} == *"$word"* ]] || continue
        echo "     Running ${program#"$root"/}"
        before=$(stat -c %s "$step_log")
        run_test_program "$folder" "$program" --test-threads "$threads" ||
            repeat_failed "$folder" "$program" "$before" || status=1
    done <"target/tests/$1"
    return $status
}

run_test_program() { # FOLDER PROGRAM OPTION…
    (
        cd "$1" || exit
        # Without the list as its input: some tests start programs that read theirs.
        CARGO_MANIFEST_DIR=$1 exec "${yielding[@]}" "${@:2}" </dev/null
    )
}

# Repeats, alone, each test that has failed in the step's log behind byte BEFORE; succeeds if all of
# them pass. A program that ended without naming a test has failed.
repeat_failed() { # FOLDER PROGRAM BEFORE
    local failed name status=0
    mapfile -t failed < <(tail -c "+$(($3 + 1))" "$step_log" |
        sed -n 's/^test \([^ ]*\) .*\.\.\. FAILED$/\1/p')
    ((${#failed[@]} > 0 && ${#failed[@]} <= tests_flaky_max)) || return 1
    for name in "${failed[@]}"; do
        echo "repeated: $name"
        if run_test_program "$1" "$2" --exact "$name"; then
            echo "flaky: $name"
        else
            status=1
        fi
    done
    return $status
}

# Tests that start programs and wait for them: more of them at once than there are cores.
test_programs() {
    [[ -s target/tests/programs ]] || build_tests_with_programs
    run_tests programs $(($(nproc) * 2))
}
test_libraries() {
    local status=0
    build_tests libraries
    run_tests libraries || status=1
    [[ -s target/tests/broker ]] || build_tests_with_programs
    run_tests broker || status=1
    return $status
}
test_end_to_end() {
    [[ -s target/tests/end-to-end ]] || build_tests_with_programs
    run_tests end-to-end 1
}

test_smoke() { target/release/thinc-bench smoke; }

# -------------------------------------------------------------------------------------------------
# The page

test_web() { (cd web && npm test); }

# -------------------------------------------------------------------------------------------------
# All of it

# A compiler on a full disk names the file that it could not write, not the full disk.
test_disk_mb=6000
say_disk() {
    local free
    free=$(df -Pm . | awk 'END { print $4 }')
    ((free >= test_disk_mb)) || [[ -d target/release ]] ||
        say "The disk has $free MB left; all tests take up to $test_disk_mb MB below $root/target."
}

# Name and function of each step. First what is quick and tells the most.
test_steps_first=(
    "format:lint_format"
    "shell scripts:lint_shell"
    "rules of the tree:lint_tree"
    "clippy:lint_clippy"
    "test programs:build_tests_with_programs"
)
# Two lanes. These steps wait most of the time, for programs, browsers and network paths …
test_steps_waiting=(
    "program tests:test_programs"
    "web lint:lint_web"
    "web tests:test_web"
    "end to end:test_end_to_end"
    "smoke:test_smoke"
    "packages:test_packages"
)
# … and these compute. They leave the processor to the others when those want it.
test_steps_computing=(
    "library tests:test_libraries"
    "fuzz:test_fuzz"
)

# The ACME server of broker_acme.rs, a Go program that Debian 12 has no package of; its Go is too
# old to compile it. Where there is no other Go, those two tests say that they are skipped.
pebble_version=v2.10.3
build_pebble() {
    local go
    go=$(command -v go || echo /usr/local/go/bin/go)
    [[ -x $go ]] || { echo "skipped: there is no Go for the ACME server of the tests"; return 0; }
    [[ $(cat target/tools/pebble.version 2>/dev/null) != "$pebble_version" ]] || return 0
    GOBIN=$root/target/tools "$go" install \
        "github.com/letsencrypt/pebble/v2/cmd/pebble@$pebble_version" || {
        echo "skipped: the ACME server of the tests cannot be had"
        return 0
    }
    echo "$pebble_version" >target/tools/pebble.version
}

# What the waiting lane runs, so that it never waits for a compiler of the other lane.
build_tests_with_programs() {
    build_tests programs
    # The end-to-end tests run by themselves, and the broker's beside those of libraries.
    move_tests programs tests end-to-end
    move_tests programs crates/broker broker
    build_manuals
    build_notices
    build_pebble
    # The programs as they are published are what the tests start.
    build_programs
}

# Steps with WORD in their name, one after the other.
test_some() { # WORD
    local entry chosen=()
    local all=("${test_steps_first[@]}" "${test_steps_waiting[@]}" "${test_steps_computing[@]}")
    for entry in "${all[@]}"; do
        [[ ${entry%%:*} != *"$1"* ]] || chosen+=("$entry")
    done
    ((${#chosen[@]} > 0)) || die "no step has '$1' in its name:" "${all[@]%%:*}"
    steps_total=$((3 + ${#chosen[@]}))
    rm -f target/tests/*
    build_all
    for entry in "${chosen[@]}"; do test_step "${entry%%:*}" "${entry#*:}"; done
}

test_all() {
    local entry results_of=("$log_dir/waiting.results" "$log_dir/computing.results")
    local waiting=${#test_steps_waiting[@]} computing=${#test_steps_computing[@]}
    steps_total=$((3 + ${#test_steps_first[@]} + waiting + computing))
    rm -f target/tests/*
    build_all
    for entry in "${test_steps_first[@]}"; do test_step "${entry%%:*}" "${entry#*:}"; done
    rm -f "${results_of[@]}"
    start_lane "${results_of[0]}" 0 "$step_index" "${test_steps_waiting[@]}"
    start_lane "${results_of[1]}" 19 $((step_index + waiting)) "${test_steps_computing[@]}"
    join_lanes "${results_of[@]}"
    step_index=$((step_index + waiting + computing))
}

# What takes hours or another Debian: more seeds, all fuzzers, the other release.
test_long() {
    local minutes=${THINC_LONG_MINUTES:-60} release
    if [[ $(this_debian_release) == 13 ]]; then release=12; else release=13; fi
    test_all
    step_minutes_max_else=$((minutes + 90))
    steps_end_at=''
    fuzz_steps "$minutes"
    steps_total=$((steps_total + 1))
    test_step "a week's memory" env THINC_MEMORY_OPERATIONS=10000000 \
        "$cargo" test "${locked[@]}" --release -p thinc-e2e --test memory
    steps_total=$((steps_total + 1))
    test_step "a file of 3 GB" env THINC_FILE_BYTES=3000000001 \
        "$cargo" test "${locked[@]}" --release -p thinc --test serve a_large_file
    if ((EUID == 0)); then
        need_packages "${packages_vm[@]}" "${packages_vm_gl[@]}"
        steps_total=$((steps_total + 3))
        test_step "control groups, version 2" vm_test_groups plain
        test_step "control groups, systemd" vm_test_groups systemd
        test_step "OpenGL on a GPU" vm_test_gl
        steps_total=$((steps_total + 1))
        test_step "Debian $release" ./dev test --fresh "$release"
    else
        say "Left out, since they need root: control groups of version 2, OpenGL on a GPU, and" \
            "./dev test --fresh $release"
    fi
}

cmd_test() { # [--fresh [RELEASE] | --only WORD | --long]
    local began=$SECONDS what=${1:-all} word=${2:-}
    case $what in
    --fresh)
        cmd_test_fresh "${@:2}"
        return
        ;;
    --only)
        [[ -n $word ]] || die "--only needs a word of a step's name:" \
            "${test_steps_first[@]%%:*}" "${test_steps_waiting[@]%%:*}" \
            "${test_steps_computing[@]%%:*}"
        ;;
    --long | all) ;;
    *) die "./dev test has no option '$what'." \
        "It has --only WORD, --long and --fresh [RELEASE]." ;;
    esac
    command -v /usr/sbin/sshd >/dev/null ||
        say "openssh-server's package starts a service ('systemctl disable --now ssh' ends it);" \
            "the tests start their own, on loopback."
    need_packages "${packages_native[@]}" "${packages_web[@]}" "${packages_run[@]}" \
        "${packages_test[@]}" "${packages_package[@]}" "${packages_root[@]}"
    choose_rust lint
    steps_end_at=$((test_minutes_max * 60))
    say_disk
    case $what in
    --only) test_some "$word" ;;
    --long) test_long ;;
    all) test_all ;;
    esac
    say "What each step took; the last ones ran side by side:"
    say_step_times
    say "All of it took $(duration $((SECONDS - began)))."
    ((tests_flaky == 0)) ||
        say "$tests_flaky flaky: passed when repeated; more than $tests_flaky_max are a failure"
    say "$tests_passed passed, $tests_failed failed"
    ((tests_failed == 0 && tests_flaky <= tests_flaky_max))
}
