#!/bin/sh
# ci/bundle/try_bundle.sh ARCHIVE [FOLDER]: the bundle in images that it was not built in.
#
# Makes root file systems with debootstrap, and two without a package manager: musl (Debian's, with
# busybox), and one with a C library and a shell alone. In each the archive is unpacked and tried
# as root, as a plain user, and as a uid without a name and a home, as OpenShift gives.
# Needs root, debootstrap, busybox-static and musl. The file systems stay in FOLDER for the next time.
set -eu
archive=$(realpath "$1")
roots=$(mkdir -p "${2:-/var/tmp/nightshift-roots}" && realpath "${2:-/var/tmp/nightshift-roots}")
mirror=http://deb.debian.org/debian
name=$(basename "$archive" -x86_64.tar.gz)
failed=0

make_debian() { # RELEASE
  [ -e "$roots/$1/made" ] && return
  rm -rf "${roots:?}/$1"
  debootstrap --variant=minbase "$1" "$roots/$1" "$mirror" >"$roots/$1.log" 2>&1 ||
    { echo "debootstrap $1 failed: $roots/$1.log" >&2; exit 1; }
  touch "$roots/$1/made"
}

make_ubuntu() { # RELEASE; without Ubuntu's keys its packages cannot be checked, and are not tried
  keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg
  [ -e "$keys" ] || { echo "$1: left out, $keys is missing (ubuntu-archive-keyring)"; return 1; }
  [ -e "$roots/$1/made" ] && return
  rm -rf "${roots:?}/$1"
  debootstrap --variant=minbase --keyring="$keys" "$1" "$roots/$1" \
    http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy >"$roots/$1.log" 2>&1 ||
    { echo "$1: left out, debootstrap failed: $roots/$1.log"; return 1; }
  touch "$roots/$1/made"
}

make_bare() { # NAME: folders, and nobody but root
  rm -rf "${roots:?}/$1"
  mkdir -p "$roots/$1/bin" "$roots/$1/etc" "$roots/$1/tmp" "$roots/$1/proc" "$roots/$1/dev" \
    "$roots/$1/usr/bin" "$roots/$1/home/plain" "$roots/$1/root"
  chmod 1777 "$roots/$1/tmp"
  echo 'root:x:0:0:root:/root:/bin/sh' >"$roots/$1/etc/passwd"
}

make_musl() { # every program is busybox, and the only C library is musl
  make_bare musl
  cp "$(command -v busybox)" "$roots/musl/bin/busybox"
  chroot "$roots/musl" /bin/busybox --install -s /bin
  mkdir -p "$roots/musl/lib"
  cp /lib/ld-musl-x86_64.so.1 "$roots/musl/lib/"
}

make_distroless() { # a shell and its C library: no tar, no env, no passwd entry but root's
  make_bare distroless
  cp -L /bin/dash "$roots/distroless/bin/sh"
  ldd /bin/dash | sed -nE 's/.* (\/[^ ]+) \(.*/\1/p; s/^\s*(\/[^ ]+) \(.*/\1/p' | sort -u |
    while read -r file; do
      mkdir -p "$roots/distroless$(dirname "$file")"
      cp -L "$file" "$roots/distroless$file"
    done
}

# What is run inside: git where the image has none, the proof of the sandbox, a judged change, and a
# delegation with all its processes and an agent of one line, whose words have to arrive.
write_trial() {
  cat >"$1" <<'TRIAL'
set -e
bundle=$1 work=$2
PATH=$PATH:$bundle/bin:$bundle/git
export PATH OPENAI_API_KEY=not-a-key
cd "$work"
git init -q -b main project
cd project
git config user.name Tester
git config user.email tester@example.com
echo one >notes.txt
printf 'profile: development\npolicy: {gates: {exec: auto_allow, write: auto_allow}}\n' >nightshift.yaml
{
  echo 'echo two >>notes.txt'
  echo "echo '{\"type\": \"item.completed\", \"item\": {\"type\": \"agent_message\", \"text\": \"Added.\"}}'"
  echo "echo '{\"type\": \"turn.completed\", \"usage\": {\"input_tokens\": 1, \"output_tokens\": 1}}'"
} >agent.sh
git add .
git commit -qm 'Begin'
shell='"/bin/sh"' # an agent's program is started by its own name, and busybox is no shell by that
[ ! -e /bin/busybox ] || shell='"/bin/busybox", "sh"'
nightshift doctor --boundary >"$work/doctor" 2>&1 || : # no agent is there; the guarantees are read below
echo '{"task_prompt": "Add a line.", "provider": "codex",
  "workspace": {"branch_name": "nightshift/trial"}, "repo": {"type": "local_path", "value": "."},
  "debug": {"codex_command": ['"$shell"', "agent.sh"]}}' |
  nightshift delegate >"$work/delegated" || : # it gives no verdict, so its change is put back
git diff --quiet
echo three >>notes.txt
git commit -qam 'Go on'
nightshift check HEAD~1
TRIAL
}

run_in() { # ROOT UID COMMAND...: with its own /proc, and no variable of this machine's
  top=$roots/$1 user=$2
  shift 2
  # shellcheck disable=SC2016 # expanded by the shell inside
  unshare --mount --pid --fork sh -c '
    top=$1 user=$2 change=$3
    shift 3
    mount -t proc proc "$top/proc"
    mount --rbind /dev "$top/dev"
    exec env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/ "$change" --userspec="+$user:+$user" "$top" "$@"
  ' sh "$top" "$user" "$(command -v chroot)" "$@"
}

try_as() { # ROOT UID
  work=$roots/$1/tmp/work-$2
  inside=/tmp/work-$2
  rm -rf "$work"
  mkdir -p "$work"
  started=$(date +%s%N)
  tar -xzf "$archive" -C "$work"
  chown -R "$2:$2" "$work"
  if ! run_in "$1" "$2" "$inside/$name/bin/nightshift" --version >/dev/null; then
    echo "$1, uid $2: does not start"
    failed=1
    return
  fi
  took=$((($(date +%s%N) - started) / 1000000))
  write_trial "$work/trial.sh"
  if run_in "$1" "$2" /bin/sh "$inside/trial.sh" "$inside/$name" "$inside" >"$work/out" 2>&1 &&
    grep -q '"summary": "Added' "$work/delegated" &&
    [ "$(grep -cE '^(files|secrets|network|lifetime|this program|what reads).* held:' "$work/doctor")" = 6 ]; then
    echo "$1, uid $2: started after ${took} ms; git, sandbox, an agent, put back and check work"
  else
    failed=1
    echo "$1, uid $2: FAILED (started after ${took} ms)"
    tail -n "${LINES_SHOWN:-8}" "$work/out" | cut -c1-400 | sed 's/^/    /'
    return
  fi
  rm -rf "$work"
}

make_debian bookworm
make_debian trixie
make_musl
make_distroless
! make_ubuntu noble || ubuntu=noble
for root in ${ONLY:-bookworm trixie ${ubuntu:-} musl distroless}; do
  for uid in 0 1001 1000730000; do # the second has a passwd entry where the image has useradd
    try_as "$root" "$uid"
  done
done
exit "$failed"
