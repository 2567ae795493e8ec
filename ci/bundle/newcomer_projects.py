"""The projects of ``try_newcomer.py``, and what the scripted model changes in them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SampleProject:
    """A project in the root file system ``base`` with Debian's ``packages`` (one string of names).

    ``build`` is what its author has run before, ``test`` the file that ``old`` is in, and ``new``
    what the model puts there instead.
    """

    name: str
    base: str
    packages: str
    files: Mapping[str, str]
    test: str
    old: str
    new: str
    build: str = ""

    @property
    def found(self) -> dict[str, Any]:
        """What Analyze says."""
        what, why = "Test the discount of total().", "It is never tested."
        selected = {"rank": 1, "files": [self.test], "description": what, "rationale": why}
        return {"candidates": [selected], "selected": selected}

    @property
    def blocks(self) -> str:
        """What Implement says."""
        change = f"<<<<<<< SEARCH\n{self.old}\n=======\n{self.new}\n>>>>>>> REPLACE"
        return f"{self.test}\n```\n{change}\n```\n"


_PLAIN = "    def test_plain(self):\n        self.assertEqual(total([1, 2]), 3)"
_DISCOUNT = "    def test_discount(self):\n        self.assertEqual(total([10], 50), 5)"
_PYTHON = {
    "Makefile": "test:\n\tpython3 -m unittest -q\n",
    "shop.py": (
        "def total(prices, discount=0):\n"
        '    """Sum of prices less a discount in percent."""\n'
        "    return sum(prices) * (100 - discount) / 100\n"
    ),
    "test_shop.py": (
        "import unittest\n\nfrom shop import total\n\n\n"
        f"class TotalTest(unittest.TestCase):\n{_PLAIN}\n"
    ),
    ".gitignore": "__pycache__/\n",
}
_JOBS = "stages: [check]\nunit:\n  stage: check\n  image: python:3.12\n  script: [make test]\n"

_TESTED = "    void plain() {\n        assertEquals(3.0, Total.total(List.of(1.0, 2.0), 0));\n    }"
_TESTED_TOO = (
    "    @Test\n    void discount() {\n"
    "        assertEquals(5.0, Total.total(List.of(10.0), 50));\n    }"
)
_TEST_CLASS = "src/test/java/shop/TotalTest.java"
_JAVA = {
    "pom.xml": """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>acme</groupId>
  <artifactId>shop</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>21</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>5.11.3</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
  <build>
    <plugins>
      <plugin><artifactId>maven-surefire-plugin</artifactId><version>3.5.2</version></plugin>
    </plugins>
  </build>
</project>
""",
    "src/main/java/shop/Total.java": """\
package shop;

import java.util.List;

public final class Total {
    private Total() {}

    public static double total(List<Double> prices, int discount) {
        double sum = 0;
        for (double price : prices) {
            sum += price;
        }
        return sum * (100 - discount) / 100;
    }
}
""",
    _TEST_CLASS: f"""\
package shop;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;

class TotalTest {{
    @Test
{_TESTED}
}}
""",
    ".gitignore": "target/\n",
    ".gitlab-ci.yml": "test:\n  image: maven:3-eclipse-temurin-21\n  script: [mvn test]\n",
}
_SMALL = ("test_shop.py", _PLAIN, f"{_PLAIN}\n\n{_DISCOUNT}")
PROJECTS = {
    each.name: each
    for each in (
        SampleProject("debian", "trixie", "make python3", _PYTHON, *_SMALL),
        SampleProject(
            "ubuntu", "noble", "make python3", {**_PYTHON, ".gitlab-ci.yml": _JOBS}, *_SMALL
        ),
        SampleProject(
            "maven",
            "trixie",
            "maven default-jdk-headless",
            _JAVA,
            _TEST_CLASS,
            _TESTED,
            f"{_TESTED}\n\n{_TESTED_TOO}",
            "mvn -B -q test",
        ),
    )
}
"""Debian's has no pipeline yet; Maven's image has neither Python nor git."""
