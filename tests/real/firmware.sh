#!/bin/bash
# Firmware of real guests. One starts with UEFI and secure boot, by Debian's signed shim, GRUB and kernel; the guest
# itself tells it. Another has a TPM 2.0, which keeps a word over a hard reboot. Its passphrase is in the key manager
# alone: another passphrase, and a cloud without a key manager, are clear faults.
set -uo pipefail
. "$(dirname "$0")/../testbed/house.sh"
HOUSE_CONF=$'key_manager = embedded\n[libvirt]\nswtpm_enabled = true'
UEFI=${TESTBED_CACHE:-/var/tmp/chronova-testbed}/guest-uefi.qcow2
command -v swtpm >/dev/null || cannot "no swtpm on this machine"
[ -n "$(find /usr/share/qemu/firmware -name '*secure-enrolled*' 2>/dev/null)" ] || cannot "no UEFI firmware with enrolled keys"
[ -s "$UEFI" ] && [ -z "$(find "$HERE/make-image.sh" "$HERE/guest" -newer "$UEFI" -print -quit)" ] \
  || bash "$HERE/make-image.sh" "$UEFI" --uefi >/dev/null 2>&1 || cannot "the guest image with UEFI cannot be built"
house_open firmware 10.74
house_furnish

traits() { os resource provider trait list "$(os resource provider list -f value -c uuid | head -n 1)" -f value; }
fault() { os server show "$1" -f value -c fault 2>/dev/null; }
# The details of the server's newest action, for an operation whose failure leaves the server as it was.
newest() { # server
  local id; id=$(os server event list "$1" -f value -c 'Request ID' | head -n 1)
  os server event show "$1" "$id" -f json 2>/dev/null
}
# One command of a TPM 2.0, as bytes in hexadecimal; prints the answer in hexadecimal.
tpm() { # uuid, bytes
  local bytes; bytes=$(sed 's/\(..\)/\\x\1/g' <<<"$2")
  inside "$1" "printf '$bytes' >/run/ask; exec 3<>/dev/tpm0; cat /run/ask >&3; dd bs=4096 count=1 <&3 2>/dev/null | od -An -tx1 -v | tr -d ' \\n'; exec 3<&-"
}
OWNER=40000001 PASSWORD=00000009400000090000000000 INDEX=01800001
WORD=6b65707420697421 # "kept it!"
define_word() { tpm "$1" "80020000002d0000012a${OWNER}${PASSWORD}0000000e${INDEX}000b0206000600000008"; }
write_word() { tpm "$1" "80020000002b00000137${OWNER}${INDEX}${PASSWORD}0008${WORD}0000"; }
read_word() { tpm "$1" "8002000000230000014e${OWNER}${INDEX}${PASSWORD}00080000"; }

like "the host offers secure boot" "$(traits)" COMPUTE_SECURITY_UEFI_SECURE_BOOT
like "the host offers a TPM 2.0" "$(traits)" COMPUTE_SECURITY_TPM_2_0

# ------------------------------------------------------------------------------------------------------- both begin

os image create --disk-format qcow2 --container-format bare --file "$UEFI" --public --property hw_firmware_type=uefi \
  --property hw_machine_type=q35 --property os_secure_boot=required "$NAME-uefi" >"$WORK/uefi" 2>&1 || bad "the image is uploaded" "$(cat "$WORK/uefi")"
os flavor create --vcpus 1 --ram 256 --disk 1 "$NAME-uefi" >"$WORK/flavor-uefi" 2>&1 || bad "the flavor is made" "$(cat "$WORK/flavor-uefi")"
os flavor create --vcpus 1 --ram 160 --disk 1 --property hw:tpm_version=2.0 --property hw:tpm_model=tpm-crb "$NAME-tpm" >"$WORK/flavor-tpm" 2>&1 \
  || bad "the flavor with a TPM is made" "$(cat "$WORK/flavor-tpm")"
os server create --wait --flavor "$NAME-uefi" --image "$NAME-uefi" --network "$NAME" "$NAME-secure" >"$WORK/secure" 2>&1 || bad "the guest with secure boot is built" "$(cat "$WORK/secure")"
SECURE=$(get server "$NAME-secure" id); SERVERS+=("$SECURE")
os server create --wait --flavor "$NAME-tpm" --image "$NAME" --network "$NAME" "$NAME-tpm" >"$WORK/tpm" 2>&1 || bad "the guest with a TPM is built" "$(cat "$WORK/tpm")"
TPM=$(get server "$NAME-tpm" id); SERVERS+=("$TPM")

# -------------------------------------------------------------------------------------------------------------- TPM

ready "$NAME-tpm" "the guest with a TPM is booted"
like "its definition encrypts the TPM's state" "$(v dumpxml "$TPM" | tr -d '\n')" "<tpm model='tpm-crb'> *<backend type='emulator' version='2.0'.*<encryption secret="
same "libvirt keeps no passphrase" "$(v secret-list | grep -c vtpm)" 0
like "the guest has a TPM of version 2" "$(inside "$TPM" cat /sys/class/tpm/tpm0/tpm_version_major)" '^2$'
like "the guest defines a place in its TPM" "$(define_word "$TPM")" '^80020000....00000000'
like "and writes a word there" "$(write_word "$TPM")" '^80020000....00000000'
PASSPHRASE=$(sed -n 's/.*"payload":"\([^"]*\)".*/\1/p' "$DATA"/secrets/*)
expect "the key manager has the passphrase" test -n "$PASSPHRASE"
same "the log does not have it" "$(grep -laF "$PASSPHRASE" "$DATA"/log.db* 2>/dev/null | wc -l)" 0
expect "a hard reboot" os server reboot --hard --wait "$NAME-tpm"
ready "$NAME-tpm" "the guest with a TPM is booted again" 2
like "the TPM kept the word over a hard reboot" "$(read_word "$TPM")" "${WORD}"
os server stop "$NAME-tpm"; within 60 "it is off" is "$NAME-tpm" SHUTOFF
cp -a "$DATA"/secrets "$WORK/secrets"
sed -i 's/"payload":"[^"]*"/"payload":"wrong"/' "$DATA"/secrets/*
os server start "$NAME-tpm"
within 30 "a wrong passphrase starts no guest" eval '[[ $(newest "$NAME-tpm") == *"act"* ]] && is "$NAME-tpm" SHUTOFF'
like "and the reason is told" "$(newest "$NAME-tpm")" "[Ss]wtpm|passphrase|decrypt|TPM"
cp -a "$WORK"/secrets/. "$DATA/secrets/"
expect "with its passphrase it starts again" os server start "$NAME-tpm"
within 60 "it is ACTIVE" is "$NAME-tpm" ACTIVE

# ------------------------------------------------------------------------------------------------------ secure boot

ready "$NAME-secure" "the guest with secure boot is booted"
like "its firmware says that secure boot is on" "$(inside "$SECURE" 'od -An -tx1 /sys/firmware/efi/efivars/SecureBoot-*')" '01 *$'
like "its kernel says so, too" "$(inside "$SECURE" 'dmesg | grep -i "secure boot"')" '[Ss]ecure boot (is )?enabled'
like "libvirt chose firmware with enrolled keys" "$(v dumpxml "$SECURE" | tr -d '\n')" "secure='yes'.*<smm state='on'/>"
expect "it is deleted" os server delete --wait "$NAME-secure"
same "nothing is left of it, its firmware's variables included" "$(leftovers "$SECURE")$(ls /var/lib/libvirt/qemu/nvram 2>/dev/null | grep -c "$(printf '%s' "$NAME-")")" 0

# ------------------------------------------------------------------------------------------------------- no key manager

expect "the server with a TPM is deleted" os server delete --wait "$NAME-tpm"
same "its passphrase is gone" "$(ls "$DATA/secrets" | wc -l)" 0
expect "so is the state of its TPM" test ! -e "/var/lib/libvirt/swtpm/$TPM/tpm2"
house_stop
sed -i 's/^key_manager = embedded/key_manager = none/' "$CONF"
house_start || bad "the control plane starts without a key manager"
within 60 "the host is up again" host_is up
os server create --wait --flavor "$NAME-tpm" --image "$NAME" --network "$NAME" "$NAME-none" >"$WORK/none" 2>&1
SERVERS+=("$(get server "$NAME-none" id)")
same "without a key manager it fails" "$(status_of "$NAME-none")" ERROR
like "and is told why" "$(fault "$NAME-none")" 'no key manager.*key_manager'
verdict
