"""A night in which a change makes the suite blind: canaries notice, and no agent sees a fault."""

import json
import re
from pathlib import Path

from tests.nights_proofs.test_verdict import CART, CART_TEST, MAKE, MAKEFILE, found
from tests.support.agent import answer, plays, write
from tests.support.shop import DRAFT, GOOD
from tests.support.world import IMPLIED, world

BLIND = CART_TEST.replace("from cart import total", "total = sum")
HONEST = CART_TEST + "\n    def test_half(self):\n        self.assertEqual(total([9], 50), 4.5)\n"
FAULTS = re.compile(r"off by one|returned as nothing|negated|left out|\bX[0-9A-F]{16}\b")


def test_a_suite_made_blind_is_refused_and_no_agent_sees_a_fault(tmp_path: Path) -> None:
    attempts = {
        "implement-tests-1": [write("test_cart.py", BLIND)],
        "implement-tests-2": [write("test_cart.py", HONEST)],
    }
    draft = answer({**DRAFT, "title": "Test the discount"})
    scripts = plays(GOOD, {"analyze": [answer(found(MAKE))], "mr": [draft]}, attempts)
    files = {"Makefile": MAKEFILE, "cart.py": CART, "test_cart.py": CART_TEST}
    config = f"{IMPLIED}verify_commands: [make test]\nmax_implement_retries: 1\n"
    with world(tmp_path, scripts, files=files, config=config) as shop:
        done = shop.nightshift("run")
        assert shop.result["outcome"] == "MR_CREATED", done.log
        assert shop.agent.names == [
            *("analyze-tests-1", "implement-tests-1", "implement-tests-2"),
            *("verify-tests-2", "mr-tests-1"),
        ]
        told = shop.agent.seen[2].last_failure
        assert "[suite-weakened]" in told
        assert "test_cart.TotalTest.test_plain noticed before" in told
        assert "in total (cart.py)" in told
        assert not FAULTS.search(told)
        for bead in shop.agent.seen:
            assert bead.tree["cart.py"] == shop.agent.seen[0].tree["cart.py"], bead.name
            assert not re.search(r"\bX[0-9A-F]{16}\b", json.dumps([bead.env, bead.prompt]))
        [mr] = shop.merge_requests
        assert "planted" in (mr.description or "")
        shop.assert_restored()
