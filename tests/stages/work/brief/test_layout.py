"""Folders, sizes and languages."""

from gitlab_nightshift.stages.work.brief.layout import (
    MOST_FOLDERS,
    describe_layout,
    format_size,
    list_largest,
)
from gitlab_nightshift.stages.work.brief.repository_facts import TrackedFile
from tests.support.tables import each


def files(*rows: tuple[str, int]) -> list[TrackedFile]:
    return [TrackedFile(*row) for row in rows]


def test_the_whole_then_the_folders() -> None:
    lines = describe_layout(
        files(
            ("Makefile", 100),
            ("src/app/a.py", 2_000),
            ("src/app/b.py", 1_000),
            ("src/web/x.ts", 5_000_000),
            ("docs/guide.md", 300),
        )
    )
    assert lines == [
        "all: 5 files, 5.0 MB, Python 2, TypeScript 1, Markdown 1",
        "top folder itself: 1 file",
        "docs/: 1 file, 300 B, Markdown 1",
        "src/: 3 files, 5.0 MB, Python 2, TypeScript 1",
        "src/app/: 2 files, 3 kB, Python 2",
    ]


def test_a_chain_of_folders_is_one_line() -> None:
    lines = describe_layout(files(("src/main/java/A.java", 1), ("src/main/java/B.java", 1)))
    assert lines == ["all: 2 files, 2 B, Java 2", "src/main/java/: 2 files, 2 B, Java 2"]


def test_many_folders_are_bounded_and_the_top_ones_stay() -> None:
    many = [(f"src/area{n}/f{m}.py", 10) for n in range(200) for m in range(3)]
    lines = describe_layout(files(*many, ("tests/test_a.py", 10)))
    assert len(lines) == MOST_FOLDERS + 1
    assert "tests/: 1 file, 10 B, Python 1" in lines


def test_no_file_at_all() -> None:
    assert describe_layout([]) == ["all: 0 files"]


@each(
    ("size", "text"),
    [(0, ""), (999, "999 B"), (1000, "1 kB"), (1_234_567, "1.2 MB")],
)
def test_sizes_for_a_person(size: int, text: str) -> None:
    assert format_size(size) == text


def test_the_largest_files_of_code() -> None:
    listed = files(
        ("data.json", 10**9), ("a.py", 50_000), ("b.go", 90_000), ("small.py", 9), ("x", 10**8)
    )
    assert list_largest(listed, 5) == ["b.go (90 kB)", "a.py (50 kB)"]
    assert list_largest(listed, 1) == ["b.go (90 kB)"]
