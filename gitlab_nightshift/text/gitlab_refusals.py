"""Remedies for GitLab's refusals, by its messages, which are the same in its API and for git.

The messages are from ``lib/gitlab/auth/user_access_denied_reason.rb``, ``lib/gitlab/checks``,
``lib/gitlab/git_access.rb`` and ``lib/gitlab/middleware/read_only``; for push rules and secret push
protection, from its manual.
"""

from dataclasses import dataclass

from gitlab_nightshift.text.lazy_patterns import compile_lazily

TOKEN_RIGHTS = "role Developer, scopes api and write_repository"  # noqa: S105 - no token
_SIGN_IN = "have somebody sign in to GitLab as the token's user"


@dataclass(frozen=True)
class Remedy:
    """The help for a refusal; ``retry``: the same change can then be published."""

    text: str
    retry: bool = True


AS_DEVELOPER = Remedy("give the token's user the role Developer")
_REMEDIES = {
    "accept the terms of service": Remedy(f"{_SIGN_IN} and accept them"),
    "password expired": Remedy(
        f"{_SIGN_IN} and set a new one, or use a project access token, which has none"
    ),
    "has been deactivated": Remedy(f"{_SIGN_IN} once"),
    "email address is not confirmed": Remedy("confirm the address of the token's user"),
    "two-factor|2fa": Remedy(f"{_SIGN_IN} and set it up, or use a project access token"),
    "pending approval|account has been blocked": Remedy(
        "an administrator has to unblock the token's user"
    ),
    "read-only|undergoing maintenance": Remedy(
        "GitLab accepts changes again when an administrator ends that"
    ),
    "push blocked|secrets? detected|secret push protection": Remedy(
        "GitLab found a secret in the change: look at the bundle", retry=False
    ),
    r"larger than the allowed size|exceed the \S+ limit|entity too large|error: 413": Remedy(
        "the change adds a file that is larger than GitLab allows", retry=False
    ),
    "size limit|storage|quota": Remedy(
        "free storage of the project or its group, or ask an administrator for a higher limit"
    ),
    "protected branch": Remedy("set another branch_prefix, or narrow the branch protection"),
    r"branch name\b.* does not follow": Remedy("set branch_prefix to one that does"),
    "commit message": Remedy("set commit_template to one that the push rule allows"),
    r"email\b.* does not follow|not a member|push commits for|is not verified|committer": Remedy(
        "set commit_author to one that the push rule allows"
    ),
    "must be signed": Remedy("lift that push rule for the token's user"),
    "file name|path name": Remedy("the push rule forbids a file that the change adds", retry=False),
    "granular": Remedy("give the token the permission that GitLab names"),
    r"insufficient_scope|higher privileges|upload code|improperly scoped|invalid_token"
    r"|401 unauthorized": Remedy(f"make a token with {TOKEN_RIGHTS}"),
    "is archived": Remedy("unarchive the project"),
    "not allowed to push code|could not be found": AS_DEVELOPER,
}
"""Regular expression for a refusal → remedy; the first match counts."""
_PATTERNS = [(compile_lazily(f"(?is){source}"), remedy) for source, remedy in _REMEDIES.items()]


def find_remedy(message: str) -> Remedy | None:
    """The remedy for a refusal with this message; None if the message is unknown."""
    return next((remedy for pattern, remedy in _PATTERNS if pattern.search(message)), None)
