"""Publishing in a job of its own: the bundle comes by GitLab's API, and nothing with it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.demo.standin_state import PipelineJob
from gitlab_nightshift.publish.bundle import LARGEST_PATCH
from tests.support.shop import GOOD
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
    return shop.nightshift("publish", "--from-job", JOB, ANTHROPIC_API_KEY="", **env)


def test_the_newest_try_of_this_pipelines_job_is_published(shop: World) -> None:
    small_bundle(shop)
    uploaded(shop, 11)
    uploaded(shop, 99, pipeline=PIPELINE + 1)
    uploaded(shop, 98, name="nightshift:plan")
    assert shop.nightshift("run", "--dry-run").exit_status == 0
    uploaded(shop, 12)
    shop.checked_out_anew()

    dry = publish(shop, NIGHTSHIFT_DRY_RUN="true")
    assert (dry.exit_status, dry.stderr) == (0, "")
    assert "a verified change is ready to publish" in dry.log
    assert shop.written == []

    done = publish(shop)
    assert (done.exit_status, done.stderr) == (0, "")
    [opened] = shop.merge_requests
    assert shop.result["mr_url"] == opened.web_url
    assert [bead["logs"] for bead in shop.result["beads"]] == [[]] * 4
    assert {"bundle/bundle.json", "bundle/change.patch"} <= set(shop.products())
    assert not any(name.startswith("logs/") for name in shop.products())
    shop.assert_put_back()


def test_a_job_that_is_not_there(shop: World) -> None:
    assert (
        publish(shop).stderr == "nightshift: E_PUBLISH: pipeline 4711 has no job nightshift:work\n"
    )


def test_artifacts_that_are_not_there(shop: World) -> None:
    small_bundle(shop)
    (uploaded(shop, 11) / "bundle.json").unlink()
    done = publish(shop)
    assert done.exit_status == 12
    assert "404 to GET projects/" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_patch_that_is_too_large_is_not_read_to_the_end(shop: World) -> None:
    small_bundle(shop)
    (uploaded(shop, 11) / "change.patch").write_bytes(b"x" * (LARGEST_PATCH + 1))
    done = publish(shop)
    assert done.exit_status == 12
    assert f"change.patch has more than {LARGEST_PATCH} bytes" in done.stderr


def test_a_bundle_of_another_run(shop: World) -> None:
    small_bundle(shop)
    bundle = uploaded(shop, 11) / "bundle.json"
    bundle.write_text(bundle.read_text().replace('"run_id": "4711"', '"run_id": "4710"'))
    done = publish(shop)
    assert done.exit_status == 12
    assert "another pipeline's" in done.stderr


def test_a_link_is_not_followed(shop: World) -> None:
    small_bundle(shop)
    bundle = uploaded(shop, 11) / "bundle.json"
    bundle.unlink()
    bundle.symlink_to("/etc/passwd")
    done = publish(shop)
    assert done.exit_status == 10
    assert "root:" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("env", "text"),
    [({"GITLAB_TOKEN": ""}, "GITLAB_TOKEN is not set"), ({"CI_PIPELINE_ID": ""}, "--from-job")],
)
def test_what_it_needs(shop: World, env: dict[str, str], text: str) -> None:
    done = publish(shop, **env)
    assert done.exit_status == 2
    assert text in done.stderr
