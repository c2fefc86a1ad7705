# A virtual machine with Debian's kernel, in which a command of this machine runs as root: for what
# this kernel cannot show, such as control groups of version 2 alone, with systemd or without.
# Read by ./dev test --long. No virtualisation by hardware is needed: QEMU interprets (TCG).
# Knows kernels and mounts; nothing of what is run inside. The guest sees this machine's files, and
# what it writes is in its memory: nothing is left.
# ./dev uses packages_vm, and has "root", "cargo" and "locked".
# shellcheck shell=bash disable=SC2034,SC2154

packages_vm=(qemu-system-x86 systemd systemd-sysv dbus xz-utils)

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

# Debian 13 compresses them.
vm_module() { # FOLDER MODULE
    local file
    file=$(find "$1/files" -name "$2.ko*")
    case $file in
    *.xz) xz --decompress --stdout "$file" ;;
    *) cat "$file" ;;
    esac
}

# In the order in which they need each other.
vm_modules=(virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci
    netfs fscache 9pnet 9pnet_virtio 9p overlay)

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

# Runs an executable file in a new virtual machine, by systemd or, if that is "plain", without it.
# Its output is printed, and its status returned; 99 if the guest did not get that far.
vm_run() { # FOLDER systemd|plain FILE
    local folder=$1 init=$2 command=$3 output status
    vm_fetch "$folder" || {
        echo "the kernel for a virtual machine cannot be had" >&2
        return 99
    }
    output=$folder/$init.output
    : >"$output"
    timeout 900 qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 2048 \
        -display none -monitor none -nodefaults -no-reboot \
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
