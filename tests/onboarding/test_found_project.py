"""Where a project's tests run: by its own jobs, else by its build files."""

import yaml

from gitlab_nightshift.onboarding.found_project import FoundEnvironment, find_environment
from gitlab_nightshift.proof.implied_commands import BuildFiles
from tests.support.tables import each


def find(config: dict[str, object], *files: str) -> FoundEnvironment:
    return find_environment(config, BuildFiles(files, lambda _name: None), ("make test",))


def test_the_job_that_runs_the_tests_says_where() -> None:
    jobs: dict[str, object] = {
        "stages": ["build", "check"],
        "build": {"image": "gcc", "script": ["make"], "stage": "build"},
        "unit": {
            "image": {"name": "python:3.12"},
            "script": ["make test"],
            "before_script": ["pip install x"],
            "stage": "check",
        },
    }
    found = find(jobs, "setup.py")
    assert (found.image, found.stage) == ("python:3.12", "check")
    assert found.prepare == ("!reference [unit, before_script]",)
    assert found.reasons == (("image", "as in your job unit"),)


@each(
    ("command", "line", "is_it"),
    [
        (".venv/bin/python -m pytest", "poetry run pytest -x --cov", True),
        ("python3 -m pytest", "pip install pytest", False),
        ("npm test", "npm run test:unit", True),
        ("npm test", "npm run build", False),
        ("mvn -B -o test", "./mvnw -B verify", True),
        ("mvn -B -o test", "mvn deploy", False),
        ("go test ./...", "go vet ./... && go build", False),
        ("make test", "make build", False),
        ("bundle exec rspec", "bundle exec rspec --format doc", True),
    ],
)
def test_a_job_that_starts_the_same_runner_says_where(command: str, line: str, is_it: bool) -> None:
    jobs = {"a": {"image": "a", "script": "true"}, "b": {"image": "b", "script": ["true", line]}}
    found = find_environment(jobs, BuildFiles((), lambda _name: None), (command,))
    assert found.image == ("b" if is_it else "")


def test_any_job_can_be_referred_to() -> None:
    job = {"script": ["make test"], "before_script": ["x"]}
    found = find({"unit, slow: [a]": job})
    events = yaml.parse(f"- {found.prepare[0]}", yaml.SafeLoader)
    assert [each.value for each in events if isinstance(each, yaml.ScalarEvent)] == [
        "unit, slow: [a]",
        "before_script",
    ]


def test_without_one_defaults_and_build_files_do() -> None:
    assert find({"default": {"image": "go:1"}}, "go.mod").image == "go:1"
    assert find({"image": "top"}).image == "top"
    java = find({}, "pom.xml")
    assert java.image.startswith("maven:") and java.fetch.startswith("mvn ")
    assert ("extra_before", "from pom.xml; not tried yet") in java.reasons
    both = find({}, "package-lock.json", "requirements.txt", "pyproject.toml")
    assert both.fetch == "npm ci && pip install -r requirements.txt"
    needs = "from requirements.txt; better: one that also has what package-lock.json needs"
    assert ("image", needs) in both.reasons
    assert find({}) == FoundEnvironment()
    assert find({"test": {"image": "x\n- evil", "script": []}}).image == ""
