# `./dev fuzz` and the step "fuzz" of the tests: libFuzzer on a stable compiler.
# Read by ./dev, whose steps it uses.
# Knows the compiler's flags and the fuzzers' limits; the targets are fuzz/src.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev has "root", "cargo", "locked" and the lists

# The passes are named one by one, and libfuzzer-sys brings its runtime. Overflows and debug
# assertions count as findings; there is no AddressSanitizer, which needs a nightly compiler.
build_fuzzer() { # [OPTION…] of cargo
    local flags=(
        --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
        -Cllvm-args=-sanitizer-coverage-pc-table
        -Cllvm-args=-sanitizer-coverage-trace-compares
        -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks
    )
    # A named --target keeps the flags away from build scripts.
    RUSTFLAGS="${flags[*]}" CARGO_TARGET_DIR=$root/target/fuzz \
        "${yielding[@]}" "$cargo" build "${locked[@]}" --release -p thinc-fuzz --bins \
        --target "$(host_triple)" "$@"
    "${yielding[@]}" "$cargo" build "${locked[@]}" --release "${with_programs[@]}" --bin thinc-fuzz
}

fuzz_target() { # TARGET SECONDS [COUNT]: for so long, or until so many inputs were tried
    local corpus=fuzz/corpus/$1
    mkdir -p "$corpus" fuzz/artifacts
    target/release/thinc-fuzz seeds "$1" "$corpus"
    THINC_FUZZ_TARGET=$1 "${yielding[@]}" "target/fuzz/$(host_triple)/release/thinc-fuzz" \
        -max_total_time="$2" -runs="${3:--1}" -max_len=65536 -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="fuzz/artifacts/$1-" "$corpus"
}

# As many at a time as there are cores. Each keeps its log; an input that breaks one is in
# fuzz/artifacts.
fuzz_targets() { # SECONDS COUNT TARGET…
    local seconds=$1 count=$2 name passed=0 failed=0
    shift 2
    for name in "$@"; do
        while (($(jobs -rp | wc -l) >= $(nproc))); do wait -n || true; done
        {
            if fuzz_target "$name" "$seconds" "$count"; then echo "fine"; else echo "broken"; fi
        } >"$log_dir/fuzz-$name.log" 2>&1 &
    done
    wait
    for name in "$@"; do
        if [[ $(tail -n 1 "$log_dir/fuzz-$name.log") == fine ]]; then
            passed=$((passed + 1))
            echo "$name: $(grep -a '^#' "$log_dir/fuzz-$name.log" | tail -n 1)"
        else
            failed=$((failed + 1))
            echo "FAIL $name: $log_dir/fuzz-$name.log"
            grep -aE -A 3 'panicked|ERROR|artifact' "$log_dir/fuzz-$name.log" | head -n 40
        fi
    done
    echo "fuzz: $passed passed, $failed failed"
    ((failed == 0))
}

# What a broken driver or a stranger may send: records and both directions of the protocol. So many
# inputs of each, or a minute of them if they take long.
fuzz_test_runs=200000
test_fuzz() {
    # Without the targets of src/shells, which need ten times as many crates.
    build_fuzzer --no-default-features
    fuzz_targets 60 "$fuzz_test_runs" \
        draw-record records auth viewer-message viewer-to-session session-message
    # The instrumented build takes a gigabyte and is not used again.
    [[ ${CI:-} != true ]] || rm -rf target/fuzz
}

# New seeds for the simulator: numbered by the clock.
fuzz_seeds() { # MINUTES [--full]
    target/release/thinc-sim --first "$(date +%s)000" --minutes "$@"
}

# Half of the time for the simulator, half for all fuzzers.
fuzz_steps() { # MINUTES
    local minutes=$1 targets seconds
    must_step "fuzzers" build_fuzzer
    must_step "simulator" "$cargo" build "${locked[@]}" --release -p thinc-sim --bins
    mapfile -t targets < <(target/release/thinc-fuzz list)
    seconds=$((minutes * 30 * $(nproc) / ${#targets[@]}))
    ((seconds > 0)) || seconds=1
    # After a failing seed or input the rest runs all the same.
    test_step "seeds" fuzz_seeds $(((minutes + 3) / 4))
    say "  $(tail -n 1 "$step_log")"
    test_step "seeds with real pixels" fuzz_seeds $(((minutes + 3) / 4)) --full
    say "  $(tail -n 1 "$step_log")"
    test_step "fuzzers, $(duration "$seconds") each" \
        fuzz_targets "$seconds" -1 "${targets[@]}"
}

cmd_fuzz() { # [nightly [MINUTES] | TARGET [SECONDS]]
    local targets name seconds=${2:-60}
    [[ $seconds =~ ^[0-9]+$ ]] || die "'$seconds' is no whole number of seconds or minutes."
    need_packages "${packages_native[@]}"
    choose_rust build
    if [[ ${1:-} == nightly ]]; then
        step_minutes_max_else=$((seconds + 30))
        steps_total=5
        fuzz_steps "$seconds"
        say "$tests_passed passed, $tests_failed failed"
        ((tests_failed == 0))
        return
    fi
    steps_total=1
    must_step "fuzzers" build_fuzzer
    mapfile -t targets < <(target/release/thinc-fuzz list)
    if (($# > 0)); then
        [[ " ${targets[*]} " == *" $1 "* ]] || die "there is no fuzz target '$1':" "${targets[@]}"
        targets=("$1")
    fi
    steps_total=$((1 + ${#targets[@]}))
    step_minutes_max_else=$((seconds / 60 + 10))
    for name in "${targets[@]}"; do
        must_step "$name" fuzz_target "$name" "$seconds"
        say "  $(tail -n 1 "$step_log")"
    done
}
