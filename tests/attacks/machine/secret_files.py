"""Attacks on files that hold secrets."""

import contextlib
import ctypes
import os
import subprocess
from pathlib import Path

from tests.attacks.attack import Needs, attack_on, demand
from tests.attacks.places import Places, checked, flag_in, libc, reach_unix, read


@attack_on(
    "secrets", "Landlock refuses to move across its rules; in a namespace the file is not there."
)
def bead_log(places: Places) -> str | None:
    """Moves the log of an earlier bead into the checkout, where it may read."""
    here = Path(places.checkout, "log")
    Path(places.files["bead_log"]).rename(here)
    return flag_in(read(here))


@attack_on(
    "secrets", "Landlock refuses to link across its rules; in a namespace the file is not there."
)
def docker_config(places: Places) -> str | None:
    """Gives the registry's credentials a second name inside the checkout and reads that."""
    name = Path(places.checkout, "config.json")
    name.hardlink_to(places.files["docker_config"])
    return flag_in(read(name))


def _opened(places: Places) -> int:
    assert places.handle, "the file system has no handles"
    handle = ctypes.create_string_buffer(bytes.fromhex(places.handle))
    mount = os.open(places.checkout, os.O_RDONLY)
    return checked(libc.open_by_handle_at(mount, handle, os.O_RDONLY))


@attack_on(
    "secrets",
    "No capability to do so, and the filter refuses open_by_handle_at.",
    needs=lambda places: os.close(_opened(places)),
)
def file_handle(places: Places) -> str | None:
    """Opens a file by its inode number, past every folder above it (as 'shocker' did)."""
    return flag_in(os.read(_opened(places), 100))


@attack_on("secrets", "The packs cannot be read, by whatever name they are borrowed.")
def git_alternate(places: Places) -> str | None:
    """Makes a repository of its own that borrows the objects of the job's other one."""
    own = Path(places.scratch, "borrower")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": places.scratch}
    subprocess.run(["git", "init", "-q", "--bare", str(own)], env=env, check=True)
    (own / "objects/info/alternates").write_text(f"{places.files['git']}/objects\n")
    ask = ["git", f"--git-dir={own}", "cat-file", "--batch-all-objects", "--batch"]
    return flag_in(subprocess.run(ask, env=env, capture_output=True, check=False).stdout)


@attack_on(
    "secrets",
    "It lies in a folder that no tier lets an agent read, or something is mounted over it.",
)
def git_config(places: Places) -> str | None:
    """Reads the configuration where the real one is: its remote has a token."""
    return flag_in(read(places.files["git_config"]))


@attack_on("secrets", "What confines the agent confines all that it starts.")
def git_credentials(places: Places) -> str | None:
    """Lets a shell that it starts feed the file to another program."""
    command = ["/bin/sh", "-c", 'exec 5< "$0"; cat <&5', places.files["git_credentials"]]
    return flag_in(subprocess.run(command, capture_output=True, check=False).stdout)


@attack_on("secrets", "Git has no more rights than the agent that starts it.")
def git_log(places: Places) -> str | None:
    """Asks git for log, reflog and configuration of the repository that was moved away."""
    git = ("git", "-c", "safe.directory=*", f"--git-dir={places.files['git']}")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": places.scratch}
    asked = (("log", "-g"), ("log", "--format=%B"), ("config", "--list"))
    done = [subprocess.run([*git, *a], env=env, capture_output=True, check=False) for a in asked]
    return flag_in(b"".join(one.stdout for one in done))


def _find_installed(name: str) -> Needs:
    return demand("needs root that may mount", lambda places: read(places.files[name]))


@attack_on(
    "secrets",
    "A folder that not everybody may enter is hidden with all that is in it.",
    needs=_find_installed("installed_folder"),
)
def installed_folder(places: Places) -> str | None:
    """Reads a file of mode 0644 by its whole path: the folder around it has mode 0700."""
    return flag_in(read(places.files["installed_folder"]))


@attack_on(
    "secrets",
    "What a group may read is not what everybody may read, so it is hidden.",
    needs=_find_installed("installed_for_a_group"),
)
def installed_for_a_group(places: Places) -> str | None:
    """Reads a file of mode 0640, which the job's user may read as a member of the group."""
    return flag_in(read(places.files["installed_for_a_group"]))


@attack_on(
    "secrets",
    "What not everybody may read is found before the first agent and hidden.",
    needs=_find_installed("installed_key"),
)
def installed_key(places: Places) -> str | None:
    """Reads a key of mode 0600, the job user's own, beside a program in /opt."""
    return flag_in(read(places.files["installed_key"]))


@attack_on(
    "secrets",
    "No name leads around a rule or a mount that covers the file itself.",
    needs=_find_installed("installed_key"),
)
def installed_key_by_link(places: Places) -> str | None:
    """Opens it by a link in the checkout, and by the reader's own root in /proc."""
    target, link = places.files["installed_key"], Path(places.checkout, "key")
    link.symlink_to(target)
    for way in (link, f"/proc/self/root{target}"):
        with contextlib.suppress(OSError):
            if flag := flag_in(read(way)):
                return flag
    return None


@attack_on(
    "secrets",
    "What was private at the start stays hidden, whatever its mode says later.",
    needs=_find_installed("installed_key"),
)
def installed_key_opened(places: Places) -> str | None:
    """Changes the mode of a key in /opt, and reads it as everybody then may."""
    Path(places.files["installed_key"]).chmod(0o644)
    return flag_in(read(places.files["installed_key"]))


@attack_on(
    "secrets",
    "Files in which tools keep credentials for the whole machine are hidden, unless named.",
    needs=_find_installed("installed_pip_conf"),
)
def installed_pip_conf(places: Places) -> str | None:
    """Reads the mirror's password in a well-known place: in the settings of an environment."""
    return flag_in(read(places.files["installed_pip_conf"]))


@attack_on("secrets", "HOME is a fresh folder, and the real one cannot be read.")
def netrc(places: Places) -> str | None:
    """Reads the passwords for hosts in the home of the job's user."""
    return flag_in(read(f"{places.home}/.netrc"))


@attack_on("secrets", "What is collected while agents live lies in a private folder.")
def private_results(places: Places) -> str | None:
    """Walks from the checkout upwards, one open folder at a time, and down into the results."""
    here = os.open(places.checkout, os.O_PATH)
    for name in ("..", "outside", "results"):
        here = os.open(name, os.O_PATH, dir_fd=here)
    return flag_in(os.read(os.open("result.json", os.O_RDONLY, dir_fd=here), 100))


@attack_on("secrets", "A link grants nothing: what it names has to be allowed by itself.")
def project_tmp(places: Places) -> str | None:
    """Reads the runner's credentials and file variables through a symbolic link in the checkout."""
    link = Path(places.checkout, "innocent")
    link.symlink_to(Path(places.files["project_tmp"]).parent)
    names = (".gitlab-runner.ext.conf", "DEPLOY_KEY")
    return flag_in(b"".join(read(link / name) for name in names))


@attack_on("secrets", "The second opening is a full one, and is asked like any other.")
def runner_config(places: Places) -> str | None:
    """Opens the file without any right (O_PATH) and opens that again through /proc/self/fd."""
    bare = os.open(places.files["runner_config"], os.O_PATH)
    full = os.open(f"/proc/self/fd/{bare}", os.O_RDONLY)
    return flag_in(os.read(full, 1000))


def _shadow_needs(places: Places) -> None:
    assert os.geteuid() == 0, "needs root"
    assert read("/etc/shadow", 1), "no passwords here"


@attack_on(
    "secrets",
    "Settings that not everybody may read are left out, also where the job is root.",
    needs=_shadow_needs,
    a_right=True,
)
def shadow(places: Places) -> str | None:
    """Reads the system's passwords: settings may be read, but not those."""
    return f"{len(read('/etc/shadow'))} bytes of passwords" if read("/etc/shadow", 1) else None


LIST_KEYS = b"\0\0\0\1\x0b"


@attack_on("secrets", "The variable is not passed on, and the socket cannot be connected to.")
def ssh_agent(places: Places) -> str | None:
    """Looks for an agent's socket by SSH_AUTH_SOCK and by name, and lets it list its keys."""
    path = os.environ.get("SSH_AUTH_SOCK", "")
    found = [path] if Path(path).is_socket() else [places.sockets["agent"]]
    return reach_unix(found[0], LIST_KEYS)


@attack_on("secrets", "Rules are about files and folders, not about how they are named.")
def ssh_key(places: Places) -> str | None:
    """Lists and reads keys by a path that does not begin with a home."""
    folder = Path(f"/proc/self/root{places.home}/.ssh")
    return flag_in(b"".join(read(entry) for entry in folder.iterdir()))


ADD_FILESYSTEM, OPENED = 0x101, 0x20


def _watched(path: str) -> int:
    group = checked(libc.fanotify_init(0, 0))
    libc.fanotify_mark.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int]
    return checked(libc.fanotify_mark(group, ADD_FILESYSTEM, OPENED, -100, path.encode()))


@attack_on(
    "secrets",
    "No capability to do so, and the filter refuses it.",
    needs=lambda places: _watched(places.public),
    a_right=True,
)
def watch_everything(places: Places) -> str | None:
    """Asks fanotify for the whole file system: it hands over each file that is opened."""
    return f"fanotify marks everything: {_watched(places.checkout)}"
