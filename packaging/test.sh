#!/usr/bin/env bash
# What the packages do to a Debian that has never seen thinc: makes a root of this machine's release
# and runs packaging/inside.sh in it.
# Called by ./dev, as root; PACKAGES holds the .debs, the rest makes a second, higher version.
# Knows the root and apt's archives, both kept in target/debian-root for the next run; nothing of
# thinc.
# Usage: packaging/test.sh PACKAGES PROGRAMS DRIVER MANUALS NOTICES
set -euo pipefail
(($# == 5)) || {
    sed -n '/^# Usage/s/^# //p' "$0" >&2
    exit 2
}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=scripts/debian-root.sh
source "$here/../scripts/debian-root.sh"
cache=$here/../target/debian-root
mkdir -p "$cache/archives"

# Beside the dependencies of the packages: a program to show, programs of a desktop that react to
# new files, and one that speaks HTTPS.
others=(xterm procps desktop-file-utils man-db curl)

root=$(mktemp -d "${TMPDIR:-/tmp}/thinc-packages.XXXXXX")
trap 'drop_debian_root "$root"' EXIT

# After a month a root would have to be upgraded first.
if [[ -z $(find "$cache/root.tar" -mtime -30 2>/dev/null) ]]; then
    make_debian_root "$root" passwd
    # Manual pages and documentation stay: the test looks for ours.
    chroot "$root" apt-get clean
    tar --create --file "$cache/root.tar.part" --numeric-owner --directory "$root" .
    mv "$cache/root.tar.part" "$cache/root.tar"
else
    tar --extract --file "$cache/root.tar" --numeric-owner --directory "$root"
fi

mkdir "$root/.test" "$root/.test/first" "$root/.test/second"
cp "$1"/*.deb "$root/.test/first/"
make_again() { # VERSION PROGRAMS DRIVER MANUALS NOTICES FOLDER
    "$here/build.sh" --version "$1" --programs "$2" --driver "$3" --manuals "$4" --notices "$5" \
        --output "$6" >"$root/.test/log" 2>&1 || {
        cat "$root/.test/log"
        exit 1
    }
}
version=$(dpkg-deb --field "$(find "$1" -name 'thinc-desktop-server_*.deb')" Version)
make_again "$version" "${@:2}" "$root/.test/again"
for package in "$1"/*.deb; do
    cmp "$package" "$root/.test/again/${package##*/}"
done
echo "ok   the same files give the same packages, byte for byte"
# Not installed here: GStreamer's plugins bring 150 packages, and there is no GPU.
gpu=$(find "$1" -name 'thinc-desktop-gpu_*.deb')
contents=$(dpkg-deb --contents "$gpu")
needs=$(dpkg-deb --field "$gpu" Depends)
if [[ $contents != *' ./usr/lib/thinc/thinc-gpu-codec'* ||
    $needs != *libgstreamer1.0-0*gstreamer1.0-plugins-bad* ]]; then
    echo "$gpu lacks the program, or a dependency" >&2
    exit 1
fi
echo "ok   the package for GPUs has its program and needs GStreamer"
make_again "$version+test1" "${@:2}" "$root/.test/second"
cp "$here"/inside*.sh "$root/.test/"

cp "$cache"/archives/*.deb "$root/var/cache/apt/archives/" 2>/dev/null || true
enter_debian_root "$root" connected sh -ec '
    export DEBIAN_FRONTEND=noninteractive
    apt-get -q update
    apt-get -q install --yes --no-install-recommends --download-only "$@" \
        /.test/first/thinc-desktop-server_*.deb /.test/first/thinc-desktop-viewer_*.deb \
        /.test/first/thinc-desktop-host_*.deb
' download "${others[@]}"
cp --update "$root"/var/cache/apt/archives/*.deb "$cache/archives/"

# From here on there is no network but loopback: thinc needs no other.
enter_debian_root "$root" isolated bash /.test/inside.sh "${others[@]}"
