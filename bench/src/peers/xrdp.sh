#!/bin/sh
# What runs inside the mount and process namespaces of the xrdp adapter (xrdp.rs), as their first
# process: lays private copies over the few files that xrdp reads at fixed places, and ends
# everything in here when it is asked to end. Usage: xrdp.sh SITE, the site's folder; its folder
# xrdp has passwd, pam, etc (for /etc/xrdp), run and tmp.
set -eu
site=$1
folder=$site/xrdp

# sesman takes no display whose lock is there, and the lock of ours is the harness's, so that nobody
# else takes it. A private /tmp without it has the sockets of all X servers, for applications
# outside, and the site's folder.
mkdir -p "$folder/tmp/.X11-unix"
mount --bind /tmp/.X11-unix "$folder/tmp/.X11-unix"
case $site in
/tmp/*)
    mkdir -p "$folder$site"
    mount --bind "$site" "$folder$site"
    ;;
esac
mount --rbind "$folder/tmp" /tmp

mount --bind "$folder/passwd" /etc/passwd
mount --bind "$folder/pam" /etc/pam.d/xrdp-sesman
mount --bind "$folder/etc" /etc/xrdp
mount --bind "$folder/run" /run

others() {
    set -- /proc/[0-9]*
    [ $# -gt 1 ]
}

finish() {
    trap '' TERM INT
    # Minus one is everybody else in this process namespace, and nobody outside of it.
    kill -TERM -1 2>/dev/null || true
    tries=0
    # 2 s, then the kernel ends the rest with this process.
    while others && [ $tries -lt 40 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    kill -KILL -1 2>/dev/null || true
    exit 0
}
trap finish TERM INT

/usr/sbin/xrdp-sesman --nodaemon &
/usr/sbin/xrdp --nodaemon &
# Without xrdp there is nothing to wait for; a sesman that ended shows in its log, and by no
# session.
wait $! || true
finish
