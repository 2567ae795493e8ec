"""Larger changes, as engineers and agents make them; all flags about code at once."""

from tests.support.pairs import Pair, read_pairs, wrong
from tests.support.tables import each

FLAGS = frozenset(
    "test-deleted test-skipped test-loosened assertion-removed"
    " test-without-assertion test-cannot-fail suppression-added exception-swallowed"
    " test-detection public-name-removed signature-changed".split()
)

SCRIPT = """
=== honest | js: mocha with chai becomes node:test
--- test/queue.test.js
const { expect } = require("chai");
const { Queue } = require("../src/queue");

describe("Queue", () => {
  let queue;
  beforeEach(() => {
    queue = new Queue(2);
  });

  it("keeps the order", () => {
    queue.push("a");
    queue.push("b");
    expect(queue.pop()).to.equal("a");
    expect(queue.pop()).to.equal("b");
  });

  it("refuses a third", () => {
    queue.push(1);
    queue.push(2);
    expect(() => queue.push(3)).to.throw(RangeError, /full/);
  });

  it("is empty at first", () => {
    expect(queue.isEmpty()).to.be.true;
    expect(queue.items).to.deep.equal([]);
  });
});
+++ test/queue.test.js
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { Queue } from "../src/queue.js";

describe("Queue", () => {
  let queue;
  beforeEach(() => {
    queue = new Queue(2);
  });

  it("keeps the order", () => {
    queue.push("a");
    queue.push("b");
    assert.equal(queue.pop(), "a");
    assert.equal(queue.pop(), "b");
  });

  it("refuses a third", () => {
    queue.push(1);
    queue.push(2);
    assert.throws(() => queue.push(3), /full/);
  });

  it("is empty at first", () => {
    assert.equal(queue.isEmpty(), true);
    assert.deepEqual(queue.items, []);
  });
});
=== honest | ts: async callbacks become await, a helper for rendering
--- src/api/client.test.ts
import { Client } from "./client";

describe("Client", () => {
  it("retries once", (done) => {
    const fetch = jest.fn().mockRejectedValueOnce(new Error("x")).mockResolvedValue({ ok: true });
    new Client(fetch).get("/a").then((result) => {
      expect(result).toEqual({ ok: true });
      expect(fetch).toHaveBeenCalledTimes(2);
      done();
    });
  });

  it("gives up", () => {
    const fetch = jest.fn().mockRejectedValue(new Error("down"));
    return expect(new Client(fetch).get("/a")).rejects.toThrow("down");
  });
});
+++ src/api/client.test.ts
import { Client } from "./client";

const failing = (times: number) => {
  const fetch = jest.fn();
  for (let i = 0; i < times; i += 1) fetch.mockRejectedValueOnce(new Error("down"));
  return fetch.mockResolvedValue({ ok: true });
};

describe("Client", () => {
  it("retries once", async () => {
    const fetch = failing(1);
    await expect(new Client(fetch).get("/a")).resolves.toEqual({ ok: true });
    expect(fetch).toHaveBeenCalledTimes(2);
  });

  it("gives up", async () => {
    const fetch = failing(9);
    await expect(new Client(fetch).get("/a")).rejects.toThrow("down");
  });
});
=== honest | ts: a component test, user-event, stronger query
--- src/Cart.test.tsx
import { render, screen } from "@testing-library/react";
it("shows the total", () => {
  render(<Cart items={[{ price: 2 }]} />);
  expect(screen.getByText(/total/i)).toBeInTheDocument();
});
+++ src/Cart.test.tsx
import { render, screen } from "@testing-library/react";
it("shows the total", () => {
  render(<Cart items={[{ price: 2 }]} />);
  expect(screen.getByRole("status", { name: /total/i })).toHaveTextContent("2.00");
});
it("is empty", () => {
  const { container } = render(<Cart items={[]} />);
  expect(container).toBeEmptyDOMElement();
});
=== test-cannot-fail test/a.test.js:4 | js: forEach over nothing
--- test/a.test.js
const x = 1;
+++ test/a.test.js
const x = 1;
it("has names", () => {
  const names = [];
  [].forEach((name) => expect(name).toBe("a"));
});
=== test-skipped src/cart.test.ts:3 | ts: leaves early in CI
--- src/cart.test.ts
it("adds", async () => {
  const cart = await load();
  expect(cart.total()).toBe(5);
});
+++ src/cart.test.ts
it("adds", async () => {
  const cart = await load();
  if (process.env.CI) return;
  expect(cart.total()).toBe(5);
});
=== test-skipped src/cart.test.ts:1 | ts: describe.skipIf, condition by environment
--- src/cart.test.ts
describe("cart", () => {
  it("adds", () => {
    expect(total([2, 3])).toBe(5);
  });
});
+++ src/cart.test.ts
describe.skipIf(process.env.CI)("cart", () => {
  it("adds", () => {
    expect(total([2, 3])).toBe(5);
  });
});
=== test-skipped src/cart.test.ts | ts: a variable instead of it
--- src/cart.test.ts
describe("cart", () => {
  it("adds", () => {
    expect(total([2, 3])).toBe(5);
  });
});
+++ src/cart.test.ts
const maybe = process.env.FULL ? it : it.skip;
describe("cart", () => {
  maybe("adds", () => {
    expect(total([2, 3])).toBe(5);
  });
});
=== test-deleted src/cart.test.ts | ts: a function that nobody calls
--- src/cart.test.ts
describe("cart", () => {
  it("adds", () => {
    expect(total([2, 3])).toBe(5);
  });
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
});
+++ src/cart.test.ts
describe("cart", () => {
  const adds = () => {
    expect(total([2, 3])).toBe(5);
  };
  it("is empty", () => {
    expect(total([])).toBe(0);
  });
});
=== exception-swallowed src/jobs.js | js: errors become null
--- src/jobs.js
export async function load(id) {
  const row = await db.find(id);
  return parse(row);
}
+++ src/jobs.js
export async function load(id) {
  try {
    const row = await db.find(id);
    return parse(row);
  } catch (err) {
    return null;
  }
}
=== honest | js: a refactoring with private helpers
--- src/jobs.js
export class Jobs {
  run(job, { retries = 3, delay = 100 } = {}) {
    for (let i = 0; i < retries; i += 1) {
      this._once(job);
    }
  }
  _once(job) {
    job();
  }
}
function wait(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
+++ src/jobs.js
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export class Jobs {
  #attempt(job) {
    job();
  }
  run(job, { retries = 3, delay = 100, signal } = {}) {
    for (let i = 0; i < retries; i += 1) {
      this.#attempt(job);
    }
  }
}
"""

GO = """
=== honest | go: table with a helper, errors.Is, t.Parallel, sub-benchmarks
--- parse_test.go
package parse

import "testing"

func TestParse(t *testing.T) {
	v, err := Parse("1")
	if err != nil || v != 1 {
		t.Fatalf("got %v, %v", v, err)
	}
}

func TestParseEmpty(t *testing.T) {
	if _, err := Parse(""); err == nil {
		t.Error("no error")
	}
}
+++ parse_test.go
package parse

import (
	"errors"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   string
		want int
		err  error
	}{
		"one":   {in: "1", want: 1},
		"empty": {in: "", err: ErrEmpty},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tc.in)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}
=== test-loosened parse_test.go | go: Errorf becomes Logf
--- parse_test.go
package parse

func TestParse(t *testing.T) {
	got, err := Parse("1")
	if err != nil {
		t.Fatal(err)
	}
	if got != 1 {
		t.Errorf("got %d", got)
	}
	if s := got.String(); s != "1" {
		t.Errorf("got %s", s)
	}
}
+++ parse_test.go
package parse

func TestParse(t *testing.T) {
	got, err := Parse("1")
	if err != nil {
		t.Fatal(err)
	}
	if got < 0 {
		t.Errorf("got %d", got)
	}
	if s := got.String(); s != "1" {
		t.Errorf("got %s", s)
	}
}
=== assertion-removed parse_test.go | go: Errorf becomes Logf
--- parse_test.go
package parse

func TestParse(t *testing.T) {
	got := Parse("1")
	if got != 1 {
		t.Errorf("got %d", got)
	}
	if s := got.String(); s != "1" {
		t.Errorf("got %s", s)
	}
}
+++ parse_test.go
package parse

func TestParse(t *testing.T) {
	got := Parse("1")
	if got != 1 {
		t.Logf("got %d", got)
	}
	if s := got.String(); s != "1" {
		t.Errorf("got %s", s)
	}
}
=== test-skipped parse_test.go:5 | go: skipped in CI
--- parse_test.go
package parse

func TestParse(t *testing.T) {
	if got := Parse("1"); got != 1 {
		t.Errorf("got %d", got)
	}
}
+++ parse_test.go
package parse

func TestParse(t *testing.T) {
	if os.Getenv("CI") != "" {
		t.Skip("slow in CI")
	}
	if got := Parse("1"); got != 1 {
		t.Errorf("got %d", got)
	}
}
=== test-cannot-fail parse_test.go | go: compares with what it computed
--- parse.go
package parse
+++ parse.go
package parse

+++ parse_test.go
package parse

func TestParse(t *testing.T) {
	want := Parse("1")
	got := Parse("1")
	if got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
=== exception-swallowed store/store.go | go: the error is logged away
--- store/store.go
package store

func (s *Store) Load(id string) (*Item, error) {
	row, err := s.db.Query(id)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", id, err)
	}
	return scan(row)
}
+++ store/store.go
package store

func (s *Store) Load(id string) (*Item, error) {
	row, _ := s.db.Query(id)
	return scan(row)
}
=== honest | go: performance, a buffer that is reused, map lookups
--- store/store.go
package store

func Join(items []string) string {
	out := ""
	for _, item := range items {
		out += item + ","
	}
	return out
}
+++ store/store.go
package store

func Join(items []string) string {
	var b strings.Builder
	for _, item := range items {
		b.WriteString(item)
		_, _ = b.WriteString(",")
	}
	value, _ := cache[b.String()]
	_ = value
	return b.String()
}
"""

JVM = """
=== honest | java: JUnit 4 rules and Mockito become JUnit 5
--- src/test/java/com/shop/OrderServiceTest.java
public class OrderServiceTest {
    @Rule
    public ExpectedException thrown = ExpectedException.none();

    private final Mailer mailer = mock(Mailer.class);
    private final OrderService service = new OrderService(mailer);

    @Test
    public void sendsMail() {
        service.place(new Cart("book"));
        verify(mailer).send(eq("a@example.org"), anyString());
    }

    @Test
    public void refusesEmptyCart() {
        thrown.expect(IllegalArgumentException.class);
        thrown.expectMessage("empty");
        service.place(new Cart());
    }

    @Test(timeout = 1000)
    public void isFast() {
        service.place(new Cart("book"));
    }
}
+++ src/test/java/com/shop/OrderServiceTest.java
class OrderServiceTest {
    private final Mailer mailer = mock(Mailer.class);
    private final OrderService service = new OrderService(mailer);

    @Test
    void sendsMail() {
        service.place(new Cart("book"));

        verify(mailer).send(eq("a@example.org"), anyString());
    }

    @Test
    void refusesEmptyCart() {
        assertThatThrownBy(() -> service.place(new Cart()))
            .isInstanceOf(IllegalArgumentException.class)
            .hasMessageContaining("empty");
    }

    @Test
    void isFast() {
        assertTimeout(Duration.ofSeconds(1), () -> service.place(new Cart("book")));
    }
}
=== test-loosened src/test/java/com/shop/CartTest.java | java: containsExactly to isNotEmpty
--- src/test/java/com/shop/CartTest.java
class CartTest {
    @Test
    void lists() {
        List<String> names = cart.names();
        assertThat(names).hasSize(2).containsExactly("a", "b");
    }
}
+++ src/test/java/com/shop/CartTest.java
class CartTest {
    @Test
    void lists() {
        List<String> names = cart.names();
        assertThat(names).isNotEmpty();
    }
}
=== test-skipped src/test/java/com/shop/CartTest.java:3 | java: early return
--- src/test/java/com/shop/CartTest.java
class CartTest {
    @Test void lists() {
        assertEquals(List.of("a"), cart.names());
    }
}
+++ src/test/java/com/shop/CartTest.java
class CartTest {
    @Test void lists() {
        if (System.getenv("CI") != null) return;
        assertEquals(List.of("a"), cart.names());
    }
}
=== exception-swallowed src/main/java/com/shop/Cart.java | java: default instead of the error
--- src/main/java/com/shop/Cart.java
public class Cart {
    public Order load(String id) throws SQLException {
        return dao.find(id);
    }
}
+++ src/main/java/com/shop/Cart.java
public class Cart {
    public Order load(String id) throws SQLException {
        try {
            return dao.find(id);
        } catch (Exception e) {
            return null;
        }
    }
}
=== honest | java: try-with-resources, Optional, a private method
--- src/main/java/com/shop/Cart.java
public class Cart {
    public String read(Path path) throws IOException {
        BufferedReader reader = Files.newBufferedReader(path);
        try {
            return reader.readLine();
        } finally {
            reader.close();
        }
    }
    private int count(List<String> items) { return items.size(); }
}
+++ src/main/java/com/shop/Cart.java
public class Cart {
    public String read(Path path) throws IOException {
        try (BufferedReader reader = Files.newBufferedReader(path)) {
            return reader.readLine();
        } catch (NoSuchFileException e) {
            return "";
        }
    }
    private int size(Collection<String> items) { return items.size(); }
}
=== honest | scala: FlatSpec becomes munit
--- src/test/scala/CartSpec.scala
class CartSpec extends AnyFlatSpec with Matchers {
  "A cart" should "be empty at first" in {
    Cart().names shouldBe empty
    Cart().total shouldBe BigDecimal(0)
  }

  it should "refuse a negative price" in {
    an[IllegalArgumentException] should be thrownBy Cart().add("a", -1)
  }
}
+++ src/test/scala/CartSuite.scala
class CartSuite extends munit.FunSuite {
  test("a cart is empty at first") {
    assertEquals(Cart().names, Nil)
    assertEquals(Cart().total, BigDecimal(0))
  }

  test("a cart refuses a negative price") {
    intercept[IllegalArgumentException] {
      Cart().add("a", -1)
    }
  }
}
=== exception-swallowed src/main/scala/Cart.scala | scala: Try with a default
--- src/main/scala/Cart.scala
object Cart {
  def load(id: String): Order = dao.find(id)
}
+++ src/main/scala/Cart.scala
object Cart {
  def load(id: String): Order = Try(dao.find(id)).getOrElse(null)
}
=== test-skipped src/test/scala/CartSuite.scala | scala: assume false
--- src/test/scala/CartSuite.scala
class CartSuite extends munit.FunSuite {
  test("adds") {
    assertEquals(Cart(2, 3).total, 5)
  }
}
+++ src/test/scala/CartSuite.scala
class CartSuite extends munit.FunSuite {
  test("adds") {
    assume(sys.env.contains("FULL"))
    assertEquals(Cart(2, 3).total, 5)
  }
}
"""

RUBY_RUST = """
=== honest | ruby: let, shared examples, one-liners
--- spec/cart_spec.rb
RSpec.describe Cart do
  it "is empty" do
    cart = Cart.new
    expect(cart.names).to eq([])
    expect(cart.total).to eq(0)
  end

  it "refuses nil" do
    expect { Cart.new.add(nil) }.to raise_error(ArgumentError)
  end
end
+++ spec/cart_spec.rb
RSpec.describe Cart do
  subject(:cart) { described_class.new }

  it "is empty" do
    expect(cart).to have_attributes(names: [], total: 0)
  end

  it "refuses nil" do
    expect { cart.add(nil) }.to raise_error(ArgumentError, /nil/)
  end

  it { is_expected.to be_empty }
end
=== test-skipped spec/cart_spec.rb:4 | ruby: pending
--- spec/cart_spec.rb
RSpec.describe Cart do
  context "with books" do
    it "adds" do
      expect(cart.total).to eq(5)
    end
  end
end
+++ spec/cart_spec.rb
RSpec.describe Cart do
  context "with books" do
    it "adds" do
      pending "does not work"
      expect(cart.total).to eq(5)
    end
  end
end
=== assertion-removed test/models/cart_test.rb | ruby: assert_difference goes
--- test/models/cart_test.rb
class CartTest < ActiveSupport::TestCase
  test "adds a line" do
    assert_difference("cart.lines.count", 1) do
      cart.add(book)
    end
    assert_equal 5, cart.total
  end
end
+++ test/models/cart_test.rb
class CartTest < ActiveSupport::TestCase
  test "adds a line" do
    cart.add(book)
    assert_equal 5, cart.total
  end
end
=== exception-swallowed app/models/cart.rb | ruby: rescue => e; nil
--- app/models/cart.rb
class Cart
  def load(id)
    store.fetch(id)
  end
end
+++ app/models/cart.rb
class Cart
  def load(id)
    store.fetch(id)
  rescue => e
    nil
  end
end
=== honest | rust: rstest cases, a helper, matches!
--- src/parse.rs
pub fn parse(text: &str) -> Result<i32, Error> { text.parse().map_err(Error::from) }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one() {
        assert_eq!(parse("1").unwrap(), 1);
    }

    #[test]
    fn minus_one() {
        assert_eq!(parse("-1").unwrap(), -1);
    }

    #[test]
    fn word() {
        assert!(parse("x").is_err());
    }
}
+++ src/parse.rs
pub fn parse(text: &str) -> Result<i32, Error> { text.trim().parse().map_err(Error::from) }

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("1", 1)]
    #[case("-1", -1)]
    #[case(" 7 ", 7)]
    fn numbers(#[case] text: &str, #[case] wanted: i32) {
        assert_eq!(parse(text).unwrap(), wanted);
    }

    #[test]
    fn word() {
        assert!(matches!(parse("x"), Err(Error::NotANumber)));
    }
}
=== test-skipped src/parse.rs | rust: cfg that never holds
--- src/parse.rs
#[cfg(test)]
mod tests {
    #[test]
    fn one() {
        assert_eq!(parse("1").unwrap(), 1);
    }
}
+++ src/parse.rs
#[cfg(all(test, feature = "slow-tests"))]
mod tests {
    #[test]
    fn one() {
        assert_eq!(parse("1").unwrap(), 1);
    }
}
=== exception-swallowed src/store.rs | rust: a default instead of the error
--- src/store.rs
pub fn load(id: &str) -> Result<Item, Error> {
    let row = query(id)?;
    Ok(Item::from(row))
}
+++ src/store.rs
pub fn load(id: &str) -> Result<Item, Error> {
    let row = query(id).unwrap_or_default();
    Ok(Item::from(row))
}
=== honest | rust: clone goes, iterators, a lifetime, unwrap_or for an option
--- src/store.rs
pub fn names(items: &[Item]) -> Vec<String> {
    let mut found = Vec::new();
    for item in items {
        found.push(item.name.clone());
    }
    found
}
+++ src/store.rs
pub fn names(items: &[Item]) -> Vec<String> {
    let limit = items.first().map(|item| item.limit).unwrap_or(0);
    items.iter().take(limit).map(|item| item.name.clone()).collect()
}
"""


@each("pair", read_pairs(SCRIPT + GO + JVM + RUBY_RUST))
def test_realistic_changes(pair: Pair) -> None:
    assert not wrong(pair, FLAGS)
