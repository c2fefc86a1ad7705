# What is needed, by Debian package, and how it comes onto this machine: by apt, asked by name.
# Read by ./dev, which says who needs which list.
# Knows names of packages; what cannot be installed (no root, not Debian) it says in words, with the list of what is missing.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev uses the lists, and has the colours

# "package|command" is also satisfied by the command alone, so that a compiler or a Node that came another way is left
# in peace.

# The driver is compiled against the distribution's X server; SDL is compiled from its crate and opens
# these libraries when it starts, so the headers of all it may use have to be there.
packages_native=(
    gcc g++ make libc6-dev pkg-config "cmake|cmake" "nasm|nasm" git
    xserver-xorg-dev
    libx11-dev libxext-dev libxcursor-dev libxi-dev libxfixes-dev libxrandr-dev libxss-dev libxtst-dev
    libxkbcommon-dev libwayland-dev wayland-protocols libdecor-0-dev libegl-dev libgl-dev
    libasound2-dev libpulse-dev libdbus-1-dev libudev-dev
)
# Debian's own Rust for browsers, with the library's source: no wasm32 library is packaged, so it is built.
packages_web=(rustc-web cargo-web rust-web-src clang llvm lld-19 "esbuild|esbuild")
packages_rust=(rustc-web cargo-web)
packages_rust_lint=(rust-web-clippy rustfmt-web)
packages_run=(
    xserver-xorg-core xkb-data x11-xkb-utils xauth dbus-daemon dbus-x11
    openbox xterm mousepad fonts-dejavu-core xfonts-base adwaita-icon-theme
)
# What a default build leaves out, and the tests look at all the same: encoders that are not for everybody.
packages_features=(libx264-dev)
packages_test=(
    "${packages_features[@]}"
    xvfb x11-apps x11-utils x11-xserver-utils featherpad libreoffice-writer libreoffice-gtk3 chromium firefox-esr mpv ffmpeg openbox picom
    "nodejs|node" "npm|npm" "shellcheck|shellcheck" "openssl|openssl" iproute2 procps
    util-linux iputils-ping iperf3 tcpdump openssh-client "openssh-server|/usr/sbin/sshd"
    x11-xkb-utils xclip xsel python3-gi gir1.2-gtk-3.0 ibus ibus-anthy
)
# What thinc-bench measures thinc beside, and with.
packages_peers=(
    tigervnc-standalone-server tigervnc-viewer xpra python3-gi-cairo python3-pil xrdp xorgxrdp freerdp2-x11 xserver-xspice spice-client-gtk
    nxagent nxproxy gimp gedit mate-backgrounds gtk-3-examples libreoffice-writer libreoffice-calc libreoffice-gtk3
)
packages_lint=("${packages_features[@]}" "shellcheck|shellcheck" "nodejs|node" "npm|npm")
# Debian packages: made with debhelper, looked at by lintian, the icon drawn in the sizes that menus want.
packages_package=(debhelper dpkg-dev lintian desktop-file-utils appstream librsvg2-bin)
# A Debian root of its own, for what has to be seen on a machine that never saw thinc.
packages_root=(debootstrap util-linux iproute2)

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

missing_packages() { # ENTRY…: names the packages that are not installed
    local entry package
    for entry in "$@"; do
        package=${entry%%|*}
        if [[ $entry == *'|'* ]] && command -v "${entry#*|}" >/dev/null; then continue; fi
        # shellcheck disable=SC2016  # the ${…} is dpkg-query's
        [[ $(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | head -n 1) == installed ]] || say "$package"
    done | sort -u
}

need_packages() { # ENTRY…
    local missing
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        [[ -z ${THINC_HAVE_PACKAGES:-} ]] || return 0
        die "this is not Debian, and the packages are known by their Debian names only." \
            "Needed here: ${*%%|*}" \
            "Install what they hold, then run again with THINC_HAVE_PACKAGES=1."
    fi
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]} > 0)) || return 0
    say "${bold}Installing ${#missing[@]} Debian packages:${plain} ${missing[*]}"
    if ((EUID != 0)) && ! command -v sudo >/dev/null; then
        die "installing them needs root, and there is no sudo." \
            "As root:  apt-get install ${missing[*]}" "then run this again."
    fi
    if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
        [[ -t 0 ]] || die "sudo wants a password, and there is no terminal to ask for it." \
            "As root:  apt-get install ${missing[*]}" "then run this again."
        sudo -v || die "sudo refused." "As root:  apt-get install ${missing[*]}" "then run this again."
    fi
    mkdir -p "$log_dir"
    local log=$log_dir/packages.log began=$SECONDS
    start_ticker "Installing" "$log"
    # --no-remove: to take something away from this machine is for a person to decide.
    if ! {
        as_root apt-get -o DPkg::Lock::Timeout=300 -q update &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q install -y --no-remove \
                --no-install-recommends "${missing[@]}"
    } >"$log" 2>&1 </dev/null; then
        stop_ticker
        step_log=$log
        show_log_tail 15
        die "apt-get could not install them; the whole log is ${log#"$root"/}"
    fi
    stop_ticker
    [[ ! -t 1 ]] || printf '\r\e[K'
    say "Installed ${dim}in $(duration $((SECONDS - began)))${plain}"
}
