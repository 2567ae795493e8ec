#!/bin/sh
# Runs a command with /tmp in memory, where root may mount: to make and remove the tests' thousands
# of small files costs a journalled disk a third of the suite's time. The mount is in a namespace of
# its own and ends with the command. A checkout below /tmp is kept there.
if [ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null; then exec "$@"; fi
exec unshare --mount --propagation private sh -c '
  here=$PWD
  case "$here/" in /tmp/*) mount --bind "$here" /mnt 2>/dev/null || exec "$@" ;; esac
  if mount -t tmpfs -o mode=1777 tests /tmp 2>/dev/null; then
    case "$here/" in
      /tmp/*) mkdir -p "$here" && mount --move /mnt "$here" && cd "$here" || exit ;;
    esac
  fi
  exec "$@"' sh "$@"
