"""A unified diff as rows, with the numbers of both sides."""

from gitlab_nightshift.text.diff_rows import DiffRow, read_rows

TWO = """\
diff --git a/a b/a
--- a/a
+++ b/a
@@ -2 +1,0 @@
--- gone
@@ -4,2 +3,3 @@ def f():
 same
++ more
-old
+new
\\ No newline at end of file
--- a/b
+++ b/b
@@ -0,0 +1 @@
+first
"""


def test_rows_have_line_numbers_until_the_hunk_ends() -> None:
    assert list(read_rows(TWO.splitlines())) == [
        DiffRow("", "diff --git a/a b/a"),
        DiffRow("", "--- a/a"),
        DiffRow("", "+++ b/a"),
        DiffRow("@", "@@ -2 +1,0 @@"),
        DiffRow("-", "--- gone", 2, 1),
        DiffRow("@", "@@ -4,2 +3,3 @@ def f():"),
        DiffRow(" ", " same", 4, 3),
        DiffRow("+", "++ more", 4, 4),
        DiffRow("-", "-old", 5, 4),
        DiffRow("+", "+new", 5, 5),
        DiffRow("\\", "\\ No newline at end of file"),
        DiffRow("", "--- a/b"),
        DiffRow("", "+++ b/b"),
        DiffRow("@", "@@ -0,0 +1 @@"),
        DiffRow("+", "+first", 0, 1),
    ]
