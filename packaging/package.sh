# `./dev package`: builds everything and makes Debian packages of it, in target/package; with
# --portable-viewer, one file of the viewer for other systems.
# Read by ./dev, whose steps it uses; packaging/build.sh lays the packages out, packaging/test.sh
# tries them.
# Knows the version; lintian decides whether the packages are right.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev has "root", "cargo" and "programs"

package_dir=target/package

# A release has the version of its tag. A build between releases sorts below the coming release,
# and higher with each commit.
package_version() {
    local release commit
    release=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
    if [[ $(git describe --exact-match --tags 2>/dev/null) == "v$release" ]]; then
        echo "$release"
    else
        commit=$(TZ=UTC0 git log -1 --date=format-local:%Y%m%d%H%M --format=%cd.%h --abbrev=8)
        echo "$release~dev$commit"
    fi
}

build_notices() {
    "$cargo" run "${locked[@]}" --release --quiet --package xtask -- notices target/notices
}

build_packages() { # VERSION [--debug-symbols]
    # Packages for other releases (debian-*) and the portable viewer stay.
    mkdir -p "$package_dir"
    rm -f "$package_dir"/*.deb
    packaging/build.sh --version "$1" --programs "$CARGO_TARGET_DIR/release" \
        --driver driver/build/thinc_drv.so --manuals target/manuals --notices target/notices \
        --output "$root/$package_dir" "${@:2}"
}

lint_packages() {
    local user=()
    # lintian only reads files, but warns when it runs as root.
    ((EUID != 0)) || user=(--allow-root)
    lintian "${user[@]}" --fail-on error,warning --info --tag-display-limit 0 "$package_dir"/*.deb
    desktop-file-validate packaging/desktop/*.desktop
    appstreamcli validate --no-net packaging/desktop/*.metainfo.xml
}

# The part that ./dev test needs: programs and driver are built by then.
make_packages() { # VERSION [--debug-symbols]
    build_manuals
    build_notices
    build_packages "$@"
    lint_packages
}

# Install, run, upgrade under a running session, remove, purge: in a Debian of its own.
test_packages() {
    make_packages "$(package_version)"
    as_root packaging/test.sh "$package_dir" "$CARGO_TARGET_DIR/release" \
        driver/build/thinc_drv.so target/manuals target/notices
}

# What is published names no folder of the machine that built it, in a message or in debug
# information. Other flags compile into another folder, so that target/release stays as it is.
name_no_folders() {
    local registry=${CARGO_HOME:-$HOME/.cargo} host
    host=$(host_triple | tr - _)
    export CARGO_TARGET_DIR=$root/target/shipped
    export RUSTFLAGS="--remap-path-prefix=$registry=cargo --remap-path-prefix=$root=thinc"
    # For C in crates; the driver's makefile has its own flags.
    export "CFLAGS_$host=-ffile-prefix-map=$registry=cargo -ffile-prefix-map=$root=thinc"
    # CXXFLAGS of .cargo/config.toml is not read beside it.
    local maps="-ffile-prefix-map=$registry=cargo -ffile-prefix-map=$root=thinc"
    export "CXXFLAGS_$host=$maps -DHAVE_AVX2"
}

cmd_package() { # [--version VERSION] [--debug-symbols] [--debian RELEASE] [--portable-viewer]
    local version='' release='' portable=no options=()
    while (($# > 0)); do
        case $1 in
        --version)
            version=${2:-}
            [[ -n $version ]] || die "--version needs a version."
            shift
            ;;
        --debian)
            release=${2:-}
            [[ -n $release ]] || die "--debian needs a release: 12 or 13."
            shift
            ;;
        --debug-symbols) options+=("$1") ;;
        --portable-viewer) portable=yes ;;
        *) die "./dev package has no option '$1'" "It has --version VERSION, --debug-symbols," \
            "--debian RELEASE (12 or 13) and --portable-viewer." ;;
        esac
        shift
    done
    if [[ $portable == yes ]]; then
        [[ -z $release && ${#options[@]} -eq 0 ]] ||
            die "--portable-viewer takes no option but --version."
        portable_viewer "${version:-$(package_version)}"
        return
    fi
    if [[ -n $release && $release != "$(this_debian_release)" ]]; then
        [[ -z $version ]] || options+=(--version "$version")
        fresh_package "$release" "${options[@]}"
        return
    fi
    need_packages "${packages_native[@]}" "${packages_web[@]}" "${packages_package[@]}"
    choose_rust build
    name_no_folders
    programs=(-p thinc -p thinc-viewer-native -p thinc-gpu-codec)
    steps_total=4
    build_all
    must_step "packages" make_packages "${version:-$(package_version)}" "${options[@]}"
    say "Ready:" "$package_dir"/*.deb
}
