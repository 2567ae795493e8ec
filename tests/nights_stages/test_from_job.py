"""Publishing in a job of its own: the bundle comes by GitLab's API, and nothing with it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.records.storage import LARGEST_PATCH
from tests.support.opened import leave_verified
from tests.support.shop import GOOD
from tests.support.standin_records import PipelineJob
from tests.support.world import Done, World, world

JOB = "nightshift:work"
PIPELINE = 4711


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, GOOD) as made:
        yield made


def uploaded(shop: World, number: int, name: str = JOB, pipeline: int = PIPELINE) -> Path:
    """A job whose artifacts hold the nightshift/ that is in the checkout now."""
    kept = shop.folder / f"artifacts-{number}"
    shutil.copytree(shop.checkout / "nightshift", kept / "nightshift")
    shop.project.jobs.append(PipelineJob(number, pipeline, name, kept))
    return kept / "nightshift" / "bundle"


def small_bundle(shop: World) -> None:
    """A bundle that a job may have left, with nothing to publish."""
    assert shop.nightshift("run", "--category", "docs", NIGHTSHIFT_ENABLED="false").exit_status == 0


def publish(shop: World, **env: str) -> Done:
    jobs = ("--from-job", JOB, "--notary-job", JOB)
    return shop.nightshift("publish", *jobs, ANTHROPIC_API_KEY="", **env)


def test_the_newest_try_of_this_pipelines_job_is_published(shop: World) -> None:
    small_bundle(shop)
    uploaded(shop, 11)
    uploaded(shop, 99, pipeline=PIPELINE + 1)
    uploaded(shop, 98, name="nightshift:plan")
    leave_verified(shop)
    uploaded(shop, 12)
    shop.checked_out_anew()

    dry = publish(shop, NIGHTSHIFT_DRY_RUN="true")
    assert (dry.exit_status, dry.stderr) == (0, "")
    assert "a verified change is ready to be published" in dry.log
    assert shop.written == []

    done = publish(shop)
    assert (done.exit_status, done.stderr) == (0, "")
    [opened] = shop.merge_requests
    assert shop.result["mr_url"] == opened.web_url
    assert [bead["logs"] for bead in shop.result["beads"]] == [[]] * 4
    assert {"bundle/bundle.json", "bundle/change.patch"} <= set(shop.products())
    assert not any(name.startswith("logs/") for name in shop.products())
    shop.assert_restored()


def test_artifacts_that_cannot_be_published(shop: World) -> None:
    """Each reported in one line; links are not followed, too large files not read to the end."""
    not_there = publish(shop)
    assert not_there.stderr == f"nightshift: E_PUBLISH: pipeline 4711 has no job {JOB}\n"
    assert (shop.result["outcome"], shop.result["error_code"]) == ("FAILED", "E_PUBLISH")
    assert f"the job {JOB} left nothing" in shop.result["reason"]
    assert {"report.html", "junit.xml", "annotations.json"} <= set(shop.products())
    small_bundle(shop)
    failures = []
    for number, (spoil, (status, text)) in enumerate(SPOILT.items(), 11):
        spoil(uploaded(shop, number))
        done = publish(shop)
        said = done.stdout + done.stderr
        if done.exit_status != status or text not in done.stderr or "root:" in said:
            failures.append((spoil.__name__, done))
        if done.stderr.count("\n") != 1:
            failures.append((spoil.__name__, done))
    assert failures == []


def removed(bundle: Path) -> None:
    (bundle / "bundle.json").unlink()


def too_large(bundle: Path) -> None:
    (bundle / "change.patch").write_bytes(b"x" * (LARGEST_PATCH + 1))


def of_another_run(bundle: Path) -> None:
    file = bundle / "bundle.json"
    file.write_text(file.read_text().replace('"run_id": "4711"', '"run_id": "4710"'))


def a_link(bundle: Path) -> None:
    (bundle / "bundle.json").unlink()
    (bundle / "bundle.json").symlink_to("/etc/passwd")


SPOILT = {
    removed: (12, "404 to GET projects/"),
    too_large: (12, f"change.patch has more than {LARGEST_PATCH} bytes"),
    of_another_run: (12, "another pipeline's"),
    a_link: (10, ""),
}


def test_what_it_needs(shop: World) -> None:
    needed = {"GITLAB_TOKEN": "GITLAB_TOKEN is not set", "CI_PIPELINE_ID": "--from-job"}
    for name, text in needed.items():
        done = publish(shop, **{name: ""})
        assert (name, done.exit_status) == (name, 2)
        assert text in done.stderr
