#!/usr/bin/env bash
# What a person does with the packages, step by step: install, use, upgrade under a running session, remove, purge.
# Runs as root in a Debian root of its own that packaging/test.sh made, in which /.test holds the packages.
# Knows the session by what a viewer sees of it, and the system by the list of its files.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
passed=0
ours=(thinc-desktop-server thinc-desktop-viewer)
home=/home/person

ok() {
    passed=$((passed + 1))
    printf 'ok   %s\n' "$*"
}
fail() {
    printf 'FAIL %s\n' "$*"
    tail -n 20 "$home"/.local/state/thinc/log/*/*.log 2>/dev/null || true
    printf '%d passed, 1 failed\n' "$passed"
    exit 1
}

# As after a login: nothing of root's environment, and a runtime folder.
as_person() {
    setpriv --reuid person --regid person --init-groups env --ignore-environment --chdir="$home" HOME="$home" USER=person \
        LOGNAME=person SHELL=/bin/sh LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin XDG_RUNTIME_DIR=/run/user/1000 "$@"
}

install_packages() { apt-get -q install --yes --no-install-recommends "$@" >/tmp/apt.log 2>&1 || {
    cat /tmp/apt.log
    fail "apt-get install $*"
}; }

# All files but the person's (a runtime folder goes at logout), what others keep accounts in, and what the kernel shows.
files() {
    find / -xdev \( -path /home -o -path /run/user -o -path /.test -o -path /var/log -o -path /var/cache -o -path /var/lib/apt -o \
        -path /var/lib/dpkg -o -path /proc -o -path /sys -o -path /dev -o -path /tmp/apt.log \) -prune -o -printf '%M %u:%g %p -> %l\n' | sort
}

# A viewer that does what its lines say; each must be answered with ok.
view() { # LINK LINE…
    local link=$1 answers
    shift
    answers=$(printf '%s\n' "$@" | as_person thinc-view "$link" --headless --timeout 30 --script - 2>&1 || echo "thinc-view failed")
    if grep -qv '^ok' <<<"$answers"; then
        printf '%s\n' "$answers"
        return 1
    fi
}

# Types what makes the terminal of this session another colour, and waits until it is seen: a hand's way there and back.
# Without a window manager the keys go to what lies below the pointer.
paint() { # LINK FROM TO: RRGGBB
    view "$1" "wait-pixel 100 100 $2" "move 100 100" "type printf '\\\\033]11;#$3\\\\007'\\n" "wait-pixel 100 100 $3"
}
link() { as_person thinc link --native "$1"; }
# A number of the session's entry in `thinc list --json`.
listed() { # FIELD
    as_person thinc list --json | sed -n "s/^ *\"$1\": \\([0-9]*\\),\\{0,1\\}\$/\\1/p" | head -n 1
}

useradd --create-home --shell /bin/sh --uid 1000 person
mkdir -p /run/user/1000
chown person:person /run/user/1000
chmod 700 /run/user/1000
# As at boot.
mkdir -m 1777 /tmp/.X11-unix

# --- install
install_packages "$@" /.test/first/*.deb
first=$(dpkg-query -W -f '${Version}' "${ours[0]}")
ok "apt installs $first and all it needs"
for file in /usr/bin/thinc /usr/bin/thinc-view /usr/lib/thinc/thinc_drv.so \
    /usr/share/man/man1/thinc-serve.1.gz /usr/share/man/man1/thinc-view.1.gz \
    /usr/share/bash-completion/completions/thinc /usr/share/zsh/vendor-completions/_thinc-view \
    /usr/share/fish/vendor_completions.d/thinc.fish /usr/share/icons/hicolor/16x16/apps/thinc-view.png \
    /usr/share/doc/thinc-desktop-server/copyright /usr/share/doc/thinc-desktop-viewer/third-party-notices.gz; do
    [[ -s $file ]] || fail "$file is not there"
done
ok "files are where Debian looks for them"
[[ $(dpkg-query -W -f '${Depends}' "${ours[0]}") == *xorg-video-abi-[0-9]* ]] || fail "the driver names no ABI"
ok "the driver depends on the ABI of X servers it was built for"
scripts=$(find /var/lib/dpkg/info -name 'thinc-*.p[or][es][a-z]*')
[[ -z $scripts ]] || fail "root runs $scripts"
privileged=$(dpkg-query -L "${ours[@]}" | grep '^/' | sort -u | xargs -d '\n' -I{} find {} -maxdepth 0 \( -type f -o -path '*thinc*' \) \
    \( -perm /7000 -o -perm /022 -o ! -user root \))
[[ -z $privileged ]] || fail "more than an ordinary file: $privileged"
ok "nothing of theirs runs as root: no script, no set-user-ID, no service"
grep -q '^x-scheme-handler/thinc=thinc-view.desktop' /usr/share/applications/mimeinfo.cache || fail "thinc:// opens nothing"
ok "links open the viewer"
man --where thinc thinc-serve thinc-view >/tmp/apt.log || fail "man finds no page"
man thinc 2>/dev/null | grep '^SYNOPSIS' >/dev/null || fail "man sets no page"
ok "manual pages are found and set"
bash -c 'source /usr/share/bash-completion/completions/thinc
    COMP_WORDS=(thinc serve --listen) COMP_CWORD=2
    _thinc thinc --listen serve && [[ " ${COMPREPLY[*]} " == *" --listen "* ]]' || fail "bash completes nothing"
ok "bash completes options"

# --- where nothing is left: with all that ours depend on, and without ours
apt-get -q purge --yes "${ours[@]}" >/tmp/apt.log 2>&1
files >/.test/before
install_packages /.test/first/*.deb

# --- use
[[ $(as_person thinc list) == "No session is running"* ]] || fail "thinc list"
as_person thinc serve --detach --name work -- xterm -geometry 80x24+0+0 >/dev/null || fail "a session starts"
ok "an ordinary user starts a session"
paint "$(link work)" ffffff cc0000 || fail "what is typed is seen"
terminal=$(pgrep -x xterm)
as_person thinc-view "$(link work)" --headless --when-quiet --screenshot "$home/first.png" || fail "a screenshot"
[[ $(head -c 4 "$home/first.png" | tail -c 3) == PNG ]] || fail "the screenshot is no PNG"
ok "a viewer types, sees, and takes a screenshot"
# The other way to look: the viewer's window, in another session's X server.
as_person thinc serve --detach --name window -- thinc-view --present surface "$(link work)" >/dev/null || fail "a session with a viewer in it"
view "$(link window)" "wait-pixel 100 100 cc0000" || fail "the viewer's window shows the session"
as_person thinc stop window >/dev/null
ok "the viewer's window shows the session"

# --- upgrade while it runs, with a viewer that stays
coproc WATCHER { as_person thinc-view "$(link work)" --headless --timeout 30 --script - 2>&1; }
exec {to_watcher}>&"${WATCHER[1]}" {from_watcher}<&"${WATCHER[0]}"
ask_watcher() {
    local answer
    printf '%s\n' "$1" >&"$to_watcher" && IFS= read -r -t 60 answer <&"$from_watcher" && [[ $answer == ok* ]]
}
ask_watcher wait-quiet || fail "a viewer stays connected"
supervisor=$(listed supervisor) session=$(listed session) xorg=$(listed xorg)
install_packages /.test/second/*.deb
second=$(dpkg-query -W -f '${Version}' "${ours[0]}")
dpkg --compare-versions "$second" gt "$first" || fail "$second is no upgrade of $first"
[[ $(listed supervisor) == "$supervisor" && $(listed session) == "$session" && $(listed xorg) == "$xorg" ]] ||
    fail "thinc list after the upgrade"
kill -0 "$terminal" "$supervisor" "$session" "$xorg" || fail "a process ended"
ok "the session and what runs in it live through the upgrade to $second"
for line in "move 100 100" "type printf '\\\\033]11;#0000cc\\\\007'\\n" "wait-pixel 100 100 0000cc" quit; do
    ask_watcher "$line" || fail "the viewer that stayed: $line"
done
exec {to_watcher}>&- {from_watcher}<&-
wait "$WATCHER_PID" 2>/dev/null || true
ok "a viewer that was connected all the time goes on"
paint "$(link work)" 0000cc 00cc00 || fail "the new viewer in the old session"
ok "the new programs find the session and show it"
# Driver, records and configuration belong together: what starts a session process again must start the one of its age.
[[ $(readlink "/proc/$supervisor/exe") == *"(deleted)" ]] || fail "the program was not replaced"
kill -KILL "$session"
view "$(link work)" "wait-pixel 100 100 00cc00" || fail "a session process that was killed after the upgrade"
[[ $(listed restarts) == 1 && $(listed session) != "$session" ]] || fail "the supervisor did not start another"
[[ $(stat -Lc %i "/proc/$(listed session)/exe") == "$(stat -Lc %i "/proc/$supervisor/exe")" ]] || fail "another program than the supervisor's"
ok "a session process that dies after the upgrade comes back, as the program that the session began with"
as_person thinc serve --detach --name new -- xterm -geometry 80x24+0+0 >/dev/null || fail "a new session beside the old"
paint "$(link new)" ffffff cc00cc || fail "the new session"
as_person thinc stop new >/dev/null
ok "a session of the new version runs beside it"

# --- remove under a running session
apt-get -q remove --yes "${ours[@]}" >/tmp/apt.log 2>&1 || fail "apt-get remove"
kill -0 "$terminal" "$supervisor" "$xorg" || fail "removing ended a session"
ok "removing ends nobody's session"
kill "$terminal"
timeout 60 tail --pid "$supervisor" -f /dev/null || fail "the session does not end"
[[ -z $(pgrep -u person || true) ]] || fail "left behind: $(pgrep -lu person)"
[[ -z $(find /run/user/1000 ! -type d) ]] || fail "left behind: $(find /run/user/1000 ! -type d)"
ok "the session ends with its program, and all of its processes, sockets and secrets with it"
files >/.test/after
diff /.test/before /.test/after || fail "the packages left something behind, or took something away"
# No configuration and no script: purging them has nothing more to do.
[[ -z $(dpkg-query -W -f '${Package}\n' 'thinc*' 2>/dev/null) ]] || fail "dpkg remembers them"
! grep -q thinc /usr/share/applications/mimeinfo.cache || fail "thinc:// still opens something"
ok "nothing is left outside the person's home"
printf '%d passed, 0 failed\n' "$passed"
