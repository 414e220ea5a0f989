"""The nodes of a replay, and what they tell."""

from bench.replay.prefix_runs import cut
from bench.replay_routing.nodes import NAMESPACE_ID, ReplayedNode, RunKeys
from hearthkv.core.routing import BlockEvent
from hearthkv.core.tier import Tier
from tests.unit.bench.replay.replay_kit import trace_of

LONG = list(range(60))
TRACE = trace_of(LONG, [*LONG[:30], 100])
RUNS = cut(TRACE)
BLOCK_TOKENS = 64
"""So every fourth block has a key."""


def test_a_prompt_has_a_key_now_and_then_and_at_the_end_of_every_run():
    keys = RunKeys(RUNS, BLOCK_TOKENS)
    samples = keys.of_prompt(RUNS.prompts[1])
    assert samples.positions == [4, 8, 12, 16, 20, 24, 28, 30, 31]
    assert len(samples) == 9
    assert keys.of_prompt(RUNS.prompts[0]).keys.slice(0, 8) == samples.keys.slice(0, 8)


def test_the_keys_between_two_lengths_are_those_of_the_blocks_between():
    keys = RunKeys(RUNS, BLOCK_TOKENS)
    run = RUNS.prompts[0][0]
    whole = keys.between(run, 0, 30)
    assert len(whole) == 8
    assert keys.between(run, 0, 9) == whole.slice(0, 2)
    assert keys.between(run, 9, 30) == whole.slice(2, 8)
    assert not keys.between(run, 9, 11)


def test_blocks_of_16_tokens_have_a_key_for_every_sixteenth_and_long_ones_for_each():
    prompt = RUNS.prompts[0]
    assert len(RunKeys(RUNS, 16).of_prompt(prompt)) == 4
    assert len(RunKeys(RUNS, 512).of_prompt(prompt)) == 60


def test_a_node_tells_what_came_and_what_went():
    keys = RunKeys(RUNS, BLOCK_TOKENS)
    node = ReplayedNode(RUNS, keys, capacity_blocks=60)
    node.serve(RUNS.prompts[0], pulled_blocks=12)
    assert node.tally.pulled_blocks == 12
    first, second = RUNS.prompts[0]
    assert node.take_events() == (
        BlockEvent(NAMESPACE_ID, keys.between(first, 0, 30), Tier.DRAM),
        BlockEvent(NAMESPACE_ID, keys.between(second, 0, 30), Tier.DRAM),
    )
    node.serve(RUNS.prompts[1], pulled_blocks=0)
    came, went = node.take_events()
    assert came == BlockEvent(NAMESPACE_ID, keys.between(RUNS.prompts[1][1], 0, 1), Tier.DRAM)
    assert went == BlockEvent(NAMESPACE_ID, keys.between(second, 29, 30), None)
    assert node.take_events() == ()
    assert node.cache.held(RUNS.prompts[0]) == 59
