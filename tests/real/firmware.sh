#!/bin/bash
# Firmware of real guests. A guest has a virtual IOMMU, a TPM 2.0, memory in a file, and a CPU flag that the options add.
# The TPM keeps a word over a hard reboot. Only the key manager has the TPM's passphrase. With another passphrase, or
# without a key manager, the start fails, and the API gives the reason. Other guests start with persistent memory, with
# UEFI, and with secure boot, from Debian's signed shim, GRUB and kernel.
# With CHRONOVA_SOAK=1 also: the TPM keeps the word over a cold migration that is confirmed and over one that is
# reverted.
set -uo pipefail
. "$(dirname "$0")/../testbed/fleet.sh"
UEFI=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest-uefi.qcow2
command -v swtpm >/dev/null || cannot "no swtpm on this machine"
[ -n "$(find /usr/share/qemu/firmware -name '*secure-enrolled*' 2>/dev/null)" ] || cannot "no UEFI firmware with enrolled keys"
[ -s "$UEFI" ] && [ -z "$(find "$HERE/make-image.sh" "$HERE/guest" -newer "$UEFI" -print -quit)" ] \
  || bash "$HERE/make-image.sh" "$UEFI" --uefi >/dev/null 2>&1 || cannot "the guest image with UEFI cannot be built"
HOUSE_CONF=$'[chronova]\nkey_manager = embedded\npmem_path = /var/lib/libvirt\npmem_sizes = tiny=64\npmem_is_persistent = false\n[libvirt]\npmem_namespaces = tiny:ns0\nswtpm_enabled = true\nfile_backed_memory = 4096\ncpu_mode = custom\ncpu_models = Nehalem\ncpu_model_extra_flags = aes'
fleet_open firmware fw 10.74 2
house_furnish
within 60 "both hosts are up" host_stands h2 up
to_host() { os server "$1" --host "$2" "$3" --os-compute-api-version 2.91; } # verb, host, server

traits() { os --os-placement-api-version 1.6 resource provider trait list "$(os resource provider list --name "$1" -f value -c uuid)" -f value; } # host
# Prints the newest action of a server with its events. They give the reason even of a failure that leaves the server as
# it was.
newest() { # server
  os server event show "$1" "$(os server event list "$1" -f value -c 'Request ID' | head -n 1)" -f json --os-compute-api-version 2.84 2>/dev/null
}
# Sends a command to the guest's TPM 2.0, as bytes in hexadecimal; prints the answer in hexadecimal.
tpm() { # host, uuid, bytes
  local bytes; bytes=$(sed 's/\(..\)/\\x\1/g' <<<"$3")
  at "$1" "$2" "printf '$bytes' >/run/ask; exec 3<>/dev/tpm0; cat /run/ask >&3; dd bs=4096 count=1 <&3 2>/dev/null | od -An -tx1 -v | tr -d ' \\n'; exec 3<&-"
}
# The parts of the commands: the owner's hierarchy, its empty password, an NV index of eight bytes, and a word to store
# there.
OWNER=40000001 PASSWORD=00000009400000090000000000 INDEX=01800001 WORD=6b65707420697421
define_word() { tpm "$1" "$2" "80020000002d0000012a${OWNER}${PASSWORD}0000000e${INDEX}000b0206000600000008"; }
write_word() { tpm "$1" "$2" "80020000002b00000137${OWNER}${INDEX}${PASSWORD}0008${WORD}0000"; }
read_word() { tpm "$1" "$2" "8002000000230000014e${OWNER}${INDEX}${PASSWORD}00080000"; }
ended() { # the server with the TPM
  expect "the server with a TPM is deleted" os server delete --wait "$NAME-tpm"
  same "the passphrase of the TPM is deleted" "$(ls "$DATA/secrets")" ""
  same "the state of the TPM is deleted" "$(state_on h1 "$TPM")$(state_on h2 "$TPM")" ""
}
state_on() { ls "$STATE/$1/lib/swtpm/$2/tpm2" 2>/dev/null; } # host, uuid

for host in h1 h2; do like "$host offers secure boot, both versions of a TPM and virtual IOMMUs" "$(traits $host | tr '\n' ' ')" 'SECURITY_TPM_1_2.*SECURITY_TPM_2_0.*SECURITY_UEFI_SECURE_BOOT.*VIOMMU_MODEL_INTEL'; done
# Nehalem has SSE 4.2 and no AVX, which QEMU can emulate. The flags add AES.
same "h1 reports the CPU features of the model and of the flags" "$(traits h1 | grep -xE 'HW_CPU_X86_(AESNI|AVX|AVX2|SSE42)' | sort | tr '\n' ' ')" "HW_CPU_X86_AESNI HW_CPU_X86_SSE42 "

# `chronova host check` needs no running control plane. It tells an operator why a host would not be registered.
check_host() { printf '%s\n' '[libvirt]' "$@" >"$WORK/check.conf"; "$CHRONOVA_BIN" host check --config-file "$WORK/check.conf" "$(uri_of h1)" 2>&1; } # options...
like "the check of a host names its firmware" "$(check_host 'swtpm_enabled = true')" 'ok +guests can have an emulated TPM 2.0'
like "the check of a host says why guests are emulated" "$(check_host 'virt_type = qemu')" 'emulated.*virt_type is qemu'
like "the check of a host says whether guests can have PCI devices" "$(check_host 'virt_type = qemu')" 'guests can(not)? have PCI devices'
like "the API tells how long a real host has been up" "$(curl -fsS -m 10 -H "X-Auth-Token: $(os token issue -f value -c id)" -H 'OpenStack-API-Version: compute 2.88' "$URL/compute/v2.1/os-hypervisors/detail")" '"uptime": *"up [^"]*"'
like "a CPU model that the host can present is accepted" "$(check_host 'cpu_mode = custom' 'cpu_models = Nehalem')" 'ok +h1: QEMU'
like "a CPU model that the host cannot present fails, with its name" "$(check_host 'cpu_mode = custom' 'cpu_models = Nehalem,SapphireRapids')" 'FAIL.*SapphireRapids'
like "a CPU model for this host alone that it cannot present fails, with its name" "$(check_host 'cpu_mode = custom' 'cpu_models = Nehalem' '[chronova]' 'host_cpu_models = h1=SapphireRapids')" 'FAIL.*SapphireRapids'
like "a CPU model for another host alone does not matter" "$(check_host '[chronova]' 'host_cpu_models = h2=SapphireRapids')" 'ok +h1: QEMU'
like "a CPU flag that the host cannot present fails, with its name" "$(check_host 'cpu_mode = host-model' 'cpu_model_extra_flags = amx-tile')" 'FAIL.*amx-tile'

# --------------------------------------------------------------------------------- images, flavors and the first server

os image create --disk-format qcow2 --container-format bare --file "$UEFI" --public --property hw_firmware_type=uefi \
  --property hw_machine_type=q35 --property os_secure_boot=required "$NAME-uefi" >"$WORK/uefi" 2>&1 || bad "the image is uploaded" "$(cat "$WORK/uefi")"
os flavor create --vcpus 1 --ram 512 --disk 1 "$NAME-uefi" >"$WORK/flavor-uefi" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor-uefi")"
os flavor create --vcpus 1 --ram 160 --disk 1 --property hw:tpm_version=2.0 --property hw:tpm_model=tpm-crb \
  --property quota:disk_read_bytes_sec=104857600 --property quota:disk_write_iops_sec=5000 "$NAME-tpm" >"$WORK/flavor-tpm" 2>&1 \
  || bad "the flavor with a TPM is made" "$(cat "$WORK/flavor-tpm")"
expect "the image asks for a board with a virtual IOMMU" os image set --property hw_machine_type=q35 --property hw_viommu_model=intel "$NAME"
boot "$NAME-tpm" --flavor "$NAME-tpm"; TPM=$ID
FIRST=$(place "$NAME-tpm") SECOND=$(other "$(place "$NAME-tpm")")

# ------------------------------------------------------------------------------------------------------------------ TPM

ready "$NAME-tpm" "the guest with a TPM is booted"
same "h1 reports the capacity of its files as memory" \
  "$(os resource provider inventory show "$(os resource provider list --name h1 -f value -c uuid)" MEMORY_MB -f value -c total)" 4096
like "QEMU keeps the guest's disk within the limits of its flavor" "$(on "$FIRST" blkdeviotune "$TPM" vda | tr -d '\n')" 'read_bytes_sec *: 104857600.*write_iops_sec *: 5000'
like "the guest's memory is a file of its host" "$(find "$STATE/$FIRST/lib/qemu/ram" -type f -size +100M)" "/ram/"
like "the guest's definition has an IOMMU that remaps interrupts" "$(on "$FIRST" dumpxml "$TPM" | tr -d '\n')" "<ioapic driver='qemu'/>.*<iommu model='intel'> *<driver intremap='on' caching_mode='on' eim='off' iotlb='on' aw_bits='48'/>"
like "the guest's firmware lists the IOMMU" "$(at "$FIRST" "$TPM" ls /sys/firmware/acpi/tables/DMAR)" 'DMAR$'
like "the guest's CPU is the model that the options name" "$(at "$FIRST" "$TPM" 'grep -m 1 "^model name" /proc/cpuinfo')" 'Nehalem'
# Nehalem itself does not have this flag. The flags against hardware flaws come to the guest in the same way.
like "the guest's CPU has the flag that the options add" "$(at "$FIRST" "$TPM" 'grep -m 1 ^flags /proc/cpuinfo')" ' aes '
like "the guest's definition encrypts the TPM's state" "$(on "$FIRST" dumpxml "$TPM" | tr -d '\n')" "<tpm model='tpm-crb'> *<backend type='emulator' version='2.0'.*<encryption secret="
same "libvirt keeps no passphrase" "$(on "$FIRST" secret-list | grep -c vtpm)" 0
like "the guest has a TPM of version 2" "$(at "$FIRST" "$TPM" cat /sys/class/tpm/tpm0/tpm_version_major)" '^2$'
like "the guest defines a place in its TPM" "$(define_word "$FIRST" "$TPM")" '^80020000....00000000'
like "the guest writes a word at that place" "$(write_word "$FIRST" "$TPM")" '^80020000....00000000'
PASSPHRASE=$(sed -n 's/.*"payload":"\([^"]*\)".*/\1/p' "$DATA"/secrets/*)
expect "the key manager has the passphrase" test -n "$PASSPHRASE"
same "the event log does not have the passphrase" "$(grep -laF "${PASSPHRASE:-none}" "$DATA"/log.db* 2>/dev/null | wc -l)" 0
expect "the server with a TPM is rebooted hard" os server reboot --hard --wait "$NAME-tpm"
ready "$NAME-tpm" "the guest with a TPM is booted again" 2
like "the TPM kept the word over a hard reboot" "$(read_word "$FIRST" "$TPM")" "$WORD"
os server stop "$NAME-tpm"; within 60 "the server with a TPM is off" is "$NAME-tpm" SHUTOFF
cp -a "$DATA/secrets" "$WORK/secrets"
sed -i 's/"payload":"[^"]*"/"payload":"wrong"/' "$DATA"/secrets/*
os server start "$NAME-tpm"
within 30 "the guest does not start with another passphrase" eval '[[ $(newest "$NAME-tpm") == *Error* ]] && at_rest "$NAME-tpm" SHUTOFF'
like "the failed start gives the reason" "$(newest "$NAME-tpm")" '[Tt][Pp][Mm]|passphrase|decrypt'
cp -a "$WORK/secrets/." "$DATA/secrets/"
expect "with the right passphrase, a start is accepted" os server start "$NAME-tpm"
within 60 "the server with a TPM is ACTIVE again" at_rest "$NAME-tpm" ACTIVE

# ---------------------------------------------------------------------------------------------------- persistent memory

os flavor create --vcpus 1 --ram 160 --disk 1 --property hw:pmem=tiny "$NAME-pmem" >"$WORK/flavor-pmem" 2>&1 \
  || bad "the flavor with persistent memory is made" "$(cat "$WORK/flavor-pmem")"
same "a host offers its namespace" "$(os resource provider inventory show \
  "$(os resource provider list --name h1 -f value -c uuid)" CUSTOM_PMEM_NAMESPACE_TINY -f value -c total)" 1
boot "$NAME-pmem" --flavor "$NAME-pmem"; PMEM=$ID
HOST=$(place "$NAME-pmem")
ready "$NAME-pmem" "the guest with persistent memory is booted"
like "the guest's firmware lists its persistent memory" "$(at "$HOST" "$PMEM" ls /sys/firmware/acpi/tables/NFIT)" 'NFIT$'
same "its file has the size of the label" "$(stat -c %s "$STATE/$HOST/lib/${PMEM}_pmem0" 2>/dev/null)" $((64 << 20))
expect "the server with persistent memory is deleted" os server delete --wait "$NAME-pmem"
same "the file of the persistent memory is deleted with the guest" "$(ls "$STATE/$HOST/lib" | grep _pmem)" ""

# ------------------------------------------------------------------------------------------------------- no key manager

with_keys() { # embedded or none
  house_stop
  sed -i "s/^key_manager = .*/key_manager = $1/" "$CONF"
  house_start || bad "the control plane starts with key_manager = $1"
  within 60 "the hosts are up with key_manager = $1" host_is up
}
with_keys none
os server create --wait --flavor "$NAME-tpm" --image "$NAME" --network "$NAME" "$NAME-none" >"$WORK/none" 2>&1
SERVERS+=("$(get server "$NAME-none" id)")
same "without a key manager, a server with a TPM fails" "$(status_of "$NAME-none")" ERROR
like "the fault names the missing key manager" "$(get server "$NAME-none" fault)" 'no key manager.*key_manager'
with_keys embedded

# ----------------------------------------------------------------------------------------------------------------- UEFI

os image create --disk-format qcow2 --container-format bare --file "$UEFI" --public --property hw_firmware_type=uefi \
  --property hw_machine_type=q35 "$NAME-efi" >"$WORK/efi" 2>&1 || bad "an image without secure boot is uploaded" "$(cat "$WORK/efi")"
boot "$NAME-efi" --flavor "$NAME-uefi" --image "$NAME-efi"; EFI=$ID
HOST=$(place "$NAME-efi")
# OVMF takes a minute without KVM on a busy machine.
within 240 "the guest with UEFI is booted" said "$NAME-efi" 'GUEST-READY hostname=.* boots=1 '
like "the guest was started by UEFI" "$(at "$HOST" "$EFI" 'ls /sys/firmware/efi')" 'runtime|systab|config_table'
like "libvirt chose firmware with variables of the guest's own" "$(on "$HOST" dumpxml "$EFI" | tr -d '\n')" "<loader [^>]*type='pflash'[^>]*>.*<nvram"
like "the variables are a file of the host" "$(ls "$STATE/$HOST/lib/qemu/nvram")" '_VARS'
expect "the server with UEFI is deleted" os server delete --wait "$NAME-efi"
same "nothing is left of the server with UEFI" "$(rest_of "$EFI")" ""
same "the variables of the deleted guest are deleted" "$(ls "$STATE/$HOST/lib/qemu/nvram" 2>/dev/null)" ""
os image delete "$NAME-efi"

# ---------------------------------------------------------------------------------------------------------- secure boot

boot "$NAME-secure" --flavor "$NAME-uefi" --image "$NAME-uefi"; SECURE=$ID
HOST=$(place "$NAME-secure")
# OVMF with a protected memory takes two minutes without KVM on a busy machine.
within 300 "the guest with secure boot is booted" said "$NAME-secure" 'GUEST-READY hostname=.* boots=1 '
like "the guest's firmware says that secure boot is on" "$(at "$HOST" "$SECURE" 'od -An -tx1 /sys/firmware/efi/efivars/SecureBoot-*')" '01 *$'
like "the guest's kernel says that secure boot is on" "$(at "$HOST" "$SECURE" 'dmesg | grep -i secure')" '[Ss]ecure boot (is )?enabled'
like "libvirt chose firmware with a protected memory" "$(on "$HOST" dumpxml "$SECURE" | tr -d '\n')" "secure='yes'.*<smm state='on'/>"
expect "the server with secure boot is deleted" os server delete --wait "$NAME-secure"
same "nothing is left of the server with secure boot" "$(rest_of "$SECURE")" ""
same "the variables of its firmware are deleted" "$(ls "$STATE/$HOST/lib/qemu/nvram" 2>/dev/null)" ""
long_run || { ended; verdict; }

# -------------------------------------------------------------------------------------- a cold migration and its revert

ready "$NAME-tpm" "the guest with a TPM is booted a third time" 3
expect "a cold migration is requested" to_host migrate "$SECOND" "$NAME-tpm"
within 120 "the server with a TPM is in VERIFY_RESIZE" at_rest "$NAME-tpm" VERIFY_RESIZE
ready "$NAME-tpm" "the guest with a TPM is booted on $SECOND" 4
like "the TPM kept the word over a cold migration" "$(read_word "$SECOND" "$TPM")" "$WORD"
expect "the cold migration is confirmed" os server migration confirm "$NAME-tpm"
within 60 "the server with a TPM is ACTIVE on $SECOND" is_at "$NAME-tpm" "$SECOND"
same "no state of the TPM is left on $FIRST" "$(state_on "$FIRST" "$TPM")" ""
expect "another cold migration is requested" to_host migrate "$FIRST" "$NAME-tpm"
within 120 "the server with a TPM is in VERIFY_RESIZE again" at_rest "$NAME-tpm" VERIFY_RESIZE
expect "the second cold migration is reverted" os server migration revert "$NAME-tpm"
within 120 "the server with a TPM is ACTIVE on $SECOND again" is_at "$NAME-tpm" "$SECOND"
within 120 "the guest with a TPM is booted on $SECOND again" eval '[ -n "$(read_word "$SECOND" "$TPM")" ]'
like "the TPM kept the word over a revert" "$(read_word "$SECOND" "$TPM")" "$WORD"
same "no state of the TPM is left on $FIRST after the revert" "$(state_on "$FIRST" "$TPM")" ""
ended
verdict
