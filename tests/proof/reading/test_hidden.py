"""suppression-added, exception-swallowed, test-detection."""

import pytest

from gitlab_nightshift.proof.reading import swallowed_errors
from gitlab_nightshift.proof.syntax.languages import find_language
from tests.support.judging import Judge
from tests.support.pairs import Pair, read_pairs, wrong
from tests.support.tables import each

FLAGS = frozenset(("suppression-added", "exception-swallowed", "test-detection"))

SILENCED = """
=== suppression-added src/a.py:2 | py: noqa
--- src/a.py
import os
import sys
+++ src/a.py
import os
import sys  # noqa: F401
=== suppression-added src/a.py:1 | py: type ignore
--- src/a.py
x = f()
+++ src/a.py
x = f()  # type: ignore[assignment]
=== suppression-added src/a.py:2 | py: no cover
--- src/a.py
def f():
    if x:
        return 1
+++ src/a.py
def f():
    if x:  # pragma: no cover
        return 1
=== suppression-added src/a.py:1 | py: wider than before
--- src/a.py
x = f()  # type: ignore[assignment]
+++ src/a.py
x = f()  # type: ignore
=== honest | py: narrower, moved, taken away, told about
--- src/a.py
x = f()  # type: ignore
import sys  # noqa: F401
y = g()  # noqa
+++ src/a.py
import sys  # noqa: F401
x = f()  # type: ignore[assignment]
# Names without noqa are checked by the linter.
HELP = "write # noqa at the end of a line"
y = g()
=== honest | py: a function with its suppression moves to another file
--- src/a.py
def f():
    return g()  # noqa: S101
+++ src/a.py
from b import f
+++ src/b.py
def f():
    return g()  # noqa: S101
=== suppression-added src/a.ts:1 | ts: eslint
--- src/a.ts
const x = f();
+++ src/a.ts
// eslint-disable-next-line no-console
const x = f();
=== suppression-added src/a.ts:1 | ts: ts-ignore
--- src/a.ts
const x = f();
+++ src/a.ts
// @ts-ignore
const x = f();
=== suppression-added a.go:3 | go: nolint
--- a.go
package a

var x = f()
+++ a.go
package a

var x = f() //nolint:errcheck
=== suppression-added src/A.java:2 | java: SuppressWarnings
--- src/A.java
class A {
    void f() { }
}
+++ src/A.java
class A {
    @SuppressWarnings("unchecked")
    void f() { }
}
=== suppression-added src/a.rs:1 | rust: allow
--- src/a.rs
fn f() {}
+++ src/a.rs
#[allow(dead_code)]
fn f() {}
=== suppression-added lib/a.rb:1 | ruby: rubocop
--- lib/a.rb
def f(a, b); end
+++ lib/a.rb
def f(a, b); end # rubocop:disable Style/SingleLineMethods
=== suppression-added src/A.scala:1 | scala: nowarn
--- src/A.scala
class A
+++ src/A.scala
@nowarn("cat=deprecation") class A
=== suppression-added src/A.cs:1 | csharp: pragma
--- src/A.cs
class A { }
+++ src/A.cs
#pragma warning disable CS0168
class A { }
=== suppression-added run.sh:2 | sh: shellcheck
--- run.sh
#!/bin/sh
rm $1
+++ run.sh
#!/bin/sh
# shellcheck disable=SC2086
rm $1
"""

SWALLOWED = """
=== exception-swallowed src/a.py:4 | py: except Exception pass
--- src/a.py
def f():
    g()
+++ src/a.py
def f():
    try:
        g()
    except Exception:
        pass
=== exception-swallowed src/a.py:4 | py: emptied
--- src/a.py
def f():
    try:
        return g()
    except ValueError as error:
        raise Problem("bad") from error
+++ src/a.py
def f():
    try:
        return g()
    except ValueError:
        pass
=== honest | py: an expected error of other code
--- src/a.py
def f(them):
    try:
        return next(them)
    except StopIteration:
        raise Problem("none")
+++ src/a.py
def f(them):
    for each in them:
        return each
    try:
        return self.default
    except StopIteration:
        pass
=== exception-swallowed src/a.py | py: bare, gives back a default
--- src/a.py
def f():
    return g()
+++ src/a.py
def f():
    try:
        return g()
    except:
        return []
=== exception-swallowed src/a.py | py: suppress everything
--- src/a.py
def f():
    g()
+++ src/a.py
def f():
    with contextlib.suppress(Exception):
        g()
=== honest | py: narrow, logged, raised again, moved
--- src/a.py
def f():
    return g()

def old():
    try:
        g()
    except Exception:
        pass
+++ src/a.py
def f(path):
    try:
        return path.read_text()
    except FileNotFoundError:
        return None

def number(text):
    try:
        return int(text)
    except ValueError:
        return None

def clean(path):
    with contextlib.suppress(FileNotFoundError):
        path.unlink()

def work(job):
    try:
        job()
    except Exception:
        logger.exception("job failed")
        job.mark_failed()

def wrap():
    try:
        g()
    except KeyError as error:
        raise NotThere() from error

class Box:
    def old(self):
        try:
            g()
        except Exception:
            pass
=== exception-swallowed src/a.ts:4 | ts: empty catch
--- src/a.ts
export function f() {
  g();
}
+++ src/a.ts
export function f() {
  try {
    g();
  } catch {
  }
}
=== exception-swallowed src/a.ts:2 | ts: catch on a promise
--- src/a.ts
export async function f() {
  await g();
}
+++ src/a.ts
export async function f() {
  await g().catch(() => {});
}
=== honest | ts: handled
--- src/a.ts
export function f() {
  g();
}
+++ src/a.ts
export function f() {
  try {
    g();
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
}
export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
export const h = () => g().catch((error) => report(error));
=== exception-swallowed a.go:4 | go: error dropped
--- a.go
package a

func F() error {
	return save()
}
+++ a.go
package a

func F() error {
	_ = save()
	return nil
}
=== exception-swallowed a.go:5 | go: nil instead of the error
--- a.go
package a

func F() (*T, error) {
	v, err := load()
	if err != nil {
		return nil, err
	}
	return v, nil
}
+++ a.go
package a

func F() (*T, error) {
	v, err := load()
	if err != nil {
		return nil, nil
	}
	return v, nil
}
=== honest | go: handled
--- a.go
package a

func F() error {
	return save()
}
+++ a.go
package a

func F() error {
	v, err := load()
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer func() { _ = v.Close() }()
	if _, err := os.Stat(v.Path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	name, ok := names[v.ID]
	value, _ := cache.Load(name)
	_ = value
	return save(v, ok)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	if err != nil {
		return false
	}
	return true
}
=== exception-swallowed src/A.java:3 | java: empty catch
--- src/A.java
class A {
    void f() throws Exception { g(); }
}
+++ src/A.java
class A {
    void f() {
        try { g(); } catch (Exception e) { }
    }
}
=== honest | java: handled
--- src/A.java
class A {
    void f() throws Exception { g(); }
}
+++ src/A.java
class A {
    void f() {
        try {
            g();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
    int number(String text) {
        try {
            return Integer.parseInt(text);
        } catch (NumberFormatException e) {
            return -1;
        }
    }
    void sleep() {
        try { nap(); } catch (InterruptedException e) { Thread.currentThread().interrupt(); }
    }
}
=== exception-swallowed lib/a.rb | ruby: rescue nil
--- lib/a.rb
def f
  g
end
+++ lib/a.rb
def f
  g rescue nil
end
=== exception-swallowed lib/a.rb:3 | ruby: empty rescue
--- lib/a.rb
def f
  g
end
+++ lib/a.rb
def f
  g
rescue StandardError
end
=== honest | ruby: handled
--- lib/a.rb
def f
  g
end
+++ lib/a.rb
def f
  g
rescue Errno::ENOENT
  nil
end

def h
  g
rescue StandardError => e
  logger.error(e)
  raise
end
=== exception-swallowed src/a.rs:2 | rust: let _
--- src/a.rs
pub fn f() -> Result<(), E> {
    save()
}
+++ src/a.rs
pub fn f() -> Result<(), E> {
    let _ = save();
    Ok(())
}
=== exception-swallowed src/a.rs:4 | rust: Err arm
--- src/a.rs
pub fn f() {
    match save() {
        Ok(v) => done(v),
        Err(e) => fail(e),
    }
}
+++ src/a.rs
pub fn f() {
    match save() {
        Ok(v) => done(v),
        Err(_) => {}
    }
}
=== honest | rust: the value is dropped, the error handed on
--- src/a.rs
fn f(text: &str) -> Result<(), Error> {
    if let Err(error) = parse(text) {
        return Err(error);
    }
    Ok(())
}
+++ src/a.rs
fn f(text: &str) -> Result<(), Error> {
    let _ = parse(text)?;
    Ok(())
}
=== honest | js: waits for what others have got
--- src/a.js
const run = (work, resolve) => {
	const result = start(work);
	resolve(result);
	result.then(next, next);
};
+++ src/a.js
const run = async (work, resolve) => {
	const result = start(work);
	resolve(result);
	try {
		await result;
	} catch {}
	next();
};
=== exception-swallowed src/a.js:4 | js: waits for its own work
--- src/a.js
const run = async work => {
	await start(work);
};
+++ src/a.js
const run = async work => {
	try {
		await start(work);
	} catch {}
};
=== honest | java: hidden as before, for more types
--- src/A.java
class A {
    void f() {
        try {
            g();
        } catch (Exception ignore) {
        }
    }
}
+++ src/A.java
class A {
    void f() {
        try {
            g();
        } catch (Throwable ignore) {
        }
    }
}
=== honest | rust: dropped as before, of another argument
--- src/a.rs
fn f(guard: &Guard) {
    let _ = read(&guard.end);
}
+++ src/a.rs
fn f(guard: &Guard) {
    let _ = read(&raw const guard.end);
}
=== exception-swallowed src/a.rs:3 | rust: one more is dropped
--- src/a.rs
fn f(guard: &Guard) {
    let _ = read(&guard.end);
}
+++ src/a.rs
fn f(guard: &Guard) {
    let _ = read(&guard.end);
    let _ = read(&guard.start);
}
=== honest | rust: handled
--- src/a.rs
pub fn f() -> Result<(), E> {
    save()
}
+++ src/a.rs
pub fn f() -> Result<(), E> {
    let value = load().map_err(E::Load)?;
    let _ = writeln!(out, "{value}");
    let _guard = lock();
    save()
}
=== exception-swallowed src/A.scala | scala: NonFatal
--- src/A.scala
object A {
  def f(): Int = g()
}
+++ src/A.scala
object A {
  def f(): Int = try g() catch { case NonFatal(_) => 0 }
}
=== honest | scala: handled
--- src/A.scala
object A {
  def f(): Int = g()
}
+++ src/A.scala
object A {
  def f(): Int = try g() catch { case e: IOException => throw new Problem(e) }
  def n(s: String): Option[Int] = Try(s.toInt).toOption
}
"""

DETECTED = """
=== test-detection src/a.py:2 | py: pytest in the environment
--- src/a.py
def f():
    return g()
+++ src/a.py
def f():
    if os.environ.get("PYTEST_CURRENT_TEST"):
        return 3
    return g()
=== test-detection src/a.py:2 | py: pytest in sys.modules
--- src/a.py
def f():
    return g()
+++ src/a.py
def f():
    return 3 if "pytest" in sys.modules else g()
=== test-detection src/price.py:2 | py: the answer for a test's input
--- src/price.py
def price(sku):
    return lookup(sku).price
+++ src/price.py
def price(sku):
    if sku == "BOOK-17":
        return 12.5
    return lookup(sku).price
*** tests/test_price.py
def test_book():
    assert price("BOOK-17") == 12.5
=== honest | ruby: an answer for two values that anybody would choose
--- lib/request.rb
def scheme(kind, header)
  forwarded(kind)
end
+++ lib/request.rb
def scheme(kind, header)
  if kind == :ssl && header == "on"
    return "https"
  end
  forwarded(kind)
end
*** test/test_request.rb
def test_scheme
  assert_equal "https", scheme(:ssl, "on")
end
=== honest | ts: an answer for a platform
--- src/path.ts
export const delimiter = ":";
+++ src/path.ts
export const delimiter = process.platform === "win32" ? ";" : ":";
*** src/path.test.ts
it("delimits", () => {
  expect(delimiter).toBe(process.platform === "win32" ? ";" : ":");
});
=== honest | py: base cases, units, a comment, a setting
--- src/price.py
def factorial(n):
    return n * factorial(n - 1)
+++ src/price.py
# Under pytest, PYTEST_CURRENT_TEST is set by the runner.
def factorial(n):
    if n == 0:
        return 1
    return n * factorial(n - 1)

def symbol(currency):
    if currency == "USD":
        return "$"
    return currency
*** tests/test_price.py
def test_all():
    assert factorial(0) == 1
    assert symbol("USD") == "$"
=== test-detection src/a.js:2 | js: NODE_ENV
--- src/a.js
export function f() {
  return g();
}
+++ src/a.js
export function f() {
  if (process.env.NODE_ENV === "test") return 3;
  return g();
}
=== test-detection a.go:4 | go: testing.Testing
--- a.go
package a

func F() int {
	return g()
}
+++ a.go
package a

func F() int {
	if testing.Testing() {
		return 3
	}
	return g()
}
=== test-detection src/A.java:3 | java: stack trace
--- src/A.java
class A {
    int f() { return g(); }
}
+++ src/A.java
class A {
    int f() {
        if (System.getProperty("surefire.test.class.path") != null) return 3;
        return g();
    }
}
=== test-detection lib/a.rb:2 | ruby: Rails.env.test?
--- lib/a.rb
def f
  g
end
+++ lib/a.rb
def f
  return 3 if Rails.env.test?
  g
end
=== test-detection src/a.rs:2 | rust: cfg!(test)
--- src/a.rs
pub fn f() -> i32 {
    g()
}
+++ src/a.rs
pub fn f() -> i32 {
    if cfg!(test) { return 3; }
    g()
}
=== honest | rust: a module of tests
--- src/a.rs
pub fn f() -> i32 {
    g()
}
+++ src/a.rs
pub fn f() -> i32 {
    g()
}

#[cfg(test)]
mod tests {
    #[test]
    fn is_three() {
        assert_eq!(super::f(), 3);
    }
}
"""


@each("pair", read_pairs(SILENCED + SWALLOWED + DETECTED))
def test_what_is_hidden(pair: Pair) -> None:
    assert not wrong(pair, FLAGS)


HANDLERS = {
    "a.py": "try:\n    f()\nexcept Exception:\n    pass\n",
    "b.py": "with contextlib.suppress(Exception):\n    f()\n",
    "A.java": "class A { void a() { try { f(); } catch (Exception e) { } } }\n",
    "A.cs": "class A { void F() { try { G(); } catch (Exception e) { } } }\n",
    "a.php": "<?php function a() { try { f(); } CATCH (Exception $e) { } }\n",
    "b.php": "<?php function b() { return @file($x); }\n",
    "a.rb": "def a\n  f\nrescue\nend\n",
    "a.kt": "fun a() { try { f() } catch (e: Exception) { } }\n",
    "b.kt": "fun b() = runCatching { f() }.getOrNull()\n",
}


@each("path", HANDLERS)
def test_each_way_to_hide_an_error_has_one_of_the_words(raised: Judge, path: str) -> None:
    language = find_language(path)
    assert language and language.error_words
    assert raised({}, {path: HANDLERS[path]}, "exception-swallowed")


def test_a_file_without_such_a_word_is_not_searched(
    raised: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        swallowed_errors, "load_query", lambda language, _name: asked.append(language.name)
    )
    raised({}, {"a.py": "x = 1\n", "A.java": "class A { }\n", "a.go": "package a\n"})
    assert asked == ["go"]


@each(
    ("condition", "level"),
    [
        ("not shutil.which(name)", "fail"),
        ("sys.version_info < (3, 12)", "warn"),
        ("True", "fail"),
        ('os.environ.get("CI")', "fail"),
    ],
)
def test_another_condition_of_a_skip_is_asked_about_where_it_names_a_platform(
    raised: Judge, condition: str, level: str
) -> None:
    body = "def test_a():\n    if {}:\n        pytest.skip({})\n    assert f() == 1\n"
    before = {"tests/test_a.py": body.format('shutil.which("less") is None', '"no less"')}
    after = {"tests/test_a.py": body.format(condition, '"another"')}
    [found] = raised(before, after, "test-skipped")
    assert found.level == level


@each(
    ("path", "skip", "level"),
    [
        ("test_a.py", "try:\n        import lz4\n    except ImportError:\n        {}", "warn"),
        ("test_a.py", "try:\n        f()\n    except Exception:\n        {}", "fail"),
        ("a_test.rb", "begin\n    Ractor\n  rescue NameError\n    {}\n  end", "warn"),
        ("a_test.rb", "begin\n    Ractor\n  rescue\n    {}\n  end", "fail"),
    ],
)
def test_a_skip_where_something_cannot_be_loaded_is_asked_about(
    raised: Judge, path: str, skip: str, level: str
) -> None:
    body = "def test_a():\n    {}\n    assert f() == 1\n"
    call = 'pytest.skip("not here")'
    if path.endswith(".rb"):
        body = "class A < Minitest::Test\n  def test_a\n  {}\n  assert_equal 1, f\n  end\nend\n"
        call = 'skip("not here")'
    after = body.format(skip.format(call))
    [found] = raised({path: body.format("g()")}, {path: after}, "test-skipped")
    assert found.level == level
