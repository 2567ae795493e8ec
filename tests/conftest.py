"""For all tests: generated examples have no deadline of their own, on a busy machine either."""

import hypothesis
import pytest

pytest.register_assert_rewrite("tests.support.trees", "tests.support.world")

hypothesis.settings.register_profile("nightshift", deadline=None)
hypothesis.settings.load_profile("nightshift")
