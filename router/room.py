"""
How much of each node's cache is wanted, as far as the turns tell. Pure: the hour is passed in.

A prompt that has to be computed may be computed anywhere, and should be where it pushes out what
is wanted least. What that is follows from the turns alone: a session that had one just now will
be back (half of an agent's turns come within 23 s, 95 % within 300 s), one that was silent for
long will hardly. So each session has a claim, its prompt's tokens, on the node of its last turn,
and claims fade, to the e-th part in `CLAIM_FADE_S`. What a node had to compute lately counts a
little as well, and fades slower: it evens out the work where the claims are alike.

What fades alike is kept as one sum a node, so a turn costs the same few steps whatever the
number of nodes and sessions.
"""

import math
from collections.abc import Collection
from typing import NamedTuple

from hearthkv.core.session_id import NodeId

CLAIM_FADE_S = 150.0
WORK_FADE_S = 10_000.0
WORK_SHARE = 0.1
"""What a token that was computed weighs against one that is claimed."""


class Claim(NamedTuple):
    """The tokens of a session that lie on a node, and are likely to be wanted again."""

    node_id: NodeId
    tokens: int
    at: float
    """The hour of the turn."""


class Room:
    """What is wanted on each of the nodes that joined."""

    def __init__(self) -> None:
        self._claimed = _FadingSums(CLAIM_FADE_S)
        self._work = _FadingSums(WORK_FADE_S)
        self._joined_s: dict[NodeId, float] = {}

    def wanted(self, node_id: NodeId, now: float) -> float:
        """Return the tokens on a node that are likely to be wanted again, and its late work."""
        return self._claimed.of(node_id, now) + WORK_SHARE * self._work.of(node_id, now)

    def left(self, claim: Claim, now: float) -> float:
        """Return what is left of a claim; nothing, if its node is gone or began anew."""
        if claim.at < self._joined_s.get(claim.node_id, math.inf):
            return 0.0
        return claim.tokens * self._claimed.left(now - claim.at)

    def take(self, claim: Claim) -> None:
        """Count the claim of a turn that was placed."""
        self._claimed.add(claim.node_id, claim.tokens, claim.at)

    def renew(self, before: Claim, claim: Claim) -> None:
        """Count the claim of a turn in the place of the one that its session had before."""
        if before.node_id == claim.node_id:
            added = claim.tokens - self.left(before, claim.at)
            self._claimed.add(claim.node_id, added, claim.at)
        else:
            self.release(before, claim.at)
            self.take(claim)

    def release(self, claim: Claim, now: float) -> None:
        """Give a claim back: the session claims anew, elsewhere perhaps, or is over."""
        self._claimed.add(claim.node_id, -self.left(claim, now), now)

    def note_computed(self, node_id: NodeId, tokens: int, now: float) -> None:
        """Count the tokens that a node has to compute for a turn."""
        self._work.add(node_id, tokens, now)

    def join(self, node_id: NodeId, peers: Collection[NodeId], now: float) -> None:
        """
        Let an empty node begin as full as its peers are on average.

        Nothing renews what it begins with, so it comes to be preferred as that fades: it neither
        draws all new sessions at once nor waits for them.
        """
        self.forget(node_id)
        self._joined_s[node_id] = now
        for sums in (self._claimed, self._work):
            whole = sum(sums.of(peer, now) for peer in peers)
            sums.add(node_id, whole / max(len(peers), 1), now)

    def forget(self, node_id: NodeId) -> None:
        """Forget a node; claims on it are worth nothing."""
        self._joined_s.pop(node_id, None)
        self._claimed.forget(node_id)
        self._work.forget(node_id)


class _FadingSums:
    """Sums, by node, of amounts that fade exponentially. Invariant: no sum is below 0."""

    def __init__(self, fade_s: float) -> None:
        self._fade_s = fade_s
        self._sums: dict[NodeId, tuple[float, float]] = {}  # the sum, and the hour that it is of

    def of(self, node_id: NodeId, now: float) -> float:
        amount, at = self._sums.get(node_id, (0.0, now))
        return amount * self.left(now - at)

    def add(self, node_id: NodeId, amount: float, now: float) -> None:
        self._sums[node_id] = max(self.of(node_id, now) + amount, 0.0), now

    def left(self, elapsed_s: float) -> float:
        return math.exp(-max(elapsed_s, 0.0) / self._fade_s)

    def forget(self, node_id: NodeId) -> None:
        self._sums.pop(node_id, None)
