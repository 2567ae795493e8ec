"""Remedies for GitLab's refusals, by its messages."""

import pytest

from gitlab_nightshift.text.gitlab_refusals import find_remedy
from tests.support.tables import each

AGAIN = True
NEVER = False


@each(
    ("message", "help_text", "retry"),
    [
        ("You (@b) must accept the Terms of Service in order to perform", "accept them", AGAIN),
        ("Your password expired. Please access GitLab from a web", "set a new one", AGAIN),
        ("Your account has been deactivated by your administrator.", "once", AGAIN),
        ("Your account has been blocked.", "unblock", AGAIN),
        ("You can't push code to a read-only GitLab instance.", "accepts changes again", AGAIN),
        (
            "PUSH BLOCKED: Secrets detected in code changes Secret push protection found",
            "found a secret",
            NEVER,
        ),
        ('GitLab: File "a.bin" is larger than the allowed size of 1 MiB.', "larger than", NEVER),
        ("one or more blobs which exceed the 100MiB limit: - 9f5f", "larger than", NEVER),
        ("error: RPC failed; HTTP 413 curl 22 returned error: 413", "larger than", NEVER),
        (
            "Your push has been rejected, because this repository has exceeded its size limit of"
            " 10 MB by 1 MB.",
            "free storage",
            AGAIN,
        ),
        ("You are not allowed to create protected branches on this project.", "prefix", AGAIN),
        ("Branch name 'x' does not follow the pattern '^JIRA'", "set branch_prefix", AGAIN),
        ("Commit message does not follow the pattern '^JIRA'", "set commit_template", AGAIN),
        ("Author's email 'a@b' does not follow the pattern '@c'", "set commit_author", AGAIN),
        ("You cannot push commits for 'a@b'. You can only push commits", "commit_author", AGAIN),
        ("Commit must be signed with a GPG key", "lift that push rule", AGAIN),
        ("File name secret.pem was prohibited by the pattern", "forbids a file", NEVER),
        ("insufficient_scope The request requires higher privileges", "make a token", AGAIN),
        ("invalid_token Token was revoked. You have to re-authorize", "make a token", AGAIN),
        ("401 Unauthorized", "make a token", AGAIN),
        ("insufficient_granular_scope Your token lacks it", "permission that GitLab", AGAIN),
        ("You are not allowed to push code to this project.", "role Developer", AGAIN),
    ],
)
def test_a_refusal_has_its_remedy(message: str, help_text: str, retry: bool) -> None:
    remedy = find_remedy(message)
    assert remedy and help_text in remedy.text
    assert remedy.retry is retry


@pytest.mark.parametrize("message", ["", "403 Forbidden", "pre-receive hook declined"])
def test_an_unknown_refusal_has_no_remedy(message: str) -> None:
    assert find_remedy(message) is None
