"""The monitor changes modes, owners, times and attributes exactly as the kernel does."""

import subprocess
from pathlib import Path

from tests.sandbox.tools import PYTHON, Room

CALLS = r"""
import ctypes, errno, os, struct, threading
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
CWD, NO_FOLLOW, EMPTY = -100, 0x100, 0x1000

def show(name, call, *arguments):
    ctypes.set_errno(0)
    try:
        result = call(*arguments)
        error = errno.errorcode[ctypes.get_errno()] if result == -1 else 'ok'
    except OSError as failed:
        error = errno.errorcode[failed.errno]
    print(name, error)

def state(name, *more):
    s = os.lstat(name)
    print(name, oct(s.st_mode), s.st_uid, s.st_gid, *more)

def times(name):
    s = os.lstat(name)
    print(name, s.st_atime_ns, s.st_mtime_ns)

os.mkdir('d'); os.chmod('d', 0o2750); state('d')
for name in ('f', 'd/g', 'long' * 50): open(name, 'w').close()
os.symlink('f', 'link'); os.symlink('loop', 'loop'); os.symlink('none', 'dangling')
show('chmod', os.chmod, 'f', 0o4751); state('f')
show('chmod of a path', os.chmod, os.getcwd() + '/d/../f', 0o600); state('f')
show('chmod of a link', os.chmod, 'link', 0o640); state('f'); state('link')
show('chmod of a folder', os.chmod, 'd/', 0o750); state('d')
for path in ('none', 'f/x', 'f/', 'loop', 'dangling', '', 'x' * 256,
             './' * 2047 + 'g', 'd/' * 3000):
    show('chmod ' + path[:9], os.chmod, path, 0o600)
show('chmod of nothing', libc.chmod, None, 0o600)
show('chmod of a bad pointer', libc.chmod, ctypes.c_void_p(8), 0o600)
show('long', os.chmod, 'long' * 50, 0o600); state('long' * 50)
fd, folder = os.open('f', os.O_RDONLY), os.open('d', os.O_PATH)
show('fchmod', os.fchmod, fd, 0o711); state('f')
show('fchmod 99', os.fchmod, 99, 0o711)
show('fchmod -1', os.fchmod, -1, 0o711)
show('fchmod -100', libc.fchmod, CWD, 0o711)
show('fchmodat', lambda: os.chmod('g', 0o701, dir_fd=folder)); state('d/g')
show('fchmodat of a file', lambda: os.chmod('g', 0o701, dir_fd=fd))
show('fchmodat 99', lambda: os.chmod('g', 0o701, dir_fd=99))
show('fchmodat no follow', libc.fchmodat, CWD, b'link', 0o600, NO_FOLLOW); state('f')
show('fchmodat no follow f', libc.fchmodat, CWD, b'f', 0o606, NO_FOLLOW); state('f')
show('by proc', os.chmod, f'/proc/self/fd/{fd}', 0o644); state('f')
show('by proc, held', os.chmod, f'/proc/{os.getpid()}/fd/{folder}/g', 0o644); state('d/g')
show('by dev', os.chmod, f'/dev/fd/{fd}', 0o600); state('f')
show('in a thread', lambda: None)
thread = threading.Thread(target=lambda: show('its', os.chmod, 'f', 0o755))
thread.start(); thread.join(); state('f')
gone = os.open('gone', os.O_RDWR | os.O_CREAT); os.unlink('gone')
show('fchmod of what is gone', os.fchmod, gone, 0o604); print(oct(os.fstat(gone).st_mode))

show('chown', os.chown, 'f', os.getuid(), os.getgid()); state('f')
show('chown -1', os.chown, 'f', -1, -1)
show('lchown', os.lchown, 'dangling', os.getuid(), -1)
show('fchown', os.fchown, fd, -1, os.getgid())
show('fchownat', lambda: os.chown('g', -1, -1, dir_fd=folder, follow_symlinks=False))
show('fchownat empty', libc.fchownat, folder, b'', -1, -1, EMPTY)
show('fchownat flags', libc.fchownat, folder, b'', -1, -1, 0x4000)

show('utime', os.utime, 'f', (12, 34.5)); times('f')
show('utime ns', lambda: os.utime('f', ns=(1, 2))); times('f')
show('utime of a link', lambda: os.utime('link', (5, 6), follow_symlinks=False))
times('link'); times('f')
show('futimens', os.utime, fd, (7, 8)); times('f')
show('utime by folder', lambda: os.utime('g', (9, 9), dir_fd=folder)); times('d/g')
OMIT, NOW = (1 << 30) - 2, (1 << 30) - 1
def at(first, second): return struct.pack('=4q', *first, *second)
show('omit', libc.utimensat, CWD, b'f', at((3, 0), (0, OMIT)), 0); times('f')
show('omit both', libc.utimensat, CWD, b'f', at((0, OMIT), (0, OMIT)), 0); times('f')
show('bad time', libc.utimensat, CWD, b'f', at((3, -1), (0, 0)), 0)
show('now', libc.utimensat, CWD, b'f', at((0, NOW), (0, NOW)), 0)
print(os.stat('f').st_mtime > 1e9)
os.utime('f', (1, 1)); show('null', os.utime, 'f'); print(os.stat('f').st_mtime > 1e9)
show('empty path', libc.utimensat, fd, b'', at((1, 0), (2, 0)), EMPTY); times('f')
show('bad flags', libc.utimensat, CWD, b'f', None, 0x4000)
show('no path', libc.utimensat, CWD, None, None, 0)
show('utimes', libc.utimes, b'f', at((1, 999999), (2, 5))); times('f')
show('utimes bad', libc.utimes, b'f', at((1, 1000000), (2, 5)))
show('lutimes', libc.lutimes, b'link', at((4, 0), (4, 0))); times('link')
show('futimesat', libc.futimesat, folder, b'g', at((4, 7), (4, 9))); times('d/g')
show('utime 2', libc.utime, b'f', struct.pack('=2q', 11, 12)); times('f')
show('utime null', libc.utime, b'none', None)

if os.uname().machine == 'x86_64':  # what C libraries of today do by newer calls
    show('raw utimes', libc.syscall, 235, b'f', at((1, 999999), (2, 5))); times('f')
    show('raw utimes bad', libc.syscall, 235, b'f', at((1, 1000000), (2, 5)))
    show('raw utimes bad 2', libc.syscall, 235, b'f', at((1, 0), (2, -1)))
    show('raw futimesat', libc.syscall, 261, folder, b'g', at((4, 7), (4, 9))); times('d/g')
    show('raw futimesat fd', libc.syscall, 261, fd, None, at((4, 7), (4, 8))); times('f')
    show('raw utime', libc.syscall, 132, b'link', struct.pack('=2q', 11, 13)); times('f')
    show('raw lchown', libc.syscall, 94, b'dangling', os.getuid(), os.getgid())
    show('raw chown', libc.syscall, 92, b'dangling', os.getuid(), os.getgid())
    show('raw chmod', libc.syscall, 90, b'f', 0o10000605); state('f')
show('setxattr', os.setxattr, 'f', 'user.a', b'1' * 1000); print(len(os.getxattr('f', 'user.a')))
show('create', os.setxattr, 'f', 'user.a', b'2', os.XATTR_CREATE)
show('replace', os.setxattr, 'f', 'user.b', b'2', os.XATTR_REPLACE)
show('empty', os.setxattr, fd, 'user.b', b''); print(os.listxattr('f'))
show('of a link', lambda: os.setxattr('link', 'user.c', b'', follow_symlinks=False))
show('too large', libc.setxattr, b'f', b'user.d', b'x', 65537, 0)
show('no value', libc.setxattr, b'f', b'user.d', None, 5, 0)
show('no such space', os.setxattr, 'f', 'a', b'1')
show('remove', os.removexattr, 'f', 'user.a'); show('again', os.removexattr, 'f', 'user.a')
show('remove by fd', os.removexattr, fd, 'user.b'); print(os.listxattr('f'))
show('remove of a link', lambda: os.removexattr('link', 'user.b', follow_symlinks=False))
"""

PROGRAMS = """
set -eu
mkdir src && echo 1 > src/a && ln -s a src/b && printf '#!/bin/sh\\necho ran\\n' > src/tool
chmod 640 src/a && chmod u+x,go-rwx src/tool && touch -d 2001-02-03T04:05:06Z src/a
touch -hd 2001-02-03T04:05:06Z src/b && touch -r src/a src/c && touch new
cp -a src copied && tar -cf all.tar src && mkdir out && tar -xpf all.tar -C out
install -m 751 -d made && install -m 555 -p src/a made/a
python3 -c 'import shutil; shutil.copytree("src", "kept", symlinks=True)'
python3 -c 'import shutil; shutil.copystat("src/a", "new")'
for way in src copied out/src kept; do
  find $way -type f -printf '%f %m %T@\\n' -o -type l -printf '%f to %l\\n'
done | sed 's/[.]0*$//; /^tool/s/ [^ ]*$//' | sort | uniq -c | sed 's/^ *//'
stat -c '%n %a' made && stat -c '%n %a %Y' made/a new
./src/tool && ./out/src/tool
printf 'a.o: src/a\\n\\tcp src/a a.o\\n' > Makefile && make -s && make -s -q
touch -d 2001-01-01 a.o
if make -s -q; then echo "make is up to date"; exit 1; fi
git init -q repo && cd repo && git config user.name A && git config user.email a@example.org
git config core.sharedRepository group && cp ../src/tool . && git add . && git commit -qm 1
git checkout -qb other && chmod -x tool && git commit -qam 2 && git checkout -q -
ls -l tool | cut -c1-4
git gc -q && git clone -q . ../cloned && stat -c %a ../cloned/tool && cd ..
if command -v npm > /dev/null; then
  mkdir pkg app && cd pkg
  echo '{"name":"p","version":"1.0.0","bin":{"p":"p.js"}}' > package.json
  printf '#!/usr/bin/env node\\nconsole.log("npm ran")\\n' > p.js && npm pack --silent && cd ../app
  echo '{"dependencies":{"p":"file:../pkg/p-1.0.0.tgz"}}' > package.json
  npm install --offline --no-audit --no-fund > /dev/null && ./node_modules/.bin/p
fi
echo end
"""


def run_unconfined(folder: Path, source: str) -> str:
    """The output of Python code without any sandbox."""
    done = subprocess.run(
        [PYTHON, "-c", source], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_each_call_does_what_the_kernel_does(landlock_room: Room, tmp_path: Path) -> None:
    done = landlock_room.python(CALLS)
    assert (done.stderr, done.report.refused) == ("", ())
    inside, outside = done.stdout.splitlines(), run_unconfined(tmp_path, CALLS).splitlines()
    differ = [pair for pair in zip(inside, outside, strict=True) if pair[0] != pair[1]]
    assert differ == []
    assert len(inside) > 100


def test_programs_that_change_modes_and_times(landlock_room: Room) -> None:
    done = landlock_room.run("/bin/sh", "-c", PROGRAMS, env=landlock_room.env())
    assert (done.exit_status, done.stderr, done.report.refused) == (0, "", ())
    lines = done.stdout.splitlines()
    assert lines[-1] == "end"
    copied = {"4 a 640 981173106", "4 b to a", "4 c 644 981173106", "4 tool 700"}
    assert copied <= set(lines)
    assert {"made 751", "made/a 555 981173106", "new 640 981173106", "-rwx"} <= set(lines)
    assert lines.count("ran") == 2
    assert ("npm ran" in lines) == ("p-1.0.0.tgz" in lines)
