#!/bin/sh
# What runs inside the mount and process namespaces of a server where people log in (broker.rs), as
# their first process: `thinc broker` with private accounts and rules for PAM. Usage: broker.sh SITE
# ADDRESS, the site's folder and the server's address and port; the site's folder broker has this
# script, private.sh, passwd, shadow, pam.d, environment, bin, run and state.
set -eu
site=$1
folder=$site/broker
# shellcheck source=bench/src/peers/private.sh
. "$folder/private.sh"

private_tmp "$site" "$folder"
mount --bind "$folder/passwd" /etc/passwd
mount --bind "$folder/shadow" /etc/shadow
mount --bind "$folder/pam.d" /etc/pam.d
mount --bind "$folder/run" /run
trap finish TERM INT

THINC_DRIVER_DIR=$folder/bin "$folder/bin/thinc" broker --config "$folder/broker.toml" \
    --listen "$2" --front-user nobody --pam-service thinc-bench --state "$folder/state" &
wait $! || true
finish
