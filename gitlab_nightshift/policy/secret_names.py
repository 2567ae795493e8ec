"""Names of files that hold secrets, as people and tools call them: no model is shown them."""

import re

from gitlab_nightshift.text.lazy_patterns import compile_lazily

_SECRET = compile_lazily(
    r"""
    (^|/)(
        (?P<variables>\.env(\.(?!(example|sample|template|dist|defaults)$)[^/]*)?)  # .env.local
      | (?P<shell>[^/]+\.env|\.envrc)                                 # prod.env
      | (?P<registry>\.npmrc|\.yarnrc\.yml|\.pypirc|\.dockercfg)      # home/.npmrc
      | (?P<login>[._]netrc|\.git-credentials|\.vault-token|\.htpasswd)  # .netrc
      | (?P<database>\.pgpass|\.my\.cnf)                              # .pgpass
      | (?P<ssh>id_(rsa|dsa|ecdsa|ed25519)[^/]*)                      # id_ed25519.old
      | (?P<key>[^/]*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg))  # tls/server.key
      | (?P<terraform>[^/]*\.(tfvars(\.json)?|tfstate(\.backup)?))    # prod.tfvars
      | (?P<named>credentials(\.[^/]*)?|secrets?(\.[^/]*)?)           # config/secrets.yml
      | (?P<cloud>service-?account[^/]*\.json|kubeconfig)             # service-account-1.json
    )$
    | (?P<folder>(^|/)(\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|secrets)/)  # .aws/config
    """,
    re.IGNORECASE | re.VERBOSE,
)
_INSTALLED = compile_lazily(
    r"(^|/)(node_modules|bower_components|site-packages|vendor|third[_-]?party|target|dist)/", re.I
)
_VARIABLES = ("variables", "shell")
"""The kinds that hold nothing but variables: ``.env`` and its kin."""


def is_secret(path: str) -> bool:
    """True for a file whose name says that it holds credentials."""
    return _SECRET.search(path) is not None


def is_installed(path: str) -> bool:
    """True for a file in a folder of dependencies or build products: they ship certificates and the
    like, which are nobody's secret."""
    return _INSTALLED.search(path) is not None


def holds_variables(path: str) -> bool:
    """True for ``.env`` and its kin."""
    found = _SECRET.search(path)
    return found is not None and any(found[kind] for kind in _VARIABLES)
