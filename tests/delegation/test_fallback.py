"""The plain endpoint instead of an agent that cannot be used; and an agent's program replaced."""

import json
import sys
from pathlib import Path

from tests.support.agent import append, hang, plays, retry
from tests.support.delegation import DEVELOPMENT, POLICY, Prepared, delegations
from tests.support.model_endpoint import ModelEndpoint
from tests.support.shop import BEADS, GOOD, PASSED
from tests.support.turns import say

KEY = {"OPENAI_API_KEY": "sk-test-OpenAiKeyOfTheNight04"}
LAST = "        self.assertEqual(total([1, 2]), 3)"
BLOCKS = f"""\
test_shop.py
```python
<<<<<<< SEARCH
{LAST}
=======
{LAST}
        # Without a discount.
>>>>>>> REPLACE
```
"""
TURNS = {
    "implement": [say(BLOCKS), say("I added a note.")],
    "verify": [say(f"```json\n{json.dumps({**PASSED, 'commands_run': []})}\n```")],
}
ALLOWED = {"allow_fallback": True}


def assert_falls_back(made: Prepared) -> None:
    """At once: nobody is left to take over from it."""
    assert (made.used, made.work["second"]) == ("patch_fallback", None)
    assert [e for e in made.events if e["event"] == "note" and "model takes over" in e["text"]]


def test_where_the_agent_is_not_there(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        del context.env["ANTHROPIC_API_KEY"]
        context.env |= KEY
        made = context.prepare(provider="claude_code")
        made.failed("E_PROVIDER_UNAVAILABLE", 5, "no model key")
        assert_falls_back(context.prepare(provider="claude_code", execution=ALLOWED))


def test_where_the_agent_fails_after_it_has_changed_something(tmp_path: Path) -> None:
    """The workspace is put back first: nothing of the half-applied change is left."""
    half = [append("shop.py", "x = 1\n"), *[retry(401)] * 3, hang()]
    with (
        delegations(tmp_path, plays(GOOD, {"implement": half})) as context,
        ModelEndpoint(TURNS, bead_of=BEADS) as endpoint,
    ):
        context.env |= {**KEY, "NIGHTSHIFT_MODEL_ENDPOINT": f"{endpoint.url}/v1"}
        tested = {**ALLOWED, "test_command_id": "unit"}
        done = context.ask(provider="claude_code", execution=tested)
        result = done.result
        assert (result["ok"], result["provider_used"]) == (True, "patch_fallback"), done
        assert (result["files_changed"], result["test_result"]) == (["test_shop.py"], "passed")
        assert [bead.bead for bead in context.agent.seen] == ["implement"]
        assert endpoint.unscripted == []


def test_where_the_policy_denies_the_agent(tmp_path: Path) -> None:
    config = POLICY + "  providers: {tests: codex}\n"
    with delegations(tmp_path, config=config) as context:
        context.env |= KEY
        assert_falls_back(context.prepare(provider="claude_code", execution=ALLOWED))


def test_no_fallback_after_a_failed_change(tmp_path: Path) -> None:
    with delegations(tmp_path, plays(GOOD, {"implement": []})) as context:
        context.env |= {**KEY, "NIGHTSHIFT_MAX_IMPLEMENT_RETRIES": "0"}
        done = context.ask(provider="claude_code", execution=ALLOWED)
        done.failed("E_APPLY_FAILED", 9)
        assert done.result["provider_used"] == "claude_code"


def test_no_fallback_without_a_model(tmp_path: Path) -> None:
    with delegations(tmp_path) as context:
        del context.env["ANTHROPIC_API_KEY"]
        done = context.ask(provider="claude_code", execution=ALLOWED)
        done.failed("E_PROVIDER_UNAVAILABLE", 5, "no model key", "no fallback: no model")


def test_a_program_instead_of_codex(tmp_path: Path) -> None:
    config = DEVELOPMENT.replace("policy:\n", "policy:\n  gates: {exec: auto_allow}\n")
    with delegations(tmp_path, config=config) as context:
        context.env |= {**KEY, "NIGHTSHIFT_MAX_IMPLEMENT_RETRIES": "0"}
        told = context.folder / "tmp/told"
        script = f"import json, sys; open({str(told)!r}, 'w').write(json.dumps(sys.argv)); exit(3)"
        command = [sys.executable, "-c", script]
        done = context.ask(debug={"codex_command": command})
        done.failed("E_APPLY_FAILED", 9)
        assert done.result["provider_used"] == "codex"
        assert done.result["diagnostics"]["exit_code"] == 3
        assert json.loads(told.read_text())[:2] == ["-c", "exec"]
        assert [e["gate"] for e in context.events if e["event"] == "gate_approved"] == ["exec"]
        told.unlink()
        context.assert_untouched()


def test_a_program_instead_of_codex_is_denied_by_the_exec_gate(tmp_path: Path) -> None:
    with delegations(tmp_path, config=DEVELOPMENT) as context:
        context.ask(debug={"codex_command": ["true"]}).failed("E_POLICY_DENY", 3, "exec: ")
