"""What is true: the bytes of every block, the block before it, and what each node has told."""

from cachenode.event_log import EventLog
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.tier import Tier
from tests.scenario.sim.trace import Trace

SPECS = (NamespaceSpec(b"tenant-one......", 4, 40), NamespaceSpec(b"tenant-two......", 4, 56))

Name = tuple[bytes, bytes]
"""Namespace and key."""


def payload_of(spec: NamespaceSpec, key: bytes) -> bytes:
    """The bytes of a block: no other block has them."""
    text = spec.namespace_id + key
    return (text * (spec.block_bytes // len(text) + 1))[: spec.block_bytes]


class Lineages:
    """The block before each block, as the prompts have it."""

    def __init__(self) -> None:
        self.prompts: dict[str, tuple[NamespaceSpec, list[bytes]]] = {}
        """The last prompt of each session, as its blocks."""

        self._parents: dict[Name, bytes] = {}

    def learn(self, session_id: str, spec: NamespaceSpec, keys: list[bytes]) -> None:
        """Take note of a prompt."""
        self.prompts[session_id] = (spec, keys)
        for key, parent in zip(keys, [b"", *keys], strict=False):
            if self._parents.setdefault((spec.namespace_id, key), parent) != parent:
                raise AssertionError("two prompts share a key and not what is before it")

    def parent(self, name: Name) -> bytes:
        return self._parents[name]


class WatchedLog(EventLog):
    """The log of a node, which sees every change of its holdings (I2)."""

    def __init__(self, owner: str, lineages: Lineages, trace: Trace) -> None:
        super().__init__()
        self.held: dict[Name, Tier] = {}
        self.changed_s: dict[Name, float] = {}
        self.is_alive = True
        self._owner = owner
        self._lineages = lineages
        self._trace = trace
        self._children: dict[Name, int] = {}
        self._in_doubt: dict[Name, None] = {}

    def record(self, namespace_id: bytes, key: bytes, tier: Tier | None) -> None:
        super().record(namespace_id, key, tier)
        if not self.is_alive:
            return
        name = (namespace_id, key)
        self.changed_s[name] = self._trace.now()
        self._trace.note(f"{self._owner} {key.hex()[:8]} {tier.name if tier else 'gone'}")
        if tier is None:
            self._removed(name)
        elif name in self.held:
            self.held[name] = tier
        else:
            self._added(name, tier)

    def look_again(self) -> None:
        """See that, at the end of a step, no block is held without the one before it."""
        in_doubt, self._in_doubt = self._in_doubt, {}
        for name in in_doubt:
            parent = (name[0], self._lineages.parent(name))
            is_closed = name not in self.held or not parent[1] or parent in self.held
            children = 0 if name in self.held else self._children.get(name, 0)
            self._trace.check(
                is_closed and not children,
                "I2",
                f"{self._owner} holds {name[1].hex()} or {children} blocks behind it, "
                "and not the one before",
            )

    def _added(self, name: Name, tier: Tier) -> None:
        parent = (name[0], self._lineages.parent(name))
        if parent[1] and parent not in self.held:
            self._doubt(name)
        self.held[name] = tier
        self._children[parent] = self._children.get(parent, 0) + 1

    def _removed(self, name: Name) -> None:
        if self._children.get(name):
            self._doubt(name)
        del self.held[name]
        parent = (name[0], self._lineages.parent(name))
        self._children[parent] -= 1
        if not self._children[parent]:
            del self._children[parent]

    def _doubt(self, name: Name) -> None:
        """Let a block be looked at when the step is over: within it, order is free."""
        if not self._in_doubt:
            self._trace.at_end_of_step.append(self.look_again)
        self._in_doubt[name] = None
