"""The reader's view of a merge request, from any description that GitLab may hold."""

import re
from pathlib import Path

from gitlab_nightshift.demo.demo_night import Demo
from gitlab_nightshift.demo.standin_repository import read_heads
from gitlab_nightshift.demo.standin_state import StandinLabel, StandinMergeRequest, User
from gitlab_nightshift.demo.terminal_view import render_demo
from tests.support.standin import FullStandin
from tests.support.standin_records import FullProject

DESCRIPTION = """## Summary

Plain \\*text\\* &lt;b&gt; with **bold**, [a link](https://example.com/x) and enough words that the
`code span with spaces` is where a line would break.

- one
- two &#8203;words
  go on

```python
x = "  `kept`"
```

<!-- nightshift: hidden -->
"""


def test_a_description_is_readable_in_a_terminal(
    gitlab: FullStandin, project: FullProject, branch: str, reviewer: User, tmp_path: Path
) -> None:
    head = read_heads(project.bare_repository)[branch]
    label = StandinLabel(1, "tests", "#428fdc")
    request = StandinMergeRequest(1, 1, "", reviewer, branch, "main", "A title", DESCRIPTION, head)
    request.labels, request.assignees = ["tests"], [reviewer]
    project.labels.append(label)
    project.merge_requests.append(request)
    demo = Demo({}, tmp_path, project, tmp_path)

    plain, coloured = render_demo(demo, False), render_demo(demo, True)
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain.replace("`", "").replace(
        "kept", "`kept`"
    )
    assert (
        "Summary\n"
        "Plain *text* <b> with bold, a link (https://example.com/x) and enough words that the\n"
        "`code span with spaces` is where a line would break.\n"
        "\n"
        "  • one\n"
        "  • two words go on\n"
        "\n"
        '    x = "  `kept`"\n'
    ) in plain
    assert "hidden" not in plain
    assert "\x1b[48;5;74;38;5;231m tests \x1b[0m" in coloured
    assert "first.txt +1 -1" in plain
    assert "zweite Ümlaut.txt" in plain


def test_a_night_without_a_merge_request_says_so(project: FullProject, tmp_path: Path) -> None:
    view = render_demo(Demo({}, tmp_path, project, tmp_path), False)
    assert "No merge request was opened" in view
