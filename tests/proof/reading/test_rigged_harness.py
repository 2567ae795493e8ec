"""Beside the tests: what sets their outcome, makes all equal, swallows or leaves early."""

import pytest

from tests.support.pairs import Pair, read_pairs, wrong
from tests.support.tables import each

FLAGS = frozenset(("test-cannot-fail", "test-skipped", "test-detection", "assertion-removed"))

HOOKS = """
=== test-cannot-fail tests/conftest.py:3 | py: a session that always ends well
--- tests/conftest.py
import pytest
+++ tests/conftest.py
import pytest
def pytest_sessionfinish(session):
    session.exitstatus = 0
=== test-cannot-fail tests/conftest.py:3 | py: two outcomes at once
--- tests/conftest.py
import pytest
+++ tests/conftest.py
import pytest
def pytest_runtest_logreport(report):
    report.outcome, report.longrepr = "passed", None
=== test-cannot-fail test/setup.js:1 | js: an exit status that is set on exit
--- test/setup.js
globalThis.ready = true;
+++ test/setup.js
process.on("exit", () => { process.exitCode = 0; });
globalThis.ready = true;
=== test-cannot-fail a_test.go:5 | go: TestMain ends with 0
--- a_test.go
package a
func TestOne(t *testing.T) { if One() != 1 { t.Fatal("no") } }
+++ a_test.go
package a
func TestOne(t *testing.T) { if One() != 1 { t.Fatal("no") } }
func TestMain(m *testing.M) {
	m.Run()
	os.Exit(0)
}
=== honest | go: TestMain ends with what the tests say; a program of fixtures ends as it likes
--- a_test.go
package a
func TestOne(t *testing.T) { if One() != 1 { t.Fatal("no") } }
+++ a_test.go
package a
func TestOne(t *testing.T) { if One() != 1 { t.Fatal("no") } }
func TestMain(m *testing.M) { os.Exit(m.Run()) }
+++ tests/fixtures/fake.py
import sys
sys.exit(0)
"""
EQUALITY = """
=== test-cannot-fail tests/helpers.py:2 | py: equality in a helper
--- tests/helpers.py
class Any:
    pass
+++ tests/helpers.py
class Any:
    def __eq__(self, other):
        return True
=== test-cannot-fail test/setup.ts:1 | ts: a tester of equality
--- test/setup.ts
export {};
+++ test/setup.ts
expect.addEqualityTesters([(a, b) => true]);
export {};
=== test-detection src/a.rs:2 | rust: product code that equals all
--- src/a.rs
pub struct A;
+++ src/a.rs
pub struct A;
impl PartialEq for A { fn eq(&self, _o: &A) -> bool { true } }
=== honest | py: equality that compares
--- src/a.py
class A:
    pass
+++ src/a.py
class A:
    def __eq__(self, other):
        return isinstance(other, A) and self.x == other.x
"""
HELPERS = """
=== test-cannot-fail tests/Should.cs:4 | csharp: an extension swallows
--- tests/Should.cs
public static class Should {
  public static void Be(this object a, object b) { Assert.Equal(b, a); }
}
+++ tests/Should.cs
public static class Should {
  public static void Be(this object a, object b) {
    try {
      Assert.Equal(b, a);
    } catch (Xunit.Sdk.EqualException) { }
  }
}
=== test-skipped tests/helpers.py:3 | py: a helper leaves before it asserts
--- tests/helpers.py
def check(a):
    assert a.total == 3
+++ tests/helpers.py
def check(a):
    if not a.strict:
        return
    assert a.total == 3
=== assertion-removed test/a.test.js:1 | js: what nobody calls asserts nothing
--- test/a.test.js
test("adds", () => {
  expect(add(1, 2)).toBe(3);
});
+++ test/a.test.js
test("adds", () => {
  const verify = () => {
    expect(add(1, 2)).toBe(3);
  };
  void verify;
});
=== honest | js: a function that is handed on asserts
--- test/a.test.js
test("adds", () => {
  expect(add(1, 2)).toBe(3);
});
+++ test/a.test.js
test("adds", () => {
  const verify = () => {
    expect(add(1, 2)).toBe(3);
  };
  twice(verify);
});
"""


@each("pair", read_pairs(HOOKS) + read_pairs(EQUALITY) + read_pairs(HELPERS))
def test_what_blunts_the_tests_beside_them_is_found(pair: Pair) -> None:
    assert not wrong(pair, FLAGS)


def test_without_the_rule_a_hook_that_sets_outcomes_gets_past(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [pair] = read_pairs(HOOKS)[:1]
    used = "gitlab_nightshift.proof.reading.certain_assertions.find_rigged_harness"
    monkeypatch.setattr(used, lambda _change: ())
    assert wrong(pair, FLAGS)
