"""Which command runs chosen tests alone, and how the tests that ran are counted."""

from gitlab_nightshift.proof.evidence.selected_tests import (
    ProjectTests,
    SelectedTests,
    build_focused_commands,
)
from tests.support.tables import each

TEN = SelectedTests(
    ("tests/test_a.py",),
    ("test_x", "test_y"),
    (("tests/test_a.py", "test_x"), ("tests/test_a.py", "A.test_y")),
)
IDS = "tests/test_a.py::test_x tests/test_a.py::A::test_y"


def build(
    language: str, chosen: SelectedTests, *commands: str, paths: tuple[str, ...] = ()
) -> list[str]:
    project = ProjectTests(commands, lambda path: path in paths)
    return [" ".join(each.argv) for each in build_focused_commands(language, chosen, project)]


@each(
    ("command", "first"),
    [
        ("pytest -x tests", f"pytest -q -p no:cacheprovider {IDS}"),
        ("poetry run pytest", f"poetry run pytest -q -p no:cacheprovider {IDS}"),
        ("python3.12 -m pytest", f"python3.12 -m pytest -q -p no:cacheprovider {IDS}"),
        ("make test", f"python3 -m pytest -q -p no:cacheprovider {IDS}"),
        ("python3 -m unittest", "python3 -m unittest -k *.test_x -k *.test_y tests/test_a.py"),
    ],
)
def test_python(command: str, first: str) -> None:
    assert build("python", TEN, command)[0] == first


def test_commands_of_other_languages() -> None:
    spec = SelectedTests(("src/a.spec.ts",), ("adds",))
    jest = ("node_modules/.bin/jest",)
    assert (
        build("typescript", spec, "npm test", paths=jest)[0] == f"{jest[0]} -t adds src/a.spec.ts"
    )
    go = SelectedTests(("a/x_test.go", "b/y_test.go"), ("TestA", "TestB"))
    assert build("go", go) == ["go test -count=1 -v -run ^(TestA|TestB)$ ./a ./b"]
    java = SelectedTests(("src/test/java/CartTest.java",), ("adds",))
    assert build("java", java, "./mvnw -B -o test") == ["./mvnw -B -o test -Dtest=CartTest#adds"]
    maven = "mvn -o -q -Dmaven.repo.local=/opt/m2 -s my.xml -Dtest=A -pl core verify"
    kept = "mvn -B -o -Dmaven.repo.local=/opt/m2 -s my.xml -pl core test -Dtest=CartTest#adds"
    assert build("java", java, "make lint", maven) == [kept]
    assert build("java", java, "./gradlew --offline -Pci --tests X test")[0].startswith(
        "./gradlew --offline -i -Pci cleanTest test --tests "
    )
    [tagged] = build("go", go, "go test -race -tags db -run X -v ./...")
    assert tagged == "go test -race -tags db -count=1 -v -run ^(TestA|TestB)$ ./a ./b"
    rust = "cargo test --lib --all-features --offline -- --nocapture"
    assert build("rust", TEN, rust) == [
        "cargo test --offline --tests --all-features -- test_x test_y"
    ]
    assert build("scala", java, "sbt test") == ["sbt testOnly *CartTest"]
    assert build("rust", TEN) == ["cargo test --offline --tests -- test_x test_y"]
    nextest = "cargo nextest run --profile ci --retries=2 -E 'not test(slow)'"
    own = "--profile ci --retries=2"
    assert build("rust", TEN, nextest) == [f"cargo nextest run --offline {own} -- test_x test_y"]
    ruby = SelectedTests(("spec/a_spec.rb",), ("adds",))
    assert build("ruby", ruby, "bundle exec rspec") == ["bundle exec rspec spec/a_spec.rb"]
    assert build("cobol", TEN) == []


@each(
    ("language", "output", "ran"),
    [
        ("python", "==== 2 failed, 3 passed in 0.1s", 3),
        ("python", "no tests ran in 0.01s", 0),
        ("go", "=== RUN   TestA\n--- PASS: TestA (0.00s)\n--- FAIL: TestB (0.00s)\n", 2),
        ("go", "ok  \texample.com/shop\t0.01s [no tests to run]", 0),
        ("javascript", "# tests 3\n# pass 3\n# fail 0\n", 3),
        ("rust", "test result: ok. 0 passed; 0 failed; 0 ignored", 0),
        ("rust", "test result: ok. 2 passed; 0 failed; 0 ignored", 2),
        ("ruby", "3 runs, 4 assertions, 0 failures", 3),
        ("php", "OK (2 tests, 3 assertions)", 2),
    ],
)
def test_tests_that_ran_are_counted(language: str, output: str, ran: int) -> None:
    project = ProjectTests((), lambda _path: False)
    chosen = SelectedTests(("a",), ("b",))
    assert build_focused_commands(language, chosen, project)[0].count_tests(output) == ran


@each(("tests", "ran"), [("1 test", 1), ("2/3 tests", 2), ("0 tests", 0)])
def test_a_run_of_nextest_is_counted(tests: str, ran: int) -> None:
    project = ProjectTests(("cargo nextest run",), lambda _path: False)
    output = f"     Summary [   0.241s] {tests} run: 1 passed, 1 skipped\n"
    chosen = SelectedTests(("a",), ("b",))
    assert build_focused_commands("rust", chosen, project)[0].count_tests(output) == ran


def test_unittest_that_ran_nothing() -> None:
    project = ProjectTests(("python3 -m unittest",), lambda _path: False)
    assert (
        build_focused_commands("python", TEN, project)[0].count_tests("Ran 0 tests in 0.000s\n\nOK")
        == 0
    )


@each(
    ("language", "path"),
    [
        ("python", "-pevil_test.py"),
        ("python", "--co\n_test.py"),
        ("ruby", "x';system('id');'_test.rb"),
        ("scala", "x;publish;Test.scala"),
        ("java", "src/A#b,CTest.java"),
    ],
)
def test_unsafe_file_names_get_no_command(language: str, path: str) -> None:
    project = ProjectTests(("mvn test", "sbt test"), lambda _: True)
    assert build_focused_commands(language, SelectedTests((path,), ("a",)), project) == ()
    plain = SelectedTests(("src/[id] tést.test-x@1_test.py",), ("a",))
    assert build_focused_commands(language, plain, project)
