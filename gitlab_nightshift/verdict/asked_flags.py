"""Which red flags a person is only asked about, and where: reading cannot be certain then."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """What else a change does that may explain a finding. ``rule`` is the function that knows,
    below ``verdict/flags``, "" where each finding does; ``said`` goes on after "where"."""

    rule: str
    said: str


EXPLANATIONS = {
    **dict.fromkeys(
        ("test-deleted", "assertion-removed"),
        Explanation(
            "explanations:may_replace_tests",
            "product code, dependencies or other test code change as well",
        ),
    ),
    "test-loosened": Explanation(
        "explanations:may_rewrite_tests",
        "product code, dependencies or more test code change as well",
    ),
    "test-skipped": Explanation("", "the test is new, or a condition decides"),
    "test-cannot-fail": Explanation("", "the assertion comes beside others that stay"),
    "dangerous-call": Explanation(
        "", "it depends on its use: a weak hash, a number that can be guessed, `unsafe`"
    ),
    "exception-swallowed": Explanation(
        "explanations:may_handle_otherwise", "the change builds more than what hides the error"
    ),
}
"""By the flag's name; a finding that ``RuleViolation.certain`` decides needs no rule."""
