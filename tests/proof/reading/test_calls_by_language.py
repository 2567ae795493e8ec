"""Dangerous calls and their harmless neighbours, language by language."""

from gitlab_nightshift.proof.reading import judge
from gitlab_nightshift.proof.reviewed_change import Context
from gitlab_nightshift.settings.model import Settings
from tests.support.pairs import change_of
from tests.support.tables import each

FOUND = r"""
A.java|rows = s.executeQuery("select sum(cents) from payments where who = '" + who + "'");
A.java|String q = "delete from users where id = " + id;
A.java|String q = String.format("select * from users where name = '%s'", name);
a.py|cursor.execute("update users set name = '" + name + "'")
a.py|cursor.execute(f"select name from users where id = {user_id}")
a.js|db.query("insert into users values ('" + name + "')");
a.go|rows, err := db.Query("select id from b where c = '" + name + "'")
A.cs|var cmd = new SqlCommand($"select id from b where c = '{name}'", connection);
A.kt|val rows = db.query("select id from b where c = '$name'")
a.rb|db.execute("select * from accounts where email = '#{email}'")
a.rb|`report --format #{format} #{name}`
a.rb|out = `report #{name}`
a.rb|out = %x(report #{name})
a.rb|system("tar -cf #{path}.tar #{folder}")
a.rb|system("tar -cf #{path}.tar", exception: true)
a.rb|system("tar " + name)
a.rb|spawn("tar #{opts[:name]}")
a.rb|Open3.capture2("report #{name}")
a.rb|system("sh", "-c", "tar #{name}")
a.py|subprocess.run(["sh", "-c", f"tar {name}"])
a.py|subprocess.run(["bash", "-c", command], check=True)
a.js|spawn("sh", ["-c", `tar ${name}`]);
a.js|execFile("/bin/bash", ["-c", command]);
A.java|new ProcessBuilder("sh", "-c", "tar " + name).start();
A.java|Runtime.getRuntime().exec("tar " + name);
A.java|Runtime.getRuntime().exec(new String[] {"sh", "-c", "tar " + name});
A.java|public void checkServerTrusted(X509Certificate[] c, String t) { return; }
A.java|connection.setHostnameVerifier((host, session) -> true);
A.java|HostnameVerifier all = (host, session) -> true;
A.java|builder.hostnameVerifier((h, s) -> true);
A.java|context.loadTrustMaterial(null, (chain, type) -> true);
A.kt|client.hostnameVerifier { _, _ -> true }
A.kt|override fun checkServerTrusted(c: Array<X509Certificate>, t: String) {}
A.java|public boolean verify(String host, SSLSession session) { return true; }
A.scala|val out = s"tar -cf $name".!!
a.py|data = yaml.load(text)  # Safe
a.py|if ok: eval(text)
a.php|<?php¶shell_exec("tar " . $name);
a.php|<?php¶$rows = $db->query("select id from b where c = '$name'");
a.go|import "math/rand"¶token := fmt.Sprint(rand.Int63())
a.js|const sessionId = Math.random().toString(36);
a.js|node.insertAdjacentHTML("beforeend", text);
A.cs|Process.Start("cmd.exe", "/c " + name);
A.cs|handler.ServerCertificateCustomValidationCallback = (a, b, c, d) => true;
a.rs|Command::new("sh").arg("-c").arg(format!("tar {}", name))
A.java|byte[] passwordCache(String p) {¶    return MessageDigest.getInstance("MD5");¶}
a.py|def f(x):¶    '''Runs.'''¶    return eval(x)
a.py|text = f"{eval(x)}"
a.js|const s = `${eval(x)}`;
a.rb|s = "#{eval(x)}"
a.vue|<p v-html="text"></p>
a.js|process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0";
a.js|res.setHeader("Access-Control-Allow-Origin", "*");
a.py|os.system("chmod 777 /srv")
a.py|run("curl https://x.org/a | sh")
A.scala|val s = s"${new ObjectInputStream(in).readObject()}"
A.java|String sql = "SELECT a FROM t WHERE b = '" +¶    name + "'";
A.java|String sql = "SELECT a "¶    + "FROM t WHERE b = '" + name + "'";
a.go|q := "SELECT a FROM " + tableName + " WHERE b = '" + name + "'"
a.js|const q = 'select name from users where id = ' + id;
a.js|const q = "select name from users where id = '" + id + "'";
a.js|element.innerHTML = "<b>" + name + "</b>";
a.js|element.innerHTML = text;
a.js|element.innerHTML = `<b>${text}</b>`;
a.ts|element.innerHTML += render(text);
"""
HONEST = r"""
a.rb|system("tar", "-cf", "#{path}.tar", folder)
a.rb|system("tar", "-cf", "#{@path}.tar", "--", folder, exception: true)
a.rb|system("#{bin}/tar", "-cf", path)
a.rb|spawn({ "A" => "1" }, "tar", "#{path}.tar")
a.rb|Open3.capture2("report", "--name=#{name}")
a.rb|IO.popen(["tar", "#{path}.tar"]) { ¶io¶ io.read }
a.rb|raise ArgumentError, "unknown method `#{name}' for `#{self}`"
a.rb|logger.info("the system \"#{name}\" is up")
a.py|subprocess.run(["git", "log", f"--author={name}"], check=True)
a.py|subprocess.run(["sh", "-c", "date | cut -c1-4"], check=True)
a.py|subprocess.run([sys.executable, "-c", code], check=True)
a.py|subprocess.Popen(["tar", "-cf", f"{name}.tar"], shell=False)
a.js|execFile("git", ["log", `--author=${name}`], callback);
a.js|spawn("tar", ["-cf", `${name}.tar`]);
a.js|const m = re.exec(text);
a.js|const m = LINK_PATTERN.exec(text);
a.js|await User.find({ name }).exec();
a.js|promise.then(() => query.exec(done));
a.go|cmd := exec.Command("git", "log", "--author="+name)
a.go|cmd := exec.CommandContext(ctx, bin, "-c", name)
A.java|Runtime.getRuntime().exec(new String[] {"tar", name});
A.java|new ProcessBuilder("tar", "-cf", name + ".tar").start();
A.java|ps = c.prepareStatement("select id from b where c = ?");
A.java|static final String SQL = "SELECT a FROM b " + "WHERE c = ?";
A.java|String sql = "SELECT a, b FROM t WHERE c = ? " + "ORDER BY a";
A.java|String text = "Update " + name + " set by " + user;
A.java|log.info("select one from " + names);
A.scala|val out = Seq("tar", "-cf", s"$name.tar").!!
a.php|<?php¶$process = new Process(["tar", $name]);
a.php|<?php¶proc_open(["tar",$name], $spec, $pipes);
a.php|<?php¶$db->exec($schema);
a.php|<?php¶curl_exec($handle);
a.php|<?php¶assert($shape instanceof Shape);
a.php|<?php¶$rows = $db->prepare("SELECT a FROM b WHERE c = ?");
a.py|key = hashlib.md5(url.encode(), usedforsecurity=False).hexdigest()
a.py|cache_key = hashlib.md5(url.encode()).hexdigest()
a.py|delay = base * 2 ** attempt + random.random()
a.py|sample = random.sample(rows, 10)
a.js|const delay = base + Math.random() * 1000;
a.js|const colour = colours[Math.floor(Math.random() * colours.length)];
a.js|list.innerHTML = "";
a.js|list.innerHTML = '<li class="empty">Nothing here</li>';
a.js|list.replaceChildren();
a.py|data = yaml.safe_load(text)
a.py|requests.get(url, verify=ca_bundle, timeout=10)
a.py|requests.get(url, verify=True)
a.py|cursor.execute("SELECT a FROM b WHERE c = ?", (c,))
a.py|QUERY = "SELECT a FROM b WHERE c = %(c)s"
a.py|cursor.execute(f"SELECT a FROM {TABLE} WHERE c = ?", (c,))
a.py|cursor.execute(f"SELECT a FROM t WHERE c IN ({placeholders})", ids)
a.py|raise ValueError("never call eval(text) or os.system(text)")
a.py|x = 1  # not eval(text), it is too slow
a.py|message = f"Delete from {name}?"
a.py|print(f"select a file from {folder}")
a.py|help = "Runs exec(code) in a sandbox"
a.py|asyncio.run(main(), debug=True)
a.go|import "crypto/rand"
a.go|n, err := rand.Int(rand.Reader, max)
a.go|import "math/rand"
a.go|cmd := exec.Command("sh", "-c", "date | cut -c1-4")
a.js|const html = DOMPurify.sanitize(text); node.innerHTML = html;
A.java|int jitter = ThreadLocalRandom.current().nextInt(100);
A.java|private static final Random SHUFFLE = new Random(42);
A.java|/** Never uses Runtime.getRuntime().exec(command). */
A.java|throw new IllegalStateException("new ObjectInputStream(in) is not allowed");
a.rb|# `report #{name}` is run by hand
a.rb|x = 1 # as `a #{b}` does
a.rb|order = User.where(name: "#{first} #{last}")
a.rb|key = Digest::MD5.hexdigest(url)
a.rs|let out = Command::new("tar").arg("-cf").arg(format!("{}.tar", name)).output()?;
A.cs|Process.Start("notepad.exe", path);
A.cs|var etag = Convert.ToBase64String(MD5.Create().ComputeHash(body));
a.sh|chmod 755 "$file"
a.sh|curl -fsSL https://example.org/install.sh -o install.sh
a.py|def f(x):¶    '''Never use eval(text) here.'''¶    return x
a.py|parser.add_argument("--insecure", help="do not verify=False in production")
a.py|'''¶yaml.load(text) is not safe¶'''
a.js|/*¶   eval(text)¶*/
a.js|// never use innerHTML = text
a.js|throw new Error("Do not call eval(text)");
a.js|const sql = `SELECT ${COLUMNS} FROM t WHERE id = $1`;
a.js|element.innerHTML = "" + "";
a.js|const size = Math.random() * 10;
a.ts|if (element.innerHTML === text) return;
a.go|query := "SELECT a FROM " + tableName + " WHERE b = $1"
a.go|log.Printf("update %s set by %s", a, b)
A.java|String sql = "SELECT " + COLUMNS + " FROM t WHERE id = ?";
A.java|String sql = "select id from t" + " where id = ?";
A.java|String.format("SELECT %s FROM t", COLUMNS)
A.kt|val text = "Update $name from list"
A.scala|val out = "tar -cf a.tar b".!
a.rb|puts "`#{name}` is not known"
a.rb|system("make")
a.rb|system(*arguments)
a.rb|Open3.capture3("git", "log", "--author=#{name}", chdir: root)
a.rb|User.where("created_at > ?", time)
a.rs|// unsafe { } is not needed
a.rs|let q = format!("SELECT * FROM {TABLE} WHERE id = $1");
a.php|<?php¶$sql = "SELECT a FROM {$TABLE}";
a.py|ssl_context = ssl.create_default_context(cafile=bundle)
a.py|session.verify = settings.ca_bundle
a.py|hashlib.sha256(token.encode()).hexdigest()
a.py|colour = random.choice(COLOURS)
a.py|await asyncio.create_subprocess_exec("git", "log", f"--author={x}")
a.py|cursor.executemany("INSERT INTO t VALUES (?, ?)", rows)
a.py|session.execute(text("SELECT 1"))
a.py|session.execute(select(User).where(User.id == user_id))
a.py|conn.execute("SELECT a FROM t WHERE b = ?" + " ORDER BY a", (b,))
a.py|frame.query("a > 1")
a.py|frame.eval("c = a + b")
a.py|re.compile(f"SELECT {x}")
a.js|redis.multi().exec(callback);
a.go|err := template.Must(template.New("a").Parse(text)).Execute(w, data)
a.go|func jitter() time.Duration { return time.Duration(rand.Int63n(100)) }
A.java|SpelExpressionParser parser = new SpelExpressionParser();
A.java|Object row = mapper.readValue(text, Row.class);
A.cs|var json = JsonSerializer.Deserialize<Row>(text);
A.cs|var command = new SqlCommand("SELECT a FROM t WHERE b = @b", connection);
Dockerfile|RUN curl -fsSL https://example.org/key.gpg | gpg --dearmor
a.html|<div id="a"></div>
a.vue|<p>{{ text }}</p>
A.java|String cacheKey(String url) {¶    return hex(MessageDigest.getInstance("MD5"), url);¶}
a.py|def _cache_key(url):¶    return hashlib.md5(url.encode()).hexdigest()
a.go|func etag(b []byte) string {¶	return hex.EncodeToString(md5.New().Sum(b))¶}
"""


def _raised(row: str, flag: str) -> list[int]:
    """The lines of the findings of a row: a path, a bar, and lines of code with ¶ between them."""
    path, _, code = row.partition("|")
    change = change_of({path: ""}, {path: code.replace("¶", "\n") + "\n"})
    return [found.line for found in judge(change, Context(Settings())) if found.name == flag]


@each("row", FOUND.strip().split("\n"))
def test_found(row: str) -> None:
    assert len(_raised(row, "dangerous-call")) == 1


@each("row", HONEST.strip().split("\n"))
def test_honest(row: str) -> None:
    assert _raised(row, "dangerous-call") == []
