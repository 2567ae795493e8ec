"""The first nightshift.yaml, and the same one where tests pass later."""

from gitlab_nightshift.onboarding.settings_file import (
    LACKS,
    TriedCommand,
    enable_commands,
    lacks_commands,
    write_settings,
)

FAILED = (TriedCommand("npm test", 1.0, f"{LACKS}x"), TriedCommand("make", 1.0, "failed"))
PASSED = (TriedCommand("npm test", 2.0), FAILED[1])


def test_a_command_that_passes_later_is_put_in_force() -> None:
    before = write_settings(FAILED, "code_owners", ("A",)) + "max_diff_lines: 50\n"
    assert lacks_commands(before)
    after = enable_commands(before, PASSED)
    assert after == write_settings(PASSED, "code_owners", ("A",)) + "max_diff_lines: 50\n"
    assert not lacks_commands(after)
    assert enable_commands(before, FAILED) == before
    windows = before.replace("\n", "\r\n")
    assert lacks_commands(windows)
    assert enable_commands(windows, PASSED) == after.replace("\n", "\r\n")
    nothing = write_settings((), "")
    assert enable_commands(nothing, PASSED) == write_settings(PASSED, "")


def test_a_file_that_people_wrote_is_theirs() -> None:
    for text in (
        "",
        "reviewer: rita\n",
        "verify_commands: [make]\n",
        "# verify_commands:\n#   - 'a'\nverify_commands: [make]\n",
    ):
        assert not lacks_commands(text), text
