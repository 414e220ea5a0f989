"""Whether routers agree: the same view, told in another order, and the same questions (I8)."""

import random
from dataclasses import replace

from hearthkv.client.cluster_view import ClusterView
from hearthkv.core.block_key import PackedKeys, SampledKeys
from hearthkv.core.routing import (
    CacheHint,
    NodeEndpoint,
    NodeHello,
    NodeLoad,
    Route,
    RouteQuery,
    SnapshotPart,
)
from hearthkv.core.session_id import SessionId
from router.cluster import Cluster
from router.membership import StreamId
from router.settings import RouterSettings
from tests.scenario.sim.cluster import SimCluster

QUESTIONS = 30


def check_agreement(cluster: SimCluster, chance: random.Random) -> None:
    """Tell two routers the same about the nodes, ask them the same, and compare the answers."""
    told = [
        (
            NodeEndpoint(
                node.node.identity.node_id,
                cluster.plans[name].address,
                epoch=node.process.number,
            ),
            list(node.node.catalog.snapshot()),
        )
        for name, node in cluster.nodes.items()
    ]
    one, other = _router(told, chance), _router(told, chance)
    view = ClusterView()
    view.replace([endpoint for endpoint, _ in told])
    for number, query in enumerate(_questions(cluster, chance)):
        answers = [_ask(router, query, float(number)) for router in (one, other)]
        cluster.trace.check(
            answers[0] == answers[1], "I8", f"{query.session_id} is told {answers[0]}, {answers[1]}"
        )
        alone = view.route(query.session_id)
        assert alone is not None
        cluster.trace.check(
            alone.node.node_id == answers[0].home_node_id,
            "I8",
            f"{query.session_id} has its home on {answers[0].home_node_id}, "
            f"a client alone says {alone.node.node_id}",
        )


def _router(told: list[tuple[NodeEndpoint, list[SnapshotPart]]], chance: random.Random) -> Cluster:
    """A router that has heard everything, in whatever order."""
    router = Cluster(RouterSettings())
    nodes = list(told)
    chance.shuffle(nodes)
    streams = list(range(1, len(nodes) + 1))
    chance.shuffle(streams)
    for stream, (endpoint, snapshot) in zip(streams, nodes, strict=True):
        parts = [part for part in snapshot if part.keys]
        chance.shuffle(parts)
        router.hear(StreamId(stream), NodeHello(endpoint), 0.0)
        for at, part in enumerate(parts):
            first, last = at == 0, at == len(parts) - 1
            router.hear(StreamId(stream), replace(part, is_first=first, is_last=last), 0.0)
        router.hear(StreamId(stream), NodeLoad(), 0.0)
    return router


def _questions(cluster: SimCluster, chance: random.Random) -> list[RouteQuery]:
    prompts = list(cluster.lineages.prompts.items())
    questions = []
    for number in range(QUESTIONS):
        session_id, (spec, keys) = chance.choice(prompts)
        if chance.random() < 0.5:
            session_id = f"new-{number}"
        questions.append(
            RouteQuery(
                session_id=SessionId(session_id),
                namespace_id=spec.namespace_id,
                keys=SampledKeys.all_of(PackedKeys.join(keys)),
                hint=chance.choice((CacheHint.REUSE, CacheHint.REUSE, CacheHint.NONE)),
                prompt_tokens=len(keys) * spec.block_size,
                block_size=spec.block_size,
            )
        )
    return questions


def _ask(router: Cluster, query: RouteQuery, now: float) -> Route:
    return router.route(query, now).route
