"""The write gate decides which files of a change make it a draft, need an approval, or are denied.

``policy.gates.write`` decides about files outside ``policy.writable_paths`` and about sensitive
ones; each class of sensitive files has a least strict decision, which no setting lowers. The files
in the tables below are those that the named tools document. Each line has a tool, its patterns
(:func:`read_groups`), and after ``->`` an example for each pattern with a wildcard.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from gitlab_nightshift.policy.path_patterns import PathGroup, matches, read_groups
from gitlab_nightshift.records.products import ChangeSize
from gitlab_nightshift.records.verdicts import GateDecision, GatedFile
from gitlab_nightshift.registry.pipeline_files import NO_INCLUDES, CiFiles
from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.settings.setting_groups import Gate
from gitlab_nightshift.text.lazy_patterns import compile_lazily

MOST_NAMED = 5
"""Files to approve that a text names."""
_STRICTNESS: dict[str, int] = {"auto_allow": 0, "draft": 1, "require_approval": 2, "deny": 3}


@dataclass(frozen=True)
class SensitiveClass:
    """A class of sensitive files; ``why`` follows a path in messages, patterns are lower case."""

    name: str
    why: str
    groups: tuple[PathGroup, ...]

    @cached_property
    def patterns(self) -> tuple[str, ...]:
        """The patterns of all groups."""
        return tuple(pattern for group in self.groups for pattern in group.patterns)


def list_gated_files(
    change: ChangeSize, settings: Settings, ci_config: str, ci_files: CiFiles = NO_INCLUDES
) -> tuple[GatedFile, ...]:
    """The files that the write gate does not simply allow, with the strictest decision for each.

    ``ci_config`` is the project's setting (``CI_CONFIG_PATH``); ``ci_files`` are the pipeline
    configuration files of the base commit.
    """
    gated = []
    for path in change.files:
        if decisions := list(_list_decisions(path, settings, ci_config, ci_files)):
            gated.append(max(decisions, key=lambda each: _STRICTNESS[each.decision]))
    return tuple(gated)


def describe_approvals(gates: Iterable[GatedFile]) -> str:
    """The files that need an approval and why, in one line; "" without any."""
    needed = [f"{each.path} {each.why}" for each in gates if each.decision == "require_approval"]
    more = f"; and {len(needed) - MOST_NAMED} more files" if len(needed) > MOST_NAMED else ""
    return "; ".join(needed[:MOST_NAMED]) + more


def _list_decisions(
    path: str, settings: Settings, ci_config: str, ci_files: CiFiles
) -> Iterator[GatedFile]:
    gate = settings.policy.gates.write
    if _is_pipeline(path, ci_config, ci_files):
        yield GatedFile(path, _choose_stricter("require_approval", gate), PIPELINE.why)
    for sensitive in SENSITIVE:
        if matches(path.lower(), sensitive.patterns) and not _is_harmless(path, sensitive):
            yield GatedFile(path, _choose_stricter("draft", gate), sensitive.why)
    if path in _list_team_templates(settings):
        yield GatedFile(path, _choose_stricter("draft", gate), "is a prompt of this night shift")
    if matches(path, settings.policy.sensitive_paths):
        yield GatedFile(path, _choose_stricter("draft", gate), "is one of policy.sensitive_paths")
    if gate != "auto_allow" and not matches(path, settings.policy.writable_paths):
        yield GatedFile(path, gate, "is outside policy.writable_paths")


def _choose_stricter(least: GateDecision, gate: Gate) -> GateDecision:
    if gate == "auto_allow" or _STRICTNESS[gate] < _STRICTNESS[least]:
        return least
    return gate


def _is_harmless(path: str, sensitive: SensitiveClass) -> bool:
    return sensitive.name == "auth" and ANY_HARMLESS.search(path) is not None


def _is_pipeline(path: str, ci_config: str, ci_files: CiFiles) -> bool:
    """True for GitLab's default file, the project's configured one, all that it includes, and the
    usual folder for includes."""
    # path@group/project is another project's file; a file of that path here counts, too.
    configured = ci_config.partition("@")[0].removeprefix("/")
    return path == configured or ci_files.contains(path) or matches(path, PIPELINE.patterns)


def _list_team_templates(settings: Settings) -> set[str]:
    return {name.removeprefix("./") for name in vars(settings.prompts).values() if name}


# --- the tables of sensitive files ----------------------------------------------------------------

PIPELINE = SensitiveClass(
    "pipeline",
    "is pipeline configuration, which GitLab runs before anyone has reviewed it",
    read_groups("GitLab's default file and the usual folder: /.gitlab-ci.yml /.gitlab/ci/"),
)
"""Counts in addition to the project's configured file and all that it includes."""

SENSITIVE = (
    SensitiveClass(
        "other-ci",
        "configures another CI system, which may run it before a review",
        read_groups(
            """
            GitHub Actions: .github/workflows/ .github/actions/
            Jenkins: jenkinsfile* *.jenkinsfile -> jenkinsfile.release deploy.jenkinsfile
            CircleCI: .circleci/
            Travis: .travis.yml
            Azure: .azure-pipelines/ azure-pipelines*.yml -> azure-pipelines-release.yml
            Azure, long ending: azure-pipelines*.yaml -> azure-pipelines.yaml
            Bitbucket: bitbucket-pipelines.yml
            Drone: .drone.yml .drone.star
            Buildkite: .buildkite/
            Woodpecker: .woodpecker* -> .woodpecker/test.yaml
            TeamCity: .teamcity/
            AppVeyor: appveyor.yml .appveyor.yml
            Semaphore: .semaphore/
            Google Cloud Build: cloudbuild*.y*ml -> cloudbuild-release.yaml
            AWS CodeBuild: buildspec*.y*ml -> buildspec.yml
            Tekton: .tekton/
            """
        ),
    ),
    SensitiveClass(
        "owners",
        "decides who reviews and approves",
        read_groups("CODEOWNERS: codeowners codeowners.* -> docs/codeowners.txt"),
    ),
    SensitiveClass(
        "hooks",
        "is run by git, an editor or a shell on developers' machines",
        read_groups(
            """
            husky: .husky/ .huskyrc* -> .huskyrc.json
            folders of hooks: .githooks/ .git-hooks/ githooks/ git-hooks/
            pre-commit: .pre-commit-config.y*ml -> .pre-commit-config.yaml
            pre-commit, a repository of hooks: .pre-commit-hooks.y*ml -> .pre-commit-hooks.yaml
            lefthook: lefthook*.y*ml .lefthook* -> lefthook-local.yml .lefthook.toml
            overcommit: .overcommit.yml
            lint-staged: .lintstagedrc* lint-staged.config.* -> .lintstagedrc lint-staged.config.js
            simple-git-hooks: .simple-git-hooks* -> .simple-git-hooks.json
            simple-git-hooks, no dot: simple-git-hooks.* -> simple-git-hooks.cjs
            Visual Studio Code: .vscode/ *.code-workspace -> shop.code-workspace
            JetBrains: .idea/ .fleet/
            Zed: .zed/
            Vim: .exrc .nvimrc .nvim.lua .vimrc
            development containers: .devcontainer/ .devcontainer.json
            direnv: .envrc .direnvrc
            mise: mise.toml .mise.toml .mise/
            git: .gitconfig
            """
        ),
    ),
    SensitiveClass(
        "agents",
        "steers coding agents, including this night shift or a reviewing agent",
        read_groups(
            """
            this program: nightshift.yaml
            Claude Code: .claude/ claude.md claude.local.md
            AGENTS.md: agents.md agents.override.md agent.md .agents/ .agent/
            Codex: .codex/
            Gemini: gemini.md .gemini/
            MCP: .mcp.json mcp.json
            Cursor: .cursor* -> .cursorrules
            Windsurf: .windsurf* -> .windsurf/rules/a.md
            Copilot: .github/copilot* -> .github/copilot-instructions.md
            Copilot, prompts: .github/instructions/ .github/prompts/
            Copilot, agents: .github/chatmodes/ .github/agents/
            Aider: .aider* -> .aider.conf.yml
            Continue: .continue/ .continuerc* -> .continuerc.json
            Cline: .clinerules* -> .clinerules/a.md
            Roo: .roo/ .roomodes .roorules* -> .roorules-code
            Junie: .junie/
            Kiro, Amazon Q: .kiro/ .amazonq/
            OpenCode: .opencode/ opencode.json* -> opencode.jsonc
            Goose: .goosehints
            Augment: .augment* -> .augment-guidelines
            GitLab Duo: .gitlab/duo/
            CodeRabbit: .coderabbit.y*ml -> .coderabbit.yaml
            other reviewers: .pr_agent.toml greptile.json .sourcery.yaml
            skills: .skills/ skill.md
            """
        ),
    ),
    SensitiveClass(
        "auth",
        "decides who may do what",
        read_groups(
            """
            folders by method: auth/ authn/ authz/ oauth/ oauth2/ oidc/ saml/ sso/ iam/ rbac/
            folders by subject: authentication/ authorization/ permissions/
            auth: auth.* auth_* auth-* -> auth.py auth_middleware.go auth-guard.ts
            auth, at the end: *_auth.* *-auth.* -> basic_auth.py basic-auth.ts
            authn, authz: authn* authz* -> authn.go authz_rules.py
            whole words: authenticat* authoriz* -> authenticator.py authorize.rb
            protocols: oauth* oidc* saml* rbac* -> oauth2.py oidc_client.go saml.rb rbac.yaml
            permissions: permission.* permissions.* -> permission.ts permissions.py
            JSON Web Tokens: jwt.* jwt_* -> jwt.go jwt_verify.py
            sign-in: password*.* login.* -> password_reset.py login.ts
            sessions: session_store.* -> session_store.rb
            servers: .htaccess sudoers sudoers.d/ pam.d/
            """
        ),
    ),
    SensitiveClass(
        "infrastructure",
        "decides what is built and where it runs",
        read_groups(
            """
            Docker: dockerfile dockerfile.* *.dockerfile -> dockerfile.dev api.dockerfile
            Docker, builds: .dockerignore docker-bake.* -> docker-bake.hcl
            Podman: containerfile* -> containerfile
            Compose: docker-compose*.y*ml -> docker-compose.override.yml
            Compose, new names: compose.y*ml compose.*.y*ml -> compose.yaml compose.dev.yaml
            Terraform: terraform/ *.tf *.tf.json -> main.tf main.tf.json
            Terraform, values: *.tfvars *.tfvars.json -> prod.tfvars prod.tfvars.json
            Terraform, state: *.tfstate* -> terraform.tfstate.backup
            HashiCorp: terragrunt/ *.hcl *.nomad -> vault.hcl api.nomad
            Kubernetes: k8s/ kubernetes/ kustomize/ kustomization.y*ml -> kustomization.yaml
            Helm: helm/ /charts/ helmfile*.y*ml -> helmfile.yaml
            Skaffold: skaffold.y*ml -> skaffold.yaml
            Ansible: ansible/ ansible.cfg playbooks/ playbook*.y*ml -> playbook-web.yml
            Vagrant: vagrantfile
            Serverless: serverless.y*ml -> serverless.yml
            AWS: cloudformation/ cdk.json cdktf.json
            Pulumi: pulumi*.y*ml -> pulumi.prod.yaml
            Bicep: *.bicep -> main.bicep
            hosts of services: procfile fly.toml render.yaml
            hosts of pages: netlify.toml vercel.json wrangler.toml
            nginx: nginx*.conf -> nginx.prod.conf
            systemd, cron: systemd/ crontab *.service -> shop.service
            GitLab, agents for Kubernetes: .gitlab/agents/
            GitLab: .gitlab/route-map.yml .gitlab/security-policies/ .gitlab/auto-deploy-values.yaml
            """
        ),
    ),
    SensitiveClass(
        "secrets",
        "is the kind of file that holds secrets or access rights, or searches for them",
        read_groups(
            """
            environments: .env .env.* *.env -> .env.local prod.env
            keys: *.pem *.key *.ppk *.p8 *.gpg -> a.pem a.key a.ppk a.p8 a.gpg
            key stores: *.p12 *.pfx *.jks *.kdbx -> a.p12 a.pfx a.jks a.kdbx
            key stores, long endings: *.keystore *.truststore -> a.keystore a.truststore
            certificates: *.crt *.cer *.der -> a.crt a.cer a.der
            SSH: .ssh/ authorized_keys known_hosts id_rsa* id_dsa* -> id_rsa.pub id_dsa
            SSH, newer keys: id_ecdsa* id_ed25519* -> id_ecdsa id_ed25519.pub
            GnuPG: .gnupg/
            logins: .netrc _netrc .pgpass .my.cnf .git-credentials .htpasswd
            package registries: .npmrc .pypirc pip.conf .yarnrc* -> .yarnrc.yml
            Vault: .vault* vault.* -> .vault-token vault.yml
            by name: secret/ secrets/ secret.* secrets.* -> secret.json secrets.yaml
            by ending: *.secret *.secrets *.enc -> db.secret db.secrets db.enc
            credentials: credentials credentials.* .credentials* -> credentials.json .credentials
            clouds: .aws/ .azure/ .kube/ kubeconfig* -> kubeconfig.yaml
            Google Cloud: service-account*.json -> service-account-ci.json
            SOPS: .sops.y*ml -> .sops.yaml
            OpenVPN: *.ovpn -> office.ovpn
            Docker: .dockercfg .docker/
            scanners: .secrets.baseline .gitleaks* .trufflehog* -> .gitleaks.toml .trufflehog.yml
            GitGuardian: .gitguardian.y*ml -> .gitguardian.yaml
            """
        ),
    ),
    SensitiveClass(
        "hiding",
        "can hide files or lines from a reviewer",
        read_groups(
            """
            git: .gitattributes .lfsconfig
            GitLab: .gitlab/generated-files* -> .gitlab/generated-files.txt
            """
        ),
    ),
)
"""At any depth unless a pattern begins with ``/``. A merge request that changes one is a draft."""

HARMLESS = (
    ("a document", r"\.(md|rst|adoc|txt)$", "docs/auth/overview.md"),
    ("below a folder of tests", r"(^|/)(tests?|specs?|__tests__)/", "auth/tests/login.py"),
    ("a test by its beginning", r"(^|/)test_[^/]*$", "auth/test_login.py"),
    ("a test by its end", r"[._-](test|spec|tests)\.\w+$", "auth/login.spec.ts"),
    ("a test by its class", r"\w(Test|Tests|Spec|IT)\.\w+$", "auth/LoginTest.java"),
)
"""Tests and documents, which do not count as ``auth``: description, pattern, example."""

ANY_HARMLESS = compile_lazily("|".join(pattern for _, pattern, _ in HARMLESS))
