import shutil
import subprocess
from pathlib import Path

import pytest

from gitlab_nightshift.proof.running.switches import write_faulty_file
from gitlab_nightshift.proof.running.text_canaries import list_text_faults


def _list_lines(code: str, path: str = "a.xyz") -> list[str]:
    source = code.encode()
    return [
        write_faulty_file(fault, source).decode().split("\n")[fault.line - 1]
        for fault in list_text_faults(path, source)
    ]


@pytest.mark.parametrize(
    ("line", "faulty"),
    [
        ("return x < y", ["return x >= y"]),
        ("return x ~= y", ["return x == y"]),
        ("local x = f(10)", ["local x = f(11)"]),
        ("y = not x", ["y = x"]),
        ("if !empty(x) then", ["if empty(x) then"]),
        ('[ "$1" -eq "$x" ] && y', ['[ "$1" -ne "$x" ] && y', '[ "$1" -eq "$x" ] || y']),
        ('ä = "3" .. 4 -- 5', ['ä = "3" .. 5 -- 5']),
    ],
)
def test_a_line_of_code_has_faults(line: str, faulty: list[str]) -> None:
    assert _list_lines(f"x = y\n{line}\n") == faulty


@pytest.mark.parametrize(
    "code",
    [
        "-- 3 == 4",
        "# 3 == 4",
        "; 3 == 4",
        "x = y // 3 == 4",
        "(* 3\n = 4 == 5\n*)",
        "/* 3\n 4 == 5 */",
        '"""\n3 == 4\n"""',
        'x = "3 == 4"',
        'print("x", 3)',
        'throw Bad("x", 3)',
        "while x < 3 do",
        "import a3 == 4",
        "x = a3 + v1.2",
        "a <- b",
        "#!/bin/x 3",
    ],
)
def test_comments_texts_and_what_people_read_have_none(code: str) -> None:
    assert _list_lines(code) == []


def test_bytes_that_are_no_text_have_none() -> None:
    assert list_text_faults("a.xyz", b"x == 3 \xff") == []


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_each_fault_of_a_script_changes_what_it_does(tmp_path: Path) -> None:
    source = (
        b'#!/bin/bash\n# 3 lines\nif [ "$1" -gt 3 ] && [ "$2" != x ]; then\n  exit 4\nfi\nexit 5\n'
    )
    script = tmp_path / "a.sh"

    def run(data: bytes) -> list[int]:
        script.write_bytes(data)
        given = (("4", "y"), ("3", "y"), ("4", "x"))
        return [subprocess.run(["bash", script, *args], check=False).returncode for args in given]

    faults = list_text_faults("a.sh", source)
    assert len(faults) == 6
    for fault in faults:
        assert run(write_faulty_file(fault, source)) != run(source), fault
        assert (fault.switched, fault.function) == ("", "")
