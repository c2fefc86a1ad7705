# What an administrator does with thinc-desktop-host, step by step, and people meanwhile: install,
# log in, upgrade while they work, run without an init system, remove, purge.
# Read by packaging/inside.sh at its end, for "ok", "fail", "files" and "install_packages": in the
# same root, where nothing of thinc is installed any more.
# Knows HTTPS as a browser speaks it, the native viewer, and the system by its files and processes.
# shellcheck shell=bash disable=SC2154  # inside.sh has "first" and "second"

server=https://localhost
password='correct horse 8'
host=(thinc-desktop-host thinc-desktop-server)

# Tries a command until it succeeds, for 30 s: its success is no event that the shell can wait for.
await() {
    local end=$((SECONDS + 30))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || return 1
        sleep 0.1
    done
}
# As a page of the server's: its cookie, its origin secret.
request() { # METHOD PATH [CURL'S OPTIONS…]
    curl --silent --insecure --fail-with-body --max-time 60 --request "$1" "$server$2" \
        --header "Origin: $server" --header "Cookie: $cookie" \
        --header "Thinc-Origin-Secret: $secret" "${@:3}"
}
answers() { curl --silent --insecure --fail --max-time 5 "$server/"; }
log_in() { # USER PASSWORD; sets cookie and secret
    local answer
    cookie='' secret=''
    answer=$(request POST /login --include --header 'Content-Type: application/json' \
        --data "{\"user\": \"$1\", \"password\": \"$2\"}") || return 1
    cookie=$(sed -n 's/^set-cookie: \([^;]*\);.*/\1/ip' <<<"$answer")
    secret=$(sed -n 's/.*"originSecret":"\([^"]*\)".*/\1/p' <<<"$answer")
    [[ -n $cookie && -n $secret ]]
}
# The broker's main process, and processes of its parts.
helper() { pgrep --full --exact '(/usr/bin/)?thinc broker'; }
parts() { pgrep --full "^[^ ]*thinc broker"; }
no_parts() { ! parts; }
no_agents() { ! pgrep --full "^[^ ]*thinc broker-part agent"; }
# Reads what a terminal shows, up to this.
read_until() { # TEXT
    local seen='' char
    until [[ $seen == *"$1" ]]; do
        IFS= read -r -t 30 -N 1 char <&"$from_terminal" || {
            printf '%s\n' "$seen"
            return 1
        }
        seen+=$char
    done
}
answer() { # QUESTION LINE
    read_until "$1" && printf '%s\n' "$2" >&"$to_terminal"
}
ask_viewer() { # LINE
    printf '%s\n' "$1" >&"$to_viewer" && read_until 'ok' && read_until $'\n'
}

useradd --create-home --shell /bin/sh worker
printf 'worker:%s\n' "$password" | chpasswd
# The desktop of this machine.
printf '#!/bin/sh\nexec xterm -geometry 80x24+0+0\n' >/usr/local/bin/x-session-manager
chmod 755 /usr/local/bin/x-session-manager
# This root has no init system, without which Debian starts no services; one with sysvinit has.
printf '#!/bin/sh\nexit 0\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
# People's own; it stays when the server's packages go.
install_packages /.test/first/thinc-desktop-viewer_*.deb
files >/.test/before-host

# --- install
install_packages /.test/first/thinc-desktop-{server,host}_*.deb
await answers || {
    cat /var/log/thinc-broker.log /tmp/apt.log || true
    fail "$server does not answer after apt-get install"
}
ok "after apt-get install $server answers"
id thinc-front >/tmp/apt.log || fail "there is no account of the front"
[[ $(pgrep --full 'broker-part front' --uid thinc-front | wc -l) == 1 ]] ||
    fail "no front runs as thinc-front"
for file in /etc/pam.d/thinc /etc/thinc/broker.toml; do
    grep -q " $file\$\| $file " <<<"$(dpkg-query -W -f '${Conffiles}' "${host[0]}")" ||
        fail "$file is no configuration file of the package"
done
thinc broker --check || fail "thinc broker --check"
ok "the front has its account, and the configuration is the administrator's"
unit=$(dpkg-query -L "${host[0]}" | grep '/system/thinc-broker.service$')
# Whatever systemd takes away, people's desktops would miss.
takes='NoNewPrivileges|Private|Protect|Restrict[A-Z]|CapabilityBoundingSet|Lock|Memory|SystemCall'
takes+='|UMask|ReadOnly|Inaccessible|IPAddress|Device|RemoveIPC|DynamicUser|User|Nice'
inherited=$(grep -E "^($takes)" "$unit") &&
    fail "desktops would inherit: $inherited"
grep -qx KillMode=process "$unit" || fail "stopping the unit would end desktops"
ok "the unit takes nothing from desktops, and does not end them"

# --- use: an account made here, as a browser and with the native viewer
# Some containers forbid to set it (doc/hosting.md): an administrator's change, which has to stay.
sed -i 's/required  pam_loginuid.so/optional  pam_loginuid.so/' /etc/pam.d/thinc
! log_in worker wrong || fail "a wrong password opens it"
log_in worker "$password" || fail "no login: $(tail -n 5 /var/log/thinc-broker.log)"
answer=$(request POST /start) || fail "no desktop: $answer"
session=$(request GET /sessions | sed 's/.*"name":"\([^"]*\)".*/\1/')
terminal=$(pgrep --oldest -x xterm -u worker)
ok "a person with an account logs in, and has the desktop $session"
mkfifo /tmp/lines
coproc TERMINAL {
    # It asks on a terminal.
    exec script --quiet --return --command "setpriv --reuid worker --regid worker --init-groups \
        env --ignore-environment --chdir=/home/worker HOME=/home/worker USER=worker \
        PATH=/usr/bin:/bin LANG=C.UTF-8 \
        thinc-view $server --headless --timeout 60 --script /tmp/lines" /dev/null
}
exec {to_terminal}>&"${TERMINAL[1]}" {from_terminal}<&"${TERMINAL[0]}"
viewer_pid=$TERMINAL_PID
answer 'User name [worker]: ' worker || fail "the viewer asks for no name"
answer 'Password: ' "$password" || fail "the viewer asks for no password"
answer 'Stay signed in on this device? [y/N] ' no ||
    fail "the viewer remembers without a question"
exec {to_viewer}>/tmp/lines
colour() { # FROM TO
    ask_viewer "wait-pixel 100 100 $1" && ask_viewer "move 100 100" &&
        ask_viewer "type printf '\\\\033]11;#$2\\\\007'\\n" && ask_viewer "wait-pixel 100 100 $2"
}
colour ffffff cc0000 || fail "the native viewer types and sees"
ok "the native viewer logs in, types and sees"

# --- upgrade while they work
before=$(helper)
install_packages /.test/second/thinc-desktop-{server,host}_*.deb
await answers || fail "$server does not answer after the upgrade"
[[ $(helper) != "$before" ]] || fail "the helper is the old one"
[[ $(readlink "/proc/$(helper)/exe") == /usr/bin/thinc ]] || fail "the helper is of the old version"
[[ $(readlink "/proc/$(pgrep --full 'broker-part front')/exe") == /usr/bin/thinc ]] ||
    fail "the front is of the old version"
kill -0 "$terminal" || fail "the upgrade ended a desktop"
grep -q 'optional  pam_loginuid' /etc/pam.d/thinc || fail "an administrator's change is lost"
request GET /sessions | grep -q "\"$session\"" || fail "the page has to log in again"
ok "helper and front are of the new version; the page goes on without a password"
colour cc0000 0000cc || fail "the viewer that was there before the upgrade"
ok "the viewer reconnects by itself; the desktop has lived on"
request POST "/desk/$session/end" || fail "the desktop does not end"
answer=$(request POST /start) || fail "no desktop from a login before the upgrade: $answer"
serving=$(pgrep --full 'thinc serve' --uid worker | head -n 1)
[[ $(readlink "/proc/$serving/exe") == /usr/bin/thinc ]] || fail "it is of the old version"
ok "a login from before the upgrade starts desktops of the new version"
exec {to_viewer}>&- {to_terminal}>&- {from_terminal}<&-
kill "$viewer_pid" 2>/dev/null || true
wait "$viewer_pid" 2>/dev/null || true
rm /tmp/lines

# --- killed; the init script
kill -KILL "$(helper)"
await bash -c '! curl --silent --insecure --max-time 5 '"$server/" || fail "the front goes on alone"
# The number of a process that has nothing to do with it, as after a reboot.
pidfile=/run/thinc-broker.pid
sleep 1000 &
echo $! >$pidfile
! /etc/init.d/thinc-broker status >/tmp/apt.log || fail "another process counts as the broker"
/etc/init.d/thinc-broker stop >/tmp/apt.log || fail "/etc/init.d/thinc-broker stop"
kill -0 $! || fail "stopping ended another process"
kill $!
/etc/init.d/thinc-broker start >/tmp/apt.log || fail "/etc/init.d/thinc-broker start"
await answers || fail "the init script starts nothing"
for action in status reload; do
    /etc/init.d/thinc-broker "$action" >/tmp/apt.log || fail "/etc/init.d/thinc-broker $action"
done
request GET /sessions | grep -q "\"$session\"" || fail "the page has to log in again"
ok "killed and started by its init script, it knows who is logged in; a reused number harms nobody"

# --- any supervisor of services: the command line of doc/hosting.md, started again when it ends
/etc/init.d/thinc-broker stop >/tmp/apt.log || fail "/etc/init.d/thinc-broker stop"
[[ -z $(helper) ]] || fail "it was not stopped"
(while :; do
    thinc broker >/tmp/broker.log 2>&1 &
    main=$!
    trap 'kill -TERM $main; wait $main || true; exit' TERM
    wait $main || true
done) &
supervisor=$!
await answers || fail "thinc broker in a supervisor"
before=$(helper)
kill -KILL "$before"
await answers || fail "the supervisor's next broker"
[[ $(helper) != "$before" ]] || fail "the broker was not killed"
request GET /sessions | grep -q "\"$session\"" || fail "the page has to log in again"
kill -TERM $supervisor
wait $supervisor || true
rm -f /tmp/broker.log
ok "any supervisor of services runs it, and only its main process ends"
/etc/init.d/thinc-broker start >/tmp/apt.log
await answers || fail "the init script starts it again"

# --- remove while somebody works, and purge
terminal=$(pgrep --oldest -x xterm -u worker)
apt-get -q remove --yes "${host[0]}" >/tmp/apt.log 2>&1 || fail "apt-get remove ${host[0]}"
kill -0 "$terminal" || fail "removing ended a desktop"
! answers || fail "the removed broker answers"
[[ -z $(helper) ]] || fail "the removed broker runs"
await no_agents || fail "agents wait for a broker"
[[ $(parts | wc -l) == 1 ]] || fail "more than the login process of a desktop: $(parts)"
ok "removing ends broker and logins, and nobody's desktop"
kill "$terminal"
await bash -c '! pgrep --uid worker' || fail "left behind: $(pgrep -lu worker)"
await no_parts || fail "left behind: $(parts)"
apt-get -q purge --yes "${host[@]}" >/tmp/apt.log 2>&1 || fail "apt-get purge"
! getent passwd thinc-front >/tmp/apt.log || fail "the account is left"
! getent group thinc-front >/tmp/apt.log || fail "the group is left"
# Without logind, a person's runtime folder is in /tmp until the machine restarts.
rmdir "/tmp/thinc-$(id -u worker)"
files >/.test/after-host
# What useradd and userdel save before they change an account, and the next free number.
diff <(grep -v '/etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-\? ' /.test/before-host) \
    <(grep -v '/etc/\(passwd\|group\|shadow\|gshadow\|subuid\|subgid\)-\? ' /.test/after-host) ||
    fail "the packages left files behind, or removed files of others"
ok "purging leaves no account, file, unit or process"
