"""How complex a GraphQL query is, as GitLab counts it before it runs one.

A field costs 1, or 2 if it asks Gitaly; a list of a resolver costs 1 more, one that is sorted 2,
and the whole grows by 1% for each item of its page (app/graphql/types/base_field.rb,
app/graphql/resolvers/base_resolver.rb). What a resolver adds is in the table.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from graphql import FieldNode, OperationDefinitionNode, SelectionSetNode, parse
from graphql.utilities import value_from_ast_untyped

MOST = 250
"""For a person's or a bot's token (app/graphql/gitlab_schema.rb, AUTHENTICATED_MAX_COMPLEXITY)."""
LARGEST_PAGE = 100
LISTS = {
    "projects": 10,  # app/graphql/resolvers/namespace_projects_resolver.rb
    "mergeRequests": 0,
    "pipelines": 1,  # calls_gitaly! in app/graphql/resolvers/concerns/resolves_pipelines.rb
    "pipelineSchedules": 0,
    "inheritedCiVariables": 0,
    "ciVariables": 0,
    "descendantGroups": 5,  # complexity: 5 in app/graphql/types/group_type.rb
    "jobs": 0,
    "variables": 0,
    "manualVariables": 0,
    "blobs": 1,  # and one for each path (app/graphql/resolvers/blobs_resolver.rb)
}
PLAIN = {"empty": 2, "rootRef": 2, "reviewers": 5}
"""Fields that cost more than 1 of themselves."""


def measure_complexity(query: str, variables: Mapping[str, Any]) -> int:
    """That of the only operation of a query."""
    operation = parse(query).definitions[0]
    assert isinstance(operation, OperationDefinitionNode)
    return sum(_measure_all(operation.selection_set, variables))


def _measure_all(selected: SelectionSetNode | None, variables: Mapping[str, Any]) -> Iterator[int]:
    for node in selected.selections if selected else ():
        assert isinstance(node, FieldNode), "no fragments are counted"
        yield _measure_field(node, variables)


def _measure_field(node: FieldNode, variables: Mapping[str, Any]) -> int:
    name, below = node.name.value, sum(_measure_all(node.selection_set, variables))
    if name not in LISTS:
        return PLAIN.get(name, 1) + below
    given = {
        each.name.value: value_from_ast_untyped(each.value, dict(variables))
        for each in node.arguments or ()
    }
    own = 1 + LISTS[name] + (1 if given.get("sort") else 0) + len(given.get("paths") or ())
    sizes = [size for size in (given.get("first"), given.get("last"), LARGEST_PAGE) if size]
    multiplier = 0 if given.get("iids") else min(sizes) * 0.01
    return int((own + below) * (1 + multiplier))
