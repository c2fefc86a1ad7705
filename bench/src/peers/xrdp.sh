#!/bin/sh
# What runs inside the mount and process namespaces of the xrdp adapter (xrdp.rs), as their first
# process: lays private copies over the few files that xrdp reads at fixed places, and ends
# everything in here when it is asked to end. Usage: xrdp.sh SITE, the site's folder; its folder
# xrdp has this script, private.sh, passwd, shadow, pam, etc (for /etc/xrdp) and run.
set -eu
site=$1
folder=$site/xrdp
# shellcheck source=bench/src/peers/private.sh
. "$folder/private.sh"

# sesman takes no display whose lock is there, and the lock of ours is the harness's.
private_tmp "$site" "$folder"
mount --bind "$folder/passwd" /etc/passwd
mount --bind "$folder/shadow" /etc/shadow
mount --bind "$folder/pam" /etc/pam.d/xrdp-sesman
mount --bind "$folder/etc" /etc/xrdp
mount --bind "$folder/run" /run
trap finish TERM INT

/usr/sbin/xrdp-sesman --nodaemon &
/usr/sbin/xrdp --nodaemon &
# Without xrdp there is nothing to wait for; a sesman that ended shows in its log, and by no
# session.
wait $! || true
finish
