"""What assertions demand, and how strongly, in the words of each library."""

from gitlab_nightshift.verdict.syntax.assertion_words import (
    CLOSE,
    EXACT,
    PARTIAL,
    PRESENT,
    TRUTHY,
    TYPE,
)
from gitlab_nightshift.verdict.syntax.assertions import list_assertions
from gitlab_nightshift.verdict.syntax.file_side import Side
from tests.support.tables import each

WRAPPED = {
    "py": ("test_a.py", "def test_a():\n    %s\n"),
    "ts": ("a.test.ts", 'it("a", async () => {\n%s\n});'),
    "go": ("a_test.go", "package a\nfunc TestA(t *testing.T) {\n%s\n}\n"),
    "java": ("ATest.java", "class ATest { @Test void a() {\n%s\n} }"),
    "rb": ("a_spec.rb", 'it "a" do\n%s\nend\n'),
    "rs": ("a.rs", "#[test]\nfn a() {\n%s\n}\n"),
    "scala": ("ASpec.scala", 'class ASpec { test("a") {\n%s\n} }'),
    "cs": ("ATests.cs", "class ATests { [Fact] void A() {\n%s\n} }"),
    "kt": ("ATest.kt", "class ATest { @Test fun a() {\n%s\n} }"),
}
RANKS = [
    ("py", "assert f(x) == 3", EXACT),
    ("py", "assert f(x) == pytest.approx(3)", CLOSE),
    ("py", "assert len(f(x)) == 3", PARTIAL),
    ("py", "assert 3 in f(x)", PARTIAL),
    ("py", "assert isinstance(f(x), int)", TYPE),
    ("py", "assert f(x)", TRUTHY),
    ("py", "assert f(x) is not None", PRESENT),
    ("py", "assert f(x) is None", EXACT),
    ("py", "self.assertAlmostEqual(f(x), 3)", CLOSE),
    ("py", "mock.assert_called_once_with(3)", EXACT),
    ("ts", "expect(f(x)).toEqual(3);", EXACT),
    ("ts", "expect(f(x)).toBeCloseTo(3);", CLOSE),
    ("ts", "expect(f(x)).toContain(3);", PARTIAL),
    ("ts", "expect(f(x)).toBeInstanceOf(Number);", TYPE),
    ("ts", "expect(f(x)).to.be.true;", TRUTHY),
    ("ts", "expect(f(x)).toBeDefined();", PRESENT),
    ("ts", "expect(f(x)).not.toBeNull();", PRESENT),
    ("ts", "await expect(f(x)).rejects.toThrow('no');", EXACT),
    ("ts", "expect(() => f(x)).toThrow(TypeError);", CLOSE),
    ("ts", "expect(() => f(x)).toThrow();", TRUTHY),
    ("ts", "assert.deepStrictEqual(f(x), [3]);", EXACT),
    ("go", 'if f(x) != 3 { t.Error("no") }', EXACT),
    ("go", "if err != nil { t.Fatal(err) }", TRUTHY),
    ("go", "require.NoError(t, err)", TRUTHY),
    ("go", "assert.Equal(t, 3, f(x))", EXACT),
    ("go", "assert.InDelta(t, 3, f(x), 0.1)", CLOSE),
    ("go", "require.ErrorIs(t, err, ErrNo)", EXACT),
    ("java", "assertEquals(3, f(x));", EXACT),
    ("java", "assertEquals(3.0, f(x), 0.1);", CLOSE),
    ("java", 'assertEquals("no " + x, 3, f(x));', EXACT),
    ("java", 'assertEquals("no", f(x), "no");', EXACT),
    ("java", 'assertTrue("no", f(x) > 3);', PARTIAL),
    ("java", 'assertTrue(f(x) > 3, "no");', PARTIAL),
    ("java", 'assertTrue("no", "a".equals(f(x)));', EXACT),
    ("java", 'assertNotNull("no", f(x));', PRESENT),
    ("java", "assertThat(f(x)).isEqualTo(3);", EXACT),
    ("java", "assertThat(f(x), is(not(nullValue())));", PRESENT),
    ("java", "assertThrows(No.class, () -> f(x));", CLOSE),
    ("java", "assertThrows(Exception.class, () -> f(x));", TYPE),
    ("java", "verify(mail).send(any());", PARTIAL),
    ("rb", "expect(f(x)).to eq(3)", EXACT),
    ("rb", "expect(f(x)).to be_truthy", TRUTHY),
    ("rb", "expect(f(x)).not_to be_nil", PRESENT),
    ("rb", "expect { f(x) }.to raise_error(No)", CLOSE),
    ("rb", "assert_equal 3, f(x)", EXACT),
    ("rs", "assert_eq!(f(x), 3);", EXACT),
    ("rs", "assert!(f(x).is_ok());", TRUTHY),
    ("rs", "assert!(matches!(f(x), Err(No)));", CLOSE),
    ("scala", "f(x) shouldBe 3", EXACT),
    ("scala", "f(x) should contain (3)", PARTIAL),
    ("scala", "assertThrows[No] { f(x) }", CLOSE),
    ("cs", "Assert.Equal(3, F(x));", EXACT),
    ("cs", "F(x).Should().Be(3);", EXACT),
    ("cs", "Assert.NotNull(F(x));", PRESENT),
    ("kt", "assertEquals(3, f(x))", EXACT),
    ("kt", "f(x) shouldBe 3", EXACT),
]


@each(("language", "code", "rank"), RANKS)
def test_rank(language: str, code: str, rank: int) -> None:
    path, wrapping = WRAPPED[language]
    side = Side(path, (wrapping % code).encode())
    test = side.tests[0]
    assert test.body
    assert [a.rank for a in list_assertions(test.body, test.language)] == [rank]


@each(
    ("language", "code"),
    [
        ("py", "print(f(x))"),
        ("ts", "console.log(f(x)); expect.assertions(1);"),
        ("go", 't.Log(f(x)); fmt.Errorf("no")'),
        ("java", "System.out.println(f(x));"),
        ("rb", "puts f(x)"),
        ("rs", 'println!("{}", f(x)); let y = f(x).unwrap();'),
    ],
)
def test_nothing_is_demanded(language: str, code: str) -> None:
    path, wrapping = WRAPPED[language]
    test = Side(path, (wrapping % code).encode()).tests[0]
    assert test.body
    assert not list_assertions(test.body, test.language)
