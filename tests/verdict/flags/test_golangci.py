"""golangci-lint 2 calls much otherwise than golangci-lint 1: to migrate loosens nothing."""

from tests.support.judging import Judge
from tests.support.tables import each

V1 = """\
run:
  timeout: 3m
linters:
  disable-all: true
  enable: [errcheck, gofmt, goimports, gosec, gosimple, stylecheck, staticcheck, gocyclo, typecheck]
linters-settings:
  gocyclo:
    min-complexity: 12
  goimports:
    local-prefixes: x
  govet:
    enable: [shadow]
issues:
  exclude-dirs: [gen]
  exclude-rules:
    - path: _test\\.go
      linters: [gosec]
"""
V2 = """\
version: "2"
run:
  timeout: 3m
linters:
  default: none
  enable: [errcheck, gosec, staticcheck, gocyclo]
  settings:
    gocyclo:
      min-complexity: 12
    govet:
      enable: [shadow]
  exclusions:
    paths: [gen]
    rules:
      - path: _test\\.go
        linters: [gosec]
formatters:
  enable: [gofmt, goimports]
  settings:
    goimports:
      local-prefixes: [x]
  exclusions:
    paths: [gen]
"""


@each(
    ("old", "new", "said"),
    [
        ("", "", []),
        ("gofmt, ", "", ["linters.enable lost gofmt."]),
        ("errcheck, ", "", ["linters.enable lost errcheck."]),
        ("12", "40", ["linters.settings.gocyclo.min-complexity was raised from 12 to 40."]),
        ("paths: [gen]", "paths: [gen, old]", ["linters.exclusions.paths gained old."]),
    ],
)
def test_a_migration(raised: Judge, old: str, new: str, said: list[str]) -> None:
    assert old in V2
    found = raised({".golangci.yml": V1}, {".golangci.yml": V2.replace(old, new, 1)})
    assert [f.detail for f in found if f.name == "linter-loosened"] == said


def test_all_linters_were_on(raised: Judge) -> None:
    before = V1.replace("disable-all", "enable-all")
    (found,) = raised({".golangci.yml": before}, {".golangci.yml": V2})
    assert found.detail == "linters.default is none now (was all)."
