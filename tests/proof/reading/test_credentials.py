"""Credentials in product code, and what only looks like one."""

from gitlab_nightshift.proof.reading import judge
from gitlab_nightshift.proof.reviewed_change import Context
from gitlab_nightshift.settings.model import Settings
from tests.support.pairs import change_of
from tests.support.tables import each

FOUND = r"""
src/main/java/org/example/Database.java|    static final String DB_PASSWORD = "rW8#kLq2vZ5!tNx9";
src/main/kotlin/com/example/App.kt|val apiKey = "aZ3kLm9QwErT5yUiOp7s"
src/main/resources/com/example/a.properties|db.password=hV7pQz2sXe9t
A.java|return DriverManager.getConnection(URL, "pay", "rW8#kLq2vZ5!tNx9");
a.py|auth = HTTPBasicAuth("ada", "rW8#kLq2vZ5")
a.go|request.SetBasicAuth("ada", "rW8#kLq2vZ5")
A.java|config.setPassword("rW8#kLq2vZ5");
chart/templates/db.yaml|  password: hV7pQz2sXe9t
a.py|client.login("ada@shop.io", "hV7pQz2sXe9t")
A.cs|var connectionString = "Server=db;User Id=sa;Password=hV7pQz2sXe9t!";
A.scala|val password = "hV7pQz2s#9t"
"""
HONEST = r"""
src/main/java/org/example/Db.java|  String DB_PASSWORD = System.getenv("DB_PASSWORD");
A.java|return DriverManager.getConnection(URL, "pay", System.getenv("PW"));
A.java|return DriverManager.getConnection("jdbc:h2:mem:test", "sa", "");
examples/app.py|PASSWORD = "Tr0ub4dor&3"
config/settings.example.py|PASSWORD = "Tr0ub4dor&3"
tests/fixtures/keys.json|{"api_key": "9f8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d"}
spec/login_spec.rb|let(:password) { "Tr0ub4dor&3" }
src/test/java/AuthTest.java|private static final String PASSWORD = "Tr0ub4dor&3";
tests/test_a.py|TOKEN = "GLPATaaaaaaaaaaaaaaaaaaaa"
a.py|connect("localhost", "shop", "shopping_cart")
a.py|emit.connect("changed", "on-change")
a.py|PASSWORD_MIN = "at least 12"
a.ts|const tokenType = "Bearer";
a.ts|passwordLabel: "Password (8 to 20 characters)",
a.py|secret = vault.read("kv/shop/db-2024")
a.yml|    secretKeyRef: shop-db-1
a.py|login("Sign in with GitHub", "login-button-2")
a.tf|password = var.db_password
a.rb|password = Rails.application.credentials.dig(:db, :password)
"""


def _raised(row: str, flag: str) -> list[int]:
    """The lines of the findings of a row: a path, a bar, and lines of code with ¶ between them."""
    path, _, code = row.partition("|")
    change = change_of({path: ""}, {path: code.replace("¶", "\n") + "\n"})
    return [found.line for found in judge(change, Context(Settings())) if found.name == flag]


@each("row", FOUND.strip().split("\n"))
def test_found(row: str) -> None:
    assert len(_raised(row, "secret-added")) == 1


@each("row", HONEST.strip().split("\n"))
def test_honest(row: str) -> None:
    assert _raised(row, "secret-added") == []
