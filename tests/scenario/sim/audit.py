"""What must hold: looked at while the cluster is in trouble, and once more when it is quiet."""

import asyncio
import random
from collections.abc import Sequence

from cachenode.event_log import CHANGES_MAX
from hearthkv.core.block_io import KeysQuery
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.routing import NodeState
from hearthkv.core.tier import TierCounts
from router.node_watch import ANSWERS_MAX
from tests.scenario.sim.agreement import check_agreement
from tests.scenario.sim.cluster import SimCluster
from tests.scenario.sim.servers import NodeProcess, RouterProcess

EVERY_S = 0.5

HEAL_S = 3.0
"""How long a router may steer by what it knew before it lost sight of a node."""

NEWS_S = 0.5
"""How long the news of a change is under way."""

PROMPTS_AT_ONCE = 4


class Audit:
    """Looks at a cluster from outside, where everything can be seen."""

    def __init__(self, cluster: SimCluster) -> None:
        self._cluster = cluster
        self._trace = cluster.trace
        self._chance = random.Random(cluster.chance.random())

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            self._look_at_bounds()
            self._look_at_indexes()

    def judge(self) -> None:
        """See that everything is as it should be in a cluster that has been quiet for a while."""
        self._look_at_bounds()
        for router in self._cluster.routers.values():
            states = [node.state for node in router.cluster.endpoints()]
            self._trace.check(
                states == [NodeState.LIVE] * len(self._cluster.nodes),
                "I6",
                f"{router.process} sees {states}, must see {len(self._cluster.nodes)} live nodes",
            )
        for node in self._cluster.nodes.values():
            self._look_at_rest(node)
            for router in self._cluster.routers.values():
                self._compare(router, node, list(self._cluster.lineages.prompts.values()), 0.0)
                known = router.cluster.index.keys_of(node.node.identity.node_id)
                self._trace.check(
                    known == len(node.log.held),
                    "I6",
                    f"{router.process} knows {known} blocks of {node.process}, "
                    f"which holds {len(node.log.held)}",
                )
        check_agreement(self._cluster, random.Random(self._chance.random()))

    def _look_at_bounds(self) -> None:
        """No tier is over its limit, and no queue over its maximum (I3)."""
        for node in self._cluster.nodes.values():
            for usage in node.node.usage():
                self._trace.check(
                    usage.used_bytes + usage.reserved_bytes <= usage.limit_bytes,
                    "I3",
                    f"{node.process} counts {usage}",
                )
            waiting = max((len(each._changes) for each in node.log._subscriptions), default=0)
            self._trace.check(
                waiting <= CHANGES_MAX, "I3", f"{node.process} keeps {waiting} events"
            )
        for router in self._cluster.routers.values():
            waiting = max(
                (each.waiting_answers for each in router.watch._streams.values()), default=0
            )
            self._trace.check(
                waiting <= ANSWERS_MAX, "I3", f"{router.process} keeps {waiting} answers"
            )

    def _look_at_indexes(self) -> None:
        """What a router knows of a node is true, once it has had the time to learn it (I6)."""
        now = self._trace.now()
        prompts = list(self._cluster.lineages.prompts.values())
        some = self._chance.sample(prompts, min(PROMPTS_AT_ONCE, len(prompts)))
        for router in self._cluster.routers.values():
            for node in self._cluster.nodes.values():
                since_s = router.joined.since(node.node.identity.node_id, now)
                link = self._cluster.network.link(
                    router.process.machine.host, node.process.machine.host
                )
                well_since_s = max(since_s or now, link.faulty_until_s)
                if now - well_since_s > HEAL_S:
                    self._compare(router, node, some, NEWS_S)

    def _compare(
        self,
        router: RouterProcess,
        node: NodeProcess,
        prompts: Sequence[tuple[NamespaceSpec, list[bytes]]],
        news_s: float,
    ) -> None:
        now, log = self._trace.now(), node.log
        for spec, keys in prompts:
            names = [(spec.namespace_id, key) for key in keys]
            if any(now - log.changed_s.get(name, -1e9) < news_s for name in names):
                continue
            query = KeysQuery(spec.namespace_id, PackedKeys.join(keys))
            told = router.cluster.lookup(query)
            node_id = node.node.identity.node_id
            known = next((each.matched for each in told if each.node_id == node_id), TierCounts())
            held = [log.held[name] for name in names if name in log.held]
            true = TierCounts(*(held.count(tier) for tier in type(held[0]))) if held else known
            if not held:
                true = TierCounts()
            self._trace.check(
                known == true,
                "I6",
                f"{router.process} thinks that {node.process} has {known}, it has {true}",
            )

    def _look_at_rest(self, node: NodeProcess) -> None:
        """Nothing is left under way, and every byte is counted (I3)."""
        usages = node.node.usage()
        self._trace.check(
            node.node.calls_in_flight == 0,
            "I3",
            f"{node.process} has {node.node.calls_in_flight} calls that never end",
        )
        for usage in usages:
            disk = self._cluster.plans[node.process.machine.name].disks[usage.tier]
            there = disk.content.used_bytes
            self._trace.check(
                usage.reserved_bytes == 0 and usage.used_bytes == there,
                "I3",
                f"{disk.name} has {there} bytes, {node.process} counts {usage}",
            )
        blocks = sum(usage.blocks for usage in usages)
        self._trace.check(
            blocks == len(node.log.held),
            "I2",
            f"{node.process} counts {blocks} blocks and has told of {len(node.log.held)}",
        )
