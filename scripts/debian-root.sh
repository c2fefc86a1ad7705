# A Debian root that has never seen thinc, made by debootstrap and entered in namespaces.
# Read by scripts/fresh.sh (the README's commands, as a newcomer), scripts/in-root.sh (packages for
# another release) and packaging/test.sh (what the packages do to a system).
# Knows debootstrap, apt's sources and mounts; nothing of what is run inside. All of it needs root.
# shellcheck shell=bash

# The releases that thinc is built and tested on, by the number that people say.
debian_codename() { # RELEASE
    case $1 in
    12) echo bookworm ;;
    13) echo trixie ;;
    *)
        echo "thinc is built for Debian 12 and 13; there is no release '$1'" >&2
        return 1
        ;;
    esac
}

# The number of the release that this machine runs; empty on anything but Debian.
this_debian_release() {
    (
        # shellcheck source=/dev/null
        source /etc/os-release 2>/dev/null && [[ ${ID:-} == debian ]] && echo "${VERSION_ID:-}"
    ) || true
}

# Debian's own packages of RELEASE, from the mirrors that this machine's apt uses, with its proxies
# and certificates; FOLDER holds the root afterwards.
make_debian_root() { # FOLDER PACKAGE,… [CODENAME]: this machine's release without a CODENAME
    local folder=$1 here codename mirror source
    # shellcheck source=/dev/null
    here=$(source /etc/os-release && echo "${VERSION_CODENAME:-}")
    codename=${3:-$here}
    # shellcheck disable=SC2016  # the $(…) are apt's
    mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' \
        'Created-By: Packages' |
        awk -v codename="$here" '$1 == codename && $2 == "main" { print $3; exit }')
    [[ -n $mirror ]] || {
        echo "apt on this machine has no mirror of Debian's main component:" \
            "see apt-get indextargets"
        return 1
    }
    # The folder becomes "/", which every user has to enter.
    chmod 755 "$folder"
    debootstrap --variant=minbase --include="ca-certificates,$2" "$codename" "$folder" "$mirror"
    rm -f "$folder/etc/apt/sources.list"
    for source in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        # Packages of third parties are not part of a fresh Debian.
        if [[ -f $source ]] &&
            grep -qE "^(Suites:|deb )(.* )?$here(-updates|-security)?( |\$)" "$source"; then
            install -D -m 644 "$source" "$folder$source"
            sed -i "s/\b$here\b/$codename/g" "$folder$source"
        fi
    done
    # What is set up here, as a proxy. A package's own file would make dpkg ask whether to keep it.
    for source in /etc/apt/apt.conf.d/*; do
        dpkg-query --search "$source" >/dev/null 2>&1 || cp "$source" "$folder/etc/apt/apt.conf.d/"
    done
    cp -r /usr/share/keyrings/. "$folder/usr/share/keyrings/"
    cp /etc/resolv.conf "$folder/etc/resolv.conf"
    cp /etc/hosts "$folder/etc/hosts"
    cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
}

# Runs a command in the root, as root, in namespaces that end every process and mount with it; with
# "isolated" in a network namespace that has only loopback.
# pivot_root and not chroot, because a process in a chroot may not create a user namespace, which
# the sandboxes of browsers need.
# debian_root_binds: "FOLDER:PLACE" for each folder of this machine that is mounted in the root at
# PLACE, a folder that exists there; no path holds a space or a colon.
debian_root_binds=()
enter_debian_root() { # FOLDER connected|isolated COMMAND…
    local folder=$1 network=()
    [[ $2 != isolated ]] || network=(--net)
    shift 2
    # shellcheck disable=SC2016  # the inner shell expands them
    unshare --mount --pid --ipc --uts "${network[@]}" --fork --kill-child bash -c '
        set -e
        new=$1 network=$2 binds=$3
        shift 3
        [[ -z $network ]] || ip link set lo up
        mount --make-rprivate /
        mount --bind "$new" "$new"
        mount --rbind /dev "$new/dev"
        mount --make-rslave "$new/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$new/dev/shm"
        mount -t proc proc "$new/proc"
        mount -t sysfs -o ro sysfs "$new/sys"
        for bind in $binds; do mount --bind "${bind%%:*}" "$new${bind#*:}"; done
        mkdir -p "$new/.before"
        cd "$new"
        pivot_root . .before
        umount -l /.before
        rmdir /.before
        exec "$@"
    ' root "$folder" "${network[*]}" "${debian_root_binds[*]}" "$@"
}

# Removes a root. Its mounts ended with their namespace; --one-file-system is a second safeguard.
drop_debian_root() { # FOLDER
    [[ -z $1 ]] || rm -rf --one-file-system "$1"
}
