"""What a cache may look like, and how the tiers share it."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.errors import SettingsError
from hearthkv.core.kv_cache_settings import GIB, KvCacheSettings
from hearthkv.core.tier import Tier


def test_the_defaults_are_a_possible_cache():
    settings = KvCacheSettings()
    assert settings.limit_bytes(Tier.HBM) == 10 * GIB
    assert settings.limit_bytes(Tier.DRAM) == 22 * GIB
    assert settings.limit_bytes(Tier.SSD) == 8 * GIB


@given(
    st.floats(1e-6, 1e6),
    st.tuples(st.integers(0, 100), st.integers(0, 100)).filter(lambda two: sum(two) <= 100),
)
def test_the_tiers_never_exceed_the_capacity(capacity_gb, percents):
    hbm, dram, ssd = (percent / 100 for percent in (*percents, 100 - sum(percents)))
    settings = KvCacheSettings(
        cache_capacity_gb=capacity_gb, hbm_ratio=hbm, dram_ratio=dram, ssd_ratio=ssd
    )
    limits = [settings.limit_bytes(tier) for tier in Tier]
    assert min(limits) >= 0
    assert sum(limits) <= capacity_gb * GIB * (1 + 1e-6)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        pytest.param({"block_size": 0}, "block_size is 0, must be in 1..65536", id="no-tokens"),
        pytest.param({"block_size": 65537}, "block_size is 65537, must be", id="long-blocks"),
        pytest.param(
            {"cache_capacity_gb": 0.0}, "cache_capacity_gb is 0.0, must be over 0", id="none"
        ),
        pytest.param(
            {"cache_capacity_gb": math.inf}, "is inf, must be over 0 and finite", id="endless"
        ),
        pytest.param({"cache_capacity_gb": math.nan}, "cache_capacity_gb is nan", id="no-number"),
        pytest.param(
            {"offload_threshold": 0.0}, "offload_threshold is 0.0, must be in (0, 1]", id="0"
        ),
        pytest.param(
            {"offload_threshold": 1.01}, "offload_threshold is 1.01, must be", id="over-1"
        ),
        pytest.param(
            {"offload_threshold": math.nan}, "offload_threshold is nan, must be", id="nan"
        ),
        pytest.param(
            {"eviction_policy": "fifo"},
            "eviction_policy is 'fifo', must be one of lru_with_media_priority",
            id="policy",
        ),
        pytest.param({"hbm_ratio": -0.1}, "hbm_ratio is -0.1, must be in [0, 1]", id="negative"),
        pytest.param(
            {"ssd_ratio": math.nan}, "ssd_ratio is nan, must be in [0, 1]", id="nan-ratio"
        ),
        pytest.param(
            {"dram_ratio": 0.6},
            "hbm_ratio + dram_ratio + ssd_ratio is 1.05 (0.25 + 0.6 + 0.2), must be 1",
            id="sum",
        ),
    ],
)
def test_an_impossible_value_is_refused(fields, text):
    with pytest.raises(SettingsError) as caught:
        KvCacheSettings(**fields)
    assert text in str(caught.value)


def test_the_bounds_themselves_are_allowed():
    KvCacheSettings(block_size=65536, offload_threshold=1.0)
    KvCacheSettings(hbm_ratio=0.0, dram_ratio=0.0, ssd_ratio=1.0, cache_capacity_gb=1e-9)


def test_ratios_may_miss_one_by_rounding():
    KvCacheSettings(hbm_ratio=0.1, dram_ratio=0.2, ssd_ratio=0.7)
