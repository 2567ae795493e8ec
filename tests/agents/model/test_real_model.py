"""A bead of each kind with a real llama.cpp server and a real, very small model.

Whatever the model answers, a bead has to end in one of the known ways.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitlab_nightshift.agents.model.chat_client import ChatClient, EndpointError
from gitlab_nightshift.gateway.model_list import ask_for_model
from gitlab_nightshift.gateway.upstream import ModelKey, build_upstream
from gitlab_nightshift.records.bead_results import BeadStatus
from tests.support.llama_server import CONTEXT, MODEL, find_lack, llama_server
from tests.support.programs import NEEDED
from tests.support.real_beads import SHOP, TASKS, run_bead


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if why := find_lack():
        (pytest.fail if "xllamacpp" in os.environ.get(NEEDED, "").split() else pytest.skip)(why)
    with llama_server(tmp_path_factory.mktemp("llama")) as address:
        yield address


@pytest.mark.parametrize("bead", TASKS)
def test_a_bead_ends_in_a_known_way(url: str, bead: str, tmp_path: Path) -> None:
    done = run_bead(tmp_path, bead, url, MODEL)
    assert done.report.status in (BeadStatus.OK, BeadStatus.BAD_OUTPUT), done
    assert (done.report.status is BeadStatus.OK) == (not done.report.error)
    if bead != "implement":
        assert (tmp_path / "checkout/shop.py").read_text() == SHOP


def test_the_server_reports_its_context(url: str) -> None:
    model = ask_for_model(build_upstream(ModelKey("OPENAI_API_KEY", "x" * 9), url, {}), MODEL)
    assert (model.status, model.context) == (200, CONTEXT)


def test_a_prompt_that_is_too_long_is_refused_with_the_context(url: str) -> None:
    message = {"role": "user", "content": "x " * (CONTEXT + 1000)}
    with pytest.raises(EndpointError) as caught:
        ChatClient(url, "key", MODEL).ask([message], 16)
    assert (caught.value.too_long, caught.value.context) == (True, CONTEXT)
