"""Error codes, their exit statuses and messages."""

from gitlab_nightshift.errors import Code, Interruption, NightshiftError, build_config_error
from tests.support.tables import each

CONTRACT = {
    "E_CONFIG": 2,
    "E_POLICY_DENY": 3,
    "E_APPROVAL_REQUIRED": 4,
    "E_PROVIDER_UNAVAILABLE": 5,
    "E_TIMEOUT": 6,
    "E_BUDGET": 7,
    "E_TEST_FAILED": 8,
    "E_APPLY_FAILED": 9,
    "E_PARSE_ERROR": 10,
    "E_WORKSPACE_DIRTY": 11,
    "E_PUBLISH": 12,
    "E_INCOMPLETE": 13,
    "E_INTERNAL": 70,
    "E_INTERRUPTED": 130,
    "E_TERMINATED": 143,
}


def test_codes_have_their_documented_exit_statuses() -> None:
    assert {code.value: code.exit_status for code in Code} == CONTRACT
    assert len({code.exit_status for code in Code}) == len(Code)


@each("code", list(Code))
def test_an_error_has_its_status_and_message(code: Code) -> None:
    error = NightshiftError(code, "what is wrong")
    assert (error.exit_status, error.message) == (CONTRACT[code.value], "what is wrong")
    assert str(error) == "what is wrong"


def test_a_config_error_has_its_code() -> None:
    assert build_config_error("x").code is Code.CONFIG


def test_an_interruption_is_not_an_exception() -> None:
    assert not issubclass(Interruption, Exception)


def test_printed_messages_are_limited_and_printable() -> None:
    hostile = "\x1b[0Ksection_end:1:x\r\x1b[31m " + "x" * 10**6 + "\n" * 10**6 + "late"
    lines = NightshiftError(Code.CONFIG, hostile).lines
    assert sum(map(len, lines)) <= 300_000
    assert all(line.isprintable() for line in lines)
    assert NightshiftError(Code.CONFIG, "one\n  two").lines == ["one", "  two"]
