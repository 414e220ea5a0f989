"""
How many prompt tokens each node's engine has yet to compute. Pure: the hour is passed in.

Nodes say so once a second. Between two heartbeats a busy router places hundreds of turns, so it
reckons itself: a leaky bucket for each node, which a placed turn fills with the tokens that were
found nowhere, and which leaks at the rate at which an engine prefills. What a node says counts
where it is more. A bucket is kept as the hour at which it will be empty, so nothing needs to be
done for time to pass, and a load is never below 0.
"""

from hearthkv.core.session_id import NodeId


class Loads:
    """
    The buckets of all nodes.

    Args:
        prefill_tokens_per_s: What an engine computes.
    """

    def __init__(self, prefill_tokens_per_s: float) -> None:
        self._tokens_per_s = prefill_tokens_per_s
        self._empty_s: dict[NodeId, float] = {}

    def __len__(self) -> int:
        """Nodes that were ever given work, and not forgotten."""
        return len(self._empty_s)

    def add(self, node_id: NodeId, tokens: int, now: float) -> None:
        """Note that a node was given so many tokens to compute."""
        if tokens > 0:
            empty_s = max(self._empty_s.get(node_id, now), now)
            self._empty_s[node_id] = empty_s + tokens / self._tokens_per_s

    def tokens(self, node_id: NodeId, said_tokens: int, now: float) -> float:
        """Return what a node has yet to compute, where it said itself that it is `said_tokens`."""
        placed = (self._empty_s.get(node_id, now) - now) * self._tokens_per_s
        return max(placed, said_tokens, 0.0)

    def forget(self, node_id: NodeId) -> None:
        """Forget what a node was given: it is gone, or begins anew."""
        self._empty_s.pop(node_id, None)
