# A virtual machine with Debian's kernel, in which a command of this machine runs as root: for what
# this kernel cannot show, such as control groups of version 2 alone, with systemd or without, or a
# GPU: virtio's, which this machine's Mesa draws for in software (virgl).
# Read by ./dev test --long. No virtualisation by hardware is needed: QEMU interprets (TCG).
# Knows kernels and mounts; nothing of what is run inside. The guest sees this machine's files, and
# what it writes is in its memory: nothing is left.
# ./dev uses packages_vm, and has "root", "cargo" and "locked".
# shellcheck shell=bash disable=SC2034,SC2154

packages_vm=(qemu-system-x86 systemd systemd-sysv dbus xz-utils)
# QEMU's window that OpenGL draws in, the driver of the virtual GPU, and programs that use it.
packages_vm_gl=(
    qemu-system-gui xvfb xauth libgl1-mesa-dri libgbm1 mesa-utils
    picom util-linux iproute2
)

# What it boots from: the kernel and the static shell of this machine's release, not installed.
vm_fetch() { # FOLDER
    local folder=$1 kernel state
    state=$(vm_init | cksum)
    [[ ! -e $folder/initrd.gz || $(<"$folder/state") != "$state" ]] || return 0
    rm -rf "$folder" && mkdir -p "$folder/deb" "$folder/files" "$folder/initrd"/{bin,modules}
    kernel=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p')
    (cd "$folder/deb" && apt-get download "${kernel%%$'\n'*}" busybox-static) >&2 || return 1
    local deb module
    for deb in "$folder"/deb/*.deb; do dpkg-deb -x "$deb" "$folder/files"; done
    cp "$folder"/files/boot/vmlinuz-* "$folder/kernel"
    cp "$folder/files/bin/busybox" "$folder/initrd/bin/"
    for module in "${vm_modules[@]}"; do
        vm_module "$folder" "$module" >"$folder/initrd/modules/$module.ko" || return 1
    done
    vm_init >"$folder/initrd/init"
    chmod 755 "$folder/initrd/init"
    (
        set -o pipefail
        cd "$folder/initrd"
        mkdir -p proc sys dev host memory new
        find . | bin/busybox cpio -o -H newc 2>/dev/null | gzip >../initrd.part
    ) || return 1
    rm -rf "$folder/files" "$folder/deb"
    mv "$folder/initrd.part" "$folder/initrd.gz"
    echo "$state" >"$folder/state"
}

# Debian 13 compresses them. The file of a module may have "-" in its name for "_".
vm_module() { # FOLDER MODULE
    local file
    file=$(find "$1/files" -name "${2//_/[-_]}.ko*")
    case $file in
    *.xz) xz --decompress --stdout "$file" ;;
    *) cat "$file" ;;
    esac
}

# In the order in which they need each other.
vm_modules=(virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci
    netfs fscache 9pnet 9pnet_virtio 9p overlay
    drm drm_kms_helper drm_shmem_helper virtio_dma_buf virtio_gpu)

# The first process of the guest. vm_init and vm_command are variables from the command line of the
# kernel.
vm_init() {
    cat <<'END'
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
END
    printf "\$b insmod /modules/%s.ko\n" "${vm_modules[@]}"
    cat <<'END'
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose host /host
$b mount -t tmpfs memory /memory
$b mkdir /memory/upper /memory/work
$b mount -t overlay -o lowerdir=/host,upperdir=/memory/upper,workdir=/memory/work root /new
for folder in proc sys dev; do $b mount --move /$folder /new/$folder; done
unit=/new/etc/systemd/system/vm-command.service
$b cat >$unit <<UNIT
[Unit]
Requires=basic.target
Wants=dbus.service systemd-logind.service
After=basic.target dbus.service systemd-logind.service
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/bash -c '"$vm_command"; echo "vm: exit \$\$?"'
StandardInput=null
StandardOutput=file:/dev/ttyS1
StandardError=inherit
UNIT
# It would empty the folders for temporary files of this machine's copy, one by one.
$b ln -s /dev/null /new/etc/systemd/system/systemd-tmpfiles-setup.service
if [ "$vm_init" = plain ]; then
    $b cat >/new/vm-init <<'PLAIN'
#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
"$vm_command" >/dev/ttyS1 2>&1 </dev/null
echo "vm: exit $?" >/dev/ttyS1
echo o >/proc/sysrq-trigger
sleep 60
PLAIN
    $b chmod 755 /new/vm-init
    exec $b switch_root /new /vm-init
fi
exec $b switch_root /new /lib/systemd/systemd --unit=vm-command.service
END
}

# Runs an executable file in a new virtual machine, by systemd or, if that is "plain", without it;
# with a GPU if that is asked for. Its output is printed, and its status returned; 99 if the guest
# did not get that far.
vm_run() { # FOLDER systemd|plain FILE [gpu]
    local folder=$1 init=$2 command=$3 output status display=() run=()
    case ${4:-} in
    gpu)
        # The GPU draws with what OpenGL its window has, so the window needs a screen.
        display=(-display "sdl,gl=on" -device virtio-vga-gl)
        run=(env SDL_VIDEODRIVER=x11 xvfb-run -a -s "-screen 0 1280x1024x24")
        ;;
    *) display=(-display none) ;;
    esac
    vm_fetch "$folder" || {
        echo "the kernel for a virtual machine cannot be had" >&2
        return 99
    }
    output=$folder/$init.output
    : >"$output"
    "${run[@]}" timeout 900 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 \
        -monitor none -nodefaults -no-reboot "${display[@]}" \
        -serial "file:$folder/$init.console" -serial "file:$output" \
        -kernel "$folder/kernel" -initrd "$folder/initrd.gz" \
        -append "console=ttyS0 panic=-1 quiet vm_init=$init vm_command=$command" \
        -fsdev "local,id=root,path=/,security_model=passthrough,readonly=on,multidevs=remap" \
        -device virtio-9p-pci,fsdev=root,mount_tag=host >&2
    tr -d '\r' <"$output" | sed '/^vm: exit /d'
    status=$(tr -d '\r' <"$output" | sed -n 's/^vm: exit //p')
    [[ -n $status ]] || {
        echo "the virtual machine did not run $command; its console ends with:" >&2
        tail -20 "$folder/$init.console" >&2
        return 99
    }
    return "$status"
}

# The tests of control groups, which say what they skip, in a kernel that has version 2 alone.
vm_test_groups() { # systemd|plain
    local program command=$root/target/vm/groups
    program=$("$cargo" test "${locked[@]}" --release -p thinc-broker --lib --no-run \
        --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*thinc_broker[^"]*\)".*/\1/p')
    [[ -x $program ]] || { echo "the tests of thinc-broker are not built" >&2; return 1; }
    mkdir -p "${command%/*}"
    printf '#!/bin/sh\nexec %q --test-threads=1 --nocapture groups scope memory realtime\n' \
        "$program" >"$command"
    chmod 755 "$command"
    vm_run "$root/target/vm/boot" "$1" "$command" | tee "$command.$1"
    ((PIPESTATUS[0] == 0)) || return 1
    # Here every control group can be made; each of these needs what the other machine has.
    ! grep -o 'skipped: .*' "$command.$1" | grep -v -e 'systemd removes the groups$' \
        -e 'systemd does not own the control groups$' -e 'is not in version 1$'
}

# OpenGL on a GPU (crates/ring/tests/dri3.rs), and what thinc says of one.
vm_test_gl() {
    local program command=$root/target/vm/gl
    program=$("$cargo" test "${locked[@]}" --release -p thinc-ring --test dri3 --no-run \
        --message-format=json 2>/dev/null |
        sed -n 's/.*"executable":"\([^"]*dri3[^"]*\)".*/\1/p')
    [[ -x $program && -x $root/target/release/thinc ]] || {
        echo "the tests of thinc-ring, or thinc, are not built" >&2
        return 1
    }
    make -s -C "$root/driver" && make -s -C "$root/driver" test/gl || return 1
    mkdir -p "${command%/*}"
    {
        printf '#!/bin/bash\ntests=%q thinc=%q folder=%q\n' \
            "$program" "$root/target/release/thinc" "$root/crates/ring"
        vm_gl_commands
    } >"$command"
    chmod 755 "$command"
    vm_run "$root/target/vm/boot" plain "$command" gpu | tee "$command.output"
    ((PIPESTATUS[0] == 0)) || return 1
    # Everything that a GPU is needed for can be shown here.
    ! grep 'skipped: ' "$command.output"
}

vm_gl_commands() {
    cat <<'END'
node=/dev/dri/renderD128 failed=0
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/tmp/home XDG_STATE_HOME=/tmp/logs
logs=$XDG_STATE_HOME/thinc/log
mkdir $HOME
ip link set lo up
ls -l /dev/dri
check() { # WHAT FILE WORDS
    if grep -F -e "$3" "$2"; then echo "ok: $1"; else
        echo "FAILED: $1; there is:"
        cat "$2"
        failed=1
    fi
}
# Only root may use it, as the kernel has made it.
chmod 600 $node
(cd "$folder" && THINC_TEST_RENDER_NODE=$node "$tests" --test-threads=1 --nocapture) || failed=1
# Ends when the session has said what draws, or with the time limit of its session.
said='until grep -q ^3D: "$0"; do sleep 0.5; done'
timeout 300 "$thinc" serve --name gpu -- sh -c "glxinfo -B; $said" /tmp/gpu.serve \
    >/tmp/gpu.serve 2>&1
check "a program draws on the GPU, with nothing to type" \
    $logs/gpu/command.log "OpenGL renderer string: virgl"
check "the session says so" /tmp/gpu.serve "3D: virgl"
check "and names the node" /tmp/gpu.serve ", $node"
timeout 300 "$thinc" serve --name off --gpu off -- sh -c "glxinfo -B; $said" /tmp/off.serve \
    >/tmp/off.serve 2>&1
check "without it the processor draws" \
    $logs/off/command.log "OpenGL renderer string: llvmpipe"
check "the session says so" /tmp/off.serve "3D: software (llvmpipe), by --gpu off"
mkdir -m 777 /tmp/nobody
timeout 300 setpriv --reuid 65534 --regid 65534 --clear-groups \
    env HOME=/tmp/nobody XDG_STATE_HOME=/tmp/nobody \
    "$thinc" serve --name locked -- sh -c "$said" /tmp/locked.serve >/tmp/locked.serve 2>&1
why="there is a GPU at $node, but this account may not use it: add it to the group"
check "an account without rights is told" /tmp/locked.serve "3D: software (llvmpipe); $why"
timeout 300 "$thinc" serve --name wrong --gpu /dev/dri/card0 -- true >/tmp/wrong.serve 2>&1
check "what is no render node is refused" /tmp/wrong.serve \
    "--gpu /dev/dri/card0 is no render node: name one of /dev/dri/renderD*, or say auto or off"
exit $failed
END
}
