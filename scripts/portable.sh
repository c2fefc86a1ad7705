# `./dev package --portable-viewer`: thinc-view as one file for any x86-64 Linux with glibc 2.31 or
# newer (Debian 11, Ubuntu 20.04, RHEL 9, Fedora 32 and later).
# Read by ./dev, whose steps it uses. A program needs the glibc that it was linked with, or a newer
# one: so the viewer is compiled in a Debian 11 root, with the Rust of this machine.
# Knows what the viewer is compiled with; SDL opens the libraries of a desktop when it starts.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev has "root" and "package_dir"

portable_codename=bullseye
portable_glibc=2.31
portable_packages=(
    gcc g++ make pkg-config cmake nasm
    libx11-dev libxcursor-dev libxi-dev libxfixes-dev libxrandr-dev libxss-dev libxtst-dev
    libxkbcommon-dev libwayland-dev wayland-protocols libegl-dev libgl-dev libdbus-1-dev libudev-dev
)

portable_make_root() {
    local packages
    packages=$(
        IFS=,
        echo "${portable_packages[*]}"
    )
    make_debian_root "$fresh_root" "$packages" "$portable_codename"
    mkdir -p "$fresh_root"/{thinc,rust,cargo,target}
}

# libstdc++ is linked in, since OpenH264 is C++ and not every system has that library.
portable_compile() { # TOOLCHAIN
    local flags=(
        --remap-path-prefix=/cargo=cargo --remap-path-prefix=/thinc=thinc
        -L native=/usr/lib/gcc/x86_64-linux-gnu/10
    )
    # What is there already, mounted below /: the tree, the compiler, the crates, a target folder.
    debian_root_binds=(
        "$root:/thinc" "$root/target/portable:/target"
        "$1:/rust" "${CARGO_HOME:-$HOME/.cargo}:/cargo"
    )
    enter_debian_root "$fresh_root" connected env --chdir=/thinc \
        PATH=/rust/bin:/usr/bin:/bin HOME=/root CARGO_HOME=/cargo CARGO_TARGET_DIR=/target \
        CARGO_PROFILE_RELEASE_STRIP=symbols CXXSTDLIB=static=stdc++ RUSTFLAGS="${flags[*]}" \
        cargo build --locked --release -p thinc-viewer-native --bins
}

# The newest version of a symbol that the program takes from glibc, and the libraries that it is
# linked to.
portable_check() { # PROGRAM
    local needs
    needs=$(objdump -T "$1" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -uV | tail -n 1)
    echo "$1 needs glibc $needs"
    version_at_least "$portable_glibc" "$needs" ||
        die "$1 needs glibc $needs; $portable_glibc is the limit."
    objdump -p "$1" | awk '$1 == "NEEDED" { print $2 }' | while read -r library; do
        case $library in
        libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1) ;;
        libgcc_s.so.1 | ld-linux-x86-64.so.2) ;;
        *) die "$1 needs $library, which not every system has." ;;
        esac
    done
    "$1" --version
}

portable_viewer() { # VERSION
    local toolchain output
    ((EUID == 0)) || die "making a Debian root needs root." "sudo ./dev package --portable-viewer"
    [[ $(uname -m) == x86_64 ]] || die "the portable viewer is made for x86-64, on x86-64."
    need_packages "${packages_root[@]}" binutils git
    choose_rust build
    # Debian's own Rust needs the libraries of its release.
    [[ $cargo == cargo ]] ||
        die "the portable viewer needs Rust from rustup, $rust_version_min or newer."
    toolchain=$(rustc --print sysroot)
    mkdir -p target/portable
    fresh_root=$(mktemp -d "${TMPDIR:-/tmp}/thinc-portable.XXXXXX")
    trap 'leave; drop_debian_root "$fresh_root"' EXIT
    steps_total=3
    must_step "Debian 11 root" portable_make_root
    must_step "viewer" portable_compile "$toolchain"
    must_step "what it needs" portable_check target/portable/release/thinc-view
    output=$package_dir/thinc-view-$1-x86_64
    mkdir -p "$package_dir"
    install -m 755 target/portable/release/thinc-view "$output"
    say "Ready: $output"
}
