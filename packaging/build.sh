#!/usr/bin/env bash
# From compiled programs to Debian packages: lays out a source tree for debhelper, which builds the
# three .debs.
# Called by `./dev package`, and by packaging/test.sh for a second version.
# Knows the layout of a package; compiles nothing, and writes only below its output folder.
# The same files, version and SOURCE_DATE_EPOCH give the same packages, byte for byte.
set -euo pipefail

usage() {
    cat >&2 <<'USAGE'
packaging/build.sh --version VERSION --programs DIR --driver FILE --manuals DIR --notices DIR
    --output DIR [--debug-symbols]
FILE is thinc_drv.so, beside which is libvgltrans_thinc.so.
USAGE
    exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
version='' programs='' driver='' manuals='' notices='' output='' options=noautodbgsym
while (($# > 0)); do
    case $1 in
    --version) version=$2 ;;
    --programs) programs=$2 ;;
    --driver) driver=$2 ;;
    --manuals) manuals=$2 ;;
    --notices) notices=$2 ;;
    --output) output=$2 ;;
    --debug-symbols)
        options=''
        shift
        continue
        ;;
    *) usage ;;
    esac
    shift 2 || usage
done
[[ -n $version && -n $programs && -n $driver ]] || usage
[[ -n $manuals && -n $notices && -n $output ]] || usage
dpkg --validate-version "$version"
: "${SOURCE_DATE_EPOCH:=$(git -C "$here" log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH DEB_BUILD_OPTIONS=$options LC_ALL=C.UTF-8

tree=$output/tree/thinc
rm -rf "$output/tree"
mkdir -p "$tree"
cp -r "$here/debian" "$tree/"
for kind in service init; do
    cp "$here/host/thinc-broker.$kind" "$tree/debian/thinc-desktop-host.thinc-broker.$kind"
done
mkdir "$tree/proxies"
cp "$here"/host/{nginx.conf,Caddyfile,apache.conf} "$tree/proxies/"
install -D -m 644 "$here/host/pam" "$tree/etc/pam.d/thinc"
install -D -m 644 "$here/host/broker.toml" "$tree/etc/thinc/broker.toml"
cp "$here/desktop/thinc-view.desktop" "$here"/desktop/*.metainfo.xml "$tree/"
send=$here/desktop/send
install -D -m 644 "$send/thunar.desktop" "$tree/send/Thunar/sendto/thinc-send.desktop"
install -D -m 644 "$send/nemo.nemo_action" "$tree/send/nemo/actions/thinc-send.nemo_action"
install -D -m 644 "$send/kio.desktop" "$tree/send/kio/servicemenus/thinc-send.desktop"
install -D -m 644 "$send/action.desktop" "$tree/send/file-manager/actions/thinc-send.desktop"
install -D -m 644 "$send/nautilus.py" "$tree/send/nautilus-python/extensions/thinc-send.py"
cp "$programs/thinc" "$programs/thinc-view" "$programs/thinc-gpu-codec" \
    "$driver" "${driver%/*}/libvgltrans_thinc.so" "$tree/"

# The top entry of the changelog is the coming release, or this one.
sed --in-place "1s/(.*)/($version)/" "$tree/debian/changelog"

mkdir -p "$tree/man1" "$tree"/completions/{bash,zsh,fish}
cp "$manuals"/man1/thinc*.1 "$tree/man1/"
rm -f "$tree"/man1/thinc-bench*
for program in thinc thinc-view; do
    # bash looks for a file with the name of the program.
    cp "$manuals/bash/$program.bash" "$tree/completions/bash/$program"
    cp "$manuals/zsh/_$program" "$tree/completions/zsh/"
    cp "$manuals/fish/$program.fish" "$tree/completions/fish/"
    install -D -m 644 "$notices/$program" "$tree/notices/$program/third-party-notices"
done

install -D -m 644 "$notices/thinc-gpu-codec" \
    "$tree/notices/thinc-gpu-codec/third-party-notices"

# For menus that draw no SVG.
for size in 16 22 24 32 48 64 128 256; do
    folder=$tree/icons/hicolor/${size}x$size/apps
    mkdir -p "$folder"
    rsvg-convert --width "$size" --height "$size" --output "$folder/thinc-view.png" \
        "$here/desktop/thinc-view.svg"
done
install -D -m 644 "$here/desktop/thinc-view.svg" "$tree/icons/hicolor/scalable/apps/thinc-view.svg"

find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
(cd "$tree" && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps)
mv "$output"/tree/*.deb "$output/"
rm -rf "$output/tree"
