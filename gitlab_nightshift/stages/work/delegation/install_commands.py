"""What an agent may install: commands for its allowlist, by the lock files in the checkout.

``policy.egress_hosts`` decides what an installation can download, and the flag
``dependency-file`` whether manifests and lock files may change; these lists only keep an honest
agent on its path.
"""

from collections.abc import Collection

from gitlab_nightshift.records.delegation_records import Execution

LOCKED = {
    "package-lock.json": "npm ci",
    "npm-shrinkwrap.json": "npm ci",
    "yarn.lock": "yarn install --immutable",
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "bun.lock": "bun install --frozen-lockfile",
    "uv.lock": "uv sync --frozen",
    "poetry.lock": "poetry sync",
    "pdm.lock": "pdm sync",
    "Pipfile.lock": "pipenv sync",
    "Gemfile.lock": "bundle install --frozen",
    "composer.lock": "composer install",
    "Cargo.lock": "cargo fetch --locked",
    "go.sum": "go mod download",
    "mix.lock": "mix deps.get --check-locked",
    "packages.lock.json": "dotnet restore --locked-mode",
}
"""Lock file at the root → the command that installs exactly what it names."""
INSTALLERS = frozenset(
    """npm yarn pnpm bun pip pip3 uv poetry pdm pipenv bundle gem composer cargo go mix dotnet
    apt-get apk""".split()
)


def with_installs(
    commands: Collection[str], execution: Execution, files: Collection[str]
) -> tuple[str, ...]:
    """The commands that an agent may run, with those that the dependency policy adds."""
    policy = execution.dependency_policy
    if policy == "deny_install":
        locked = set(LOCKED.values())
        return tuple(c for c in commands if c not in INSTALLERS and c not in locked)
    if execution.network == "off":
        return tuple(commands)
    own = [command for lock, command in LOCKED.items() if lock in files]
    if policy == "allow_install":
        own = [command.split()[0] for command in own]
    return tuple(dict.fromkeys((*commands, *own)))
