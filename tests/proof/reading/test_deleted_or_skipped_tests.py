"""test-skipped: for which conditions a skip is only a warning."""

from tests.support.judging import Judge
from tests.support.tables import each


@each(
    ("condition", "level"),
    [
        ('sys.platform == "win32", reason="no sh"', "warn"),
        ("os.geteuid() == 0, reason='root'", "warn"),
        ('sys.platform != "win32"', "fail"),
        ("os.environ.get('CI')", "fail"),
        ("mypy_api is None", "warn"),
        ("sys.platform == 'wasm32'", "warn"),
        ("!defined?(Ractor)", "warn"),
        ("True", "fail"),
    ],
)
def test_level_of_a_skip_by_its_condition(raised: Judge, condition: str, level: str) -> None:
    body = "def test_it():\n    assert total([1]) == 1\n"
    after = f"@pytest.mark.skipif({condition})\n{body}"
    [found] = raised({"test_a.py": body}, {"test_a.py": after})
    assert found.level == level


@each(
    ("condition", "level"),
    [
        ("not shutil.which(name)", "fail"),
        ("sys.version_info < (3, 12)", "warn"),
        ("True", "fail"),
        ('os.environ.get("CI")', "fail"),
    ],
)
def test_level_of_a_changed_skip_condition(raised: Judge, condition: str, level: str) -> None:
    body = "def test_a():\n    if {}:\n        pytest.skip({})\n    assert f() == 1\n"
    before = {"tests/test_a.py": body.format('shutil.which("less") is None', '"no less"')}
    after = {"tests/test_a.py": body.format(condition, '"another"')}
    [found] = raised(before, after, "test-skipped")
    assert found.level == level


@each(
    ("path", "skip", "level"),
    [
        ("test_a.py", "try:\n        import lz4\n    except ImportError:\n        {}", "warn"),
        ("test_a.py", "try:\n        f()\n    except Exception:\n        {}", "fail"),
        ("a_test.rb", "begin\n    Ractor\n  rescue NameError\n    {}\n  end", "warn"),
        ("a_test.rb", "begin\n    Ractor\n  rescue\n    {}\n  end", "fail"),
    ],
)
def test_level_of_a_skip_in_an_exception_handler(
    raised: Judge, path: str, skip: str, level: str
) -> None:
    body = "def test_a():\n    {}\n    assert f() == 1\n"
    call = 'pytest.skip("not here")'
    if path.endswith(".rb"):
        body = "class A < Minitest::Test\n  def test_a\n  {}\n  assert_equal 1, f\n  end\nend\n"
        call = 'skip("not here")'
    after = body.format(skip.format(call))
    [found] = raised({path: body.format("g()")}, {path: after}, "test-skipped")
    assert found.level == level
