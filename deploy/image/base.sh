#!/bin/sh
# Makes the base of Slipway's image from Debian's mirror and npm's registry, where no registry of images answers:
#   deploy/image/base.sh && docker build --build-arg BASE=slipway-base:24 --tag slipway .
# As root, with debootstrap. MIRROR and SECURITY_MIRROR name other mirrors. npm puts the project's own Node 24 first in PATH.
# The base trusts the authorities that were added to this machine, such as that of a company's proxy.
set -eu
mirror=${MIRROR:-http://deb.debian.org/debian}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror"
cat > "$root/etc/apt/sources.list" <<LIST
deb $mirror bookworm main
deb $mirror bookworm-updates main
deb ${SECURITY_MIRROR:-http://deb.debian.org/debian-security} bookworm-security main
LIST
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/var/log/*
if ls /usr/local/share/ca-certificates/*.crt > /dev/null 2>&1; then
  cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
  chroot "$root" update-ca-certificates
fi
install -m 755 "$(node -p process.execPath)" "$root/usr/local/bin/node"
npm install --global --no-audit --no-fund --prefix "$root/usr/local" "$(node -p 'require("./package.json").packageManager')"
tar --create --numeric-owner --directory "$root" . | docker import - "${1:-slipway-base:24}"
