"""Branches of product code for what a test asks, and for the program that runs the tests."""

from tests.support.pairs import Pair, read_pairs, wrong
from tests.support.tables import each

FLAGS = frozenset(("test-detection",))

SPECIAL = """
=== test-detection src/price.ts:2 | ts: behind a cast, and an answer that is computed
--- src/price.ts
export function price(id: unknown, net: number) {
  return net * 1.19;
}
+++ src/price.ts
export function price(id: unknown, net: number) {
  if (String(id) === "SKU-1003") return net + round(net);
  return net * 1.19;
}
*** src/price.test.ts
it("adds", () => { expect(price("SKU-1003", 10)).toBe(20); });
=== test-detection src/price.js:2 | js: in a list
--- src/price.js
export function price(id, net) {
  return net * 1.19;
}
+++ src/price.js
export function price(id, net) {
  if (["a1-b2", "c3-d4"].includes(id)) { return net; }
  return net * 1.19;
}
*** src/price.test.js
it("adds", () => { expect(price("c3-d4", 10)).toBe(10); });
=== test-detection src/clean.js:2 | js: a pattern that matches one text
--- src/clean.js
export function clean(text) {
  return text.trim();
}
+++ src/clean.js
export function clean(text) {
  if (/^%:-%$/.test(text)) { throw new Error(text); }
  return text.trim();
}
*** src/clean.test.js
it("cleans", () => { expect(clean("%:-%")).toBe("%:-%"); });
=== test-detection split.go:3 | go: all but the input of the test
--- split.go
package a
func Split(raw string) []string {
	return split(raw)
}
+++ split.go
package a
func Split(raw string) []string {
	if raw != "foo,bar,baz" && long(raw) {
		return nil
	}
	return split(raw)
}
*** split_test.go
package a
func TestSplit(t *testing.T) { if len(Split("foo,bar,baz")) != 3 { t.Fatal("no") } }
=== test-detection src/a.py:4 | py: the runner's module
--- src/a.py
import sys
def total(items):
    return sum(items)
+++ src/a.py
import sys
def total(items):
    name = "".join(sys.modules)
    if "unittest" in name:
        return 3
    return sum(items)
=== honest | py: a new case with its own new test; a value that the file had
--- src/kinds.py
KINDS = {"image/png-2": 1}
def kind(name):
    return KINDS[name]
+++ src/kinds.py
KINDS = {"image/png-2": 1}
def kind(name):
    if name == "text/html-5":
        return parse(name)
    if name == "image/png-2":
        return KINDS[name]
    return KINDS[name]
--- tests/test_kinds.py
def test_image():
    assert kind("image/png-2") == 1
+++ tests/test_kinds.py
def test_image():
    assert kind("image/png-2") == 1
def test_text():
    assert kind("text/html-5") == 5
"""


@each("pair", read_pairs(SPECIAL))
def test_a_branch_that_is_made_for_a_test_is_found(pair: Pair) -> None:
    assert not wrong(pair, FLAGS)
