"""public-name-removed, signature-changed."""

from gitlab_nightshift.proof.reading.public_names import find_exports
from gitlab_nightshift.proof.syntax.file_side import Side
from tests.support.pairs import Pair, read_pairs, wrong
from tests.support.tables import each

FLAGS = frozenset(("public-name-removed", "signature-changed"))

NAMES = """
=== public-name-removed src/a.py:1 | py: a function is gone
--- src/a.py
def total(items):
    return sum(items)

def mean(items):
    return total(items) / len(items)
+++ src/a.py
def mean(items):
    return sum(items) / len(items)
=== public-name-removed src/a.py | py: a method is renamed
--- src/a.py
class Cart:
    def total(self):
        return sum(self.items)
+++ src/a.py
class Cart:
    def grand_total(self):
        return sum(self.items)
=== public-name-removed src/a.py | py: a constant is gone
--- src/a.py
LIMIT = 3

def f():
    return LIMIT
+++ src/a.py
def f():
    return 3
=== honest | py: alias, re-export, private names, a parent has it
--- src/a.py
def total(items):
    return sum(items)

def mean(items):
    return 1

def _helper():
    pass

class Cart:
    def count(self):
        return 1

    def total(self):
        return 2
+++ src/a.py
from src.stats import mean

def grand_total(items):
    return sum(items)

total = grand_total

class Countable:
    def count(self):
        return 1

class Cart(Countable):
    def grand_total(self):
        return 2

    total = grand_total
+++ src/stats.py
def mean(items):
    return 1
=== honest | py: a function moves, who imported it follows
--- src/a.py
def total(items):
    return sum(items)

def mean(items):
    return total(items) / len(items)
+++ src/a.py
from src import stats

def mean(items):
    return stats.total(items) / len(items)
+++ src/stats.py
def total(items):
    return sum(items)
--- src/report.py
from src.a import total

print(total([1]))
+++ src/report.py
from src.stats import total

print(total([1]))
=== public-name-removed src/a.py:1 | py: a function moves, nobody follows
--- src/a.py
def total(items):
    return sum(items)
+++ src/a.py
LIMIT = 3
+++ src/stats.py
def total(items):
    return sum(items)
=== honest | py: not in __all__
--- src/a.py
__all__ = ["total"]

def total(items):
    return helper(items)

def helper(items):
    return sum(items)
+++ src/a.py
__all__ = ["total"]

def total(items):
    return sum(items)
=== public-name-removed src/a.ts:1 | ts: an export is gone
--- src/a.ts
export function total(items: number[]): number {
  return 1;
}
export const limit = 3;
+++ src/a.ts
export const limit = 3;
=== honest | ts: a function that was not exported; a re-export
--- src/a.ts
function helper() {
  return 1;
}
export function total() {
  return helper();
}
+++ src/a.ts
export { total } from "./b";
+++ src/b.ts
export function total() {
  return 1;
}
=== public-name-removed a/a.go:3 | go: an exported function is gone
--- a/a.go
package a

func Total() int { return 1 }

func helper() int { return 1 }
+++ a/a.go
package a
=== honest | go: moved in its package
--- a/a.go
package a

func Total() int { return 1 }
+++ a/a.go
package a
+++ a/b.go
package a

func Total() int { return 1 }
=== public-name-removed src/main/java/A.java:2 | java: a public method is gone
--- src/main/java/A.java
public class A {
    public int total() { return 1; }
    private int helper() { return 1; }
}
+++ src/main/java/A.java
public class A {
}
=== public-name-removed lib/a.rb:2 | ruby: a method is gone
--- lib/a.rb
class A
  def total
    1
  end

  private

  def helper
    1
  end
end
+++ lib/a.rb
class A
end
=== honest | ruby: alias_method
--- lib/a.rb
class A
  def total
    1
  end
end
+++ lib/a.rb
class A
  def grand_total
    1
  end
  alias_method :total, :grand_total
end
=== public-name-removed src/a.rs:1 | rust: a pub fn is gone
--- src/a.rs
pub fn total() -> i32 { helper() }
fn helper() -> i32 { 1 }
+++ src/a.rs
pub(crate) fn sum() -> i32 { 1 }
=== public-name-removed src/main/scala/A.scala:2 | scala: a def is gone
--- src/main/scala/A.scala
class A {
  def total: Int = helper
  private def helper: Int = 1
}
+++ src/main/scala/A.scala
class A {
}
"""

SIGNATURES = """
=== signature-changed src/a.py:1 | py: a parameter is gone
--- src/a.py
def total(items, tax):
    return sum(items)
+++ src/a.py
def total(items):
    return sum(items)
=== signature-changed src/a.py | py: renamed
--- src/a.py
def total(items, tax=0):
    return sum(items)
+++ src/a.py
def total(items, rate=0):
    return sum(items)
=== signature-changed src/a.py | py: made required
--- src/a.py
def total(items, tax=0):
    return sum(items)
+++ src/a.py
def total(items, tax):
    return sum(items)
=== signature-changed src/a.py | py: other order in __init__
--- src/a.py
class Cart:
    def __init__(self, items, tax):
        self.items = items
+++ src/a.py
class Cart:
    def __init__(self, tax, items):
        self.items = items
=== honest | py: optional parameters come, types come, private, mutable default
--- src/a.py
def total(items, tax=[]):
    return sum(items)

def f(a):
    return a

def _g(a, b):
    return a

def h(a) -> Optional[int]:
    return a
+++ src/a.py
def total(items: list[int], tax=None, *, rounding=False) -> int:
    return sum(items)

def f(a, *args, **kwargs):
    return a

def _g(a):
    return a

def h(a) -> "int | None":
    return a
=== signature-changed src/a.ts:1 | ts: required parameter
--- src/a.ts
export function total(items: number[]): number {
  return 1;
}
+++ src/a.ts
export function total(items: number[], tax: number): number {
  return 1;
}
=== honest | ts: optional parameter
--- src/a.ts
export function total(items: number[]): number {
  return 1;
}
+++ src/a.ts
export function total(items: number[], tax?: number, mode = "up"): number {
  return 1;
}
=== honest | go: another name of a parameter
--- a/a.go
package a

func Total(xs []int) int { return 1 }
+++ a/a.go
package a

func Total(items []int) int { return 1 }
=== signature-changed src/main/java/A.java:2 | java: parameter gone
--- src/main/java/A.java
public class A {
    public int total(List<Integer> items, int tax) { return 1; }
}
+++ src/main/java/A.java
public class A {
    public int total(List<Integer> items) { return 1; }
}
=== honest | java: an overload comes
--- src/main/java/A.java
public class A {
    public int total(List<Integer> items) { return 1; }
}
+++ src/main/java/A.java
public class A {
    public int total(List<Integer> items) { return total(items, 0); }
    public int total(List<Integer> items, int tax) { return 1; }
}
=== signature-changed lib/a.rb:2 | ruby: keyword gone
--- lib/a.rb
class A
  def total(items, tax: 0)
    1
  end
end
+++ lib/a.rb
class A
  def total(items)
    1
  end
end
=== signature-changed src/main/scala/A.scala:2 | scala: default gone
--- src/main/scala/A.scala
class A {
  def total(items: Seq[Int], tax: Int = 0): Int = 1
}
+++ src/main/scala/A.scala
class A {
  def total(items: Seq[Int], tax: Int): Int = 1
}
"""


@each("pair", read_pairs(NAMES + SIGNATURES))
def test_what_callers_miss(pair: Pair) -> None:
    assert not wrong(pair, FLAGS)


def test_the_line_of_an_overloaded_name_is_always_the_same() -> None:
    """tree-sitter returns what a query captures in the order of its addresses."""
    kinds = ("string", "number", "boolean", "Date", "RegExp", "Map", "Set", "symbol")
    overloads = [f"export function total(items: {kind}[]): {kind}" for kind in kinds]
    source = "\n".join(["declare namespace cart {", *overloads, "}"]).encode()
    sides = [Side("src/cart.d.ts", source) for _ in range(20)]
    assert len({find_exports(side)["total"] for side in sides}) == 1
