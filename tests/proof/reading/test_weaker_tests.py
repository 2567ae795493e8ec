"""test-loosened, assertion-removed, test-without-assertion, test-cannot-fail."""

from tests.support.pairs import Pair, read_pairs, wrong
from tests.support.tables import each

FLAGS = frozenset(
    "test-deleted test-skipped test-loosened assertion-removed"
    " test-without-assertion test-cannot-fail".split()
)

PYTHON = """
=== test-loosened tests/test_a.py:3 | py: equality to truthiness
--- tests/test_a.py
def test_one():
    result = parse("1")
    assert result == 1
+++ tests/test_a.py
def test_one():
    result = parse("1")
    assert result
=== test-loosened tests/test_a.py:2 | py: equality to not None
--- tests/test_a.py
def test_one():
    assert parse("1") == 1
+++ tests/test_a.py
def test_one():
    assert parse("1") is not None
=== test-loosened tests/test_a.py:2 | py: equality to in
--- tests/test_a.py
def test_one():
    assert render(page) == "<h1>Hi</h1>"
+++ tests/test_a.py
def test_one():
    assert "Hi" in render(page)
=== assertion-removed tests/test_a.py | py: what stays takes no other's place
--- tests/test_a.py
def test_one():
    assert a == 16 and b == 16
+++ tests/test_a.py
def test_one():
    assert b == 16
=== honest | py: one more thing is equal
--- tests/test_a.py
def test_one():
    assert len(ids) == 16
+++ tests/test_a.py
def test_one():
    assert len(ids) == len(names) == 16
=== assertion-removed tests/test_a.py | py: one thing less is equal
--- tests/test_a.py
def test_one():
    assert len(ids) == len(names) == 16
+++ tests/test_a.py
def test_one():
    assert len(ids) == 16
=== honest | py: a table of another shape, with more cases
--- tests/test_a.py
@each(("text", "value"), [("1", 1), ("2", 2)])
def test_one(text, value):
    assert parse(text) == value
+++ tests/test_a.py
@pytest.mark.parametrize(("name", "text", "value"), [("a", "1", 1), ("b", "2", 2), ("c", "3", 3)])
def test_one(name, text, value):
    assert parse(text) == value
=== honest | py: a case moves into a test of its own
--- tests/test_a.py
@pytest.mark.parametrize("text, value", [("1", 1), ("2", 2), ("-3", -3)])
def test_parse(text, value):
    assert parse(text) == value
+++ tests/test_a.py
@pytest.mark.parametrize("text, value", [("1", 1), ("2", 2)])
def test_parse(text, value):
    assert parse(text) == value

def test_parse_negative():
    assert parse("-3") == -3
=== assertion-removed tests/test_a.py:1 | py: one of two assertions is gone
--- tests/test_a.py
def test_order():
    order = place(cart)
    assert order.state == "open"
    assert order.total == 5
+++ tests/test_a.py
def test_order():
    order = place(cart)
    assert order.state == "open"
=== assertion-removed tests/test_a.py | py: an assertion is commented out
--- tests/test_a.py
def test_order():
    order = place(cart)
    assert order.state == "open"
    assert order.total == 5
+++ tests/test_a.py
def test_order():
    order = place(cart)
    assert order.state == "open"
    # assert order.total == 5
=== assertion-removed tests/test_a.py | py: all are gone
--- tests/test_a.py
def test_order():
    order = place(cart)
    assert order.state == "open"
+++ tests/test_a.py
def test_order():
    order = place(cart)
    print(order)
=== assertion-removed tests/test_a.py | py: mock verification gone
--- tests/test_a.py
def test_sends(mailer):
    place(cart, mailer)
    assert mailer.sent
    mailer.send.assert_called_once_with("a@example.org")
+++ tests/test_a.py
def test_sends(mailer):
    place(cart, mailer)
    assert mailer.sent
=== assertion-removed tests/test_a.py:1 | py: a helper is emptied
--- tests/test_a.py
def assert_order(order):
    assert order.state == "open"
    assert order.total == 5

def test_order():
    assert_order(place(cart))
+++ tests/test_a.py
def assert_order(order):
    assert order.state == "open"

def test_order():
    assert_order(place(cart))
=== honest | py: assertions move into a helper
--- tests/test_a.py
def test_order():
    order = place(cart)
    assert order.state == "open"
    assert order.total == 5
    assert order.lines == ["book"]

def test_again():
    order = place_again(cart)
    assert order.state == "open"
    assert order.total == 5
+++ tests/test_a.py
def check_open(order, total):
    assert order.state == "open"
    assert order.total == total

def test_order():
    order = place(cart)
    check_open(order, 5)
    assert order.lines == ["book"]

def test_again():
    check_open(place_again(cart), 5)
=== honest | py: parts become the whole
--- tests/test_a.py
def test_order():
    order = place(cart)
    assert order.state == "open"
    assert order.total == 5
+++ tests/test_a.py
def test_order():
    order = place(cart)
    assert order == Order(state="open", total=5)
=== honest | py: a test is split
--- tests/test_a.py
def test_order():
    order = place(cart)
    assert order.state == "open"
    assert order.total == 5
+++ tests/test_a.py
def test_order_state():
    order = place(cart)
    assert order.state == "open"

def test_order_total():
    order = place(cart)
    assert order.total == 5
=== honest | py: unittest becomes pytest
--- tests/test_a.py
class ParseTest(unittest.TestCase):
    def test_one(self):
        self.assertEqual(parse("1"), 1)
        self.assertIsNone(parse(""))
        self.assertIn("a", names())
        with self.assertRaises(ValueError):
            parse("x")
+++ tests/test_a.py
def test_one():
    assert parse("1") == 1
    assert parse("") is None
    assert "a" in names()
    with pytest.raises(ValueError):
        parse("x")
=== honest | py: stronger, renamed variable, other value after a fix
--- src/price.py
def price(n):
    return n * 3
+++ src/price.py
def price(n):
    return n * 4
--- tests/test_a.py
def test_one():
    result = parse("1")
    assert result
    x = price(2)
    assert x == 6
+++ tests/test_a.py
def test_one():
    parsed = parse("1")
    assert parsed == 1
    cost = price(2)
    assert cost == 8
=== honest | py: kinds of assertions in new tests
*** helpers.py
x = 1
*** tests/support.py
def same_order(one, other):
    assert one.lines == other.lines
+++ tests/test_a.py
from tests.support import same_order

def test_raises():
    with pytest.raises(ValueError):
        parse("")

def test_mock(mailer):
    place(cart, mailer)
    mailer.send.assert_called_once()

def test_helper():
    same_order(place(cart), Order(["book"]))

def test_fails_by_hand():
    if parse("1") != 1:
        pytest.fail("not one")

def test_warns(recwarn):
    with pytest.warns(DeprecationWarning):
        old()

def test_numpy():
    np.testing.assert_allclose(mean([1, 2]), 1.5)

@given(st.text())
def test_round_trip(text):
    assert decode(encode(text)) == text
=== test-cannot-fail tests/test_a.py:2 | py: assert True
+++ tests/test_a.py
def test_one():
    assert True
=== test-cannot-fail tests/test_a.py:3 | py: a value with itself
+++ tests/test_a.py
def test_one():
    result = parse("1")
    assert result == result
=== test-cannot-fail tests/test_a.py:2 | py: a tuple
+++ tests/test_a.py
def test_one():
    assert (parse("1") == 1, "must be one")
=== honest | py: a list of what is wrong
+++ tests/test_a.py
def test_total():
    assert not [items for rule in RULES for items in rule(CASES)]
=== honest | py: a list of what is wanted
+++ tests/test_a.py
def test_total():
    assert [item for item in CASES if total(item) == 5]
=== test-cannot-fail tests/test_a.py | py: expected is what the code gives
+++ tests/test_a.py
def test_one():
    expected = total(cart)
    assert total(cart) == expected
=== test-cannot-fail tests/test_a.py:3 | py: the failure is swallowed
+++ tests/test_a.py
def test_one():
    try:
        assert parse("1") == 1
    except AssertionError:
        pass
=== honest | py: a handler of another error, one that fails
+++ tests/test_a.py
def test_one(tmp_path):
    try:
        assert parse("1") == 1
    except FileNotFoundError:
        cleanup(tmp_path)

def test_two():
    try:
        assert parse("2") == 2
    except AssertionError:
        dump()
        raise
=== assertion-removed tests/test_a.py | py: one of two equal assertions goes
--- tests/test_a.py
def test_one():
    result = parse("1 2")
    assert result == [1, 2]
    assert result == [1, 2]
+++ tests/test_a.py
def test_one():
    result = parse("1 2")
    assert result == [1, 2]
=== honest | py: a double of what comes with it
--- tests/test_a.py
def test_one(shop):
    shop.add(Basket(3))
    assert shop.total == 3
+++ tests/test_a.py
def test_one(shop):
    clock = mock.Mock()
    shop.add(Basket(3), clock)
    assert shop.total == 3
=== assertion-removed test/app.js | js: one of a chain of expectations of an answer
--- test/app.js
it("serves", function (done) {
  request(app).get("/").expect(sets("session")).expect(200, "ok", done);
});
+++ test/app.js
it("serves", function (done) {
  request(app).get("/").expect(200, "ok", done);
});
=== test-loosened tests/test_a.py | py: how many became whether any
--- tests/test_a.py
def test_one():
    assert len(set(parse("1 1"))) == 1
+++ tests/test_a.py
def test_one():
    assert len(set(parse("1 1")))
=== assertion-removed tests/test_a.py | py: weak ones before a strong one go
--- tests/test_a.py
def test_one():
    result = parse("1 2")
    assert result is not None
    assert len(result) == 2
    assert result == [1, 2]
+++ tests/test_a.py
def test_one():
    result = parse("1 2")
    assert result == [1, 2]
=== assertion-removed tests/test_a.py | py: the same assertion after another step goes
--- tests/test_a.py
def test_one():
    queue = Queue()
    assert queue.size == 0
    queue.push(1)
    queue.pop()
    assert queue.size == 0
+++ tests/test_a.py
def test_one():
    queue = Queue()
    assert queue.size == 0
    queue.push(1)
    queue.pop()
=== test-cannot-fail tests/test_a.py | py: a loop over nothing
+++ tests/test_a.py
def test_one():
    for item in []:
        assert parse(item) == 1
=== test-cannot-fail tests/test_a.py:2 | py: or True
+++ tests/test_a.py
def test_one():
    assert parse("1") == 1 or True
=== honest | py: looks odd, can fail
+++ tests/test_a.py
def test_equal():
    money = Money(3)
    assert money == money

def test_cached_result_is_stable():
    first = load("a")
    second = load("a")
    assert first is second

def test_error_is_told():
    try:
        parse("")
    except ValueError as error:
        assert "empty" in str(error)
    else:
        pytest.fail("no error")

def test_client(monkeypatch):
    monkeypatch.setattr(api, "fetch", lambda url: {"rate": 2})
    assert convert(3) == 6

def test_repository():
    store = Mock()
    store.load.return_value = {"a": 1}
    assert Service(store).value("a") == 1
"""

SCRIPT = """
=== test-loosened src/a.test.ts:2 | ts: toEqual to toBeDefined
--- src/a.test.ts
it("parses", () => {
  expect(parse("1")).toEqual({ value: 1 });
});
+++ src/a.test.ts
it("parses", () => {
  expect(parse("1")).toBeDefined();
});
=== test-loosened src/a.test.ts | ts: equality to a snapshot
--- src/a.test.ts
it("renders", () => {
  expect(render(page)).toBe("<h1>Hi</h1>");
});
+++ src/a.test.ts
it("renders", () => {
  expect(render(page)).toMatchSnapshot();
});
=== assertion-removed src/a.test.ts:1 | ts: an expectation is gone
--- src/a.test.ts
it("places", async () => {
  const order = await place(cart);
  expect(order.state).toBe("open");
  expect(order.total).toBe(5);
});
+++ src/a.test.ts
it("places", async () => {
  const order = await place(cart);
  expect(order.state).toBe("open");
});
=== honest | ts: chai to jest, parts to the whole
--- src/a.test.ts
it("places", () => {
  const order = place(cart);
  expect(order.state).to.equal("open");
  expect(order.total).to.equal(5);
  expect(order.paid).to.be.false;
});
+++ src/a.test.ts
it("places", () => {
  const order = place(cart);
  expect(order).toEqual({ state: "open", total: 5, paid: false });
});
=== test-cannot-fail src/a.test.ts:2 | ts: constants
+++ src/a.test.ts
it("parses", () => {
  expect(true).toBe(true);
});
=== test-cannot-fail src/a.test.ts:2 | ts: not awaited
+++ src/a.test.ts
it("parses", async () => {
  expect(parse("1")).resolves.toBe(1);
});
=== test-cannot-fail src/a.test.ts:2 | ts: then without return
+++ src/a.test.ts
it("parses", () => {
  parse("1").then((value) => {
    expect(value).toBe(1);
  });
});
=== test-cannot-fail src/a.test.ts | ts: the failure is swallowed
+++ src/a.test.ts
it("parses", () => {
  try {
    expect(parse("1")).toBe(1);
  } catch (e) {
    console.log(e);
  }
});
=== honest | ts: promises that are waited for, callbacks, try with fail
+++ src/a.test.ts
it("parses", async () => {
  await expect(parse("1")).resolves.toBe(1);
});
it("returns", () => {
  return parse("1").then((value) => {
    expect(value).toBe(1);
  });
});
it("calls back", (done) => {
  parse("1").then((value) => {
    expect(value).toBe(1);
    done();
  });
});
it("rejects", async () => {
  try {
    await parse("");
    throw new Error("no error");
  } catch (error) {
    expect(error.message).toBe("empty");
  }
});
it("serves", () => request(app).get("/health").expect(200));
test("assert", (t) => {
  t.is(parse("1"), 1);
});
it("uses a double of the clock", () => {
  jest.spyOn(clock, "now").mockReturnValue(5);
  expect(stamp()).toBe(5);
});
"""

COMPILED = """
=== test-loosened a_test.go | go: equality to no error
--- a_test.go
package a

func TestParse(t *testing.T) {
	got, err := Parse("1")
	if err != nil {
		t.Fatal(err)
	}
	if got != 1 {
		t.Errorf("got %d", got)
	}
}
+++ a_test.go
package a

func TestParse(t *testing.T) {
	got, err := Parse("1")
	if err != nil {
		t.Fatal(err)
	}
	if got == 0 {
		t.Errorf("got %d", got)
	}
}
=== assertion-removed a_test.go:3 | go: the value is not looked at any more
--- a_test.go
package a

func TestParse(t *testing.T) {
	got, err := Parse("1")
	if err != nil {
		t.Fatal(err)
	}
	if got != 1 {
		t.Errorf("got %d", got)
	}
}
+++ a_test.go
package a

func TestParse(t *testing.T) {
	_, err := Parse("1")
	if err != nil {
		t.Fatal(err)
	}
}
=== test-loosened a_test.go | go: testify Equal to NotNil
--- a_test.go
package a

func TestParse(t *testing.T) {
	assert.Equal(t, 1, Parse("1"))
}
+++ a_test.go
package a

func TestParse(t *testing.T) {
	assert.NotNil(t, Parse("1"))
}
=== honest | go: if becomes cmp.Diff, plain becomes testify, helper
--- a_test.go
package a

func TestParse(t *testing.T) {
	got := Parse("1")
	if !reflect.DeepEqual(got, []int{1}) {
		t.Errorf("got %v", got)
	}
}

func TestOther(t *testing.T) {
	got, err := Parse("1")
	if err != nil {
		t.Fatal(err)
	}
	if got != 1 {
		t.Errorf("got %d", got)
	}
}
+++ a_test.go
package a

func TestParse(t *testing.T) {
	got := Parse("1")
	if diff := cmp.Diff([]int{1}, got); diff != "" {
		t.Errorf("diff %s", diff)
	}
}

func TestOther(t *testing.T) {
	got, err := Parse("1")
	require.NoError(t, err)
	assert.Equal(t, 1, got)
}
=== test-cannot-fail a_test.go:5 | go: a value with itself
+++ a_test.go
package a

func TestParse(t *testing.T) {
	got := Parse("1")
	assert.Equal(t, got, got)
}
=== honest | go: subtests, helpers, examples, errors
+++ a_test.go
package a

func mustParse(t *testing.T, in string) int {
	t.Helper()
	got, err := Parse(in)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	return got
}

func TestParse(t *testing.T) {
	t.Run("empty", func(t *testing.T) {
		if _, err := Parse(""); err == nil {
			t.Fatal("no error")
		}
	})
	t.Run("one", func(t *testing.T) {
		mustParse(t, "1")
	})
}

func TestIs(t *testing.T) {
	_, err := Parse("")
	if !errors.Is(err, ErrEmpty) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Fuzz(func(t *testing.T, in string) {
		Parse(in)
	})
}
=== test-loosened src/test/java/ATest.java | java: assertEquals to assertNotNull
--- src/test/java/ATest.java
class ATest {
    @Test
    void parses() {
        assertEquals(1, Parser.parse("1"));
    }
}
+++ src/test/java/ATest.java
class ATest {
    @Test
    void parses() {
        assertNotNull(Parser.parse("1"));
    }
}
=== test-loosened src/test/java/ATest.java | java: AssertJ, broader exception
--- src/test/java/ATest.java
class ATest {
    @Test
    void parses() {
        assertThat(Parser.parse("1")).isEqualTo(1);
    }
    @Test
    void rejects() {
        assertThrows(ParseException.class, () -> Parser.parse(""));
    }
}
+++ src/test/java/ATest.java
class ATest {
    @Test
    void parses() {
        assertThat(Parser.parse("1")).isPositive();
    }
    @Test
    void rejects() {
        assertThrows(Exception.class, () -> Parser.parse(""));
    }
}
=== honest | java: JUnit 4 to JUnit 5 with AssertJ
--- src/test/java/ATest.java
public class ATest {
    @Test(expected = IllegalArgumentException.class)
    public void rejects() {
        Parser.parse("");
    }

    @Test
    public void parses() {
        assertEquals(1, Parser.parse("1"));
        assertTrue(Parser.isNumber("1"));
        assertNull(Parser.parse("x"));
    }
}
+++ src/test/java/ATest.java
class ATest {
    @Test
    void rejects() {
        assertThrows(IllegalArgumentException.class, () -> Parser.parse(""));
    }

    @Test
    void parses() {
        assertThat(Parser.parse("1")).isEqualTo(1);
        assertThat(Parser.isNumber("1")).isTrue();
        assertThat(Parser.parse("x")).isNull();
    }
}
=== assertion-removed src/test/java/ATest.java | java: the expected exception is gone
--- src/test/java/ATest.java
class ATest {
    @Test
    void rejects() {
        Order order = service.place(cart);
        assertEquals("open", order.state());
        assertEquals(5, order.total());
    }
}
+++ src/test/java/ATest.java
class ATest {
    @Test
    void rejects() {
        Order order = service.place(cart);
        assertEquals("open", order.state());
    }
}
=== test-cannot-fail src/test/java/ATest.java:4 | java: assertTrue(true)
+++ src/test/java/ATest.java
class ATest {
    @Test
    void parses() {
        assertTrue(true);
    }
}
=== test-cannot-fail src/test/java/ATest.java | java: swallowed
+++ src/test/java/ATest.java
class ATest {
    @Test
    void parses() {
        try {
            assertEquals(1, Parser.parse("1"));
        } catch (Throwable t) {
            // fine
        }
    }
}
=== test-loosened src/lib.rs | rust: assert_eq to is_ok
--- src/lib.rs
#[cfg(test)]
mod tests {
    #[test]
    fn parses() {
        assert_eq!(parse("1"), Ok(1));
    }
}
+++ src/lib.rs
#[cfg(test)]
mod tests {
    #[test]
    fn parses() {
        assert!(parse("1").is_ok());
    }
}
=== test-cannot-fail src/lib.rs | rust: constant
--- src/lib.rs
pub fn parse() {}
+++ src/lib.rs
pub fn parse() {}
#[cfg(test)]
mod tests {
    #[test]
    fn parses() {
        assert!(true);
    }
}
=== honest | rust: should_panic, Result, unwrap
--- src/lib.rs
pub fn parse() {}
+++ src/lib.rs
pub fn parse() {}
#[cfg(test)]
mod tests {
    #[test]
    #[should_panic(expected = "empty")]
    fn rejects() {
        parse("");
    }
    #[test]
    fn reads() -> Result<(), Error> {
        let value = parse("1")?;
        assert_eq!(value, 1);
        Ok(())
    }
    #[test]
    fn accepts() {
        parse("1").unwrap();
    }
}
=== test-loosened spec/a_spec.rb | ruby: eq to be_truthy
--- spec/a_spec.rb
RSpec.describe Parser do
  it "parses" do
    expect(parser.parse("1")).to eq(1)
  end
end
+++ spec/a_spec.rb
RSpec.describe Parser do
  it "parses" do
    expect(parser.parse("1")).to be_truthy
  end
end
=== assertion-removed test/a_test.rb | ruby: an assertion is gone
--- test/a_test.rb
class ATest < Minitest::Test
  def test_order
    order = place(cart)
    assert_equal "open", order.state
    assert_equal 5, order.total
  end
end
+++ test/a_test.rb
class ATest < Minitest::Test
  def test_order
    order = place(cart)
    assert_equal "open", order.state
  end
end
=== honest | ruby: matchers
+++ spec/a_spec.rb
RSpec.describe Parser do
  it { is_expected.to be_valid }
  it "counts" do
    expect { parser.parse("1") }.to change(parser, :count).by(1)
  end
  it "calls" do
    expect(mailer).to receive(:deliver)
    parser.parse("1")
  end
  it "has" do
    expect(page).to have_content("Hi")
  end
end
=== test-loosened src/test/scala/ASpec.scala | scala: shouldBe to not be null
--- src/test/scala/ASpec.scala
class ASpec extends AnyFlatSpec with Matchers {
  "A parser" should "parse" in {
    Parser.parse("1") shouldBe Right(1)
  }
}
+++ src/test/scala/ASpec.scala
class ASpec extends AnyFlatSpec with Matchers {
  "A parser" should "parse" in {
    Parser.parse("1") should not be null
  }
}
=== test-cannot-fail src/test/scala/ASuite.scala | scala: constant
+++ src/test/scala/ASuite.scala
class ASuite extends munit.FunSuite {
  test("parses") {
    assertEquals(1, 1)
  }
}
=== test-loosened tests/ATest.php | php: assertSame to assertNotNull
--- tests/ATest.php
<?php
class ATest extends TestCase {
    public function testParses(): void {
        $this->assertSame(1, parse('1'));
    }
}
+++ tests/ATest.php
<?php
class ATest extends TestCase {
    public function testParses(): void {
        $this->assertNotNull(parse('1'));
    }
}
=== test-loosened tests/ATests.cs | csharp: Equal to NotNull
--- tests/ATests.cs
public class ATests {
    [Fact]
    public void Parses() { Assert.Equal(1, Parser.Parse("1")); }
}
+++ tests/ATests.cs
public class ATests {
    [Fact]
    public void Parses() { Assert.NotNull(Parser.Parse("1")); }
}
=== honest | java: only a comment changes beside overloads of a helper
--- src/test/java/MailTest.java
class MailTest {
    void check(Mail mail, String text) {
        assertEquals(text, mail.text());
        assertEquals(1, mail.count());
    }
    /** an address */
    void check(Mail mail) {
        assertTrue(mail.isSent());
    }
    @Test
    void sends() {
        check(send());
    }
}
+++ src/test/java/MailTest.java
class MailTest {
    void check(Mail mail, String text) {
        assertEquals(text, mail.text());
        assertEquals(1, mail.count());
    }
    /** An address */
    void check(Mail mail) {
        assertTrue(mail.isSent());
    }
    @Test
    void sends() {
        check(send());
    }
}
=== honest | rust: a test of equality
+++ src/key.rs
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_static_eq() {
        assert_eq!(Key::from_static("a"), Key::from_static("a"));
    }
}
=== honest | go: what has got the address of a value may have changed it
+++ decoder_test.go
func TestDefaultsHaveNoEffect(t *testing.T) {
	expected := D{}
	d := D{}
	decoder.Decode(&d, data)
	if !reflect.DeepEqual(expected, d) {
		t.Errorf("got %v", d)
	}
}
=== honest | ruby: a method with arguments is no constant
+++ spec/cookie_spec.rb
describe "cookie" do
  it "considers the scheme" do
    cookie("; secure").valid?(URI.parse("https://www.example.org/")).must_equal true
  end
end
=== honest | ts: a table becomes constant
--- test/parse.test.ts
describe("parse", () => {
  const tests = [
    { input: "a", out: "a" },
    { input: "b", out: "b" },
  ];
  for (const t of tests) {
    test(t.input, () => { expect(parse(t.input)).toBe(t.out); });
  }
});
+++ test/parse.test.ts
describe("parse", () => {
  const tests = [
    { input: "a", out: "a" },
    { input: "b", out: "b" },
  ] as const;
  for (const t of tests) {
    test(t.input, () => { expect(parse(t.input)).toBe(t.out); });
  }
});
=== test-cannot-fail src/a.rs | rust: or true
--- src/a.rs
#[test]
fn open() {
    assert!(order.is_open);
    assert!(order.total > 3 || order.free);
}
+++ src/a.rs
#[test]
fn open() {
    assert!(order.is_open || true);
    assert!(order.total > 3 || order.free);
}
=== assertion-removed a_test.go | go: one of many errors is only logged
--- a_test.go
func TestScan(t *testing.T) {
	err := u.Scan("a")
	if err != nil {
		t.Fatal(err)
	}
	err = u.Scan("b")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range u {
		if v != 0 {
			t.Error(v)
		}
	}
}
+++ a_test.go
func TestScan(t *testing.T) {
	err := u.Scan("a")
	if err != nil {
		t.Log(err)
	}
	err = u.Scan("b")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range u {
		if v != 0 {
			t.Error(v)
		}
	}
}
=== honest | js: what is rejected is thrown now
--- test.js
test('rejects', async t => {
	await t.throwsAsync(limit(0));
});
+++ test.js
test('rejects', t => {
	t.throws(() => {
		limit(0);
	});
});
=== honest | ts: a parameter gets a type
--- a.test.ts
it("filters", () => { expect(run((value) => value > 1)).toEqual([2]); });
+++ a.test.ts
it("filters", () => { expect(run((value: any) => value > 1)).toEqual([2]); });
=== assertion-removed src/a.rs | rust: one of many that look alike, of another value
--- src/a.rs
#[test]
fn reads() {
    let x = read_u64(&xs);
    assert_eq!(x, 0);
    let x = read_u128(&xs);
    assert_eq!(x, 0);
}
+++ src/a.rs
#[test]
fn reads() {
    let x = read_u64(&xs);
    let x = read_u128(&xs);
    assert_eq!(x, 0);
}
=== assertion-removed src/a.rs | rust: twice in a row
--- src/a.rs
#[test]
fn reads() {
    let x = read_u64(&xs);
    assert_eq!(x, 0);
    assert_eq!(x, 0);
}
+++ src/a.rs
#[test]
fn reads() {
    let x = read_u64(&xs);
    assert_eq!(x, 0);
}
=== honest | go: errors are asked for in another order
--- a_test.go
func TestText(t *testing.T) {
	for _, tc := range cases {
		err := parse(tc.text)
		if err != nil && tc.success {
			t.Errorf("got %v", err)
		} else if err == nil && !tc.success {
			t.Errorf("no error")
		}
	}
}
+++ a_test.go
func TestText(t *testing.T) {
	for _, tc := range cases {
		err := parse(tc.text)
		if err != nil {
			if tc.success {
				t.Errorf("got %v", err)
			}
			continue
		}
		if !tc.success {
			t.Errorf("no error")
		}
	}
}
=== honest | php: an error that the comment demands
--- tests/LinesTest.php
<?php
class LinesTest extends TestCase
{
}
+++ tests/LinesTest.php
<?php
class LinesTest extends TestCase
{
    /**
     * @expectedException \\Shop\\Broken
     */
    public function testBroken()
    {
        Lines::split('"');
    }
}
=== honest | go: a chain becomes a switch
--- a_test.go
func TestGet(t *testing.T) {
	for _, request := range requests {
		handler := tree.get(request.path)
		if handler == nil {
			if !request.none {
				t.Errorf("no handler")
			}
		} else if request.none {
			t.Errorf("a handler")
		}
	}
}
+++ a_test.go
func TestGet(t *testing.T) {
	for _, request := range requests {
		handler := tree.get(request.path)
		switch {
		case handler == nil:
			if !request.none {
				t.Errorf("no handler")
			}
		case request.none:
			t.Errorf("a handler")
		}
	}
}
=== assertion-removed a_test.go | go: a case less
--- a_test.go
func TestGet(t *testing.T) {
	for _, request := range requests {
		handler := tree.get(request.path)
		switch {
		case handler == nil:
			if !request.none {
				t.Errorf("no handler")
			}
		case request.none:
			t.Errorf("a handler")
		}
	}
}
+++ a_test.go
func TestGet(t *testing.T) {
	for _, request := range requests {
		handler := tree.get(request.path)
		switch {
		case handler == nil:
			if !request.none {
				t.Errorf("no handler")
			}
		}
	}
}
=== honest | rust: a method of the product that asserts is no helper
--- src/a.rs
impl Set {
    pub fn is_empty(&self) -> bool {
        debug_assert_eq!(self.len == 0, self.first.is_none());
        self.len == 0
    }
}
#[cfg(test)]
mod tests {
    #[test]
    fn drains() {
        if !set.is_empty() {
            panic!("not empty");
        }
    }
}
+++ src/a.rs
impl Set {
    pub fn is_empty(&self) -> bool {
        debug_assert_eq!(self.len == 0, self.first.is_none());
        self.len == 0
    }
}
#[cfg(test)]
mod tests {
    #[test]
    fn drains() {
        assert!(set.is_empty(), "not empty");
    }
}
"""


@each("pair", read_pairs(PYTHON + SCRIPT + COMPILED))
def test_what_demands_less(pair: Pair) -> None:
    assert not wrong(pair, FLAGS)
