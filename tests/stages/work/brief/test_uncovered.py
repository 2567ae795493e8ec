"""Functions without a test, from a report that is of this very commit."""

import os
from pathlib import Path

from gitlab_nightshift.stages.work.brief import uncovered
from gitlab_nightshift.stages.work.brief.uncovered import list_uncovered
from tests.support.tables import each

NOW = 1_700_000_000.0
SOURCE = """import os


def used(a):
    if a:
        return 1
    return 2


class Price:
    def never(self, b):
        c = b + 1
        return c


def never_either(x):
    return x
"""
TRACKED = ["shop/price.py", "tests/test_price.py", "other/util.py", "pyproject.toml"]
MISSED = {12: 0, 13: 0, 17: 0, 7: 0}
RUN = {1: 1, 4: 1, 5: 1, 6: 1, 10: 1, 11: 1, 16: 1}
FOUND = ["shop/price.py:11 Price.never (2 lines)", "shop/price.py:16 never_either (1 lines)"]


def cobertura(name: str, hits: dict[int, int], stamp: float = NOW + 60) -> str:
    lines = "".join(f'<line number="{n}" hits="{count}"/>' for n, count in hits.items())
    return (
        f'<coverage timestamp="{stamp * 1000:.0f}"><class filename="{name}">'
        f"<lines>{lines}</lines></class></coverage>"
    )


def checkout(top: Path, **reports: str) -> Path:
    for path in TRACKED:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(SOURCE if path == "shop/price.py" else "x = 1\n")
    for name, text in reports.items():
        place = top / name.replace("__", "/").replace("_", ".")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return top


def test_functions_whose_body_was_never_run(tmp_path: Path) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura("price.py", {**MISSED, **RUN}))
    assert list_uncovered(top, TRACKED, NOW) == FOUND


def test_a_name_that_a_report_has_in_its_own_way(tmp_path: Path) -> None:
    text = cobertura("/builds/acme/shop/price.py", {**MISSED, **RUN})
    assert list_uncovered(checkout(tmp_path, coverage_xml=text), TRACKED, NOW) == FOUND


def test_functions_that_a_report_names_where_the_language_is_not_understood(tmp_path: Path) -> None:
    top = checkout(tmp_path)
    (top / "calc.pl").write_text("sub a {\n 1;\n}\nsub b {\n 2;\n}\n")
    lcov = "SF:calc.pl\nFN:1,a\nFN:4,b\nFNDA:1,a\nFNDA:0,b\nDA:2,1\nDA:5,0\nend_of_record\n"
    (top / "coverage").mkdir()
    (top / "coverage/lcov.info").write_text(lcov)
    os.utime(top / "coverage/lcov.info", (NOW + 1, NOW + 1))
    assert list_uncovered(top, [*TRACKED, "calc.pl"], NOW) == ["calc.pl:4 b (1 lines)"]


def test_reports_are_looked_for_beside_build_files(tmp_path: Path) -> None:
    top = checkout(tmp_path, web__coverage_xml=cobertura("price.py", {**MISSED, **RUN}))
    assert list_uncovered(top, TRACKED, NOW) == []
    assert list_uncovered(top, [*TRACKED, "web/package.json"], NOW) == FOUND


@each(
    ("stamp", "hits", "why"),
    [
        (NOW - 1, {**MISSED, **RUN}, "it is older than this commit"),
        (NOW + 60, {**MISSED, 18: 0}, "it covers other files than this commit's"),
    ],
)
def test_a_report_of_another_commit(
    stamp: float, hits: dict[int, int], why: str, tmp_path: Path
) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura("price.py", hits, stamp))
    assert list_uncovered(top, TRACKED, NOW) == [f"coverage.xml: not used: {why}"]


def test_a_report_of_other_files(tmp_path: Path) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura("elsewhere.py", MISSED))
    why = "it covers other files than this commit's"
    assert list_uncovered(top, TRACKED, NOW) == [f"coverage.xml: not used: {why}"]


def test_where_all_is_covered_nothing_is_listed(tmp_path: Path) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura("price.py", RUN))
    assert list_uncovered(top, TRACKED, NOW) == []


def test_a_report_in_the_commit_is_of_an_earlier_one(tmp_path: Path) -> None:
    top = checkout(tmp_path, coverage_xml=cobertura("price.py", {**MISSED, **RUN}))
    [line] = list_uncovered(top, [*TRACKED, "coverage.xml"], NOW)
    assert line.startswith("coverage.xml: not used: it is part of the commit")


def test_one_of_200_mb_is_not_read(tmp_path: Path) -> None:
    top = checkout(tmp_path)
    with (top / "coverage.xml").open("wb") as file:
        file.write(b"<coverage>")
        file.truncate(200_000_000)
    [line] = list_uncovered(top, TRACKED, NOW)
    assert line.startswith("coverage.xml: not used: it is larger than")


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "coverage.xml"
    outside.write_text(cobertura("price.py", {**MISSED, **RUN}))
    top = checkout(tmp_path / "top")
    (top / "coverage.xml").symlink_to(outside)
    (top / "coverage").symlink_to(tmp_path)
    lines = list_uncovered(top, TRACKED, NOW)
    assert len(lines) == 2
    assert all("not used: it" in line for line in lines)


def test_what_is_listed_is_bounded(tmp_path: Path) -> None:
    top = checkout(tmp_path)
    many = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(100))
    (top / "shop/price.py").write_text(many)
    hits = {4 * n + 2: 0 for n in range(100)}
    (top / "coverage.xml").write_text(cobertura("shop/price.py", hits))
    assert len(list_uncovered(top, TRACKED, NOW)) == uncovered.MOST_FUNCTIONS
