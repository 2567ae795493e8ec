"""Raw logs are complete up to a limit, and never contain a secret."""

import gzip
import os
import random
from pathlib import Path

import pytest

from gitlab_nightshift.redaction.redactor import Redactor
from gitlab_nightshift.system import raw_logs
from gitlab_nightshift.system.raw_logs import (
    END_BYTES,
    GZIP_MEMBER_BYTES,
    Logs,
    build_logs,
    open_log,
)
from tests.support.disks import fill, small_disk
from tests.support.tables import each

SECRET = "hunter2-is-the-secret-of-this-job"
NOISE = random.Random(3)


def create_logs(folder: Path) -> Logs:
    folder.mkdir(exist_ok=True)
    return build_logs(folder, Redactor((SECRET,)))


def read_back(logs: Logs, data: bytes, name: str = "1.out", chunk: int = 65_536) -> bytes:
    """The log of a program that prints this, decompressed."""
    with logs.open_logs(name) as (log,):
        for start in range(0, len(data), chunk):
            log.write(data[start : start + chunk])
    with open_log(logs.find_log(name)) as file:
        return file.read()


def test_small_outputs_are_plain_and_large_ones_compressed(tmp_path: Path) -> None:
    logs = create_logs(tmp_path)
    for size in (0, 1, GZIP_MEMBER_BYTES, GZIP_MEMBER_BYTES + 1, 5 * GZIP_MEMBER_BYTES):
        data = NOISE.randbytes(size // 2).hex().encode() + b"." * (size % 2)
        assert read_back(logs, data, f"{size}.out") == data
        name = f"{size}.out.gz" if size > GZIP_MEMBER_BYTES else f"{size}.out"
        assert logs.find_log(f"{size}.out").name == name
    assert len(list(logs.folder.iterdir())) == 5, "one file each"


def test_gzip_reads_a_compressed_log(tmp_path: Path) -> None:
    data = b"a line\n" * GZIP_MEMBER_BYTES
    logs = create_logs(tmp_path)
    assert read_back(logs, data) == data
    assert gzip.decompress(logs.find_log("1.out").read_bytes()) == data
    assert logs.find_log("1.out").stat().st_size < GZIP_MEMBER_BYTES


@each("chunk", [1 << 16, 999_983])
def test_secrets_across_chunks_are_redacted(chunk: int, tmp_path: Path) -> None:
    logs, filler = create_logs(tmp_path), NOISE.randbytes(300_000).hex().encode()
    data = b" ".join([SECRET.encode(), filler] * 8)
    out = read_back(logs, data, f"{chunk}.out", chunk)
    assert (out.count(b"[redacted]"), out.count(filler), b"hunter2" in out) == (8, 8, False)


def test_beyond_the_limit_beginning_and_end_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_logs, "MOST_PRINTED_BYTES", 3_000_000)
    logs = create_logs(tmp_path)
    out = read_back(logs, b"begin" + NOISE.randbytes(5_000_000).hex().encode() + b"the end")
    assert out.startswith(b"begin")
    assert out.endswith(b"the end")
    assert 2_000_000 < len(out) < 3_000_000 + END_BYTES + 1000
    assert out.count(b"[nightshift: output is left out here: no more than 3 MB") == 1
    assert logs.read_tail("1.out", 7) == b"the end"


def test_both_outputs_share_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_logs, "MOST_PRINTED_BYTES", 3_000_000)
    logs = create_logs(tmp_path)
    with logs.open_logs("1.out", "1.err") as (out, err):
        for _ in range(100):
            out.write(b"o" * 50_000)
            err.write(b"e" * 50_000)
    sizes = []
    for name in ("1.out", "1.err"):
        with open_log(logs.find_log(name)) as file:
            sizes.append(len(file.read()))
    assert 2_000_000 < sum(sizes) < 3_000_000 + 2 * END_BYTES + 1000


def test_no_part_of_a_secret_is_kept_at_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program can choose where the limit falls, such as on the last character of a secret."""
    monkeypatch.setattr(raw_logs, "MOST_PRINTED_BYTES", 100_000)
    monkeypatch.setattr(raw_logs, "SECRET_BYTES", 1000)
    monkeypatch.setattr(raw_logs, "END_BYTES", 1000)
    logs, secret = create_logs(tmp_path), SECRET.encode()
    cut = logs.redact(b"." * 99_980 + secret[:20])
    assert secret[:6] in cut, "a bound alone would leave it"
    for shift in range(0, len(secret), 4):
        head = b"." * (100_000 - shift) + secret
        tail = secret + b"," * (1000 - shift)  # the end that is kept begins within this one
        out = read_back(logs, head + b"-" * 5000 + tail, f"{shift}.out", 10_000)
        for start in range(len(secret) - 6):
            assert secret[start : start + 6] not in out, shift


def test_all_logs_of_a_run_have_a_limit_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of incompressible outputs, each gets half of what is left, and all keep their ends."""
    monkeypatch.setattr(raw_logs, "MOST_STORED_BYTES", 8_000_000)
    logs = create_logs(tmp_path)
    for number in range(12):
        size = 6_000_000 if number < 3 else 1_500_000  # more than is left in any case
        out = read_back(logs, os.urandom(size) + b"the end", f"{number}.out")
        assert out.endswith(b"the end")
    sizes = [logs.find_log(f"{number}.out").stat().st_size for number in range(12)]
    assert sizes[0] > sizes[1] > sizes[2] > GZIP_MEMBER_BYTES
    assert sum(sizes) < 8_000_000 + 12 * (END_BYTES + 1000)


def test_no_log_decompresses_to_more_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw_logs, "MOST_PRINTED_BYTES", 20_000_000)
    logs = create_logs(tmp_path)
    with logs.open_logs("1.out") as (log,):
        for _ in range(400):
            log.write(bytes(1_000_000))
    with open_log(logs.find_log("1.out")) as file:
        assert len(file.read()) < 20_000_000 + END_BYTES + 1000


def test_on_a_full_disk_the_written_part_stays_readable(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "20m") as disk:
        logs = create_logs(disk)
        logs.reserve.allocate()
        line = NOISE.randbytes(500).hex().encode() + b"\n"
        with logs.open_logs("1.out") as (log,):
            for number in range(9000):
                log.write(line)
                if number == 3000:
                    filling = fill(disk)
            assert logs.reserve.path.exists(), "it is for the end, not for the flood"
        out = open_log(logs.find_log("1.out")).read()
        assert out.startswith(line * 1000)
        assert b"left out here: the disk was full; its end:]" in out
        assert out.endswith(line)
        filling.unlink()
        assert read_back(logs, line, "2.out") == line


def test_without_a_reserve_a_full_disk_is_no_error_either(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        logs = create_logs(disk)
        fill(disk)
        assert read_back(logs, b"x" * 500_000) == b""
        logs.write("traceback.txt", "x" * 500_000)


def test_a_log_replaces_an_old_one_of_its_name(tmp_path: Path) -> None:
    logs = create_logs(tmp_path)
    assert read_back(logs, b"x" * 3_000_000) == b"x" * 3_000_000
    assert read_back(logs, b"again") == b"again"
    assert [path.name for path in logs.folder.iterdir()] == ["1.out"]


def test_the_end_of_a_log(tmp_path: Path) -> None:
    logs = create_logs(tmp_path)
    for data in (b"", b"short", b"x" * 100 + b"end", b"y" * 4_000_000 + b"end"):
        read_back(logs, data)
        assert logs.read_tail("1.out", 10) == data[-10:]
    assert logs.read_tail("never.out", 10) == b""


def test_a_log_can_be_renamed(tmp_path: Path) -> None:
    logs = create_logs(tmp_path)
    with logs.open_logs("a-1.out", "a-1.err") as (out, err):
        out.write(b"o" * 3_000_000)
        err.write(b"e")
    logs.rename("a-1", "a-1-first")
    names = sorted(path.name for path in logs.folder.iterdir())
    assert names == ["a-1-first.err", "a-1-first.out.gz"]


def test_a_text_of_this_program_is_redacted(tmp_path: Path) -> None:
    logs = create_logs(tmp_path)
    logs.write("traceback.txt", f"key {SECRET}")
    assert (logs.folder / "traceback.txt").read_text() == "key [redacted]"


def test_the_suffix_is_right_after_a_full_disk(tmp_path: Path) -> None:
    """The first member did not fit, so the log contains only the note at the end."""
    with small_disk(tmp_path / "disk") as disk:
        logs = create_logs(disk)
        with logs.open_logs("1.out") as (log,):
            filling = fill(disk)
            log.write(NOISE.randbytes(GZIP_MEMBER_BYTES).hex().encode())
            filling.unlink()
        with open_log(logs.find_log("1.out")) as file:
            assert b"the disk was full" in file.read()


def test_no_link_is_followed(tmp_path: Path) -> None:
    """Neither one that exists before, nor one that is planted meanwhile."""
    logs, mine = create_logs(tmp_path / "run"), tmp_path / "mine"
    mine.write_bytes(b"mine")
    for name in ("1.out", "1.out.gz", "t.txt"):
        (logs.folder / name).symlink_to(mine)
    with logs.open_logs("1.out") as (log,):
        log.write(b"x")
    logs.write("t.txt", "text")
    assert (logs.find_log("1.out").read_bytes(), mine.read_bytes()) == (b"x", b"mine")
    assert (logs.folder / "t.txt").read_text() == "text"
    with pytest.raises(OSError, match="symbolic links"), logs.open_logs("2.out") as (log,):
        log.write(b"x")
        logs.find_log("2.out").unlink()
        logs.find_log("2.out").symlink_to(mine)
    assert mine.read_bytes() == b"mine"
