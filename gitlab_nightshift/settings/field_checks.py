"""Checks of a setting's value, in its type: ``Annotated[str, check_after(check_command)]``.

pydantic runs the checks. It takes longer to load than most commands run, so it is loaded only to
check values, not for defaults or for values that another process has checked.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, eq=False)
class FieldCheck:
    """One of pydantic's annotations, by name; created when pydantic iterates over this one."""

    mark: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    __is_annotated_types_grouped_metadata__: ClassVar[Literal[True]] = True

    def __iter__(self) -> Iterator[Any]:
        import pydantic

        made = getattr(pydantic, self.mark)(*self.arguments, **self.options)
        return iter(made.metadata if self.mark == "Field" else (made,))


def check_before(check: Callable[..., Any], **options: Any) -> FieldCheck:
    """Check or convert the value as given; ``options`` are those of BeforeValidator."""
    return FieldCheck("BeforeValidator", (check,), options)


def check_after(check: Callable[..., Any]) -> FieldCheck:
    """Check the value after it has its type."""
    return FieldCheck("AfterValidator", (check,), {})


def check_bounds(**bounds: Any) -> FieldCheck:
    """Bounds and patterns, as ``pydantic.Field`` names them."""
    return FieldCheck("Field", (), bounds)


def show_as(schema: Mapping[str, Any]) -> FieldCheck:
    """The JSON Schema of the value."""
    return FieldCheck("WithJsonSchema", (schema,), {})
