"""What the catalog and the node hand each other."""

import pytest

from cachenode.plans import Demotions, Move, TierLimits
from hearthkv.core.tier import Tier
from tests.unit.cachenode.catalog_kit import ref


@pytest.mark.parametrize(
    ("limits", "stored_bytes"),
    [
        pytest.param(TierLimits(1000), 90, id="bare"),
        pytest.param(TierLimits(1000, frame_bytes=10), 100, id="framed"),
        pytest.param(TierLimits(1000, frame_bytes=10, align_bytes=100), 100, id="aligned-already"),
        pytest.param(TierLimits(1000, align_bytes=100, entry_bytes=7), 107, id="entry-elsewhere"),
        pytest.param(TierLimits(1000, frame_bytes=11, align_bytes=100), 200, id="aligned-up"),
    ],
)
def test_what_a_payload_takes_in_a_store(limits: TierLimits, stored_bytes: int):
    assert limits.stored_bytes(90) == stored_bytes


def test_demotions_are_true_if_anything_was_planned():
    assert not Demotions()
    assert Demotions(evicted_blocks=1)
    assert Demotions(moves=(Move(ref(1), ref(1, tier=Tier.SSD)),))


def test_two_plans_of_the_same_content_are_two_plans():
    assert Move(ref(1), ref(2)) != Move(ref(1), ref(2))
