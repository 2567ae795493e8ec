"""What assertions demand, in the notation of each library."""

from gitlab_nightshift.proof.syntax.assertions import list_assertions
from gitlab_nightshift.proof.syntax.file_side import Side
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
DEMANDS = [
    ("py", "assert f(x) == 3", True),
    ("py", "assert f(x) == pytest.approx(3)", True),
    ("py", "assert len(f(x)) == 3", True),
    ("py", "assert 3 in f(x)", False),
    ("py", "assert isinstance(f(x), int)", False),
    ("py", "assert f(x)", False),
    ("py", "assert f(x) is not None", False),
    ("py", "assert f(x) is None", False),
    ("py", "self.assertAlmostEqual(f(x), 3)", True),
    ("py", "mock.assert_called_once_with(3)", False),
    ("ts", "expect(f(x)).toEqual(3);", True),
    ("ts", "expect(f(x)).toBeCloseTo(3);", True),
    ("ts", "expect(f(x)).toContain(3);", False),
    ("ts", "expect(f(x)).toBeInstanceOf(Number);", False),
    ("ts", "expect(f(x)).to.be.true;", False),
    ("ts", "expect(f(x)).toBeDefined();", False),
    ("ts", "expect(f(x)).not.toBeNull();", False),
    ("ts", "await expect(f(x)).rejects.toThrow('no');", False),
    ("ts", "expect(() => f(x)).toThrow(TypeError);", False),
    ("ts", "expect(() => f(x)).toThrow();", False),
    ("ts", "assert.deepStrictEqual(f(x), [3]);", True),
    ("go", 'if f(x) != 3 { t.Error("no") }', True),
    ("go", "if err != nil { t.Fatal(err) }", False),
    ("go", "require.NoError(t, err)", False),
    ("go", "assert.Equal(t, 3, f(x))", True),
    ("go", "assert.InDelta(t, 3, f(x), 0.1)", True),
    ("go", "require.ErrorIs(t, err, ErrNo)", True),
    ("java", "assertEquals(3, f(x));", True),
    ("java", "assertEquals(3.0, f(x), 0.1);", True),
    ("java", 'assertEquals("no " + x, 3, f(x));', True),
    ("java", 'assertEquals("no", f(x), "no");', True),
    ("java", 'assertTrue("no", f(x) > 3);', False),
    ("java", 'assertTrue(f(x) > 3, "no");', False),
    ("java", 'assertFalse("no", "a".equals(f(x)));', False),
    ("java", 'assertNotNull("no", f(x));', False),
    ("java", "assertThat(f(x)).isEqualTo(3);", True),
    ("java", "assertThat(f(x), is(not(nullValue())));", False),
    ("java", "assertThrows(No.class, () -> f(x));", False),
    ("java", "assertThrows(Exception.class, () -> f(x));", False),
    ("java", "verify(mail).send(any());", False),
    ("rb", "expect(f(x)).to eq(3)", True),
    ("rb", "expect(f(x)).to be_truthy", False),
    ("rb", "expect(f(x)).not_to be_nil", False),
    ("rb", "expect { f(x) }.to raise_error(No)", False),
    ("rb", "assert_equal 3, f(x)", True),
    ("rs", "assert_eq!(f(x), 3);", True),
    ("rs", "assert!(f(x).is_ok());", False),
    ("rs", "assert!(matches!(f(x), Err(No)));", False),
    ("scala", "f(x) shouldBe 3", True),
    ("scala", "f(x) should contain (3)", False),
    ("scala", "assertThrows[No] { f(x) }", False),
    ("cs", "Assert.Equal(3, F(x));", True),
    ("cs", "F(x).Should().Be(3);", True),
    ("cs", "Assert.NotNull(F(x));", False),
    ("kt", "assertEquals(3, f(x))", True),
    ("kt", "f(x) shouldBe 3", True),
]


@each(("language", "code", "compares"), DEMANDS)
def test_an_assertion_is_exact_or_not(language: str, code: str, compares: bool) -> None:
    path, wrapping = WRAPPED[language]
    side = Side(path, (wrapping % code).encode())
    test = side.tests[0]
    assert test.body
    assert [a.is_exact for a in list_assertions(test.body, test.language)] == [compares]


@each(
    ("language", "code", "negated"),
    [
        ("py", "assert f(x) == True", False),
        ("py", "assert f(x) != False", False),
        ("py", "assert f(x) == False", True),
        ("py", "assert f(x) != True", True),
        ("py", "assert not f(x) == False", False),
    ],
)
def test_a_comparison_with_false_demands_the_opposite(
    language: str, code: str, negated: bool
) -> None:
    path, wrapping = WRAPPED[language]
    test = Side(path, (wrapping % code).encode()).tests[0]
    assert test.body
    found = list_assertions(test.body, test.language)
    assert [(each.word, each.negated) for each in found] == [("true", negated)]


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
def test_code_without_assertions(language: str, code: str) -> None:
    path, wrapping = WRAPPED[language]
    test = Side(path, (wrapping % code).encode()).tests[0]
    assert test.body
    assert not list_assertions(test.body, test.language)
