# What is needed, by Debian package, and how it is installed: by apt, asked by name.
# Read by ./dev, which decides who needs which list.
# Knows names of packages; what cannot be installed (no root, not Debian) it reports, with the list
# of what is missing.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev uses the lists, and has the colours

# "package|command" is also satisfied by the command alone, so that a compiler or a Node from
# elsewhere is left as it is.

# The driver is compiled against the distribution's X server; the plugin for VirtualGL is an X
# client. SDL is compiled from its crate and opens these libraries when it starts, so the headers of
# all that it may use have to be there. The broker is linked with libpam.
packages_native=(
    gcc g++ make libc6-dev pkg-config "cmake|cmake" "nasm|nasm" git
    xserver-xorg-dev libxcb1-dev libxcb-shm0-dev libxcb-xv0-dev
    libx11-dev libxext-dev libxcursor-dev libxi-dev libxfixes-dev libxrandr-dev libxss-dev
    libxtst-dev libxkbcommon-dev libwayland-dev wayland-protocols libdecor-0-dev
    libegl-dev libgl-dev
    libasound2-dev libpulse-dev libdbus-1-dev libudev-dev
    libpam0g-dev
    libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
)
# Debian's Rust for browsers, with the source of the standard library: no library for wasm32 is
# packaged, so ./dev compiles it.
packages_web=(rustc-web cargo-web rust-web-src clang llvm lld-19 "esbuild|esbuild")
packages_rust=(rustc-web cargo-web)
packages_rust_lint=(rust-web-clippy rustfmt-web)
packages_run=(
    xserver-xorg-core xkb-data x11-xkb-utils xauth dbus-daemon dbus-x11
    openbox xterm mousepad fonts-dejavu-core xfonts-base adwaita-icon-theme
)
# The desktop of ./dev demo: Xfce's own parts, without what a whole installation recommends.
packages_desktop=(
    xfce4-session xfwm4 xfce4-panel xfce4-settings xfdesktop4 xfce4-terminal thunar mousepad
    greybird-gtk-theme elementary-xfce-icon-theme desktop-base librsvg2-common
)
# Encoders that a default build leaves out and the tests include.
packages_features=(libx264-dev)
packages_test=(
    "${packages_features[@]}"
    xvfb x11-apps x11-utils x11-xserver-utils featherpad libreoffice-writer libreoffice-gtk3
    chromium firefox-esr mpv ffmpeg openbox picom xfwm4 x11vnc
    "nodejs|node" "npm|npm" "shellcheck|shellcheck" "clang-format|clang-format" "openssl|openssl"
    iproute2 procps util-linux iputils-ping iperf3 tcpdump
    openssh-client "openssh-server|/usr/sbin/sshd"
    x11-xkb-utils xclip xsel python3-gi gir1.2-gtk-3.0 gir1.2-gtk-4.0 ibus ibus-anthy libpam-oath
    libsdl2-2.0-0 nginx-light caddy apache2-bin
    libgl1 libglx-mesa0 libgl1-mesa-dri
    gstreamer1.0-plugins-base gstreamer1.0-plugins-bad gstreamer1.0-plugins-ugly gstreamer1.0-libav
    pulseaudio-utils libasound2-plugins alsa-utils pipewire pipewire-bin wireplumber cups-client
)
# The systems that thinc-bench measures beside thinc, and what it measures them with. FreeRDP's
# package has the major version in its name: 2 in Debian 12, 3 in Debian 13.
packages_peers=(
    tigervnc-standalone-server tigervnc-viewer xpra python3-gi-cairo python3-pil xrdp xorgxrdp
    pulseaudio gstreamer1.0-pulseaudio gstreamer1.0-plugins-good gstreamer1.0-tools python3-gst-1.0
    "freerdp2-x11|xfreerdp3" xserver-xspice spice-client-gtk nxagent nxproxy
    gimp gedit gtk-3-examples
    libreoffice-writer libreoffice-calc libreoffice-gtk3
    vulkan-tools mesa-vulkan-drivers
)
packages_lint=(
    "${packages_features[@]}" "shellcheck|shellcheck" "clang-format|clang-format"
    "nodejs|node" "npm|npm"
)
# Packages are made by debhelper and checked by lintian; librsvg2-bin draws the icon in each size.
packages_package=(debhelper dpkg-dev lintian desktop-file-utils appstream librsvg2-bin)
# A Debian root of its own, for tests on a machine that has never seen thinc.
packages_root=(debootstrap util-linux iproute2)

as_root() {
    if ((EUID == 0)); then "$@"; else sudo "$@"; fi
}

missing_packages() { # ENTRY…: names the packages that are not installed
    local entry package state
    for entry in "$@"; do
        package=${entry%%|*}
        if [[ $entry == *'|'* ]] && command -v "${entry#*|}" >/dev/null; then continue; fi
        # shellcheck disable=SC2016  # the ${…} is dpkg-query's
        state=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | head -n 1) || true
        [[ $state == installed ]] || say "$package"
    done | sort -u
}

need_packages() { # ENTRY…
    local missing
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        [[ -z ${THINC_HAVE_PACKAGES:-} ]] || return 0
        die "this is not Debian, and ./dev knows packages by their Debian names only." \
            "Needed: ${*%%|*}" \
            "Install their counterparts (see doc/installing.md), then run this again with" \
            "THINC_HAVE_PACKAGES=1."
    fi
    mapfile -t missing < <(missing_packages "$@")
    ((${#missing[@]} > 0)) || return 0
    say "${bold}Installing ${#missing[@]} Debian packages:${plain} ${missing[*]}"
    if ((EUID != 0)) && ! command -v sudo >/dev/null; then
        die "installing them needs root, and there is no sudo." \
            "As root:  apt-get install ${missing[*]}" "then run this again."
    fi
    if ((EUID != 0)) && ! sudo -n true 2>/dev/null; then
        [[ -t 0 ]] || die "sudo needs a password, and there is no terminal to ask for it." \
            "As root:  apt-get install ${missing[*]}" "then run this again."
        sudo -v ||
            die "sudo refused." "As root:  apt-get install ${missing[*]}" "then run this again."
    fi
    mkdir -p "$log_dir"
    local log=$log_dir/packages.log began=$SECONDS
    start_ticker "Installing" "$log"
    # --no-remove: only a person may decide to remove something from this machine.
    if ! {
        as_root apt-get -o DPkg::Lock::Timeout=300 -q update &&
            as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q \
                install -y --no-remove --no-install-recommends "${missing[@]}"
    } >"$log" 2>&1 </dev/null; then
        stop_ticker
        step_log=$log
        show_log_tail 15
        die "apt-get could not install them; the whole log is ${log#"$root"/}"
    fi
    stop_ticker
    [[ $on_terminal == no ]] || printf '\r\e[K'
    say "Installed ${dim}in $(duration $((SECONDS - began)))${plain}"
}
