"""test-deleted, test-skipped."""

from gitlab_nightshift.proof.reading import judge
from gitlab_nightshift.proof.reviewed_change import Context
from gitlab_nightshift.settings.model import Settings
from tests.support.pairs import Pair, change_of, read_pairs, wrong
from tests.support.tables import each

FLAGS = frozenset(
    "test-deleted test-skipped test-loosened assertion-removed"
    " test-without-assertion test-cannot-fail".split()
)

PYTHON = """
=== test-deleted tests/test_cart.py:6 | py: a test is deleted, its subject stays
*** shop/cart.py
def total(items):
    return sum(item.price for item in items)
--- tests/test_cart.py
from shop.cart import total

def test_empty():
    assert total([]) == 0

def test_two():
    assert total([Item(2), Item(3)]) == 5
+++ tests/test_cart.py
from shop.cart import total

def test_empty():
    assert total([]) == 0
=== honest | py: a base class that is no test itself
--- tests/test_cart.py
class TestCart(AsyncTestCase):
    def test_empty(self):
        self.assertEqual(self.total([]), 0)
+++ tests/test_cart.py
class BaseTestCase(AsyncTestCase):
    __test__ = False

class TestCart(BaseTestCase):
    def test_empty(self):
        self.assertEqual(self.total([]), 0)
=== test-deleted tests/test_cart.py | py: one of two tests that differ in their cases only
--- tests/test_cart.py
@pytest.mark.parametrize("items", SMALL)
def test_small(items):
    assert total(items) == sum(items)

@pytest.mark.parametrize("items", LARGE)
def test_large(items):
    assert total(items) == sum(items)
+++ tests/test_cart.py
@pytest.mark.parametrize("items", SMALL)
def test_small(items):
    assert total(items) == sum(items)
=== test-skipped tests/test_cart.py:2 | py: a test of a class that others take
--- tests/test_cart.py
class BaseCartMixin:
    def test_empty(self):
        self.assertEqual(self.total([]), 0)

class TestCart(TestCase, BaseCartMixin):
    total = total
+++ tests/test_cart.py
class BaseCartMixin:
    @unittest.skip("later")
    def test_empty(self):
        self.assertEqual(self.total([]), 0)

class TestCart(TestCase, BaseCartMixin):
    total = total
=== honest | py: a test goes with its subject
--- shop/cart.py
def total(items):
    return sum(item.price for item in items)

def legacy_total(items):
    return total(items)
+++ shop/cart.py
def total(items):
    return sum(item.price for item in items)
--- tests/test_cart.py
from shop.cart import legacy_total, total

def test_empty():
    assert total([]) == 0

def test_legacy():
    assert legacy_total([Item(2), Item(3)]) == 5
+++ tests/test_cart.py
from shop.cart import total

def test_empty():
    assert total([]) == 0
=== test-deleted tests/test_cart.py | py: a test goes, its subject only got another name
--- shop/cart.py
def total(items):
    prices = [item.price for item in items if item.active]
    return round(sum(prices), 2)
+++ shop/cart.py
def grand_total(items):
    prices = [item.price for item in items if item.active]
    return round(sum(prices), 2)
--- tests/test_cart.py
from shop import cart

def test_currency():
    assert cart.symbol("EUR") == "e"

def test_two():
    assert cart.total([Item(2), Item(3)]) == 5
+++ tests/test_cart.py
from shop import cart

def test_currency():
    assert cart.symbol("EUR") == "e"
=== honest | py: three tests become one table
--- tests/test_slug.py
from text.slug import slugify

def test_plain():
    assert slugify("Hello World") == "hello-world"

def test_umlaut():
    assert slugify("Grün") == "gruen"

def test_trims():
    assert slugify("  a  ") == "a"
+++ tests/test_slug.py
import pytest
from text.slug import slugify

@pytest.mark.parametrize(
    ("given", "wanted"),
    [("Hello World", "hello-world"), ("Grün", "gruen"), ("  a  ", "a")],
)
def test_slug(given, wanted):
    assert slugify(given) == wanted
=== honest | py: three tests become one table that stands outside
--- tests/test_slug.py
from text.slug import slugify

def test_plain():
    assert slugify("Hello World") == "hello-world"

def test_umlaut():
    assert slugify("Grün") == "gruen"
+++ tests/test_slug.py
import pytest
from text.slug import slugify

SLUGS = {
    "Hello World": "hello-world",
    "Grün": "gruen",
}

@pytest.mark.parametrize(("given", "wanted"), SLUGS.items())
def test_slug(given, wanted):
    assert slugify(given) == wanted
=== honest | py: a test moves to another file
--- tests/test_a.py
def test_one():
    assert parse("1") == 1

def test_two():
    assert parse("2") == 2
+++ tests/test_a.py
def test_one():
    assert parse("1") == 1
+++ tests/test_b.py
def test_two():
    assert parse("2") == 2
=== honest | py: a test gets a better name and a stronger assertion
--- tests/test_a.py
def test_it():
    order = place(Cart(["book"]))
    assert order.state is not None
+++ tests/test_a.py
def test_new_order_is_open():
    order = place(Cart(["book"]))
    assert order.state == "open"
=== honest | py: tests move into a class
--- tests/test_a.py
def test_one():
    assert parse("1") == 1

def test_two():
    assert parse("2") == 2
+++ tests/test_a.py
class TestParse:
    def test_one(self):
        assert parse("1") == 1

    def test_two(self):
        assert parse("2") == 2
=== test-deleted tests/test_a.py | py: a duplicate goes
--- tests/test_a.py
def test_one():
    assert parse("1") == 1

def test_one_again():
    assert parse("1") == 1
+++ tests/test_a.py
def test_one():
    assert parse("1") == 1
=== test-deleted tests/test_money.py | py: a file of tests is deleted
--- tests/test_money.py
def test_one():
    assert Money(1).cents == 100

def test_two():
    assert Money(2).cents == 200
*** shop/money.py
class Money: ...
=== honest | py: a module goes with the file of its tests
--- shop/legacy_export.py
def export_xml(order):
    return render("order.xml", order)
--- tests/test_legacy_export.py
from shop.legacy_export import export_xml

def test_root():
    assert export_xml(order()).startswith("<order")

def test_lines():
    assert export_xml(order()).count("<line") == 2
=== honest | py: the test of an option that is gone
--- shop/cart.py
def total(items, legacy_rounding=False):
    value = sum(items)
    return floor(value) if legacy_rounding else value
+++ shop/cart.py
def total(items):
    return sum(items)
--- tests/test_cart.py
def test_total():
    assert total([1, 2]) == 3

def test_legacy():
    assert total([1.5], legacy_rounding=True) == 1
+++ tests/test_cart.py
def test_total():
    assert total([1, 2]) == 3
=== test-deleted tests/test_a.py:4 | py: a test loses its prefix
--- tests/test_a.py
def test_one():
    assert parse("1") == 1

def test_two():
    assert parse("2") == 2
+++ tests/test_a.py
def test_one():
    assert parse("1") == 1

def check_two():
    assert parse("2") == 2
=== test-deleted tests/test_a.py | py: a class is not collected any more
--- tests/test_a.py
class TestParse:
    def test_one(self):
        assert parse("1") == 1
+++ tests/test_a.py
class ParseChecks:
    def test_one(self):
        assert parse("1") == 1
=== test-deleted tests/test_cart.py | py: a file is not collected any more
--- tests/test_cart.py
def test_one():
    assert parse("1") == 1
+++ tests/cart_checks.py
def test_one():
    assert parse("1") == 1
=== test-skipped tests/test_a.py | py: skip mark
--- tests/test_a.py
import pytest

def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
import pytest

@pytest.mark.skip(reason="flaky")
def test_one():
    assert parse("1") == 1
=== test-skipped tests/test_a.py | py: xfail mark
--- tests/test_a.py
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
@pytest.mark.xfail
def test_one():
    assert parse("1") == 1
=== test-skipped tests/test_a.py:1 | py: unittest skip on the class
--- tests/test_a.py
class ParseTest(unittest.TestCase):
    def test_one(self):
        self.assertEqual(parse("1"), 1)
+++ tests/test_a.py
@unittest.skip("later")
class ParseTest(unittest.TestCase):
    def test_one(self):
        self.assertEqual(parse("1"), 1)
=== test-skipped tests/test_a.py:2 | py: pytest.skip in the body
--- tests/test_a.py
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
def test_one():
    pytest.skip("not now")
    assert parse("1") == 1
=== test-skipped tests/test_a.py:2 | py: early return
--- tests/test_a.py
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
def test_one():
    return
    assert parse("1") == 1
=== test-skipped tests/test_a.py:3 | py: a condition that never holds
--- tests/test_a.py
def test_one():
    value = parse("1")
    assert value == 1
+++ tests/test_a.py
def test_one():
    value = parse("1")
    if False:
        assert value == 1
=== test-deleted tests/test_a.py | py: commented out
--- tests/test_a.py
def test_one():
    value = parse("1")
    assert value == 1

def test_two():
    assert parse("2") == 2
+++ tests/test_a.py
# def test_one():
#     value = parse("1")
#     assert value == 1

def test_two():
    assert parse("2") == 2
=== test-skipped tests/test_a.py:2 | py: the whole module
--- tests/test_a.py
import pytest

def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
import pytest
pytestmark = pytest.mark.skip

def test_one():
    assert parse("1") == 1
=== test-skipped tests/conftest.py | py: collect_ignore
*** tests/test_slow.py
def test_one():
    assert parse("1") == 1
+++ tests/conftest.py
collect_ignore = ["test_slow.py"]
=== honest | py: a skip that was there, on a test that changes
--- tests/test_a.py
@pytest.mark.skipif(sys.platform == "win32", reason="posix only")
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
@pytest.mark.skipif(sys.platform == "win32", reason="posix only")
def test_one():
    assert parse("1") == 1
    assert parse("2") == 2
=== honest | py: a skip is taken away, another mark comes
--- tests/test_a.py
@pytest.mark.skip
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
@pytest.mark.usefixtures("clock")
def test_one():
    assert parse("1") == 1
=== honest | py: new tests that need a platform or a program
+++ tests/test_a.py
@pytest.mark.skipif(sys.platform == "win32", reason="posix only")
def test_one():
    assert parse("1") == 1

def test_two():
    if shutil.which("less") is None:
        pytest.skip("less is not here")
    assert parse("2") == 2
=== test-skipped tests/test_a.py:3 | py: a new test that is not run in CI
+++ tests/test_a.py
def test_two():
    if os.environ.get("CI"):
        pytest.skip("slow")
    assert parse("2") == 2
=== honest | py: another condition of a skip
--- tests/test_a.py
@pytest.mark.skipif(sys.platform == "win32", reason="posix only")
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
@pytest.mark.skipif(os.name == "nt", reason="posix only")
def test_one():
    assert parse("1") == 1
=== test-deleted tests/test_a.py:4 | py: another test with the same shape comes
--- tests/test_a.py
def test_one():
    assert parse("1") == 1

def test_minus():
    assert parse("-1") == -1
+++ tests/test_a.py
def test_one():
    assert parse("1") == 1

def test_word():
    with pytest.raises(ValueError):
        parse("x")
=== honest | py: a test whose name says skip
--- tests/test_a.py
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
def test_one():
    assert parse("1") == 1

def test_skips_blank_lines():
    reader = Reader("a\\n\\nb", skip=True)
    assert list(reader) == ["a", "b"]
=== honest | py: helper with a return, fixture, loop with continue
--- tests/test_a.py
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
@pytest.fixture
def reader():
    return Reader("a")

def test_one(reader):
    def answer(request):
        return None
    for item in reader:
        if not item:
            continue
        assert parse(item) == 1
"""

SCRIPT = """
=== test-deleted src/cart.test.ts:5 | ts: a test is deleted
--- src/cart.test.ts
describe("cart", () => {
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
  it("adds", () => {
    expect(total([{ price: 2 }, { price: 3 }])).toBe(5);
  });
});
+++ src/cart.test.ts
describe("cart", () => {
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
});
=== test-skipped src/cart.test.ts:2 | ts: it.skip
--- src/cart.test.ts
describe("cart", () => {
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
});
+++ src/cart.test.ts
describe("cart", () => {
  it.skip("is empty", () => {
    expect(total([])).toBe(0);
  });
});
=== test-skipped test/cart.js:1 | js: xdescribe
--- test/cart.js
describe("cart", function () {
  it("is empty", function () {
    assert.strictEqual(total([]), 0);
  });
});
+++ test/cart.js
xdescribe("cart", function () {
  it("is empty", function () {
    assert.strictEqual(total([]), 0);
  });
});
=== test-skipped src/cart.spec.js | js: only
--- src/cart.spec.js
describe("cart", () => {
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
  it("adds", () => {
    expect(total([2, 3])).toBe(5);
  });
});
+++ src/cart.spec.js
describe("cart", () => {
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
  it.only("adds", () => {
    expect(total([2, 3])).toBe(5);
  });
});
=== test-skipped src/cart.test.ts | ts: a test becomes a todo
--- src/cart.test.ts
test("is empty", () => {
  expect(total([])).toBe(0);
});
+++ src/cart.test.ts
test.todo("is empty");
=== test-skipped test/cart.test.mjs:3 | js: node:test, t.skip()
--- test/cart.test.mjs
import test from "node:test";
test("is empty", (t) => {
  assert.equal(total([]), 0);
});
+++ test/cart.test.mjs
import test from "node:test";
test("is empty", (t) => {
  t.skip("later");
  assert.equal(total([]), 0);
});
=== test-skipped test/cart.test.mjs | js: node:test, skip option
--- test/cart.test.mjs
test("is empty", () => {
  assert.equal(total([]), 0);
});
+++ test/cart.test.mjs
test("is empty", { skip: true }, () => {
  assert.equal(total([]), 0);
});
=== honest | js: a todo for a test that is not there yet
--- src/cart.test.ts
test("is empty", () => {
  expect(total([])).toBe(0);
});
+++ src/cart.test.ts
test("is empty", () => {
  expect(total([])).toBe(0);
});
test.todo("rounds half up");
=== honest | js: two tests become it.each
--- src/slug.test.ts
it("lowers", () => {
  expect(slug("Hello")).toBe("hello");
});
it("joins words", () => {
  expect(slug("Hello World")).toBe("hello-world");
});
+++ src/slug.test.ts
it.each([
  ["Hello", "hello"],
  ["Hello World", "hello-world"],
])("makes %s a slug", (given, wanted) => {
  expect(slug(given)).toBe(wanted);
});
=== honest | js: describe gets another title, beforeEach comes
--- src/slug.test.ts
describe("slug", () => {
  it("lowers", () => {
    expect(slug("Hello")).toBe("hello");
  });
});
+++ src/slug.test.ts
describe("slug()", () => {
  beforeEach(() => {
    reset();
  });
  it("lowers", () => {
    expect(slug("Hello")).toBe("hello");
  });
});
=== test-deleted src/slug.test.ts | ts: file with another ending
--- src/slug.test.ts
it("lowers", () => {
  expect(slug("Hello")).toBe("hello");
});
+++ src/slug.test.ts.disabled
it("lowers", () => {
  expect(slug("Hello")).toBe("hello");
});
=== test-deleted src/cart.test.ts | ts: commented out
--- src/cart.test.ts
describe("cart", () => {
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
  it("adds two prices", () => {
    expect(total([{ price: 2 }, { price: 3 }])).toBe(5);
  });
});
+++ src/cart.test.ts
describe("cart", () => {
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
  // it("adds two prices", () => {
  //   expect(total([{ price: 2 }, { price: 3 }])).toBe(5);
  // });
});
"""

COMPILED = """
=== test-deleted cart_test.go:9 | go: a test is deleted
--- cart_test.go
package cart

func TestEmpty(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestTwo(t *testing.T) {
	if got := Total([]int{2, 3}); got != 5 {
		t.Errorf("got %d", got)
	}
}
+++ cart_test.go
package cart

func TestEmpty(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}
=== test-skipped cart_test.go:4 | go: t.Skip
--- cart_test.go
package cart

func TestEmpty(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}
+++ cart_test.go
package cart

func TestEmpty(t *testing.T) {
	t.Skip("flaky")
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}
=== test-deleted cart_test.go:3 | go: the name is not collected
--- cart_test.go
package cart

func TestEmpty(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}
+++ cart_test.go
package cart

func testEmpty(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}
=== test-skipped cart_test.go:1 | go: build tag
--- cart_test.go
package cart

func TestEmpty(t *testing.T) {
	assert.Equal(t, 0, Total(nil))
}
+++ cart_test.go
//go:build ignore

package cart

func TestEmpty(t *testing.T) {
	assert.Equal(t, 0, Total(nil))
}
=== honest | go: tests become a table
--- cart_test.go
package cart

func TestEmpty(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}

func TestTwo(t *testing.T) {
	if got := Total([]int{2, 3}); got != 5 {
		t.Errorf("got %d", got)
	}
}
+++ cart_test.go
package cart

func TestTotal(t *testing.T) {
	tests := []struct {
		name   string
		prices []int
		want   int
	}{
		{"empty", nil, 0},
		{"two", []int{2, 3}, 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Total(tt.prices); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
=== honest | go: testing.Short in a slow test that is new
*** cart.go
package cart
+++ cart_test.go
package cart

func TestTotal(t *testing.T) {
	if got := Total(nil); got != 0 {
		t.Errorf("got %d", got)
	}
}

func ExampleTotal() {
	fmt.Println(Total(nil))
	// Output: 0
}

func BenchmarkTotal(b *testing.B) {
	for i := 0; i < b.N; i++ {
		Total(nil)
	}
}
=== test-skipped src/test/java/CartTest.java | java: @Disabled
--- src/test/java/CartTest.java
class CartTest {
    @Test
    void isEmpty() {
        assertEquals(0, total(List.of()));
    }
}
+++ src/test/java/CartTest.java
class CartTest {
    @Test
    @Disabled("flaky")
    void isEmpty() {
        assertEquals(0, total(List.of()));
    }
}
=== test-skipped src/test/java/CartTest.java | java: assumption
--- src/test/java/CartTest.java
class CartTest {
    @Test
    void isEmpty() {
        assertEquals(0, total(List.of()));
    }
}
+++ src/test/java/CartTest.java
class CartTest {
    @Test
    void isEmpty() {
        assumeTrue(false);
        assertEquals(0, total(List.of()));
    }
}
=== test-deleted src/test/java/CartTest.java | java: @Test is gone
--- src/test/java/CartTest.java
class CartTest {
    @Test
    void isEmpty() {
        assertEquals(0, total(List.of()));
    }

    @Test
    void adds() {
        assertEquals(5, total(List.of(2, 3)));
    }
}
+++ src/test/java/CartTest.java
class CartTest {
    void isEmpty() {
        assertEquals(0, total(List.of()));
    }

    @Test
    void adds() {
        assertEquals(5, total(List.of(2, 3)));
    }
}
=== test-deleted src/test/java/CartTest.java:8 | java: a test is deleted
--- src/test/java/CartTest.java
class CartTest {
    @Test
    void isEmpty() {
        assertEquals(0, total(List.of()));
    }

    /** Two prices. */
    @Test
    void adds() {
        assertEquals(5, total(List.of(2, 3)));
    }
}
+++ src/test/java/CartTest.java
class CartTest {
    @Test
    void isEmpty() {
        assertEquals(0, total(List.of()));
    }
}
=== honest | java: two tests become a parametrized one
--- src/test/java/SlugTest.java
class SlugTest {
    @Test
    void lowers() {
        assertEquals("hello", Slug.of("Hello"));
    }

    @Test
    void joins() {
        assertEquals("hello-world", Slug.of("Hello World"));
    }
}
+++ src/test/java/SlugTest.java
class SlugTest {
    @ParameterizedTest
    @CsvSource({"Hello, hello", "Hello World, hello-world"})
    void makesSlug(String given, String wanted) {
        assertEquals(wanted, Slug.of(given));
    }
}
=== test-skipped src/lib.rs | rust: ignore
--- src/lib.rs
pub fn total(prices: &[i32]) -> i32 { prices.iter().sum() }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty() {
        assert_eq!(total(&[]), 0);
    }
}
+++ src/lib.rs
pub fn total(prices: &[i32]) -> i32 { prices.iter().sum() }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore]
    fn empty() {
        assert_eq!(total(&[]), 0);
    }
}
=== test-deleted src/lib.rs | rust: the attribute is gone
--- src/lib.rs
#[cfg(test)]
mod tests {
    #[test]
    fn empty() {
        assert_eq!(total(&[]), 0);
    }
    #[test]
    fn two() {
        assert_eq!(total(&[2, 3]), 5);
    }
}
+++ src/lib.rs
#[cfg(test)]
mod tests {
    fn empty() {
        assert_eq!(total(&[]), 0);
    }
    #[test]
    fn two() {
        assert_eq!(total(&[2, 3]), 5);
    }
}
=== test-deleted tests/total.rs | rust: a test is deleted
--- tests/total.rs
#[test]
fn empty() {
    assert_eq!(total(&[]), 0);
}

#[test]
fn two() {
    assert_eq!(total(&[2, 3]), 5);
}
+++ tests/total.rs
#[test]
fn empty() {
    assert_eq!(total(&[]), 0);
}
=== test-skipped spec/cart_spec.rb | ruby: xit
--- spec/cart_spec.rb
RSpec.describe Cart do
  it "is empty" do
    expect(described_class.new.total).to eq(0)
  end
end
+++ spec/cart_spec.rb
RSpec.describe Cart do
  xit "is empty" do
    expect(described_class.new.total).to eq(0)
  end
end
=== test-skipped spec/cart_spec.rb | ruby: skip metadata
--- spec/cart_spec.rb
RSpec.describe Cart do
  it "is empty" do
    expect(described_class.new.total).to eq(0)
  end
end
+++ spec/cart_spec.rb
RSpec.describe Cart do
  it "is empty", skip: "later" do
    expect(described_class.new.total).to eq(0)
  end
end
=== test-skipped test/cart_test.rb:3 | ruby: minitest skip
--- test/cart_test.rb
class CartTest < Minitest::Test
  def test_empty
    assert_equal 0, Cart.new.total
  end
end
+++ test/cart_test.rb
class CartTest < Minitest::Test
  def test_empty
    skip
    assert_equal 0, Cart.new.total
  end
end
=== test-deleted spec/cart_spec.rb | ruby: a test is deleted
--- spec/cart_spec.rb
RSpec.describe Cart do
  it "is empty" do
    expect(described_class.new.total).to eq(0)
  end

  it "adds" do
    expect(described_class.new([2, 3]).total).to eq(5)
  end
end
+++ spec/cart_spec.rb
RSpec.describe Cart do
  it "is empty" do
    expect(described_class.new.total).to eq(0)
  end
end
=== test-deleted test/cart_test.rb | ruby: minitest name
--- test/cart_test.rb
class CartTest < Minitest::Test
  def test_empty
    assert_equal 0, Cart.new.total
  end
end
+++ test/cart_test.rb
class CartTest < Minitest::Test
  def empty_total
    assert_equal 0, Cart.new.total
  end
end
=== test-skipped src/test/scala/CartSpec.scala | scala: ignore
--- src/test/scala/CartSpec.scala
class CartSpec extends AnyFlatSpec with Matchers {
  "A cart" should "be empty" in {
    Cart().total shouldBe 0
  }
}
+++ src/test/scala/CartSpec.scala
class CartSpec extends AnyFlatSpec with Matchers {
  "A cart" should "be empty" ignore {
    Cart().total shouldBe 0
  }
}
=== test-skipped src/test/scala/CartSuite.scala | scala: munit ignore
--- src/test/scala/CartSuite.scala
class CartSuite extends munit.FunSuite {
  test("empty") {
    assertEquals(Cart().total, 0)
  }
}
+++ src/test/scala/CartSuite.scala
class CartSuite extends munit.FunSuite {
  test("empty".ignore) {
    assertEquals(Cart().total, 0)
  }
}
=== test-deleted src/test/scala/CartSuite.scala | scala: a test is deleted
--- src/test/scala/CartSuite.scala
class CartSuite extends munit.FunSuite {
  test("empty") {
    assertEquals(Cart().total, 0)
  }

  test("adds") {
    assertEquals(Cart(2, 3).total, 5)
  }
}
+++ src/test/scala/CartSuite.scala
class CartSuite extends munit.FunSuite {
  test("empty") {
    assertEquals(Cart().total, 0)
  }
}
=== test-skipped tests/CartTests.cs | csharp: Skip
--- tests/CartTests.cs
public class CartTests {
    [Fact]
    public void Empty() { Assert.Equal(0, new Cart().Total); }
}
+++ tests/CartTests.cs
public class CartTests {
    [Fact(Skip = "flaky")]
    public void Empty() { Assert.Equal(0, new Cart().Total); }
}
=== test-skipped tests/CartTest.php | php: markTestSkipped
--- tests/CartTest.php
<?php
class CartTest extends TestCase {
    public function testEmpty(): void {
        $this->assertSame(0, (new Cart())->total());
    }
}
+++ tests/CartTest.php
<?php
class CartTest extends TestCase {
    public function testEmpty(): void {
        $this->markTestSkipped('later');
        $this->assertSame(0, (new Cart())->total());
    }
}
=== test-skipped src/test/kotlin/CartTest.kt | kotlin: Ignore
--- src/test/kotlin/CartTest.kt
class CartTest {
    @Test
    fun empty() {
        assertEquals(0, Cart().total)
    }
}
+++ src/test/kotlin/CartTest.kt
class CartTest {
    @Test
    @Ignore
    fun empty() {
        assertEquals(0, Cart().total)
    }
}
=== honest | go: a test becomes a row of a table
--- cart_test.go
func TestTotal(t *testing.T) {
	for _, c := range []struct{ in any; out string }{{1, "1"}} {
		v := ToString(c.in)
		c.Assert(v, qt.Equals, c.out)
	}
}

func TestStringerToString(t *testing.T) {
	c.Assert(ToString(foo{"bar"}), qt.Equals, "bar", qt.Commentf("not a pointer"))
}
+++ cart_test.go
func TestTotal(t *testing.T) {
	for _, c := range []struct{ in any; out string }{{1, "1"}, {foo{"bar"}, "bar"}} {
		v := ToString(c.in)
		c.Assert(v, qt.Equals, c.out)
	}
}
=== test-deleted a.test.ts | ts: the same words in another order
--- a.test.ts
it("first", () => { expect(merge(a, { b: 1 })).toEqual({ b: 1 }); });
it("second", () => { expect(merge({ b: 1 }, a)).toEqual({ b: 1 }); });
+++ a.test.ts
it("first", () => { expect(merge(a, { b: 1 })).toEqual({ b: 1 }); });
=== honest | rust: why a test is ignored
--- tests/a.rs
#[test]
#[rustversion::attr(not(nightly), ignore)]
fn reads() {
    assert_eq!(read(), 1);
}
+++ tests/a.rs
#[test]
#[rustversion::attr(not(nightly), ignore = "requires nightly")]
fn reads() {
    assert_eq!(read(), 1);
}
=== honest | rust: a test of a macro under another name, and one more
--- src/a.rs
macro_rules! reads {
    ($which:ident, $read:ident) => {
        mod $which {
            #[test]
            #[should_panic]
            fn too_short() {
                Big::$read(&[0; 1]);
            }
        }
    };
}
reads!(u64s, read_u64);
+++ src/a.rs
macro_rules! reads {
    ($which:ident, $read:ident) => {
        mod $which {
            #[test]
            #[should_panic]
            fn short() {
                Big::$read(&[0; 1]);
            }
            #[test]
            fn enough() {
                Big::$read(&[0; 8]);
            }
        }
    };
}
reads!(u64s, read_u64);
=== test-deleted spec/a_spec.rb | ruby: the same words in another group
--- spec/a_spec.rb
describe "blocked" do
  before { block("1.2.3.4") }
  it "answers" do
    get "/", {}, "1.2.3.4"
    assert_equal 200, last_response.status
  end
end
describe "safe" do
  it "answers" do
    get "/", {}, "1.2.3.4"
    assert_equal 200, last_response.status
  end
end
+++ spec/a_spec.rb
describe "safe" do
  it "answers" do
    get "/", {}, "1.2.3.4"
    assert_equal 200, last_response.status
  end
end
"""


@each("pair", read_pairs(PYTHON + SCRIPT + COMPILED))
def test_what_is_gone_or_not_run(pair: Pair) -> None:
    assert not wrong(pair, FLAGS)


def rate_skip(condition: str) -> str | None:
    """The level at which a test under this condition is reported."""
    body = "def test_it():\n    assert total([1]) == 1\n"
    change = change_of(
        {"test_a.py": body}, {"test_a.py": f"@pytest.mark.skipif({condition})\n{body}"}
    )
    [found] = judge(change, Context(Settings()))
    return found.level


def test_a_test_that_cannot_run_elsewhere_is_asked_about() -> None:
    assert rate_skip('sys.platform == "win32", reason="no sh"') == "warn"
    assert rate_skip("os.geteuid() == 0, reason='root'") == "warn"
    assert rate_skip('sys.platform != "win32"') == "fail"
    assert rate_skip("os.environ.get('CI')") == "fail"
    assert rate_skip("mypy_api is None") == "warn"
    assert rate_skip("sys.platform == 'wasm32'") == "warn"
    assert rate_skip("!defined?(Ractor)") == "warn"
    assert rate_skip("True") == "fail"
