"""YAML that PyYAML itself stumbles over."""

import pytest
import yaml

from gitlab_nightshift.text.yaml_documents import construct_documents
from tests.support.tables import each


@each("text", ["a: !!timestamp soon", "a: !!int x", f"a: {'9' * 5000}", "a: &a [*a]"])
def test_what_is_no_value_of_its_kind_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        list(construct_documents(yaml.SafeLoader(text)))
