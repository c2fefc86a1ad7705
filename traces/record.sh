#!/usr/bin/env bash
# Records the traces of this folder from real applications, and redacts them: traces/record.sh NAME…
# A headless viewer types, scrolls and clicks; each trace has a function below with its input.
# Knows commands of `thinc` and of thinc-view's scripts. Needs both built, the driver, and the
# application.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=${THINC_PROGRAMS:-$here/../target/release}
folder=$(mktemp -d)
session=trace-$$
trap '"$programs/thinc" stop "$session" >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT

begin() { # SIZE COMMAND…: starts a session, traced from its first record on, and a viewer
    local size=$1
    shift
    "$programs/thinc" serve --detach --name "$session" --size "$size" --window-manager none \
        --trace "$folder/whole.trace" -- "$@" >"$folder/log"
    local link
    link=$("$programs/thinc" link --native "$session")
    coproc viewer {
        THINC_LINK=$link "$programs/thinc-view" --headless --timeout 180 --script -
    }
    run_line wait-quiet
}

run_line() { # LINE: a line of the viewer's script
    local answer
    printf '%s\n' "$1" >&"${viewer[1]}"
    read -r answer <&"${viewer[0]}"
    [[ $answer == ok* ]] || { echo "$1: $answer" >&2; exit 1; }
}

wait_pixel() { # X Y COLOUR: waits until the pixel has it
    run_line "wait-pixel $1 $2 $3"
    run_line wait-quiet
}

type_slowly() { # TEXT: types about eight keys a second, like a person
    local i
    for ((i = 0; i < ${#1}; i++)); do
        run_line "type ${1:i:1}"
        sleep 0.12
    done
}

key() { # NAME COUNT: presses it that often, ten times a second
    local i
    for ((i = 0; i < $2; i++)); do
        run_line "key $1"
        sleep 0.1
    done
}

end() { # NAME: ends the session and redacts its trace
    run_line wait-quiet
    run_line quit
    "$programs/thinc" stop "$session" >/dev/null
    rm -f "$here/$1.trace"
    "$programs/thinc" trace redact "$folder/whole.trace" "$here/$1.trace" >/dev/null
    # For comparison, if the caller wants it: it shows the content of the screen.
    [[ -z ${THINC_TRACES_WHOLE:-} ]] || cp "$folder/whole.trace" "$THINC_TRACES_WHOLE/$1.trace"
    rm "$folder/whole.trace"
    "$programs/thinc" trace info "$here/$1.trace"
}

in_fresh_home() { # COMMAND: prints a command that runs it under a window manager, with a new home
    echo "export HOME=$folder XDG_CONFIG_HOME=$folder/config XDG_DATA_HOME=$folder/data;" \
        "exec openbox --startup \"sh -c '$1'\""
}

text_file() { # LINES: writes $folder/text.txt
    local i
    for ((i = 0; i < $1; i++)); do
        echo "A line of text that is long enough to be looked at, and number $i of many."
    done >"$folder/text.txt"
}

# A terminal that scrolls: a listing, then line after line, then typing.
record_xterm() {
    begin 800x600 xterm -geometry 110x40+10+10 -e sh
    run_line "move 300 300"
    run_line "type ls -l /usr/lib"
    run_line "key Return"
    run_line wait-quiet
    local loop="for i in \$(seq 1 150); do"
    loop+=" echo line \$i of what is printed one by one; sleep 0.02; done"
    run_line "type $loop"
    run_line "key Return"
    sleep 5
    type_slowly "echo a line that somebody types"
    run_line "key Return"
    end xterm
}

# A GTK 3 editor: everything through back buffers. Typing, paging, the wheel, a menu.
record_mousepad() {
    text_file 400
    begin 1024x768 sh -c "$(in_fresh_home "exec mousepad --disable-server $folder/text.txt")"
    wait_pixel 500 400 ffffff
    run_line "move 500 400"
    run_line "click 1"
    type_slowly "typed by a user, in the middle of a line"
    run_line "key Return"
    key Next 5
    key Down 30
    local notch
    for notch in 1 2 3 4 5 6; do
        run_line "scroll 0 $((notch % 4 == 0 ? -240 : 120))"
        sleep 0.1
    done
    run_line "click 3"
    sleep 0.5
    run_line "key Escape"
    end mousepad
}

# LibreOffice Writer, a GTK 3 program whose back buffer lives as long as its window: typing, then
# paging.
record_writer() {
    text_file 150
    begin 1024x768 sh -c "$(in_fresh_home "exec env SAL_USE_VCLPLUGIN=gtk3 soffice --norestore \
        --nologo --nofirststartwizard --writer $folder/text.txt")"
    wait_pixel 400 740 ffffff
    run_line "move 512 400"
    run_line "click 1"
    type_slowly "Typed by a user into Writer."
    run_line "key Return"
    key Down 30
    key Next 4
    key Prior 4
    end writer
}

for name; do "record_$name"; done
