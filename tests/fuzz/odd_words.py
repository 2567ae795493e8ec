"""What odd agents hand over: every field with values that no honest one writes."""

from typing import Any

from hypothesis import strategies as st

from tests.fuzz.strategies import ODD_NUMBERS, ODD_TEXTS, json_of

TOP = "{top}"
"""Stands for the checkout's own path."""
NAMES = st.sampled_from(
    """test_shop.py shop.py run.sh ./test_shop.py test_shop.py:3 -rf --help docs docs/ docs/new.md
    shop.py/x .git .git/config .GIT/x docs/../x .. ../.. . / // /etc/shadow /etc ~ ~root/x $HOME
    `id` :(glob)** :/ * HEAD @ nightshift/x nightshift.yaml new/deep/er.py {top} {top}/
    {top}/test_shop.py {top}/../x {top}/.git/HEAD {top}//etc /proc/self/environ C:\\x
    ..\\x""".split()
) | st.sampled_from(
    [
        *("", " ", "\0", "a\0b", "a\nb", "\x1b[31m", "\ud800", "a\u202eb", "test_shop.py\n", "\\"),
        *("docs/näme with space.md", "x" * 300, "x/" * 3_000, "{top}/" + "x" * 5_000, "ä" * 2_000),
    ]
)
MARKUP = st.sampled_from(
    [
        *("</details>", "<!-- nightshift -->", "@all /merge", "```\n", "{{x}} %s {0}", "| a |"),
        *("\n" * 500, "`" * 500, "\u2028", "[a](javascript:x)", "::error::", "$(id)"),
        "section_start:0:x\r",
    ]
)
TEXTS = ODD_TEXTS | MARKUP | NAMES | st.text(max_size=30)
ANYTHING = json_of(frozenset({"files", "description", "thread"}))
PATHS = st.lists(NAMES | st.text(max_size=5) | ANYTHING, max_size=6) | st.builds(
    lambda name, count: [name] * count + [f"{name}{n}" for n in range(count)],
    *(NAMES, st.sampled_from([0, 199, 5_000])),
)


def odd(honest: Any, *kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """As it should be, of its type, or anything."""
    return st.just(honest) | st.one_of(*kinds) | st.one_of(*kinds, ANYTHING)


def places() -> st.SearchStrategy[Any]:
    """Quotations, right and wrong."""
    numbers = st.sampled_from(["1", "0", "9999999", "-1", "2-3", "1:1", ""])
    said = st.sampled_from(["", ": `import unittest`", ": `", ": ``", " - x"])
    texts = st.builds("{}:{}{}".format, NAMES, numbers, said) | TEXTS
    return odd([], st.lists(texts | st.just("test_shop.py:1"), max_size=4))


def candidates(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """One possible improvement."""
    files = PATHS.map(lambda paths: ["test_shop.py", *paths]) | PATHS
    return st.fixed_dictionaries(
        {"files": odd(["test_shop.py"], files), "description": odd("Test it.", TEXTS)},
        optional={
            "rank": odd(1, ODD_NUMBERS),
            "rationale": odd("", TEXTS),
            "value": odd(2, ODD_NUMBERS),
            "evidence": places(),
            name: ANYTHING,
        },
    )


ANALYSES = st.fixed_dictionaries(
    {
        "result": st.sampled_from(["IMPROVEMENT_FOUND"] * 8 + ["NO_IMPROVEMENT", "", 5]),
        "selected": candidates("more"),
    },
    optional={
        "category_used": odd("tests", TEXTS),
        "reason": odd("", TEXTS),
        "files_scanned": odd(3, ODD_NUMBERS),
        "candidates": odd([], st.lists(candidates("more") | ANYTHING, max_size=7)),
        "more": ANYTHING,
    },
)
LINES = st.lists(TEXTS | ANYTHING, max_size=60)
VERDICTS = st.fixed_dictionaries(
    {"passed": st.sampled_from([True] * 8 + [False, "true", 1])},
    optional={
        "error_details": odd("", TEXTS),
        "commands_run": odd([], LINES),
        "checked": odd([], LINES),
        "doubts": odd([], LINES),
    },
)
ANSWERS = st.lists(
    st.fixed_dictionaries(
        {"thread": odd(1, ODD_NUMBERS), "text": odd("Done.", TEXTS)},
        optional={"files": odd(["test_shop.py"], PATHS)},
    )
    | ANYTHING,
    max_size=4,
)
DRAFTS = st.fixed_dictionaries(
    {"title": odd("Test it", TEXTS), "summary": odd("It was not.", TEXTS)},
    optional={
        "branch_slug": odd("test-it", TEXTS),
        "commit_message": odd("Test it", TEXTS),
        "reasoning": odd("", TEXTS),
        "changes": odd("", TEXTS),
        "rejected_alternatives": odd([], LINES),
        "answers": odd([], ANSWERS),
    },
)
HANDOFFS = {"analyze": ANALYSES, "verify": VERDICTS, "mr": DRAFTS}
TOOLS = st.sampled_from(["Bash", "Read", "Edit", "StructuredOutput"]) | TEXTS
CALLS = st.fixed_dictionaries(
    {"type": st.just("tool_use"), "id": TEXTS, "name": TOOLS},
    optional={
        "input": st.dictionaries(
            st.sampled_from(["command", "file_path", "pattern", "cmd"]), TEXTS | ANYTHING
        )
    },
)
"""What the CLI reports of a tool that was called."""


def fill_in(value: Any, top: str) -> Any:
    """The same with the checkout's own path in its texts."""
    if isinstance(value, str):
        return value.replace(TOP, top)
    if isinstance(value, list):
        return [fill_in(each, top) for each in value]
    if isinstance(value, dict):
        return {fill_in(key, top): fill_in(each, top) for key, each in value.items()}
    return value
