#!/bin/sh
# ci/image/try_image.sh DIST [FOLDER]: the steps of the Dockerfile, in a root file system.
#
# Where no container can be built: takes ARG, COPY and RUN from the Dockerfile itself, in their order,
# in a new Debian of its release, which is removed afterwards. Needs root and debootstrap.
set -eu
dist=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
root=$(mktemp -d "${2:-/var/tmp}/nightshift-image-XXXXXX")
trap 'umount "$root/proc" 2>/dev/null || :; rm -rf "$root"' EXIT
release=$(sed -n 's/^FROM debian:\([a-z]*\)-slim$/\1/p' "$here/Dockerfile")
debootstrap --variant=minbase "$release" "$root" http://deb.debian.org/debian >/dev/null
cp /etc/resolv.conf "$root/etc/"
cp -r /usr/local/share/ca-certificates "$root/usr/local/share/" # of a company's network
mount -t proc proc "$root/proc"
cp -r "$dist" "$root/tmp/dist" # COPY dist /tmp/dist
# Continued lines become one; comments between them are none of it
sed -e '/^ *#/d' "$here/Dockerfile" | sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}' >"$root/steps"
args=$(sed -n 's/^ARG //p' "$root/steps")
sed -n 's/^RUN //p' "$root/steps" | while read -r step; do
  # shellcheck disable=SC2086 # one word for each ARG
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root $args \
    ${NPM_REGISTRY:+NPM_REGISTRY="$NPM_REGISTRY"} chroot "$root" /bin/bash -eux -o pipefail -c "$step" </dev/null
done
echo "all steps worked in $release"
