import pytest

pytest.register_assert_rewrite("tests.support.trees", "tests.support.world")
