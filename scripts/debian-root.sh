# A Debian 12 root that has never seen thinc: made from where this machine gets its packages, entered in namespaces.
# Read by scripts/fresh.sh (the README's commands, as a newcomer) and packaging/test.sh (what the packages do to a system).
# Knows debootstrap, apt's sources and mounts; nothing of what is run inside. All of it wants root.
# shellcheck shell=bash

# Debian's own packages, with this machine's proxies and certificates; FOLDER holds the root afterwards.
make_debian_root() { # FOLDER PACKAGE,…
    local folder=$1 mirror source
    # shellcheck disable=SC2016  # the $(…) are apt's
    mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "bookworm" && $2 == "main" { print $3; exit }')
    [[ -n $mirror ]] || {
        echo "apt here knows no mirror of Debian 12 (bookworm main)"
        return 1
    }
    # It becomes "/", which everybody has to pass.
    chmod 755 "$folder"
    debootstrap --variant=minbase --include="ca-certificates,$2" bookworm "$folder" "$mirror"
    rm -f "$folder/etc/apt/sources.list"
    for source in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        # A third party's packages are not part of a fresh Debian.
        if [[ -f $source ]] && grep -qE '^(Suites:|deb )(.* )?bookworm(-updates|-security)?( |$)' "$source"; then
            install -D -m 644 "$source" "$folder$source"
        fi
    done
    cp -r /etc/apt/apt.conf.d/. "$folder/etc/apt/apt.conf.d/"
    cp -r /usr/share/keyrings/. "$folder/usr/share/keyrings/"
    cp /etc/resolv.conf "$folder/etc/resolv.conf"
    cp /etc/hosts "$folder/etc/hosts"
    cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/ca-certificates.crt"
}

# Runs a command in the root, as root, in namespaces that take every process and mount with them when it ends; with
# "alone" on a network of its own, where there is nothing but loopback.
# pivot_root and not chroot, because in a chroot nobody may make a user namespace, which browsers' sandboxes want.
enter_debian_root() { # FOLDER connected|alone COMMAND…
    local folder=$1 network=()
    [[ $2 != alone ]] || network=(--net)
    shift 2
    # shellcheck disable=SC2016  # the inner shell expands them
    unshare --mount --pid --ipc --uts "${network[@]}" --fork --kill-child bash -c '
        set -e
        new=$1 network=$2
        shift 2
        [[ -z $network ]] || ip link set lo up
        mount --make-rprivate /
        mount --bind "$new" "$new"
        mount --rbind /dev "$new/dev"
        mount --make-rslave "$new/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$new/dev/shm"
        mount -t proc proc "$new/proc"
        mount -t sysfs -o ro sysfs "$new/sys"
        mkdir -p "$new/.before"
        cd "$new"
        pivot_root . .before
        umount -l /.before
        rmdir /.before
        exec "$@"
    ' root "$folder" "${network[*]}" "$@"
}

# The mounts go with their namespace; --one-file-system is for the day they did not.
drop_debian_root() { # FOLDER
    [[ -z $1 ]] || rm -rf --one-file-system "$1"
}
