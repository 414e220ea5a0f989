"""
Find a turn's seat: its node, and how much of its prompt lies there. Not pure.

A router that was told some keys of a long prompt knows a match to within a gap between them. The
node is asked for the keys of that gap alone, one small call, so nothing is computed again for
having told the router little. Most turns go on where the session's last one ended, where all keys
are told, and need no such call.
"""

from collections.abc import Callable
from dataclasses import replace

from hearthkv.client.node_client import NodeClient
from hearthkv.client.outcome import MissReason, miss_of
from hearthkv.client.routers import Placed
from hearthkv.client.turn import Prompt, Seat
from hearthkv.core.block_io import MatchQuery
from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.errors import PeerError
from hearthkv.core.key_samples import gap_after, sample
from hearthkv.core.routing import CacheHint, Route, RouteQuery
from hearthkv.core.tier import TierCounts


def route_query(prompt: Prompt, hint: CacheHint) -> RouteQuery:
    """Return what a router is asked about a turn."""
    # Who leaves the cache alone has no use for a match, and says nothing of its prompt.
    samples = SampledKeys.all_of(PackedKeys(b""))
    if hint is not CacheHint.BYPASS:
        samples = sample(prompt.keys, prompt.settled_blocks)
    return RouteQuery(
        session_id=prompt.session_id,
        namespace_id=prompt.spec.namespace_id,
        keys=samples,
        hint=hint,
        prompt_tokens=prompt.tokens,
        block_size=prompt.spec.block_size,
        settled_blocks=prompt.settled_blocks,
    )


async def sit_where_placed(
    prompt: Prompt,
    query: RouteQuery,
    placed: Placed | MissReason,
    open_node: Callable[[str], NodeClient],
) -> tuple[Seat, NodeClient | None]:
    """
    Sit at the node that the routers, or the hash, chose.

    Args:
        prompt: The turn's.
        query: What the routers were asked.
        placed: What came of it.
        open_node: Gives the client of the node at an address.
    """
    is_bypass = query.hint is CacheHint.BYPASS
    if isinstance(placed, MissReason):
        return Seat(miss=MissReason.BYPASS if is_bypass else placed), None
    route = placed.route
    seat = Seat(route.node.node_id, route.node.engine_url, route.reason)
    if is_bypass:
        return replace(seat, miss=MissReason.BYPASS), None
    node = open_node(route.node.address)
    if not placed.is_matched:
        return await _ask_all(prompt, seat, node), node
    matched = route.matched + await _ask_gap(prompt, query.keys, route.matched.total, node)
    return _matched(_sourced(seat, route), matched), node


async def sit_at(
    prompt: Prompt, hint: CacheHint, node: NodeClient
) -> tuple[Seat, NodeClient | None]:
    """Sit at the node that the caller named."""
    if hint is CacheHint.BYPASS:
        return Seat(miss=MissReason.BYPASS), None
    return await _ask_all(prompt, Seat(), node), node


async def _ask_all(prompt: Prompt, seat: Seat, node: NodeClient) -> Seat:
    """Ask the node how much it holds."""
    query = MatchQuery(prompt.spec.namespace_id, prompt.keys, prompt.session_id)
    try:
        matched = await node.match(query)
    except PeerError as error:
        return replace(seat, miss=miss_of(error))
    return _matched(replace(seat, arriving_blocks=matched.arriving_blocks), matched.by_tier)


async def _ask_gap(
    prompt: Prompt, samples: SampledKeys, blocks: int, node: NodeClient
) -> TierCounts:
    """Ask the node how much it holds behind the match, as far as the router could not tell."""
    gap = gap_after(samples, blocks)
    if not gap:
        return TierCounts()
    keys = prompt.keys.slice(blocks, blocks + gap)
    try:
        # For nobody's turn: the node would take these few blocks for all that the turn wants.
        matched = await node.match(MatchQuery(prompt.spec.namespace_id, keys))
    except PeerError:
        return TierCounts()  # the frame of the call took note
    return matched.by_tier


def _sourced(seat: Seat, route: Route) -> Seat:
    """Note what is on its way: the router has ordered it from the first source."""
    if not route.pull_from:
        return seat
    source = route.pull_from[0]
    return replace(seat, arriving_blocks=source.blocks, source_address=source.node.address)


def _matched(seat: Seat, matched: TierCounts) -> Seat:
    miss = None if matched.total else MissReason.NOT_HELD
    return replace(seat, matched=matched, miss=miss)
