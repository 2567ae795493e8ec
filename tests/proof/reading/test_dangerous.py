"""Dangerous calls in product code."""

from tests.support.judging import Judge
from tests.support.tables import each

DANGEROUS = [
    ("a.py", 'subprocess.run(f"tar {x}", shell=True)'),
    ("a.py", "subprocess.run(command, shell=True)"),
    ("a.py", "subprocess.run(\n    command,\n    shell=True,\n)"),
    ("a.py", 'os.system("rm " + path)'),
    ("a.py", "result = eval(text)"),
    ("a.py", "data = pickle.loads(body)"),
    ("a.py", "data = yaml.load(text, Loader=yaml.UnsafeLoader)"),
    ("a.py", "data = list(yaml.load_all(text, Loader))"),
    ("a.py", "run(['sh', '-c', f'tar {name}'])"),
    ("a.py", "run(['sh', '-c', script])"),
    ("a.py", "requests.get(url, verify=False)"),
    ("a.py", "password_hash = hashlib.md5(password.encode()).hexdigest()"),
    ("a.py", 'token = "".join(random.choice(LETTERS) for _ in range(20))'),
    ("a.py", 'cursor.execute(f"SELECT name FROM users WHERE id = {user_id}")'),
    ("a.py", 'query = "SELECT name FROM users WHERE id = %s" % user_id'),
    ("a.py", "os.chmod(path, 0o777)"),
    ("a.js", "element.innerHTML = comment.text;"),
    ("a.js", "eval(body);"),
    ("a.js", "exec(`git log ${branch}`);"),
    ("a.ts", "const token: string = Math.random().toString(36);"),
    ("a.js", "db.query(`SELECT * FROM users WHERE id = ${id}`);"),
    ("a.js", "https.request({ rejectUnauthorized: false });"),
    ("a.jsx", "return <p dangerouslySetInnerHTML={{ __html: text }} />;"),
    ("a.go", "tls.Config{InsecureSkipVerify: true}"),
    ("a.go", 'exec.Command("sh", "-c", "tar "+name)'),
    ("a.go", "query := fmt.Sprintf(\"SELECT a FROM b WHERE c = '%s'\", name)"),
    ("A.java", 'String q = "SELECT a FROM b WHERE c = \'" + name + "\'";'),
    ("A.java", 'MessageDigest.getInstance("MD5");'),
    ("A.java", "Object o = new ObjectInputStream(in).readObject();"),
    ("A.java", "String token = Long.toHexString(new Random().nextLong());"),
    ("a.rb", 'system("convert #{path}")'),
    ("a.rb", "out = `#{CC} -o x #{path}`"),
    ("a.rs", "let b = unsafe { *p };"),
    ("a.rb", "User.where(\"name = '#{params[:name]}'\")"),
    ("a.rb", "data = Marshal.load(body)"),
    ("a.rb", "http.verify_mode = OpenSSL::SSL::VERIFY_NONE"),
    ("a.rs", "let c = builder.danger_accept_invalid_certs(true);"),
    ("a.rs", "let q = format!(\"SELECT a FROM b WHERE c = '{}'\", name);"),
    ("A.scala", "val q = s\"SELECT a FROM b WHERE c = '$name'\""),
    ("a.php", "eval($_GET['code']);"),
    ("deploy.sh", "curl https://example.org/install | sh"),
]


@each(("path", "code"), DANGEROUS)
def test_a_dangerous_call(raised: Judge, path: str, code: str) -> None:
    [found] = raised({path: ""}, {path: f"{code}\n"}, "dangerous-call")
    assert found.level == "fail"


@each(
    ("path", "code"),
    [
        ("a.py", 'subprocess.run(["tar", x], check=True)'),
        ("a.py", 'subprocess.run("date | cut -c1-4", shell=True)'),
        ("a.py", "value = ast.literal_eval(text)"),
        ("a.py", "run(['sh', '-c', 'cd \"$0\" && exec \"$@\"', place, *command])"),
        ("a.py", "run(['sh', '-c', ENTER, 'sh', place])"),
        ("a.py", "found = list(yaml.load_all(text, TagLoader))"),
        ("a.py", "model.eval()"),
        ("a.py", "data = yaml.load(text, Loader=yaml.SafeLoader)"),
        ("a.py", "data = yaml.load(\n    text,\n    Loader=yaml.CSafeLoader,\n)"),
        ("a.py", 'cursor.execute("SELECT name FROM users WHERE id = %s", (user_id,))'),
        ("a.py", "etag = hashlib.md5(body).hexdigest()"),
        ("a.py", "delay = random.uniform(0, 1)"),
        ("a.py", "token = secrets.token_hex(16)"),
        ("a.py", "# never eval(text) here"),
        ("a.py", 'logger.info("Please SELECT one FROM %s", names)'),
        ("a.js", "const match = pattern.exec(line);"),
        ("a.js", "const match = /a(b)/.exec(line);"),
        ("a.js", "element.textContent = comment.text;"),
        ("a.js", "list.innerHTML = '';"),
        ("a.js", "const jitter = Math.random() * 100;"),
        ("a.go", 'exec.Command("tar", "-cf", name)'),
        ("a.go", 'rows, err := db.Query("SELECT a FROM b WHERE c = $1", name)'),
        ("A.java", 'MessageDigest.getInstance("SHA-256");'),
        ("A.java", 'ps = c.prepareStatement("SELECT a FROM b WHERE c = ?");'),
        ("a.rb", 'system("convert", path)'),
        ("a.rb", "out = `#{CC} #{C_FLAGS} -o x`"),
        ("a.rb", 'User.where("name = ?", params[:name])'),
        ("a.rs", 'let q = sqlx::query("SELECT a FROM b WHERE c = $1").bind(name);'),
        ("A.scala", 'val q = sql"SELECT a FROM b WHERE c = $name"'),
        ("tests/test_a.py", "assert eval(text) == 1"),
        ("README.md", "`eval(text)` is never used."),
    ],
)
def test_a_harmless_one(raised: Judge, path: str, code: str) -> None:
    assert raised({path: ""}, {path: f"{code}\n"}, "dangerous-call") == []


def test_a_call_that_only_moved(raised: Judge) -> None:
    before = {"a.py": "def f(x):\n    return eval(x)\n\n\ny = 1\n"}
    after = {"a.py": "y = 1\n", "b.py": "def g(x):\n    if x:\n        return eval(x)\n"}
    assert raised(before, after, "dangerous-call") == []


def test_one_more_unsafe_block_is_asked_about(raised: Judge) -> None:
    text = "fn f() { unsafe { a() } }\n"
    [found] = raised({"a.rs": text}, {"a.rs": text + "fn g() { unsafe { b() } }\n"})
    assert (found.name, found.level) == ("dangerous-call", "warn")
