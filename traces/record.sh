#!/usr/bin/env bash
# Records the traces of this folder from real applications, and redacts them: traces/record.sh NAME…
# A hand at a viewer without a window types, scrolls and clicks; what it does stands below, one function a trace.
# Knows words of `thinc` and of thinc-view's scripts; needs both built, the driver, and the application.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=${THINC_PROGRAMS:-$here/../target/release}
folder=$(mktemp -d)
session=trace-$$
trap '"$programs/thinc" stop "$session" >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT

begin() { # SIZE COMMAND…: a session that is traced from its first record on, and a hand in it
    local size=$1
    shift
    "$programs/thinc" serve --detach --name "$session" --size "$size" --trace "$folder/whole.trace" -- "$@" >"$folder/log"
    coproc hand { "$programs/thinc-view" "$("$programs/thinc" link --native "$session")" --headless --timeout 180 --script -; }
    say wait-quiet
}

say() { # LINE: the hand does it
    local answer
    printf '%s\n' "$1" >&"${hand[1]}"
    read -r answer <&"${hand[0]}"
    [[ $answer == ok* ]] || { echo "$1: $answer" >&2; exit 1; }
}

appear() { # X Y COLOUR: until that pixel has it
    say "wait-pixel $1 $2 $3"
    say wait-quiet
}

type_slowly() { # TEXT: about eight keys a second, as a person does
    local i
    for ((i = 0; i < ${#1}; i++)); do
        say "type ${1:i:1}"
        sleep 0.12
    done
}

key() { # NAME COUNT: pressed that often, ten times a second
    local i
    for ((i = 0; i < $2; i++)); do
        say "key $1"
        sleep 0.1
    done
}

end() { # NAME: the trace, redacted
    say wait-quiet
    say quit
    "$programs/thinc" stop "$session" >/dev/null
    rm -f "$here/$1.trace"
    "$programs/thinc" trace redact "$folder/whole.trace" "$here/$1.trace" >/dev/null
    # Beside the redacted one, where the caller wants to look: it shows what was on the screen.
    [[ -z ${THINC_TRACES_WHOLE:-} ]] || cp "$folder/whole.trace" "$THINC_TRACES_WHOLE/$1.trace"
    rm "$folder/whole.trace"
    "$programs/thinc" trace info "$here/$1.trace"
}

in_fresh_home() { # COMMAND: with a window manager, and with no memory of an earlier time
    echo "export HOME=$folder XDG_CONFIG_HOME=$folder/config XDG_DATA_HOME=$folder/data; exec openbox --startup \"sh -c '$1'\""
}

# A terminal that scrolls: a listing, then one line after the other, then typing.
record_xterm() {
    begin 800x600 xterm -geometry 110x40+10+10 -e sh
    say "move 300 300"
    say "type ls -l /usr/lib"
    say "key Return"
    say wait-quiet
    say "type for i in \$(seq 1 150); do echo line \$i of what is printed one by one; sleep 0.02; done"
    say "key Return"
    sleep 5
    type_slowly "echo a line that somebody types"
    say "key Return"
    end xterm
}

# A GTK 3 editor: everything through back buffers. Typing, paging, the wheel, a menu.
record_mousepad() {
    local i
    for ((i = 0; i < 400; i++)); do echo "A line of text that is long enough to be looked at, and number $i of many."; done >"$folder/text.txt"
    begin 1024x768 sh -c "$(in_fresh_home "exec mousepad --disable-server $folder/text.txt")"
    appear 500 400 ffffff
    say "move 500 400"
    say "click 1"
    type_slowly "typed by a hand, in the middle of a line"
    say "key Return"
    key Next 5
    key Down 30
    local notch
    for notch in 1 2 3 4 5 6; do
        say "scroll 0 $((notch % 4 == 0 ? -240 : 120))"
        sleep 0.1
    done
    say "click 3"
    sleep 0.5
    say "key Escape"
    end mousepad
}

# LibreOffice Writer, a GTK 3 program whose back buffer lives as long as its window: typing, then paging.
record_writer() {
    local i
    for ((i = 0; i < 150; i++)); do echo "A line of text that is long enough to be looked at, and number $i of many."; done >"$folder/text.txt"
    begin 1024x768 sh -c "$(in_fresh_home "exec env SAL_USE_VCLPLUGIN=gtk3 soffice --norestore --nologo --nofirststartwizard --writer $folder/text.txt")"
    appear 400 740 ffffff
    say "move 512 400"
    say "click 1"
    type_slowly "Typed by a hand into Writer."
    say "key Return"
    key Down 30
    key Next 4
    key Prior 4
    end writer
}

for name; do "record_$name"; done
