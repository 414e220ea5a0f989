"""
The cluster as one router sees it: nodes, their blocks, sessions, and what was served. Pure.

Ties membership, index and traffic together. Everything that I/O does with a router
goes through here, so that a simulation can do it without sockets.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import islice, takewhile

from hearthkv.core.block_io import KeysQuery
from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.routing import (
    CacheHint,
    NodeEndpoint,
    NodeLoad,
    NodeMatch,
    NodeMessage,
    NodeState,
    NodeStatus,
    PrefetchOrder,
    PullOrder,
    PullSource,
    Route,
    RouteQuery,
    SessionStatus,
)
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import Tier, TierCounts
from router.feed_alarms import Feed, FeedAlarms
from router.hot_prefixes import HotPolicy, HotPrefixes
from router.membership import Membership
from router.orders import pull_order
from router.outcome import (
    BlocksChanged,
    FeedAlarmed,
    FeedHealed,
    InventoryCleared,
    Joined,
    Outcome,
    Removed,
    SessionLeft,
    StreamId,
)
from router.placement import Choice, PlacementPolicy, Turn
from router.prefix_index import PrefixIndex
from router.prefix_matches import PrefixMatches
from router.sessions import Sessions
from router.settings import RouterSettings
from router.traffic import Served, Traffic

SWEPT_BLOCKS = 50_000
"""Blocks that one sweep looks at, if nodes were forgotten: a few milliseconds of work."""

PULL_SOURCES_MAX = 4
PULL_MIN_TOKENS = 256
"""Tokens more than the chosen node holds that are worth a call to another node."""

RESYNC_ROOM = 0.1
"""Share of the index that must be free before a node whose keys found no room is asked again."""


@dataclass(slots=True)
class TokenTotals:
    """Tokens of all turns that were placed. Invariant: matched.total <= prompt."""

    prompt: int = 0
    matched: TierCounts = field(default_factory=TierCounts)

    def add(self, prompt_tokens: int, matched_tokens: TierCounts) -> None:
        """Count one turn."""
        self.prompt += prompt_tokens
        self.matched += matched_tokens

    def hit_ratios(self) -> Mapping[str, float]:
        """Return tokens served from cache per prompt token, in all and by tier."""
        prompt = max(self.prompt, 1)
        by_tier = {tier.name.lower(): self.matched.of(tier) / prompt for tier in Tier}
        return {"total": self.matched.total / prompt, **by_tier}


@dataclass(frozen=True, slots=True)
class Routed:
    """A turn that was placed, and what its node should be told."""

    route: Route
    prompt_tokens: int
    """Never less than the tokens of the blocks that the caller gave keys for."""

    matched_tokens: TierCounts
    prefetch: PrefetchOrder | None
    """For the matched blocks, where some of them lie on SSD and the turn will read them."""

    pull: PullOrder | None = None
    """For blocks that another node holds, where the turn will read them."""


class Cluster:
    """What one router knows, and the decisions that it takes on it."""

    def __init__(self, settings: RouterSettings) -> None:
        self.membership = Membership(
            suspect_s=settings.suspect_s, lease_s=settings.lease_s, nodes_max=settings.nodes_max
        )
        self.index = PrefixIndex(settings.index_keys_max)
        self.traffic = Traffic(
            PlacementPolicy(
                reuse_min_fraction=settings.reuse_min_fraction,
                reuse_min_gain_blocks=settings.reuse_min_gain_blocks,
                settled_fraction=settings.settled_fraction,
                room_min_tokens=settings.room_min_tokens,
                spill_tokens=settings.prefill_tokens_per_s * settings.spill_wait_s,
                copy_cost=settings.copy_cost,
            ),
            sessions_max=settings.sessions_max,
            prefill_tokens_per_s=settings.prefill_tokens_per_s,
        )
        self.totals = TokenTotals()
        self.feeds = FeedAlarms()
        self.hot = HotPrefixes(
            HotPolicy(
                settings.hot_sessions_min, settings.hot_replicas_max, settings.hot_blocks_per_s
            )
        )

    @property
    def sessions(self) -> Sessions:
        """The sessions that had a turn lately."""
        return self.traffic.sessions

    def route(self, query: RouteQuery, now: float) -> Routed:
        """
        Choose the node for a turn, and remember it.

        Raises:
            NoNodeError: If no node is live.
        """
        samples = query.keys if query.hint is not CacheHint.BYPASS else query.keys.up_to(0)
        prompt = self.index.look_up(query.namespace_id, samples)
        matched_blocks = prompt.prefixes(query.settled_blocks)
        turn = Turn(
            query.hint,
            samples.blocks,
            query.block_size,
            self.sessions.last_turn(query.session_id),
        )
        choice = self.traffic.place(
            query.session_id, turn, matched_blocks, lambda *match: prompt.tiers(*match).ssd, now
        )
        blocks = matched_blocks.get(choice.node_id, 0)
        matched = prompt.tiers(choice.node_id, blocks)
        sources: tuple[PullSource, ...] = ()
        if query.hint is CacheHint.REUSE:
            sources = self._pull_sources(choice, matched_blocks, query.block_size)
        route = Route(
            self.membership.endpoint(choice.node_id),
            matched,
            choice.home_node_id,
            choice.reason,
            sources,
        )
        is_read = query.hint is CacheHint.REUSE
        routed = Routed(
            route=route,
            prompt_tokens=max(query.prompt_tokens, query.keys.blocks * query.block_size),
            matched_tokens=_scaled(matched, query.block_size),
            prefetch=PrefetchOrder(query.namespace_id, samples.tip(blocks))
            if is_read and matched.ssd
            else None,
            pull=pull_order(query, route) if is_read else None,
        )
        if is_read:
            self._count_hot(query, routed, now)
        self.totals.add(routed.prompt_tokens, routed.matched_tokens)
        held_blocks = max(blocks, sources[0].blocks if sources else 0)
        missing_tokens = routed.prompt_tokens - held_blocks * query.block_size
        served = Served(routed.prompt_tokens, matched.total, missing_tokens)
        self.traffic.note(query.session_id, choice, served, now)
        return routed

    def lookup(self, query: KeysQuery) -> list[NodeMatch]:
        """Return who holds how much of a prompt, longest first, then by name; changes nothing."""
        prompt = self.index.look_up(query.namespace_id, SampledKeys.all_of(query.keys))
        return [
            NodeMatch(node_id, prompt.exact_tiers(node_id, blocks))
            for node_id, blocks in prompt.prefixes().items()
        ]

    def end_session(self, session_id: SessionId, now: float) -> NodeId | None:
        """Forget a session; return its node, None if it was not known."""
        return self.traffic.end(session_id, now)

    def order_drain(self, node_id: NodeId, now: float, *, is_cancelled: bool) -> Outcome:
        """
        Have a node leave, or stay after all. From now on it gets no new session.

        Raises:
            UnknownNodeError: If there is no such node.
        """
        outcome = self.membership.order_drain(node_id, now, is_cancelled=is_cancelled)
        return self._applied(outcome, now)

    def hear(self, stream: StreamId, message: NodeMessage, now: float) -> Outcome:
        """
        Take in what a node said.

        Raises:
            BadRequestError: If a stream does not begin with a hello, or says it twice.
            LimitError: If the node is one too many.
        """
        outcome = self._applied(self.membership.hear(stream, message, now), now)
        if isinstance(message, NodeLoad) and (node_id := self.membership.speaker(stream)):
            self.traffic.hear_load(node_id, message.uncached_tokens)
        return outcome

    def lose(self, stream: StreamId, now: float) -> Outcome:
        """Note that a stream is over."""
        return self._applied(self.membership.lose(stream, now), now)

    def sweep(self, now: float) -> Outcome:
        """
        Do what falls due with time, a bounded piece of it: call it several times a second.

        Suspects silent nodes and forgets those whose lease is over, frees the memory of
        forgotten ones, and asks nodes whose keys found no room in the index again, once there
        is some.
        """
        outcome = self._applied(self.membership.sweep(now), now)
        retired_keys = self.index.sweep(SWEPT_BLOCKS)
        room = self.index.keys_max - self.index.keys - retired_keys
        outcome += self._judge_feeds(now)
        for node in self.membership.live():
            missing_keys = self.index.missing_keys_of(node.node_id)
            if 0 < missing_keys <= room and room >= RESYNC_ROOM * self.index.keys_max:
                room -= missing_keys
                outcome += self._applied(self.membership.order_resync(node.node_id, now), now)
        return outcome

    def hot_orders(self, now: float) -> list[tuple[NodeId, PullOrder]]:
        """Return which nodes are to fetch prefixes that many sessions share; call it in a sweep."""
        serving = self.membership.serving()
        targets = {node.node_id for node in serving if node.state is NodeState.LIVE}
        return self.hot.due(serving, targets, self._holders, now)

    def node_statuses(self, now: float) -> list[NodeStatus]:
        """Return all nodes with their load, by name."""
        return [
            NodeStatus(
                endpoint=node,
                load=self.membership.load(node.node_id),
                indexed_blocks=self.index.keys_of(node.node_id),
                sessions=self.sessions.count_on(node.node_id),
                silence_s=self.membership.silence_s(node.node_id, now),
                uncached_tokens=round(self.traffic.load_tokens(node.node_id, now)),
            )
            for node in self.membership.endpoints()
        ]

    def session_statuses(self, limit: int, now: float) -> list[SessionStatus]:
        """Return up to `limit` sessions, most recent first."""
        return self.sessions.latest(limit, now)

    def endpoints(self) -> list[NodeEndpoint]:
        """Return all nodes, by name."""
        return self.membership.endpoints()

    def count_nodes(self) -> Mapping[NodeState, int]:
        """Return the number of nodes in each state."""
        states = [node.state for node in self.endpoints()]
        return {state: states.count(state) for state in NodeState}

    def _judge_feeds(self, now: float) -> Outcome:
        """Find nodes that serve, but don't tell truly what they hold, and ask them again."""
        outcome = Outcome()
        for node in self.membership.endpoints():
            node_id = node.node_id
            if node.state is NodeState.SUSPECT:
                self.feeds.forget(node_id)
                continue
            inventory = self.membership.inventory(node_id)
            feed = Feed(
                lag_s=inventory.lag_s(now),
                untold_s=inventory.untold_s(now),
                said_blocks=inventory.said_blocks,
                indexed_blocks=self.index.keys_of(node_id),
                unindexed_blocks=self.index.missing_keys_of(node_id),
            )
            judged = self.feeds.judge(node_id, feed, now)
            if judged.is_raised and feed.trouble is not None:
                outcome += Outcome(changes=(FeedAlarmed(node_id, feed.trouble, feed),))
            if judged.is_ended:
                outcome += Outcome(changes=(FeedHealed(node_id),))
            if judged.is_resync_due:
                outcome += self._applied(self.membership.order_resync(node_id, now), now)
        return outcome

    def _count_hot(self, query: RouteQuery, routed: Routed, now: float) -> None:
        """Let a turn count towards the prefixes that many sessions share."""
        node_id = routed.route.node.node_id
        if self.sessions.node_of(query.session_id) is None:
            self.hot.note_session(query.namespace_id, query.keys, node_id)
        if routed.pull is not None:
            pulled = query.keys.up_to(routed.pull.blocks)
            self.hot.note_pull(query.namespace_id, pulled, node_id, now)

    def _holders(self, namespace_id: bytes, key: bytes) -> Collection[NodeId]:
        keys = SampledKeys.all_of(PackedKeys(key, len(key)))
        return self.index.look_up(namespace_id, keys).prefixes().keys()

    def _pull_sources(
        self, choice: Choice, matched_blocks: PrefixMatches, block_size: int
    ) -> tuple[PullSource, ...]:
        """Who holds so much more of the prompt than the chosen node that it is worth a copy."""
        worth_blocks = matched_blocks.get(choice.node_id, 0) + PULL_MIN_TOKENS / block_size
        serving = (
            PullSource(self.membership.endpoint(node_id), group.blocks)
            for group in takewhile(
                lambda group: group.blocks >= worth_blocks, matched_blocks.groups
            )
            for node_id in group.nodes
            if self.traffic.nodes.is_serving(node_id)
        )
        return tuple(islice(serving, PULL_SOURCES_MAX))

    def _applied(self, outcome: Outcome, now: float) -> Outcome:
        """Bring index and traffic up to date with what changed."""
        for change in outcome.changes:
            if isinstance(change, InventoryCleared):
                self.index.forget(change.node_id)
            elif isinstance(change, Joined) and change.is_new:
                self.traffic.join(change.endpoint.node_id, now)
            elif isinstance(change, Removed):
                self.feeds.forget(change.node_id)
                self.traffic.forget(change.node_id)
            elif isinstance(change, SessionLeft):
                self.traffic.hand_over(change.session_id, change.node_id, change.to_node_id, now)
            elif isinstance(change, BlocksChanged):
                event = change.event
                if event.tier is None:
                    self.index.remove(change.node_id, event.namespace_id, event.keys)
                else:
                    self.index.add(change.node_id, event.namespace_id, event.keys, event.tier)
        self.traffic.nodes.follow(self.membership.version, self.membership.endpoints())
        return outcome


def _scaled(blocks: TierCounts, block_size: int) -> TierCounts:
    return TierCounts(blocks.hbm * block_size, blocks.dram * block_size, blocks.ssd * block_size)
