"""The write gate: which files of a change need a second look, an approval, or are denied.

``policy.gates.write`` decides about files outside ``policy.writable_paths`` and about sensitive
ones; each class of sensitive files has a least decision of its own, which no setting lowers.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gitlab_nightshift.policy.paths import ChangeView, matches
from gitlab_nightshift.records import Decision, Gated
from gitlab_nightshift.settings import Settings
from gitlab_nightshift.settings.parts import Gate

MOST_TOLD = 5

_STRENGTH: dict[str, int] = {"auto_allow": 0, "draft": 1, "require_approval": 2, "deny": 3}


@dataclass(frozen=True)
class Class:
    """A kind of sensitive files: ``why`` goes on after a path; ``patterns`` are in lower case."""

    name: str
    why: str
    patterns: tuple[str, ...]


PIPELINE = Class(
    "pipeline",
    "is pipeline configuration, which GitLab runs before anybody has reviewed it",
    ("/.gitlab-ci.yml", "/.gitlab/ci/"),
)
"""Beside the file that the project names and all that it includes."""

SENSITIVE = (
    Class(
        "other-ci",
        "configures another CI system, which may run it before a review",
        tuple(
            """.github/workflows/ .github/actions/ jenkinsfile* *.jenkinsfile .circleci/ .travis.yml
            azure-pipelines*.yml azure-pipelines*.yaml .azure-pipelines/ bitbucket-pipelines.yml
            .drone.yml .drone.star .buildkite/ .woodpecker* .teamcity/ appveyor.yml .appveyor.yml
            .semaphore/ cloudbuild*.y*ml buildspec*.y*ml .tekton/""".split()
        ),
    ),
    Class("owners", "decides who reviews and approves", ("codeowners", "codeowners.*")),
    Class(
        "hooks",
        "is run by git, an editor or a shell on developers' machines",
        tuple(
            """.husky/ .huskyrc* .githooks/ .git-hooks/ githooks/ git-hooks/ .pre-commit-config.y*ml
            .pre-commit-hooks.y*ml lefthook*.y*ml .lefthook* .overcommit.yml .lintstagedrc*
            lint-staged.config.* .simple-git-hooks* simple-git-hooks.* .vscode/ .idea/
            .devcontainer/ .devcontainer.json .envrc .direnvrc mise.toml
            .mise.toml .mise/ .exrc .nvimrc .nvim.lua
            .vimrc *.code-workspace .fleet/ .zed/ .gitconfig""".split()
        ),
    ),
    Class(
        "agents",
        "steers coding agents, this night shift or a reviewing one among them",
        tuple(
            """.claude/ claude.md claude.local.md agents.md agents.override.md agent.md gemini.md
            .gemini/ .codex/ .mcp.json mcp.json .cursor* .windsurf* .github/copilot*
            .github/instructions/ .github/prompts/ .github/chatmodes/ .github/agents/ .aider*
            .continue/ .continuerc* .clinerules* .roo/ .roorules* .roomodes .junie/ .kiro/ .amazonq/
            .opencode/ opencode.json* .agents/ .agent/ .goosehints .augment* .gitlab/duo/
            .coderabbit.y*ml .pr_agent.toml greptile.json .sourcery.yaml .skills/ skill.md
            nightshift.yaml""".split()
        ),
    ),
    Class(
        "auth",
        "decides who may do what",
        tuple(
            """auth/ authn/ authz/ oauth/ oauth2/ oidc/ saml/ sso/ iam/ rbac/ authentication/
            authorization/ permissions/ auth.* auth_* auth-* *_auth.* *-auth.* authn* authz*
            authenticat* authoriz* oauth* oidc* saml* rbac* permission.* permissions.* jwt.* jwt_*
            password*.* session_store.* login.* .htaccess sudoers sudoers.d/ pam.d/""".split()
        ),
    ),
    Class(
        "infrastructure",
        "decides what is built and where it runs",
        tuple(
            """dockerfile dockerfile.* *.dockerfile containerfile* docker-compose*.y*ml compose.y*ml
            compose.*.y*ml .dockerignore docker-bake.* *.tf *.tf.json *.tfvars *.tfvars.json
            *.tfstate* *.hcl *.nomad terraform/ terragrunt/ k8s/ kubernetes/ helm/ /charts/
            kustomize/ kustomization.y*ml helmfile*.y*ml
            skaffold.y*ml ansible/ ansible.cfg playbooks/
            playbook*.y*ml vagrantfile serverless.y*ml cloudformation/ pulumi*.y*ml cdk.json
            cdktf.json *.bicep procfile fly.toml netlify.toml vercel.json wrangler.toml render.yaml
            nginx*.conf systemd/ *.service crontab .gitlab/agents/ .gitlab/route-map.yml
            .gitlab/security-policies/ .gitlab/auto-deploy-values.yaml""".split()
        ),
    ),
    Class(
        "secrets",
        "is of a kind that holds secrets or access, or looks for them",
        tuple(
            """.env .env.* *.env *.pem *.key *.p12 *.pfx *.jks *.keystore *.truststore *.kdbx *.ppk
            *.crt *.cer *.der *.p8 *.gpg id_rsa* id_dsa* id_ecdsa* id_ed25519* authorized_keys
            known_hosts .ssh/ .gnupg/ .netrc _netrc .npmrc .yarnrc* .pypirc pip.conf .pgpass .my.cnf
            .git-credentials .htpasswd .vault* vault.* secret/ secrets/ secret.* secrets.*
            *.secret *.secrets credentials credentials.* .credentials* .aws/ .azure/ .kube/
            kubeconfig* .sops.y*ml *.enc *.ovpn .dockercfg .docker/ service-account*.json
            .gitleaks* .trufflehog* .secrets.baseline .gitguardian.y*ml""".split()
        ),
    ),
    Class(
        "hiding",
        "can hide files or lines from a reviewer",
        (".gitattributes", ".lfsconfig", ".gitlab/generated-files*"),
    ),
)
"""Built in; at any depth unless a pattern begins with ``/``. A change to one opens as a draft."""

_HARMLESS = re.compile(
    r"\.(md|rst|adoc|txt)$|(^|/)(tests?|specs?|__tests__)/|(^|/)test_[^/]*$"
    r"|[._-](test|spec|tests)\.\w+$|\w(Test|Tests|Spec|IT)\.\w+$"
)
"""Tests and documents about access: they decide nothing."""


def gated(change: ChangeView, settings: Settings, ci_config: str) -> tuple[Gated, ...]:
    """The files that the write gate does not simply let through, with its strictest decision.

    ``ci_config`` is the project's setting (``CI_CONFIG_PATH``).
    """
    found = (_strictest(_decided(path, change, settings, ci_config)) for path in change.paths)
    return tuple(each for each in found if each)


def to_approve(gates: Iterable[Gated]) -> str:
    """What has to be approved and why, in one line; "" where nothing has."""
    asked = [f"{each.path} {each.why}" for each in gates if each.decision == "require_approval"]
    more = f"; and {len(asked) - MOST_TOLD} more files" if len(asked) > MOST_TOLD else ""
    return "; ".join(asked[:MOST_TOLD]) + more


def _strictest(decided: Iterator[Gated]) -> Gated | None:
    return max(decided, key=lambda each: _STRENGTH[each.decision], default=None)


def _decided(path: str, change: ChangeView, settings: Settings, ci_config: str) -> Iterator[Gated]:
    gate = settings.policy.gates.write
    if _is_pipeline(path, change, ci_config):
        yield Gated(path, _at_least("require_approval", gate), PIPELINE.why)
    for kind in SENSITIVE:
        if matches(path.lower(), kind.patterns) and not _is_harmless(path, kind):
            yield Gated(path, _at_least("draft", gate), kind.why)
    if path in _own_templates(settings):
        yield Gated(path, _at_least("draft", gate), "is a prompt of this night shift")
    if matches(path, settings.policy.sensitive_paths):
        yield Gated(path, _at_least("draft", gate), "is one of policy.sensitive_paths")
    if gate != "auto_allow" and not matches(path, settings.policy.writable_paths):
        yield Gated(path, gate, "is outside of policy.writable_paths")


def _at_least(least: Decision, gate: Gate) -> Decision:
    if gate == "auto_allow" or _STRENGTH[gate] < _STRENGTH[least]:
        return least
    return gate


def _is_harmless(path: str, kind: Class) -> bool:
    return kind.name == "auth" and _HARMLESS.search(path) is not None


def _is_pipeline(path: str, change: ChangeView, ci_config: str) -> bool:
    """GitLab's own place, the project's, all that it includes, and the usual folder of includes."""
    own = ci_config.partition("@")[0].removeprefix("/")
    return path == own or change.ci.holds(path) or matches(path, PIPELINE.patterns)


def _own_templates(settings: Settings) -> set[str]:
    own = (getattr(settings.prompts, bead) for bead in type(settings.prompts).model_fields)
    return {name.removeprefix("./") for name in own if name}
