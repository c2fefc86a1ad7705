# `./dev test --fresh`: the README's two commands, in a Debian 12 that has never seen thinc.
# Read by ./dev, whose steps it uses.
# Knows what a newcomer has: a clone, sudo, and this machine's way to registries.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev has "root" and the counts

fresh_root=''

# Packages come from where this machine gets them; the clone is what was committed.
fresh_make_root() {
    make_debian_root "$fresh_root" git,sudo
    chroot "$fresh_root" useradd --create-home --shell /bin/bash newcomer
    {
        echo 'newcomer ALL=(ALL) NOPASSWD: ALL'
        echo 'Defaults env_keep += "http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE"'
    } >"$fresh_root/etc/sudoers.d/newcomer"
    local home=$fresh_root/home/newcomer
    mkdir -p "$home/.cargo"
    [[ ! -f ${CARGO_HOME:-$HOME/.cargo}/config.toml ]] || cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$home/.cargo/"
    [[ ! -f $HOME/.npmrc ]] || cp "$HOME/.npmrc" "$home/"
    git -c safe.directory="$root" clone --quiet --no-hardlinks "file://$root" "$home/thinc"
    chroot "$fresh_root" chown -R newcomer:newcomer /home/newcomer
}

fresh_run() { # COMMAND…: as the newcomer, in the clone
    local name carried=()
    while read -r name; do
        case $name in
        CARGO_HOME | CARGO_TARGET_DIR | CARGO_MANIFEST* | CARGO_PKG*) ;;
        *) carried+=("$name=${!name}") ;;
        esac
    done < <(compgen -e | grep -E '^(CARGO_|npm_config_|NPM_CONFIG_|SSL_CERT_|NODE_EXTRA_CA_CERTS$|CURL_CA_BUNDLE$)|^(http|https|no)_proxy$|^(HTTP|HTTPS|NO)_PROXY$' || true)
    enter_debian_root "$fresh_root" connected setpriv --reuid newcomer --regid newcomer --init-groups \
        env -i --chdir=/home/newcomer/thinc HOME=/home/newcomer USER=newcomer LOGNAME=newcomer LANG=C.UTF-8 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${carried[@]}" "$@"
}

cmd_test_fresh() {
    local began demo_seconds
    ((EUID == 0)) || die "making a Debian root needs root." "sudo ./dev test --fresh"
    need_packages "${packages_root[@]}" git
    [[ -z $(git -c safe.directory="$root" status --porcelain) ]] || say "Changes that are not committed are left out: the fresh root gets what is committed."
    fresh_root=$(mktemp -d "${TMPDIR:-/tmp}/thinc-fresh.XXXXXX")
    trap 'leave; drop_debian_root "$fresh_root"' EXIT
    steps_total=3
    must_step "Debian 12 root" fresh_make_root
    began=$SECONDS
    must_step "./dev demo --check" fresh_run ./dev demo --check
    demo_seconds=$((SECONDS - began)) began=$SECONDS
    test_step "./dev test" fresh_run ./dev test
    say "On a fresh Debian 12: ./dev demo was up after $(duration "$demo_seconds"), ./dev test took $(duration $((SECONDS - began)))."
    say "$tests_passed passed, $tests_failed failed"
    ((tests_failed == 0))
}
