"""Tests of languages without a grammar, which are read by lines."""

from gitlab_nightshift.settings.model import Settings
from gitlab_nightshift.verdict.flags import judge
from gitlab_nightshift.verdict.reviewed_change import Context
from tests.support.pairs import Pair, change_of, read_pairs, wrong
from tests.support.tables import each

FLAGS = frozenset(("test-deleted", "test-skipped", "test-loosened", "assertion-removed"))
SUITE = """--- test/cart.bats
@test "adds" {
  run total 2 3
  [ "$status" -eq 0 ]
  [ "$output" = "5" ]
}

@test "is empty" {
  run total
  [ "$output" = "0" ]
}
"""
BATS = f"""
=== test-deleted test/cart.bats:7 | bats: a test goes
{SUITE}+++ test/cart.bats
@test "adds" {{
  run total 2 3
  [ "$status" -eq 0 ]
  [ "$output" = "5" ]
  [ "$lines" = "1" ]
}}
=== test-skipped test/cart.bats:2 | bats: a test is skipped
{SUITE}+++ test/cart.bats
@test "adds" {{
  skip "later"
  run total 2 3
  [ "$status" -eq 0 ]
  [ "$output" = "5" ]
}}

@test "is empty" {{
  run total
  [ "$output" = "0" ]
}}
=== assertion-removed test/cart.bats:4 | bats: an assertion may fail
{SUITE}+++ test/cart.bats
@test "adds" {{
  run total 2 3
  [ "$status" -eq 0 ]
  [ "$output" = "5" ] || true
}}

@test "is empty" {{
  run total
  [ "$output" = "0" ]
}}
=== honest | bats: one is renamed, one comes, a stricter value
{SUITE}+++ test/cart.bats
@test "adds two" {{
  run total 2 3
  [ "$status" -eq 0 ]
  [ "$output" = "5" ]
}}

@test "is empty" {{
  run total
  [ "$status" -eq 0 ]
  [ "$output" = "0" ]
}}

@test "adds three" {{
  run total 2 3 4
  [ "$output" = "9" ]
}}
"""
OTHERS = """
=== test-deleted tests/cart_test.cpp:5 | c++: a test goes
--- tests/cart_test.cpp
TEST(Cart, Adds) {
  EXPECT_EQ(5, total({2, 3}));
}

TEST(Cart, IsEmpty) {
  EXPECT_EQ(0, total({}));
}
+++ tests/cart_test.cpp
TEST(Cart, Adds) {
  EXPECT_EQ(5, total({2, 3}));
  EXPECT_EQ(2, total({2}));
}
=== honest | c++: a test goes with what it tests
--- tests/cart_test.cpp
TEST(Cart, Adds) {
  EXPECT_EQ(5, total({2, 3}));
  EXPECT_EQ(1, total({1}));
}

TEST(Cart, Doubles) {
  EXPECT_EQ(4, twice(2));
}
--- src/cart.cpp
int twice(int a) { return 2 * a; }
int total(std::vector<int> a) { return sum(a); }
+++ tests/cart_test.cpp
TEST(Cart, Adds) {
  EXPECT_EQ(5, total({2, 3}));
  EXPECT_EQ(1, total({1}));
  EXPECT_EQ(0, total({}));
}
+++ src/cart.cpp
int total(std::vector<int> a) { return sum(a); }
=== test-deleted tests/cart_test.exs:6 | elixir: a test goes
--- tests/cart_test.exs
defmodule CartTest do
  test "adds" do
    assert Cart.total([2, 3]) == 5
  end

  test "adds nothing" do
    assert Cart.total([]) == 0
  end
end
+++ tests/cart_test.exs
defmodule CartTest do
  test "adds" do
    assert Cart.total([2, 3]) == 5
    assert Cart.total([1]) == 1
  end
end
=== test-deleted tests/test_cart.sh:5 | shunit2: a test goes
--- tests/test_cart.sh
test_adds() {
  assertEquals 5 "$(total 2 3)"
}

test_is_empty() {
  assertEquals 0 "$(total)"
}
+++ tests/test_cart.sh
test_adds() {
  assertEquals 5 "$(total 2 3)"
  assertEquals 2 "$(total 2)"
}
=== honest | c: a mark of what is never reached compares nothing
--- tests/test_cart.c
        default:
            assert(NULL);
+++ tests/test_cart.c
        default:
            panic("no such option");
=== assertion-removed test/cart.cpp | doctest, Catch: a check that only warns
--- test/cart.cpp
TEST_CASE("adds")
{
  CHECK(total() == 3);
}
+++ test/cart.cpp
TEST_CASE("adds")
{
  CHECK_NOFAIL(total() == 3);
}
=== honest | Unity: the runner calls its tests in its newer way
--- test/runner.c
int main(void)
{
  RUN_TEST(test_adds);
}
+++ test/runner.c
int main(void)
{
  run_test(test_adds, "test_adds", 20);
}
=== test-deleted test/runner.c | Unity: the runner calls a test no more
--- test/runner.c
int main(void)
{
  run_test(test_adds, "test_adds", 20);
  run_test(test_sums, "test_sums", 30);
}
+++ test/runner.c
int main(void)
{
  run_test(test_adds, "test_adds", 20);
}
=== honest | C: a macro before a test
--- test/cart.c
void test_ends(void)
{
  TEST_PASS();
}
+++ test/cart.c
ATTR(noreturn) void test_ends(void)
{
  TEST_PASS();
}
=== assertion-removed test/cart.c | Unity: one case less
--- test/cart.c
TEST_CASE(1, 3)
TEST_CASE(2, 4)
void test_adds(int number, int sum)
{
  TEST_ASSERT_EQUAL(sum, add(number));
}
+++ test/cart.c
TEST_CASE(1, 3)
void test_adds(int number, int sum)
{
  TEST_ASSERT_EQUAL(sum, add(number));
}
"""


@each("pair", read_pairs(BATS) + read_pairs(OTHERS))
def test_a_test_without_a_grammar(pair: Pair) -> None:
    assert not wrong(pair, FLAGS)


def test_a_skip_on_a_condition_is_asked_about() -> None:
    text = "TEST(Table, Packed) {\n%s  EXPECT_EQ(3, Size());\n}\n"
    levels = {"if (!HasPacking())": "warn", "if (true)": "fail", "": "fail"}
    for condition, level in levels.items():
        skip = f"  {condition}\n    GTEST_SKIP();\n"
        change = change_of({"table_test.cc": text % ""}, {"table_test.cc": text % skip})
        found = judge(change, Context(Settings()))
        assert [(each.name, each.level) for each in found] == [("test-skipped", level)]
