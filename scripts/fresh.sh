# What runs in a Debian that has never seen thinc: `./dev test --fresh` (the README's two commands),
# and `./dev package --debian RELEASE` (packages for a release that this machine does not run).
# Read by ./dev, whose steps it uses.
# Knows what a newcomer has: a clone, sudo, and this machine's access to registries.
# shellcheck shell=bash disable=SC2034,SC2154  # ./dev has "root" and the counts

fresh_root=''

# Packages come from the mirrors of this machine; the clone holds what was committed.
fresh_make_root() { # CODENAME
    make_debian_root "$fresh_root" git,sudo "$1"
    chroot "$fresh_root" useradd --create-home --shell /bin/bash newcomer
    {
        echo 'newcomer ALL=(ALL) NOPASSWD: ALL'
        echo 'Defaults env_keep += "http_proxy https_proxy no_proxy"'
        echo 'Defaults env_keep += "HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE"'
    } >"$fresh_root/etc/sudoers.d/newcomer"
    local home=$fresh_root/home/newcomer cargo_config=${CARGO_HOME:-$HOME/.cargo}/config.toml
    mkdir -p "$home/.cargo"
    [[ ! -f $cargo_config ]] || cp "$cargo_config" "$home/.cargo/"
    [[ ! -f $HOME/.npmrc ]] || cp "$HOME/.npmrc" "$home/"
    git -c safe.directory="$root" clone --quiet --no-hardlinks "file://$root" "$home/thinc"
    chroot "$fresh_root" chown -R newcomer:newcomer /home/newcomer
}

# What of this machine's environment a newcomer needs to reach the registries, and how long tests
# may take on it.
fresh_environment='^(CARGO_|npm_config_|NPM_CONFIG_|SSL_CERT_|NODE_EXTRA_CA_CERTS$|CURL_CA_BUNDLE$)'
fresh_environment+='|^(http|https|no)_proxy$|^(HTTP|HTTPS|NO)_PROXY$|^THINC_TEST_MINUTES$'

fresh_run() { # COMMAND…: as the newcomer, in the clone
    local name carried=()
    while read -r name; do
        case $name in
        CARGO_HOME | CARGO_TARGET_DIR | CARGO_MANIFEST* | CARGO_PKG*) ;;
        *) carried+=("$name=${!name}") ;;
        esac
    done < <(compgen -e | grep -E "$fresh_environment" || true)
    enter_debian_root "$fresh_root" connected \
        setpriv --reuid newcomer --regid newcomer --init-groups \
        env -i --chdir=/home/newcomer/thinc HOME=/home/newcomer USER=newcomer LOGNAME=newcomer \
        LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        "${carried[@]}" "$@"
}

# Makes the root of a release, to be removed when this script ends.
fresh_begin() { # RELEASE COMMAND, as a person would type it
    local codename
    codename=$(debian_codename "$1") || die "there is no Debian $1 to run this on." \
        "thinc is built for 12 and 13."
    ((EUID == 0)) || die "making a Debian root needs root." "sudo $2"
    need_packages "${packages_root[@]}" git
    [[ -z $(git -c safe.directory="$root" status --porcelain) ]] ||
        say "Changes that are not committed are left out: the new root gets a clone."
    fresh_root=$(mktemp -d "${TMPDIR:-/tmp}/thinc-fresh.XXXXXX")
    trap 'leave; drop_debian_root "$fresh_root"' EXIT
    must_step "Debian $1 root" fresh_make_root "$codename"
}

cmd_test_fresh() { # [RELEASE]
    local release=${1:-$(this_debian_release)} began demo_seconds
    release=${release:-12}
    steps_total=3
    fresh_begin "$release" "./dev test --fresh $release"
    began=$SECONDS
    must_step "./dev demo --check" fresh_run ./dev demo --check
    demo_seconds=$((SECONDS - began)) began=$SECONDS
    test_step "./dev test" fresh_run ./dev test
    say "On a fresh Debian $release: ./dev demo was up after $(duration "$demo_seconds")," \
        "./dev test took $(duration $((SECONDS - began)))."
    say "$tests_passed passed, $tests_failed failed"
    ((tests_failed == 0))
}

# Packages for a release that this machine does not run, built and taken out of a root of it.
fresh_package() { # RELEASE OPTION…
    local release=$1 output=target/package/debian-$1
    shift
    steps_total=2
    fresh_begin "$release" "./dev package --debian $release"
    step_minutes_max_else=60
    must_step "packages on Debian $release" fresh_run ./dev package "$@"
    mkdir -p "$output"
    cp "$fresh_root"/home/newcomer/thinc/target/package/*.deb "$output/"
    say "Ready:" "$output"/*.deb
}
