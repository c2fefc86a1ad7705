#!/usr/bin/env bash
# What a person does with the packages, step by step: install, use, upgrade under a running session,
# remove, purge.
# Runs as root in a Debian root that packaging/test.sh made, in which /.test holds the packages.
# Knows the session by what a viewer sees, and the system by the list of its files.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
# Set for the build, perhaps; services that apt starts would get it.
unset "${!THINC_@}"
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
    setpriv --reuid person --regid person --init-groups \
        env --ignore-environment --chdir="$home" HOME="$home" USER=person LOGNAME=person \
        SHELL=/bin/sh LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin \
        XDG_RUNTIME_DIR=/run/user/1000 "$@"
}

install_packages() {
    apt-get -q install --yes --no-install-recommends "$@" >/tmp/apt.log 2>&1 || {
        cat /tmp/apt.log
        fail "apt-get install $*"
    }
}

# All files but the person's (a runtime folder is removed at logout), logs and databases of other
# programs, and the kernel's.
files() {
    local left_out=(-path /home) path
    for path in /run/user /.test /var/log /var/cache /var/lib/apt /var/lib/dpkg /proc /sys /dev \
        /tmp/apt.log; do
        left_out+=(-o -path "$path")
    done
    find / -xdev \( "${left_out[@]}" \) -prune -o -printf '%M %u:%g %p -> %l\n' | sort
}

# Runs a viewer with these lines as its script; it must answer each with ok.
view() { # LINK LINE…
    local link=$1 answers
    shift
    answers=$(printf '%s\n' "$@" |
        as_person thinc-view "$link" --headless --timeout 30 --script - 2>&1 ||
        echo "thinc-view failed")
    if grep -qv '^ok' <<<"$answers"; then
        printf '%s\n' "$answers"
        return 1
    fi
}

# Types a command that changes the colour of the session's terminal, and waits for the colour: input
# and its echo. Without a window manager keys go to the window below the pointer.
paint() { # LINK FROM TO: RRGGBB
    view "$1" "wait-pixel 100 100 $2" "move 100 100" \
        "type printf '\\\\033]11;#$3\\\\007'\\n" "wait-pixel 100 100 $3"
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
install_packages "$@" /.test/first/thinc-desktop-{server,viewer}_*.deb
first=$(dpkg-query -W -f '${Version}' "${ours[0]}")
ok "apt installs $first and all it needs"
for file in /usr/bin/thinc /usr/bin/thinc-view /usr/lib/thinc/thinc_drv.so \
    /usr/share/man/man1/thinc-serve.1.gz /usr/share/man/man1/thinc-view.1.gz \
    /usr/share/bash-completion/completions/thinc /usr/share/zsh/vendor-completions/_thinc-view \
    /usr/share/fish/vendor_completions.d/thinc.fish \
    /usr/share/icons/hicolor/16x16/apps/thinc-view.png \
    /usr/share/doc/thinc-desktop-server/copyright \
    /usr/share/doc/thinc-desktop-viewer/third-party-notices.gz; do
    [[ -s $file ]] || fail "$file is not there"
done
compgen -G '/usr/lib/*-linux-gnu*/libvgltrans_thinc.so' >/dev/null ||
    fail "VirtualGL does not find its plugin"
ok "files are where Debian looks for them"
[[ $(dpkg-query -W -f '${Depends}' "${ours[0]}") == *xorg-video-abi-[0-9]* ]] ||
    fail "the driver names no ABI"
ok "the driver depends on the ABI of X servers it was built for"
scripts=$(find /var/lib/dpkg/info -name 'thinc-*.p[or][es][a-z]*')
[[ -z $scripts ]] || fail "root runs $scripts"
privileged=$(dpkg-query -L "${ours[@]}" | grep '^/' | sort -u |
    xargs -d '\n' -I{} find {} -maxdepth 0 \( -type f -o -path '*thinc*' \) \
        \( -perm /7000 -o -perm /022 -o ! -user root \))
[[ -z $privileged ]] || fail "more than an ordinary file: $privileged"
ok "nothing of theirs runs as root: no script, no set-user-ID, no service"
mime_cache=/usr/share/applications/mimeinfo.cache
grep -q '^x-scheme-handler/thinc=thinc-view.desktop' "$mime_cache" || fail "thinc:// opens nothing"
desktop_file=/usr/share/applications/thinc-view.desktop
opens='thinc-view --clipboard from-session --files to-session --printing off --error-window %u'
grep -q "^Exec=$opens\$" "$desktop_file" ||
    fail "a link that a web page opens is offered the clipboard"
ok "links open the viewer, which offers their sessions no clipboard"
for menu in Thunar/sendto kio/servicemenus file-manager/actions; do
    grep -q '^Exec=thinc send --notify %F$' "/usr/share/$menu/thinc-send.desktop" ||
        fail "$menu does not send to the viewer"
done
ok "file managers have a menu that sends to the viewer's computer"
man --where thinc thinc-serve thinc-view >/tmp/apt.log || fail "man finds no page"
man thinc 2>/dev/null | grep '^SYNOPSIS' >/dev/null || fail "man sets no page"
ok "manual pages are found and set"
bash -c 'source /usr/share/bash-completion/completions/thinc
    COMP_WORDS=(thinc serve --listen) COMP_CWORD=2
    _thinc thinc --listen serve && [[ " ${COMPREPLY[*]} " == *" --listen "* ]]' ||
    fail "bash completes nothing"
ok "bash completes options"

# --- the state to compare with at the end: the dependencies of our packages, without ours
apt-get -q purge --yes "${ours[@]}" >/tmp/apt.log 2>&1
files >/.test/before
install_packages /.test/first/thinc-desktop-{server,viewer}_*.deb

# --- use
[[ $(as_person thinc list) == "No session is running"* ]] || fail "thinc list"
as_person thinc serve --detach --name work -- xterm -geometry 80x24+0+0 >/dev/null ||
    fail "a session starts"
ok "an ordinary user starts a session"
paint "$(link work)" ffffff cc0000 || fail "what is typed is seen"
terminal=$(pgrep -x xterm)
as_person thinc-view "$(link work)" --headless --when-quiet --screenshot "$home/first.png" ||
    fail "a screenshot"
[[ $(head -c 4 "$home/first.png" | tail -c 3) == PNG ]] || fail "the screenshot is no PNG"
ok "a viewer types, sees, and takes a screenshot"
# The viewer's window, in another session's X server.
as_person thinc serve --detach --name window -- thinc-view --present surface "$(link work)" \
    >/dev/null || fail "a session with a viewer in it"
view "$(link window)" "wait-pixel 100 100 cc0000" || fail "the viewer's window shows the session"
as_person thinc stop window >/dev/null
ok "the viewer's window shows the session"

# --- upgrade while it runs, with a viewer that stays
coproc WATCHER {
    as_person thinc-view "$(link work)" --headless --timeout 30 --script - 2>&1
}
exec {to_watcher}>&"${WATCHER[1]}" {from_watcher}<&"${WATCHER[0]}"
ask_watcher() {
    local answer
    printf '%s\n' "$1" >&"$to_watcher" && IFS= read -r -t 60 answer <&"$from_watcher" &&
        [[ $answer == ok* ]]
}
ask_watcher wait-quiet || fail "a viewer stays connected"
supervisor=$(listed supervisor) session=$(listed session) xorg=$(listed xorg)
install_packages /.test/second/thinc-desktop-{server,viewer}_*.deb
second=$(dpkg-query -W -f '${Version}' "${ours[0]}")
dpkg --compare-versions "$second" gt "$first" || fail "$second is no upgrade of $first"
[[ "$(listed supervisor) $(listed session) $(listed xorg)" == "$supervisor $session $xorg" ]] ||
    fail "thinc list after the upgrade"
kill -0 "$terminal" "$supervisor" "$session" "$xorg" || fail "a process ended"
ok "the session and what runs in it live through the upgrade to $second"
for line in "move 100 100" "type printf '\\\\033]11;#0000cc\\\\007'\\n" \
    "wait-pixel 100 100 0000cc" quit; do
    ask_watcher "$line" || fail "the viewer that stayed: $line"
done
exec {to_watcher}>&- {from_watcher}<&-
wait "$WATCHER_PID" 2>/dev/null || true
ok "a viewer that stays connected works on"
paint "$(link work)" 0000cc 00cc00 || fail "the new viewer in the old session"
ok "the new programs find the session and show it"
# Driver, records and configuration belong together: the supervisor must start a session process of
# its own version again.
[[ $(readlink "/proc/$supervisor/exe") == *"(deleted)" ]] || fail "the program was not replaced"
kill -KILL "$session"
view "$(link work)" "wait-pixel 100 100 00cc00" ||
    fail "a session process that was killed after the upgrade"
[[ $(listed restarts) == 1 && $(listed session) != "$session" ]] ||
    fail "the supervisor did not start another"
program_of() { stat -Lc %i "/proc/$1/exe"; }
[[ $(program_of "$(listed session)") == "$(program_of "$supervisor")" ]] ||
    fail "another program than the supervisor's"
ok "a session process that dies after the upgrade is started again, as the old version"
as_person thinc serve --detach --name new -- xterm -geometry 80x24+0+0 >/dev/null ||
    fail "a new session beside the old"
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
left=$(find /run/user/1000 ! -type d)
[[ -z $left ]] || fail "left behind: $left"
ok "the session ends with its program, and so do its processes, sockets and secrets"
files >/.test/after
diff /.test/before /.test/after ||
    fail "the packages left files behind, or removed files of others"
# These packages have no configuration and no script, so a purge has nothing more to do.
[[ -z $(dpkg-query -W -f '${Package}\n' 'thinc*' 2>/dev/null) ]] || fail "dpkg remembers them"
! grep -q thinc "$mime_cache" || fail "thinc:// still opens something"
ok "nothing is left outside the person's home"

# shellcheck source=packaging/inside-host.sh
source /.test/inside-host.sh
printf '%d passed, 0 failed\n' "$passed"
