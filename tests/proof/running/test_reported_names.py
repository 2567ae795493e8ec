import pytest

from gitlab_nightshift.proof.running.reported_names import is_reported_as
from gitlab_nightshift.proof.syntax.file_side import Side

SOURCES = {
    "tests/test_a.py": "class TestA:\n    def test_b(self):\n        assert 1\n",
    "a_test.go": 'package a\n\nimport "testing"\n\nfunc TestA(t *testing.T) { t.Error() }\n',
    "a.test.js": "describe('suite', () => { it('title', () => { expect(1).toBe(1) }) })\n",
    "src/test/java/CartTest.java": "class CartTest { @Test void total() { assertTrue(a); } }\n",
    "src/a.rs": "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() { assert!(true); }\n}\n",
}


@pytest.mark.parametrize(
    ("path", "name", "is_it"),
    [
        ("tests/test_a.py", "tests/test_a.py::TestA::test_b", True),
        ("tests/test_a.py", "tests.test_a.TestA.test_b", True),
        ("tests/test_a.py", "tests/test_a.py::TestA::test_bc", False),
        ("tests/test_a.py", "tests/test_a.py::TestA::a_test_b", False),
        ("a_test.go", "pkg::TestA", True),
        ("a_test.go", "pkg::TestA/row", True),
        ("a_test.go", "pkg::TestAll", False),
        ("a.test.js", "a.test.js::suite title", True),
        ("a.test.js", "a.test.js::title", True),
        ("a.test.js", "a.test.js::suite subtitle", False),
        ("src/test/java/CartTest.java", "com.shop.CartTest::total", True),
        ("src/a.rs", "tests::adds", True),
    ],
)
def test_a_reported_name_is_that_of_its_test(path: str, name: str, is_it: bool) -> None:
    [test] = Side(path, SOURCES[path].encode()).tests
    assert is_reported_as(name, test) is is_it
