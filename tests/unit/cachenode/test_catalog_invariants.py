"""
The catalog against a naive model, step by step.

I2 prefixes are closed; I3 no tier is over its limit, work under way included; I4 what was
acknowledged is found again after a kill; the accounting is right to the byte; no held block
vanishes but by eviction, drop or loss; no late erasure hits what was written after it.
"""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.unit.cachenode.catalog_model import COMMON, DISASTERS, RARE, CatalogModel, Pick


def draws(data: st.DataObject) -> Pick:
    return lambda choices: data.draw(st.sampled_from(choices))


class CatalogMachine(RuleBasedStateMachine):
    """Lets hypothesis look for a short story that breaks the catalog."""

    @initialize(data=st.data())
    def start(self, data: st.DataObject) -> None:
        self.model = CatalogModel(draws(data))

    @rule(data=st.data(), step=st.sampled_from(COMMON))
    def do_what_is_common(self, data: st.DataObject, step) -> None:
        step(self.model, draws(data))

    @rule(data=st.data(), step=st.sampled_from((*RARE, *COMMON)))
    def do_what_is_rare(self, data: st.DataObject, step) -> None:
        step(self.model, draws(data))

    @rule(data=st.data(), step=st.sampled_from((*DISASTERS, *RARE, *COMMON)))
    def meet_a_disaster(self, data: st.DataObject, step) -> None:
        step(self.model, draws(data))

    @invariant()
    def everything_agrees(self) -> None:
        self.model.check()


CatalogMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestTheCatalogKeepsItsInvariants = CatalogMachine.TestCase


@pytest.mark.parametrize("seed", range(12))
def test_the_catalog_keeps_its_invariants_on_a_long_walk(seed: int):
    """Goes deeper than hypothesis can: a thousand steps, most of them of the common kind."""
    choose = random.Random(seed)
    model = CatalogModel(choose.choice)
    for _ in range(1000):
        (steps,) = choose.choices((COMMON, RARE, DISASTERS), weights=(80, 18, 2))
        choose.choice(steps)(model, choose.choice)
        model.check()
