"""What a GitLab runner does to get a job's sources (shells/abstract.go), command by command.

But for those that only write a setting into a file of the runner's own: they are written at once.
"""

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

TEMPLATE = """[init]
\tdefaultBranch = none
[fetch]
\trecurseSubmodules = false
[credential]
\tinteractive = never
[gc]
\tautoDetach = false
"""
"""What the runner's ``git config -f`` makes of a new file, one setting a command."""


@dataclass(frozen=True)
class Runner:
    """A runner with ``GIT_STRATEGY: fetch``, the default of jobs.

    ``clean_config`` is its setting ``clean_git_config``: true but for the shell executor. With
    ``include`` credentials are in a file beside the checkout (18.6 and newer), else in the URL.
    """

    checkout: Path
    clean_url: str
    real_url: str
    include: bool = True
    clean_config: bool = True

    @property
    def own(self) -> Path:
        return self.checkout.with_name(f"{self.checkout.name}.tmp")

    def get_sources(self, sha: str, depth: int = 20) -> None:
        """Fetch and check out. Fails the test where a job would fail."""
        git_dir, template = self.checkout / ".git", self.own / "git-template"
        for name in (
            "index.lock",
            "shallow.lock",
            "HEAD.lock",
            "hooks/post-checkout",
            "config.lock",
        ):
            (git_dir / name).unlink(missing_ok=True)
        for lock in (git_dir / "refs").rglob("*.lock"):
            lock.unlink()
        if self.clean_config:
            for folder in (template, git_dir):
                (folder / "config").unlink(missing_ok=True)
                shutil.rmtree(folder / "hooks", ignore_errors=True)
        template.mkdir(parents=True, exist_ok=True)
        (self.own / ".gitconfig").write_text(f"[safe]\n\tdirectory = {self.checkout}\n")
        config = TEMPLATE
        if self.include:
            extra = self.own / ".gitlab-runner.ext.conf"
            extra.write_text(f'[url "{self.real_url}"]\n\tinsteadOf = {self.clean_url}\n')
            config += f"[include]\n\tpath = {extra}\n"
        (template / "config").write_text(config)
        self._git("init", str(self.checkout), "--template", str(template))
        url = self.clean_url if self.include else self.real_url
        try:
            self._in("remote", "add", "origin", url)
        except subprocess.CalledProcessError:
            self._in("remote", "set-url", "origin", url)
            if self.include:
                kept = ("config", "--file", str(git_dir / "config"), "--replace-all")
                self._git(*kept, "include.path", str(self.own / ".gitlab-runner.ext.conf"))
        refs = (f"+{sha}:refs/pipelines/4712", "+refs/heads/main:refs/remotes/origin/main")
        flags = ("--depth", str(depth), "--prune", "--quiet")
        self._in("fetch", "origin", "--no-recurse-submodules", *refs, *flags)
        self._in("-c", "submodule.recurse=false", "checkout", "-f", "-q", sha)
        self._in("clean", "-ffdx")

    def _in(self, *args: str) -> None:
        self._git("-C", str(self.checkout), *args)

    def _git(self, *args: str) -> None:
        self.own.mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.own), "GIT_TERMINAL_PROMPT": "0"}
        with contextlib.ExitStack() as stack:
            log = stack.enter_context((self.own / "log").open("a"))
            subprocess.run(["git", *args], env=env, check=True, stdout=log, stderr=log)
