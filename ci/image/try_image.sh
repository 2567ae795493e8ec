#!/bin/sh
# ci/image/try_image.sh DIST [FOLDER]: builds the image with buildah, and starts its programs.
#
# On a new Debian of the Dockerfile's release instead of the registry's; an agent of another hash must
# fail the build. All of it is made below FOLDER and removed afterwards. Needs root, buildah and
# debootstrap.
set -eu
dist=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d "${2:-/var/tmp}/nightshift-image-XXXXXX")
trap 'rm -rf "$work"' EXIT
export BUILDAH_ISOLATION=chroot TMPDIR="$work"
release=$(sed -n 's/^FROM debian:\([a-z]*\)-slim$/\1/p' "$here/Dockerfile")

store() { # with --root the variable STORAGE_DRIVER is not read; what overlay mounts would stay
  buildah --root "$work/images" --runroot "$work/running" --storage-driver vfs "$@"
}

build() { # NAME ARGUMENT...
  name=$1
  shift
  store build --quiet --layers --from localhost/base --file "$here/Dockerfile" --tag "$name" \
    ${NPM_REGISTRY:+--build-arg NPM_REGISTRY="$NPM_REGISTRY"} "$@" "$work/context"
}

debootstrap --variant=minbase "$release" "$work/base" http://deb.debian.org/debian >/dev/null
cp -r /usr/local/share/ca-certificates "$work/base/usr/local/share/" # of a company's network
base=$(store from scratch)
store copy --quiet "$base" "$work/base" / >/dev/null
store commit --quiet "$base" localhost/base >/dev/null
rm -rf "$work/base"
mkdir "$work/context"
cp -r "$dist" "$work/context/dist"

build localhost/nightshift >/dev/null
inside=$(store from localhost/nightshift)
store run "$inside" -- nightshift --version
store run "$inside" -- claude --version
if build localhost/other --build-arg AGENT_HASH=00 >"$work/log" 2>&1; then
  echo "an agent of another hash came into the image" >&2
  exit 1
fi
grep -q 'agent.tgz: FAILED\|no properly formatted' "$work/log" || { cat "$work/log" >&2; exit 1; }
echo "built on $release; both programs start, and another hash is refused"
