"""What a router tells the nodes about a turn that it has placed. Pure."""

from hearthkv.core.routing import PullOrder, Route, RouteQuery


def pull_order(query: RouteQuery, route: Route) -> PullOrder | None:
    """
    Return what the chosen node is to fetch before the turn; None where nobody holds more.

    A router may know some keys only, so the order ends at the last one that the source holds.
    """
    if not route.pull_from:
        return None
    source = route.pull_from[0]
    blocks = query.keys.position_within(source.blocks)
    if blocks <= route.matched.total:
        return None
    return PullOrder(
        query.namespace_id,
        query.keys.tip(blocks),
        blocks,
        source.node.address,
        query.session_id,
    )
