"""The environment of a project's tests: by its own jobs, else by its build files."""

import yaml

from gitlab_nightshift.onboarding.found_project import FoundEnvironment, find_environment
from gitlab_nightshift.proof.implied_commands import RepositoryFiles
from tests.support.tables import each


def find(config: dict[str, object], *files: str) -> FoundEnvironment:
    return find_environment(config, RepositoryFiles(files, lambda _name: None), ("make test",))


def test_the_job_of_the_tests_gives_the_environment() -> None:
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
    environment = find(jobs, "setup.py")
    assert (environment.image, environment.stage) == ("python:3.12", "check")
    assert environment.prepare == ("!reference [unit, before_script]",)
    assert environment.reasons == (("image", "as in your job unit"),)


@each(
    ("command", "line", "is_same"),
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
def test_a_job_with_the_same_runner_gives_the_environment(
    command: str, line: str, is_same: bool
) -> None:
    jobs = {"a": {"image": "a", "script": "true"}, "b": {"image": "b", "script": ["true", line]}}
    environment = find_environment(jobs, RepositoryFiles((), lambda _name: None), (command,))
    assert environment.image == ("b" if is_same else "")


def test_any_job_can_be_referred_to() -> None:
    job = {"script": ["make test"], "before_script": ["x"]}
    [reference] = find({"unit, slow: [a]": job}).prepare
    events = yaml.parse(f"- {reference}", yaml.SafeLoader)
    assert [each.value for each in events if isinstance(each, yaml.ScalarEvent)] == [
        "unit, slow: [a]",
        "before_script",
    ]


def test_without_such_a_job_defaults_and_build_files_decide() -> None:
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
