#!/bin/sh
# What runs inside the mount and process namespaces of the xrdp adapter (xrdp.rs), as their first process: lays private
# copies over the few files that xrdp reads at fixed places, and ends everything in here when it is asked to end.
# Usage: xrdp.sh FOLDER DISPLAY-NUMBER, where FOLDER has passwd, pam, etc (for /etc/xrdp) and run (for /run).
set -eu
folder=$1
number=$2

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
    rm -f "/tmp/.X$number-lock" "/tmp/.X11-unix/X$number"
    exit 0
}
trap finish TERM INT

/usr/sbin/xrdp-sesman --nodaemon &
/usr/sbin/xrdp --nodaemon &
# Without xrdp there is nothing to wait for; a sesman that ended shows in its log, and by no session.
wait $! || true
finish
