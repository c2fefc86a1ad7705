# shellcheck shell=sh disable=SC2154
# What thinc-view runs on a host through ssh: becomes `thinc session --stdio` if thinc-view's
# version of thinc is there; otherwise says what is there, and does what thinc-view answers.
# From ssh.rs, which sets version, task and the arguments of thinc before it, and encodes it for any
# login shell; its report goes to transport's host.rs, its answers come from install.rs.
# Knows files and programs of the host; decides nothing. POSIX sh, and programs of every Linux.
#
# Both sides take turns: thinc-view sends nothing before it has read the last answer. So a program
# that reads more than it was told to (head does, on some systems) takes no byte of what follows.

say() { printf '%s\n' "$*"; }
fail() {
    printf 'thinc: %s\n' "$*" >&2
    exit 1
}

# The XDG specification: a relative path is ignored.
data=${XDG_DATA_HOME-}
case $data in
/*) ;;
*) data=$HOME/.local/share ;;
esac
base=$data/thinc
folder=$base/$version

if [ "$task" = remove ]; then
    printf '\036thinc host 1\n'
    for old in "$base"/*/ "$base"/.new-*/; do
        old=${old%/}
        # Only folders that this script has made.
        [ ! -h "$old" ] || continue
        case ${old##*/} in
        "$version" | .new-[0-9]*) ;;
        *[!0-9.]*) continue ;;
        esac
        [ -e "$old/thinc" ] || [ -e "$old/thinc_drv.so" ] || continue
        # Other files are not ours, and their folder stays.
        why=$(rm -f "$old/thinc" "$old/thinc_drv.so" 2>&1) || fail "$why"
        rmdir "$old" 2>/dev/null || true
        say "removed $old"
    done
    rmdir "$base" 2>/dev/null || true
    say end
    exit 0
fi

found=$(command -v thinc 2>/dev/null) || found=
if [ -n "$found" ]; then
    there=$("$found" --version 2>/dev/null </dev/null) || there=
    [ "$there" != "thinc $version" ] || exec "$found" "$@"
fi
if [ -x "$folder/thinc" ]; then
    copied=$("$folder/thinc" --version 2>/dev/null </dev/null) || copied=
    [ "$copied" != "thinc $version" ] || exec "$folder/thinc" "$@"
fi

printf '\036thinc host 1\n'
say "system $(uname -s)"
say "machine $(uname -m)"
libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc=$(ldd --version 2>&1 | sed 1q)
say "libc $libc"
if [ -r /etc/os-release ]; then
    (
        # shellcheck source=/dev/null
        . /etc/os-release
        say "os ${ID-} ${ID_LIKE-}"
        say "name ${PRETTY_NAME-}"
    )
fi
[ -z "$found" ] || say "other ${there:-thinc of an unknown version}"
say "folder $folder"
near=$base
while [ ! -d "$near" ]; do near=$(dirname "$near"); done
say "free $(df -Pk "$near" 2>/dev/null | sed -n '2s/.* \([0-9][0-9]*\)  *[0-9][0-9]*%.*/\1/p')"
# As in thinc's search.rs.
places=${THINC_XORG-}
for xorg in ${places:-/usr/lib/xorg/Xorg /usr/libexec/Xorg /usr/lib64/xorg/Xorg /usr/lib/Xorg}; do
    [ -x "$xorg" ] || continue
    server=$("$xorg" -version 2>&1 </dev/null | sed -n 's/^X\.Org X Server //p' | sed 1q)
    say "xorg ${server:-of an unknown version}"
    break
done
say end

# The viewer has gone if there is no answer.
IFS=' ' read -r answer name bytes sum mode || exit 1
[ "$answer" != use ] || exec "$found" "$@"

# What another viewer left half-copied, a day ago or more.
find "$base" -name '.new-*' -prune -mtime +0 -exec rm -rf {} + 2>/dev/null
# All may read the copy and nobody else may write it, whatever the user's umask is.
mask=$(umask)
umask 022
why=$(mkdir -p "$base" 2>&1) || fail "cannot make a folder for thinc: $why"
# A copy that ended without a trace may have had the same process number.
for new in "$$" "$$-1" "$$-2" "$$-3"; do
    new=$base/.new-$version-$new
    made=yes
    why=$(mkdir "$new" 2>&1) && break
    made=no
done
[ "$made" = yes ] || fail "cannot make a folder for thinc: $why"
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT PIPE TERM

while [ "$answer" = put ]; do
    say next
    why=$(head -c "$bytes" 2>&1 >"$new/$name") || fail "cannot write $new/$name: $why"
    got=$(wc -c <"$new/$name")
    [ "$got" -eq "$bytes" ] ||
        fail "the copy of $name is incomplete: $((got)) of $bytes bytes arrived"
    copy=$(sha256sum <"$new/$name")
    [ "${copy%% *}" = "$sum" ] ||
        fail "the copy of $name is damaged: its SHA-256 is ${copy%% *}, not $sum"
    why=$(chmod "$mode" "$new/$name" 2>&1) || fail "$why"
    say next
    IFS=' ' read -r answer name bytes sum mode || exit 1
done
[ "$answer" = run ] || fail "thinc-view has another version than this script: it says $answer"

# Before it is used: libraries may be missing, or the folder may allow no programs.
copied=$("$new/thinc" --version 2>"$new/words" </dev/null) ||
    fail "the copied thinc does not run here: $(cat "$new/words")"
[ "$copied" = "thinc $version" ] || fail "the copied program is $copied, not thinc $version"
# Each file appears complete or not at all. Another viewer may copy the same files meanwhile.
# thinc is last: without it the folder is not used.
why=$(mkdir -p "$folder" 2>&1 && mv -f "$new/thinc_drv.so" "$new/thinc" "$folder/" 2>&1) ||
    fail "cannot move thinc to $folder: $why"
rm -rf "$new"
trap - EXIT
umask "$mask"
exec "$folder/thinc" "$@"
