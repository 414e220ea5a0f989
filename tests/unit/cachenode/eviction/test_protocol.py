"""The protocol of eviction policies."""

import inspect

import pytest

from cachenode.eviction.protocol import EvictionPolicy
from cachenode.eviction.registry import POLICIES, policy_named

CALLS = (
    *("added", "touched", "warmed", "spared", "hinted", "removed"),
    *("victims", "entry_count"),
)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_takes_the_calls_of_the_protocol(name: str):
    policy = policy_named(name)
    for call in CALLS:
        asked = inspect.signature(getattr(EvictionPolicy, call)).parameters
        taken = inspect.signature(getattr(policy, call)).parameters
        assert list(taken) == list(asked)[1:]
