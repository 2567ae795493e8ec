"""A patch as rows: numbers, names, kinds, and bounds."""

from gitlab_nightshift.stages.report.patch_view import (
    LONGEST_LINE,
    MOST_LINES,
    parse_patch,
)
from gitlab_nightshift.text.diff_rows import DiffRow

PATCH = """\
diff --git a/src/a.py b/src/a.py
index 1111111..2222222 100644
--- a/src/a.py
+++ b/src/a.py
@@ -3,3 +3,3 @@ def f():
 same
--- deleted
+++ added
 last
\\ No newline at end of file
diff --git a/old.txt b/old.txt
deleted file mode 100644
index 1..0
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/x y.bin b/x y.bin
new file mode 100644
index 0..1
GIT binary patch
literal 3
Kcmcb
"""


def test_rows_have_the_numbers_of_their_side() -> None:
    first, second, third = parse_patch(PATCH)
    assert first.name == "src/a.py"
    assert first.rows == (
        DiffRow("@", "@@ -3,3 +3,3 @@ def f():"),
        DiffRow(" ", " same", 3, 3),
        DiffRow("-", "--- deleted", 4, 3),
        DiffRow("+", "+++ added", 4, 4),
        DiffRow(" ", " last", 5, 5),
        DiffRow("\\", "\\ No newline at end of file"),
    )
    assert (second.name, second.rows[-1]) == ("old.txt", DiffRow("-", "-gone", 1, 0))
    assert third.name == "x y.bin"
    assert [row.line for row in third.rows] == ["new file mode 100644", "A binary file."]


def test_no_patch_has_no_files() -> None:
    assert parse_patch("") == ()
    assert parse_patch("no patch at all\n+x\n") == ()


def test_a_huge_patch_is_cut_and_says_so() -> None:
    body = "+x\n" * (2 * MOST_LINES)
    head = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -0,0 +1,9 @@\n"
    files = parse_patch(head + body + PATCH)
    assert len(files) == 1
    assert len(files[0].rows) < MOST_LINES
    assert files[0].rows[-1].line == "The rest is in bundle/change.patch."
    (long,) = parse_patch(head + "+" + "y" * 10 * LONGEST_LINE)
    assert len(long.rows[-1].line) == LONGEST_LINE
