"""A small project in each language whose toolchain may be here, with tests that notice everything.

Each has the same functions: a decision, a result, numbers, texts, and statements that count.
"""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gitlab_nightshift.proof.running.faults import Fault, list_faults
from gitlab_nightshift.proof.syntax.file_side import Side
from tests.support.programs import find_lack

VARIABLE = "NS_c0ffee"
ASSERTED = "asserted"


@dataclass(frozen=True)
class Project:
    """``product`` is the file with the code, ``build`` runs once and ``test`` for each fault."""

    product: str
    files: Mapping[str, str]
    build: tuple[str, ...]
    test: tuple[str, ...]

    def list_faults(self) -> list[Fault]:
        side = Side(self.product, self.read(self.product))
        return list_faults(side, side.functions)

    def read(self, path: str) -> bytes | None:
        return self.files[path].encode() if path in self.files else None

    def write(self, folder: Path, files: Mapping[str, bytes]) -> None:
        every = {path: text.encode() for path, text in self.files.items()} | dict(files)
        for path, data in every.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)

    def run_build(self, folder: Path) -> str:
        """Build, and give what the compiler said; "" where it said nothing or there is none."""
        return _run(self.build, folder, {})[1] if self.build else ""

    def run_tests(self, folder: Path, environment: Mapping[str, str]) -> tuple[int, str]:
        """The exit status and the output."""
        return _run(self.test, folder, environment)

    @property
    def is_here(self) -> bool:
        """True where the toolchain is installed."""
        return not find_lack((*self.build, *self.test)[0])


def _run(argv: tuple[str, ...], folder: Path, more: Mapping[str, str]) -> tuple[int, str]:
    """A command that ends within minutes on a busy machine."""
    done = subprocess.run(
        argv,
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return done.returncode, done.stdout


_PYTHON = '''"""Prices."""
from __future__ import annotations

import os


def price(count, member):
    total = 0
    for each in range(count):
        total += 1
    if total > 10 and member:
        return "low"
    return "high" if not member else f"m{total}"


class Basket:
    def __init__(self) -> None:
        self.items: list[str] = []

    def add(self, item: str) -> int:
        if item == "":
            raise ValueError("no name, 3 letters " + str(3))
        self.items.append(item)
        return len(self.items)

    def is_full(self):
        return len(self.items) >= 2

    def names(self) -> list[str]:
        return [each for each in self.items if each != "x"]

    def first(self):
        return self.names()[0]
'''
_PYTHON_TEST = """
from shop import Basket, price


def same(got, wanted):
    assert type(got) is type(wanted) and got == wanted, "asserted"


same(price(11, True), "low")
same(price(10, True), "m10")
same(price(0, False), "high")
same(price(11, False), "high")
basket = Basket()
same(basket.add("a"), 1)
same(basket.is_full(), False)
same(basket.add("x"), 2)
same(basket.is_full(), True)
same(basket.names(), ["a"])
same(basket.first(), "a")
try:
    basket.add("")
    raise SystemExit("asserted")
except ValueError:
    pass
"""
_SCRIPT = """'use strict';

function price(count, member) {
  'use strict';
  let total = 0;
  for (const each of Array(count)) {
    total += 1;
  }
  if (total > 10 && member) return "low";
  return !member ? "high" : `m${total}`
}

class Basket {
  constructor() { this.items = [] }
  add(item) {
    if (item === "") {
      throw new Error("no name, 3 letters " + 3);
    }
    this.items.push(item)
    return this.items.length
  }
  isFull() { return this.items.length >= 2 }
  names() { return this.items.filter((each) => each !== "x") }
}

module.exports = { Basket, price };
// the end"""
_SCRIPT_TEST = """
const assert = require("assert");
const { Basket, price } = require("./shop");
const same = (got, wanted) => assert.deepStrictEqual(got, wanted, "asserted");
same(price(11, true), "low");
same(price(10, true), "m10");
same(price(0, false), "high");
same(price(11, false), "high");
const basket = new Basket();
same(basket.add("a"), 1);
same(basket.isFull(), false);
same(basket.add("x"), 2);
same(basket.isFull(), true);
same(basket.names(), ["a"]);
assert.throws(() => basket.add(""), Error, "asserted");
"""
_GO = """package shop

import (
	"errors"
	"fmt"
)

type Basket struct{ items []string }

func Price(count int, member bool) string {
	total := 0
	for range make([]int, count) {
		total++
	}
	if total > 10 && member {
		return "low"
	}
	text := fmt.Sprintf("m%d", total)
	if !member {
		text = "high"
	}
	return text
}

func (b *Basket) Add(item string) (n int, err error) {
	if item == "" {
		return 0, errors.New("no name, 3 letters")
	}
	b.store(item)
	return len(b.items), nil
}

func (b *Basket) store(item string) { b.items = append(b.items, item) }

func (b *Basket) IsFull() bool { return len(b.items) >= 2 }

func (b *Basket) Rest() []string { return b.items[1:] }
"""
_GO_TEST = """package shop

import "testing"

func same(t *testing.T, got, wanted any) {
	t.Helper()
	if got != wanted {
		t.Errorf("asserted: %v, not %v", got, wanted)
	}
}

func TestShop(t *testing.T) {
	same(t, Price(11, true), "low")
	same(t, Price(10, true), "m10")
	same(t, Price(0, false), "high")
	same(t, Price(11, false), "high")
	basket := &Basket{}
	n, err := basket.Add("a")
	same(t, n, 1)
	same(t, err, nil)
	same(t, basket.IsFull(), false)
	n, _ = basket.Add("x")
	same(t, n, 2)
	same(t, basket.IsFull(), true)
	same(t, len(basket.Rest()), 1)
	_, err = basket.Add("")
	same(t, err != nil, true)
}
"""
_RUST = """#![no_std]
#![deny(warnings)]
#![forbid(unsafe_code)]
extern crate alloc;
use alloc::{format, string::String, vec::Vec};

pub fn price(count: usize, member: bool) -> String {
    let mut total: u8 = 0;
    for _ in 0..count {
        total += 1;
    }
    if total > 10 && member {
        return String::from("low");
    }
    if !member { String::from("high") } else { format!("m{}", total) }
}

pub const fn limit() -> bool {
    2 > 1
}

pub mod baskets {
    use alloc::{string::String, vec::Vec};

    #[derive(Default)]
    pub struct Basket { items: Vec<String> }

    impl Basket {
        pub fn add(&mut self, item: &str) -> Result<usize, &'static str> {
            if item == "" {
                return Err("no name, 3 letters");
            }
            self.items.push(item.into());
            Ok(self.items.len())
        }

        pub fn is_full(&self) -> bool {
            self.items.len() >= 2
        }

        pub fn first(&self) -> Option<&String> {
            self.items.iter().find(|each| each.as_str() != "x")
        }
    }
}

pub fn lengths(names: &[&str]) -> Vec<usize> {
    names.iter().map(|each| each.len()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn works() {
        assert_eq!(price(11, true), "low", "asserted");
        assert_eq!(price(10, true), "m10", "asserted");
        assert_eq!(price(0, false), "high", "asserted");
        assert_eq!(price(11, false), "high", "asserted");
        let mut basket = baskets::Basket::default();
        assert_eq!(basket.add("x"), Ok(1), "asserted");
        assert!(!basket.is_full(), "asserted");
        assert_eq!(basket.add("a"), Ok(2), "asserted");
        assert!(basket.is_full(), "asserted");
        assert_eq!(basket.first().map(|each| each.as_str()), Some("a"), "asserted");
        assert!(basket.add("").is_err(), "asserted");
        assert_eq!(lengths(&["a"]), [1], "asserted");
    }
}
"""
_JAVA = """package shop;

import java.util.ArrayList;
import java.util.List;

public class Shop {
    static final int LIMIT = 3;
    private final List<String> items = new ArrayList<>();

    static String price(int count, boolean member) {
        int total = 0;
        for (int each : new int[count]) {
            total += 1;
        }
        if (total > 10 && member) return "low";
        return !member ? "high" : "m" + total;
    }

    static String name(int kind) {
        final int one = 1;
        switch (kind) {
            case one:
                return "one";
            default:
                return null;
        }
    }

    int add(String item) {
        if (item.isEmpty()) {
            throw new IllegalArgumentException("no name, 3 letters " + 3);
        }
        items.add(item);
        return items.size();
    }

    boolean isFull() {
        return items.size() >= 2;
    }

    Object first() {
        return items.get(0);
    }
}
"""
_JAVA_TEST = """package shop;

import java.util.Objects;

public class ShopTest {
    static void same(Object got, Object wanted) {
        if (!Objects.equals(got, wanted)) throw new AssertionError("asserted");
    }

    public static void main(String[] args) {
        same(Shop.price(11, true), "low");
        same(Shop.price(10, true), "m10");
        same(Shop.price(0, false), "high");
        same(Shop.price(11, false), "high");
        same(Shop.name(1), "one");
        same(Shop.name(2), null);
        Shop shop = new Shop();
        same(shop.add("a"), 1);
        same(shop.isFull(), false);
        same(shop.add("x"), 2);
        same(shop.isFull(), true);
        same(shop.first(), "a");
        boolean thrown = false;
        try { shop.add(""); } catch (IllegalArgumentException e) { thrown = true; }
        same(thrown, true);
    }
}
"""
_RUBY = """# frozen_string_literal: true

def price(count, member)
  total = 0
  count.times { total += 1 }
  return "low" if total > 10 && member
  !member ? "high" : "m#{total}"
end

class Basket
  def initialize
    @items = []
  end

  def add(item)
    if item == ""
      raise ArgumentError, "no name, 3 letters"
    end
    @items << item
    @items.length
  end

  def full?
    @items.length >= 2
  end

  def names
    @items.reject { |each| each == "x" }
  end
end
"""
_RUBY_TEST = """
require_relative "shop"
def same(got, wanted)
  abort "asserted" unless got == wanted
end
same price(11, true), "low"
same price(10, true), "m10"
same price(0, false), "high"
same price(11, false), "high"
basket = Basket.new
same basket.add("a"), 1
same basket.full?, false
same basket.add("x"), 2
same basket.full?, true
same basket.names, ["a"]
begin
  basket.add("")
  abort "asserted"
rescue ArgumentError
end
"""
_PHP = """<?php
declare(strict_types=1);
namespace Shop;

function price(int $count, bool $member): string {
    $total = 0;
    foreach ($count > 0 ? range(1, $count) : [] as $each) {
        $total += 1;
    }
    if ($total > 10 && $member) return "low";
    return !$member ? 'high' : "m{$total}";
}

class Basket {
    private array $items = [];

    public function add(string $item): int {
        if ($item === '') {
            throw new \\InvalidArgumentException("no name, 3 letters " . 3);
        }
        $this->store($item);
        return count($this->items);
    }

    private function store(string $item): void { $this->items[] = $item; }

    public function isFull(): bool {
        return count($this->items) >= 2;
    }

    public function first() {
        return $this->items[0];
    }
}
"""
_PHP_TEST = """<?php
namespace Shop;
require __DIR__ . "/shop.php";
function same($got, $wanted) { if ($got !== $wanted) { echo "asserted"; exit(1); } }
same(price(11, true), "low");
same(price(10, true), "m10");
same(price(1, true), "m1");
same(price(0, true), "m0");
same(price(0, false), "high");
same(price(11, false), "high");
$basket = new Basket();
same($basket->add("a"), 1);
same($basket->isFull(), false);
same($basket->add("x"), 2);
same($basket->isFull(), true);
same($basket->first(), "a");
try { $basket->add(""); same(1, 2); } catch (\\InvalidArgumentException $e) {}
"""

PROJECTS = {
    "python": Project(
        "shop.py",
        {"shop.py": _PYTHON, "check.py": _PYTHON_TEST},
        (),
        ("python3", "check.py"),
    ),
    "javascript": Project(
        "shop.js",
        {"shop.js": _SCRIPT, "check.js": _SCRIPT_TEST},
        (),
        ("node", "check.js"),
    ),
    "go": Project(
        "shop.go",
        {"shop.go": _GO, "shop_test.go": _GO_TEST, "go.mod": "module shop\n\ngo 1.21\n"},
        ("go", "test", "-c", "-o", "shop.bin"),
        ("./shop.bin",),
    ),
    "rust": Project(
        "src/lib.rs",
        {"src/lib.rs": _RUST},
        ("rustc", "--edition", "2021", "--test", "-o", "shop.bin", "src/lib.rs"),
        ("./shop.bin",),
    ),
    "java": Project(
        "src/shop/Shop.java",
        {"src/shop/Shop.java": _JAVA, "src/shop/ShopTest.java": _JAVA_TEST},
        ("javac", "-d", "out", "src/shop/Shop.java", "src/shop/ShopTest.java"),
        ("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", "out", "shop.ShopTest"),
    ),
    "ruby": Project(
        "lib/shop.rb",
        {"lib/shop.rb": _RUBY, "lib/check.rb": _RUBY_TEST},
        (),
        ("ruby", "lib/check.rb"),
    ),
    "php": Project(
        "shop.php",
        {"shop.php": _PHP, "check.php": _PHP_TEST},
        (),
        ("php", "check.php"),
    ),
}
