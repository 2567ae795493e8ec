"""Files in which tools keep a machine's credentials, readable by everybody.

To add one, extend a table here. Paths are patterns of :mod:`glob`; a folder stands for all files in
it. HOME needs no table here, as agents cannot see it (``system_paths.HOME_FILES``).
"""

# ruff: noqa: PTH112, PTH118, PTH207 - the patterns are text

import glob
import itertools
import os
import re
from collections.abc import Iterator, Mapping

from gitlab_nightshift.sandbox.system_paths import HOME_FILES
from gitlab_nightshift.text.lazy_patterns import compile_lazily
from gitlab_nightshift.text.secret_texts import (
    LARGEST_FILE,
    SHORTEST_IN_FILE,
    find_named_secrets,
    find_secrets,
    read_plain_file,
)

TOOL_CREDENTIALS = {
    "pip": (  # https://pip.pypa.io/en/stable/topics/configuration/
        *("/etc/pip.conf", "/etc/xdg/pip/pip.conf"),
        *("/usr/pip.conf", "/usr/local/pip.conf", "/opt/*/pip.conf"),
    ),
    # https://docs.astral.sh/uv/concepts/configuration-files
    "uv": ("/etc/uv/uv.toml", "/etc/xdg/uv/uv.toml"),
    "conda": (
        *("/etc/conda/.condarc", "/etc/conda/condarc", "/etc/conda/condarc.d"),
        *("/opt/*/.condarc", "/opt/*/condarc", "/opt/*/condarc.d"),
    ),
    "npm": ("/etc/npmrc", "/usr/etc/npmrc", "/usr/local/etc/npmrc", "/opt/*/etc/npmrc"),
    "yarn": ("/etc/yarnrc", "/etc/yarn/config", "/usr/etc/yarnrc", "/usr/local/etc/yarnrc"),
    "Maven": (
        *("/etc/maven*/settings.xml", "/etc/maven*/settings-security.xml"),
        *("/usr/share/*maven*/conf/settings*.xml", "/usr/local/*maven*/conf/settings*.xml"),
        *("/opt/*maven*/conf/settings*.xml", "/opt/*maven*/*/conf/settings*.xml"),
    ),
    "sbt": ("/etc/sbt/.credentials", "/etc/sbt/credentials"),
    "Cargo": tuple(  # https://doc.rust-lang.org/cargo/guide/cargo-home.html
        f"{home}/credentials{end}"
        for home in ("/usr/local/cargo", "/opt/*cargo*", "/opt/rust/*cargo*")
        for end in ("", ".toml")
    ),
    "Composer": (
        *("/etc/composer/auth.json", "/usr/local/share/composer/auth.json"),
        "/opt/*composer*/auth.json",
    ),
    # https://learn.microsoft.com/nuget/consume-packages/configuring-nuget-behavior
    "NuGet": ("/etc/opt/NuGet/Config", "/etc/NuGet/NuGet.Config"),
    "Docker": (
        *("/etc/docker/config.json", "/etc/docker/certs.d/*/*.key", "/etc/containers/auth.json"),
        "/usr/local/etc/docker/config.json",
    ),
    "Kubernetes": (
        *("/etc/kubernetes/*.conf", "/etc/kubernetes/*.kubeconfig", "/etc/kubernetes/kubeconfig*"),
        *("/etc/kubernetes/azure.json", "/etc/kubernetes/cloud-config"),
        *("/etc/rancher/k3s/k3s.yaml", "/etc/rancher/rke2/rke2.yaml"),
    ),
    "AWS": ("/etc/aws", "/etc/boto.cfg", "/usr/local/etc/boto.cfg"),
    "Google Cloud": ("/etc/gcloud", "/etc/google/auth", "/etc/google/cloud"),
    "Azure": ("/etc/azure",),
    "s3cmd": ("/etc/s3cfg", "/etc/s3cfg.d", "/etc/passwd-s3fs"),
    "rclone": ("/etc/rclone.conf", "/etc/rclone"),
    "Vault": ("/etc/vault.d", "/etc/vault-token"),
    "Helm": ("/etc/helm/registry.json", "/etc/helm/registry", "/etc/helm/repositories.yaml"),
    "Terraform": ("/etc/terraformrc", "/etc/terraform.rc", "/etc/terraform.d"),
    "GitLab CLI": ("/etc/xdg/glab-cli",),
    "git": ("/etc/git-credentials", "/etc/.git-credentials"),
    "netrc": ("/etc/netrc", "/etc/.netrc"),
    "apt": ("/etc/apt/auth.conf", "/etc/apt/auth.conf.d"),  # apt_auth.conf(5)
    "zypper": ("/etc/zypp/credentials.d", "/etc/zypp/credentials.cat"),
    "mail": ("/etc/msmtprc", "/etc/postfix/sasl_passwd"),
    "MySQL": ("/etc/mysql/debian.cnf",),
    "Kerberos": ("/etc/krb5.keytab",),
}
"""Hidden unless they set nothing: a sample, such as Maven's, is only comments."""

TOOL_SETTINGS = {
    "git": ("/etc/gitconfig", "/usr/etc/gitconfig", "/usr/local/etc/gitconfig"),
    "npm": (
        *("/usr/lib/node_modules/npm/npmrc", "/usr/local/lib/node_modules/npm/npmrc"),
        "/usr/share/nodejs/npm/npmrc",
    ),
    "Gradle": tuple(
        f"{home}/{name}"
        for home in ("/opt/*gradle*", "/opt/*gradle*/*", "/usr/share/gradle*", "/usr/local/gradle*")
        for name in ("init.d", "gradle.properties")
    ),
    "sbt": ("/etc/sbt", "/usr/share/sbt/conf", "/opt/sbt/conf"),
    "Cargo": (
        *("/usr/local/cargo/config.toml", "/usr/local/cargo/config"),
        *("/opt/*cargo*/config.toml", "/opt/*cargo*/config"),
    ),
    "Go": ("/usr/local/go/go.env", "/usr/lib/go/go.env", "/opt/go/go.env"),
    "RubyGems": ("/etc/gemrc", "/usr/local/etc/gemrc", "/usr/local/bundle/config"),
    "Docker": ("/etc/docker/daemon.json", "/etc/containers/registries.conf"),
    "apt": (
        *("/etc/apt/sources.list", "/etc/apt/sources.list.d"),
        *("/etc/apt/apt.conf", "/etc/apt/apt.conf.d"),
    ),
    "dnf": ("/etc/yum.conf", "/etc/dnf/dnf.conf", "/etc/yum.repos.d", "/etc/zypp/repos.d"),
    "apk": ("/etc/apk/repositories",),
    "wget": ("/etc/wgetrc", "/usr/local/etc/wgetrc", "/etc/curlrc"),
    "databases": ("/etc/my.cnf", "/etc/my.cnf.d", "/etc/mysql", "/etc/odbc.ini"),
    "shells": ("/etc/environment", "/etc/profile", "/etc/profile.d"),
    "Claude Code": ("/etc/claude-code",),
    "Codex": ("/etc/codex",),
}
"""Hidden if they contain a password or token, under a name or in an address."""

MOST_IN_A_FOLDER = 200
"""Files."""
MOST_VALUES = 100
MIXED = frozenset(("pip", "uv", "conda", "npm", "yarn", "Maven"))
"""Tools whose files of TOOL_CREDENTIALS contain other settings too."""
_MASTER_FILE = "settings-security.xml"
"""The file contains only Maven's master password, in an element without a secret's name."""
_PRIVATE_KEY = "PRIVATE KEY-----"
_SETTING = compile_lazily(r"\s*[\w.@/:-]+\s*=\s*[^=\s]")
_COMMENT = compile_lazily(r"<!--.*?-->|<\?.*?\?>", re.DOTALL)
_MAVEN_MIRROR = compile_lazily(
    re.escape(
        "<mirror><id>maven-default-http-blocker</id><mirrorOf>external:http:*</mirrorOf>"
        "<name>Pseudo repository to mirror external repositories initially using HTTP.</name>"
        "<url>http://0.0.0.0/</url><blocked>true</blocked></mirror>"
    ).replace("><", r">\s*<")
)
"""The mirror that Maven's own settings.xml sets."""
_EMPTY_LINE = compile_lazily(r"[#;].*|\[[^\]]*\]|\{\s*\}|")
_EMPTY_XML = compile_lazily(
    r"""(?: </?[\w.:-]+ (?:\s+(?:xmlns|xsi)(?::\w+)?="[^"]*")* \s*/?> | \s )*""", re.VERBOSE
)
_MAVEN_SAMPLES = ("repopwd", "proxypass", "optional; leave empty if not used.")
"""Passwords in the comments of Maven's own settings.xml."""


def find_credential_files() -> dict[str, str]:
    """The files on this machine that agents may not read unless a setting names them: path (links
    resolved) → tool. Includes files that are too large to search, and special files."""
    files = {path: tool for path, tool in _list_table_files(TOOL_SETTINGS) if _has_secrets(path)}
    for path, tool in _list_table_files(TOOL_CREDENTIALS):
        if not _is_unset(path):
            files[path] = tool
    return files


def read_machine_secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """The secrets in the files of both tables and of the job's HOME, to redact published text: at
    most ``MOST_VALUES``, the first ones of every file."""
    home = env.get("HOME", "/")
    files = [(path, True) for path, _ in _list_table_files(TOOL_SETTINGS)]
    for name in HOME_FILES:
        files += [(path, True) for path in _list_files(os.path.join(home, name))]
    files += [(path, tool in MIXED) for path, tool in _list_table_files(TOOL_CREDENTIALS)]
    values_by_file = [_read_values(path, mixed=mixed) for path, mixed in files]
    # One of each file in turn, so that a long file does not use up the limit.
    in_turn = itertools.chain.from_iterable(itertools.zip_longest(*values_by_file))
    return tuple(dict.fromkeys(filter(None, in_turn)))[:MOST_VALUES]


def _read_values(path: str, *, mixed: bool) -> list[str]:
    """The secrets in a file; ``mixed``: it contains other settings too."""
    text = _read_text(path) or ""
    is_one_word = len(text.split()) == 1 and not _SETTING.match(text)
    is_secret = is_one_word or _PRIVATE_KEY in text or path.endswith(_MASTER_FILE)
    if mixed and not is_secret:
        # Only values with the name of a secret: another long word may be a memory option.
        secrets = [value for value in find_named_secrets(text) if len(value) >= SHORTEST_IN_FILE]
    else:
        secrets = find_secrets(_COMMENT.sub("", text))
    return [value for value in secrets if value not in _MAVEN_SAMPLES]


def _is_unset(path: str) -> bool:
    """True if a file sets nothing: it is only comments, and contains no password."""
    text = _read_text(path)
    if text is None:
        return False
    content = _MAVEN_MIRROR.sub("", _COMMENT.sub("", text))
    if text.lstrip().startswith("<"):
        is_empty = _EMPTY_XML.fullmatch(content) is not None
    else:
        is_empty = all(_EMPTY_LINE.fullmatch(line.strip()) for line in content.splitlines())
    return is_empty and not set(find_named_secrets(text.replace("#", " "))) - set(_MAVEN_SAMPLES)


def _has_secrets(path: str) -> bool:
    text = _read_text(path)
    return text is None or find_named_secrets(text) != []


def _read_text(path: str) -> str | None:
    """The text of a small regular file, None for any other."""
    raw = read_plain_file(path, LARGEST_FILE)
    return None if raw is None else raw.decode("utf-8", "replace")


def _list_table_files(table: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    """Each file of the table that exists and that this user may read, with its tool."""
    for tool, patterns in table.items():
        for pattern in patterns:
            matches = glob.iglob(pattern) if "*" in pattern else (pattern,)
            for path in itertools.chain.from_iterable(map(_list_files, matches)):
                yield os.path.realpath(path), tool


def _list_files(path: str) -> Iterator[str]:
    """A readable file itself, or the files below a folder."""
    if os.path.isdir(path):
        files = (os.path.join(top, name) for top, _, names in os.walk(path) for name in names)
        yield from itertools.islice(files, MOST_IN_A_FOLDER)
    elif os.access(path, os.R_OK):
        yield path
