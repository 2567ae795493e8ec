"""The fixture ``tried``."""

from tests.support.tried import tried

__all__ = ["tried"]
