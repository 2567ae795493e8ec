"""A small shop in three languages, each with tests that notice whatever goes wrong in it."""

import sys

UNITTEST = f"{sys.executable} -m unittest"
PYTEST = f"{sys.executable} -m pytest -q"
NODE = "node --test"
GO = "go test ./..."

SHOP = '''"""Prices and names."""


def price(count, member):
    if count > 10 and member:
        return count * 2
    return count * 3


def label(name):
    if name == "":
        return "nobody"
    return "for " + name
'''
HELPER = """

def check(case, got, wanted):
    case.assertEqual(got, wanted)
"""
PRICE_TEST = """import unittest

from tests.helper import check
from shop import price


class PriceTest(unittest.TestCase):
    def test_members(self):
        check(self, price(11, True), 22)
        check(self, price(10, True), 30)

    def test_guests(self):
        check(self, price(11, False), 33)
"""
LABEL_TEST = """import unittest

from shop import label


class LabelTest(unittest.TestCase):
    def test_nobody(self):
        self.assertEqual(label(""), "nobody")

    def test_somebody(self):
        self.assertEqual(label("a"), "for a")
"""
PYTHON = {
    "shop.py": SHOP,
    "tests/__init__.py": "",
    "tests/helper.py": HELPER.lstrip(),
    "tests/test_price.py": PRICE_TEST,
    "tests/test_label.py": LABEL_TEST,
}

NODE_SHOP = """export function price(count, member) {
  if (count > 10 && member) return count * 2;
  return count * 3;
}

export function label(name) {
  if (name === '') return 'nobody';
  return `for ${name}`;
}
"""
NODE_TEST = """import test from 'node:test';
import assert from 'node:assert';
import { label, price } from '../src/shop.js';

test('members pay less', () => {
  assert.equal(price(11, true), 22);
  assert.equal(price(10, true), 30);
});

test('guests pay', () => {
  assert.equal(price(11, false), 33);
});

test('names a label', () => {
  assert.equal(label(''), 'nobody');
  assert.equal(label('a'), 'for a');
});
"""
JAVASCRIPT = {
    "package.json": '{"type": "module"}',
    "src/shop.js": NODE_SHOP,
    "test/shop.test.js": NODE_TEST,
}
GO_SHOP = """package shop

func Price(count int, member bool) int {
	if count > 10 && member {
		return count * 2
	}
	return count * 3
}

func Label(name string) string {
	if name == "" {
		return "nobody"
	}
	return "for " + name
}
"""
GO_TEST = """package shop

import "testing"

func same[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%v, not %v", got, want)
	}
}

func TestMembers(t *testing.T) {
	same(t, Price(11, true), 22)
	same(t, Price(10, true), 30)
}

func TestGuests(t *testing.T) {
	same(t, Price(11, false), 33)
}

func TestLabel(t *testing.T) {
	same(t, Label(""), "nobody")
	same(t, Label("a"), "for a")
}
"""
GOLANG = {
    "go.mod": "module example.com/shop\n\ngo 1.22\n",
    "shop.go": GO_SHOP,
    "shop_test.go": GO_TEST,
}
SHOPS = {"python": PYTHON, "node": JAVASCRIPT, "go": GOLANG}
RUNS = {"unittest": UNITTEST, "pytest": PYTEST, "node": NODE, "go": GO}
