# For scripts that are the first process of a mount and process namespace (xrdp.sh, broker.sh): a
# /tmp of its own, and an end with everything that was started in the namespace.
# shellcheck shell=sh

# A private /tmp has the sockets of all X servers, for applications outside, and the site's folder;
# not the locks of displays: those that the harness has reserved are for servers in here.
private_tmp() { # SITE FOLDER: the folder of the site, and where to make the private one
    mkdir -p "$2/tmp/.X11-unix"
    chmod 1777 "$2/tmp"
    mount --bind /tmp/.X11-unix "$2/tmp/.X11-unix"
    case $1 in
    /tmp/*)
        mkdir -p "$2/tmp${1#/tmp}"
        mount --bind "$1" "$2/tmp${1#/tmp}"
        ;;
    esac
    mount --rbind "$2/tmp" /tmp
}

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
