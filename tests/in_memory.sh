#!/bin/sh
# Runs a command with /tmp in memory, where root may mount: to make and remove the tests' thousands
# of small files costs a journalled disk a third of the suite's time. The mount is in a namespace of
# its own and ends with the command. A checkout below /tmp is kept there. Pytest counts its folders
# on from a number that no other run on this machine has: tests that look for processes by their
# folder would find those of the other run.
if [ "$(id -u)" != 0 ] || ! unshare --mount true 2>/dev/null; then exec "$@"; fi
exec unshare --mount --propagation private sh -c '
  here=$PWD
  case "$here/" in /tmp/*) mount --bind "$here" /mnt 2>/dev/null || exec "$@" ;; esac
  if mount -t tmpfs -o mode=1777 tests /tmp 2>/dev/null; then
    case "$here/" in
      /tmp/*) mkdir -p "$here" && mount --move /mnt "$here" && cd "$here" || exit ;;
    esac
    (umask 077 && mkdir -p "/tmp/pytest-of-$(id -un)/pytest-$$")
  fi
  exec "$@"' sh "$@"
