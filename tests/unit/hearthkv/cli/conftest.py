"""A demo's result, as the demo's own tests have it."""

from tests.unit.hearthkv.demo.conftest import good_result

__all__ = ["good_result"]
