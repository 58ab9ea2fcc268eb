#!/bin/bash
# ops/packaging/oci.sh PACKAGE.deb FILE   builds an OCI image with the Debian package, without a daemon (buildah)
#
# FILE is an OCI archive, for `podman load`, `skopeo copy oci-archive:FILE ...` or `docker load`. The image has Debian 12,
# the package and what it depends on. It runs `chronova serve` as the user chronova, with its data in /var/lib/chronova.
# Mount the configuration to /etc/chronova/chronova.conf. The compute hosts are other machines (qemu+tls, qemu+ssh). Run
# this script as root; it needs `setup_packages package` of ops/setup.sh.
set -euo pipefail
PACKAGE=$(realpath "$1") FILE=$(realpath -m "$2")
export STORAGE_DRIVER=vfs BUILDAH_ISOLATION=chroot
WORK=$(mktemp -d)
CONTAINER=
finish() {
  [ -z "$CONTAINER" ] || "${BUILDAH[@]}" rm "$CONTAINER" >/dev/null
  rm -rf "$WORK"
}
trap finish EXIT
BUILDAH=(buildah --root "$WORK/store" --runroot "$WORK/run")

debootstrap --variant=minbase --include=ca-certificates,openssh-client bookworm "$WORK/root" >"$WORK/log" 2>&1 \
  || { tail -n 5 "$WORK/log" >&2; exit 1; }
cp "$PACKAGE" "$WORK/root/chronova.deb"
chroot "$WORK/root" apt-get -y -qq --no-install-recommends install /chronova.deb >"$WORK/log" 2>&1 || { tail -n 5 "$WORK/log" >&2; exit 1; }
rm -rf "$WORK/root/chronova.deb" "$WORK/root"/var/cache/apt/* "$WORK/root"/var/lib/apt/lists/* "$WORK/root"/var/log/*.log

CONTAINER=$("${BUILDAH[@]}" from scratch)
# tar keeps the owners of files. `buildah add` would give all files, even the data folder, to root. The image has no
# devices, because the machine that runs it provides them.
MOUNTED=$("${BUILDAH[@]}" mount "$CONTAINER")
tar -C "$WORK/root" --one-file-system --numeric-owner --exclude='./dev/*' -cf - . | tar -C "$MOUNTED" --numeric-owner -xpf -
"${BUILDAH[@]}" umount "$CONTAINER" >/dev/null
"${BUILDAH[@]}" config --user chronova --port 8774 --volume /var/lib/chronova --workingdir /var/lib/chronova \
  --entrypoint '["/usr/bin/chronova"]' \
  --cmd 'serve --data-dir /var/lib/chronova --config-file /etc/chronova/chronova.conf --listen 0.0.0.0:8774' \
  --label org.opencontainers.image.title=chronova --label org.opencontainers.image.licenses=Apache-2.0 "$CONTAINER"
"${BUILDAH[@]}" commit -q ${SOURCE_DATE_EPOCH:+--timestamp "$SOURCE_DATE_EPOCH"} "$CONTAINER" "oci-archive:$FILE:chronova" >/dev/null
