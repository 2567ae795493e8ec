"""Which functions of a file are tests, in every language."""

from gitlab_nightshift.proof.syntax.file_side import Side
from gitlab_nightshift.proof.syntax.languages import is_product, is_test_file
from gitlab_nightshift.proof.syntax.nodes import list_names
from tests.support.tables import each

TESTS = [
    ("tests/test_a.py", "def test_a(): pass\ndef helper(): pass\n", ["test_a"]),
    ("tests/test_a.py", "class TestA:\n    def test_a(self): pass\n", ["TestA.test_a"]),
    ("tests/test_a.py", "class Helper:\n    def test_a(self): pass\n", []),
    ("tests/test_a.py", "class A(TestCase):\n    def test_a(self): pass\n", ["A.test_a"]),
    ("shop/testing.py", "def total(): pass\n", []),
    ("a.test.ts", 'describe("a", () => { it("b", () => {}); it.todo("c"); });', ["a b", "a c"]),
    ("a.spec.tsx", 'test.each([[1]])("n %d", (n) => { expect(<A n={n} />); });', ["n %d"]),
    ("test/a.js", 'suite("a", function () { test("b", function () {}); });', ["a b"]),
    ("a.test.js", 'function shared() { it("a", () => {}); }', []),
    ("a.test.js", 'function shared() { it("a", () => {}); }\nshared();', ["a"]),
    ("a_test.go", "package a\nfunc TestA(t *testing.T) {}\nfunc Testa() {}\n", ["TestA"]),
    (
        "a_test.go",
        "package a\nfunc FuzzA(f *testing.F) {}\nfunc ExampleA() {}\n",
        ["FuzzA", "ExampleA"],
    ),
    ("src/test/java/ATest.java", "class ATest { @Test void a() {} void b() {} }", ["ATest.a"]),
    (
        "src/test/java/ATest.java",
        "class ATest { @ParameterizedTest void a(int i) {} }",
        ["ATest.a"],
    ),
    ("src/lib.rs", "#[cfg(test)]\nmod tests {\n#[test]\nfn a() {}\nfn b() {}\n}\n", ["a"]),
    ("src/lib.rs", "#[cfg(test)]\nmod tests {\n#[bench]\nfn a(b: &mut B) {}\n}\n", []),
    ("src/lib.rs", "#[cfg(test)]\nmod tests {\n#[tokio::test]\nasync fn a() {}\n}\n", ["a"]),
    ("spec/a_spec.rb", 'RSpec.describe A do\n  it "b" do\n  end\nend\n', ["A b"]),
    ("spec/a_spec.rb", '::RSpec.describe A do\n  it "b" do\n  end\nend\n', ["A b"]),
    (
        "test/a_test.rb",
        "class ATest < Minitest::Test\n  def test_a\n  end\nend\n",
        ["ATest.test_a"],
    ),
    ("ASpec.scala", 'class ASpec extends AnyFlatSpec { "A" should "b" in { c } }', ["A b"]),
    ("ASuite.scala", 'class ASuite extends FunSuite { test("b") { c } }', ["b"]),
    (
        "tests/ATest.php",
        "<?php class ATest { public function testA() {} function b() {} }",
        ["ATest.testA"],
    ),
    ("tests/ATests.cs", "class ATests { [Fact] public void A() {} void B() {} }", ["ATests.A"]),
    ("src/test/kotlin/ATest.kt", "class ATest { @Test fun a() {}\n fun b() {} }", ["ATest.a"]),
]


@each(("path", "source", "names"), TESTS)
def test_tests_are_found(path: str, source: str, names: list[str]) -> None:
    assert [test.qualified for test in Side(path, source.encode()).tests] == names


def test_lines_of_a_test_include_its_marks() -> None:
    source = (
        b"import pytest\n\n@pytest.mark.slow\n@other\ndef test_a():\n    assert f(1) == total\n"
    )
    test = Side("test_a.py", source).tests[0]
    assert (test.line, test.end, test.marks) == (3, 6, ("@pytest.mark.slow", "@other"))


def test_names_that_a_function_uses() -> None:
    function = Side("a.py", b"def f(a):\n    return cart.total(a) + LIMIT\n").functions[0]
    assert list_names(function.node) == {"f", "a", "cart", "total", "LIMIT"}


@each(
    ("path", "test_file", "product"),
    [
        ("tests/test_cart.py", True, False),
        ("tests/cart_checks.py", False, False),
        ("shop/cart.py", False, True),
        ("cart_test.go", True, False),
        ("cart_tests.go", False, True),
        ("src/cart.spec.ts", True, False),
        ("src/cart.ts", False, True),
        ("src/__tests__/cart.js", True, False),
        ("src/test/java/org/shop/CartTest.java", True, False),
        ("src/main/java/org/shop/Cart.java", False, True),
        ("conftest.py", False, False),
        ("src/cart.rs", True, True),
        ("tests/cart.rs", True, False),
    ],
)
def test_test_files_and_product_files(path: str, test_file: bool, product: bool) -> None:
    assert (is_test_file(path), is_product(path)) == (test_file, product)
