"""The held blocks of all namespaces, each a tree that is closed under prefixes. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cachenode.block import Block, Copy
from hearthkv.core.block_io import NamespaceUsage
from hearthkv.core.block_key import PackedKeys
from hearthkv.core.errors import BlockSizeError
from hearthkv.core.namespace import NamespaceSpec


@dataclass(eq=False, slots=True)
class _Namespace:
    spec: NamespaceSpec
    blocks: dict[bytes, Block] = field(default_factory=dict)
    writes: int = 0
    """Writes under way; they keep the namespace's sizes fixed."""


class BlockTree:
    """
    Finds blocks, and adds and removes them so that I2 holds.

    A namespace is known from its first write until neither a block nor a write is left of it.
    """

    def __init__(self) -> None:
        self._namespaces: dict[bytes, _Namespace] = {}

    def check(self, spec: NamespaceSpec) -> None:
        """
        Compare a namespace with what is known of it.

        Raises:
            BlockSizeError: If it is known with another size.
        """
        namespace = self._namespaces.get(spec.namespace_id)
        if namespace is None:
            return
        known = namespace.spec
        if spec.block_bytes != known.block_bytes:
            raise BlockSizeError(
                f"block_bytes is {spec.block_bytes}, the namespace's blocks have "
                f"{known.block_bytes}"
            )
        if spec.block_size != known.block_size:
            raise BlockSizeError(
                f"block_size is {spec.block_size} tokens, the namespace's blocks have "
                f"{known.block_size}"
            )

    def begin_write(self, spec: NamespaceSpec) -> None:
        """Fix a namespace's sizes while a write to it is under way."""
        self._open(spec).writes += 1

    def end_write(self, namespace_id: bytes) -> None:
        """End what `begin_write` began."""
        self._namespaces[namespace_id].writes -= 1
        self._close_if_empty(namespace_id)

    def find(self, namespace_id: bytes, key: bytes) -> Block | None:
        """The held block of this key."""
        namespace = self._namespaces.get(namespace_id)
        return None if namespace is None else namespace.blocks.get(key)

    def prefix_length(self, namespace_id: bytes, keys: PackedKeys) -> int:
        """Number of leading keys that are held, by bisection: exact if they are a chain (I2)."""
        namespace = self._namespaces.get(namespace_id)
        if namespace is None:
            return 0
        low, high = 0, len(keys)
        while low < high:
            middle = (low + high) // 2
            if keys[middle] in namespace.blocks:
                low = middle + 1
            else:
                high = middle
        return low

    def prefix(self, namespace_id: bytes, keys: PackedKeys) -> list[Block]:
        """The leading blocks that are held, in order, each looked up: right for any keys."""
        run: list[Block] = []
        namespace = self._namespaces.get(namespace_id)
        if namespace is not None:
            find = namespace.blocks.get
            for key in keys:
                block = find(key)
                if block is None:
                    break
                run.append(block)
        return run

    def add(self, spec: NamespaceSpec, copy: Copy) -> Block:
        """Hold a block. Its parent is held, and it is not."""
        return self.add_path(spec, (copy,))[0]

    def add_path(self, spec: NamespaceSpec, copies: Sequence[Copy]) -> list[Block]:
        """Hold blocks of which each is the parent of the next. The parent of the first is held."""
        held = self._open(spec).blocks
        parent_key = copies[0].ref.parent_key
        parent = held[parent_key] if parent_key else None
        depth = 0 if parent is None else parent.depth + 1
        namespace_id = spec.namespace_id
        added: list[Block] = []
        for copy in copies:
            key = copy.ref.key
            assert key not in held
            block = held[key] = Block(namespace_id, key, parent, copy, depth)
            if parent is not None:
                parent.children[block] = None
            added.append(block)
            parent = block
            depth += 1
        return added

    def remove_leaf(self, block: Block) -> None:
        """Hold a block without children no more."""
        assert block.is_held
        assert not block.children
        block.is_held = False
        if block.parent is not None:
            del block.parent.children[block]
        del self._namespaces[block.namespace_id].blocks[block.key]
        self._close_if_empty(block.namespace_id)

    def blocks(self, namespace_id: bytes) -> Iterator[Block]:
        """All held blocks of a namespace, parents before children."""
        namespace = self._namespaces.get(namespace_id)
        return iter(()) if namespace is None else iter(namespace.blocks.values())

    def namespace_ids(self) -> tuple[bytes, ...]:
        """The known namespaces."""
        return tuple(self._namespaces)

    def spec_of(self, namespace_id: bytes) -> NamespaceSpec | None:
        """The sizes of a known namespace."""
        namespace = self._namespaces.get(namespace_id)
        return None if namespace is None else namespace.spec

    def usages(self) -> tuple[NamespaceUsage, ...]:
        """The known namespaces, as the node describes them."""
        return tuple(NamespaceUsage(n.spec, len(n.blocks)) for n in self._namespaces.values())

    def _open(self, spec: NamespaceSpec) -> _Namespace:
        namespace = self._namespaces.get(spec.namespace_id)
        if namespace is None:
            namespace = self._namespaces[spec.namespace_id] = _Namespace(spec)
        return namespace

    def _close_if_empty(self, namespace_id: bytes) -> None:
        namespace = self._namespaces[namespace_id]
        if not namespace.blocks and not namespace.writes:
            del self._namespaces[namespace_id]


def subtree_leaves_first(block: Block) -> list[Block]:
    """A block and all that hang on it, each once, children before parents."""
    parents_first = [block]
    for parent in parents_first:  # grows while it is walked
        parents_first.extend(parent.children)
    parents_first.reverse()
    return parents_first


def path(block: Block) -> Iterator[Block]:
    """A block and its ancestors, up to the first block of the prompt."""
    at: Block | None = block
    while at is not None:
        yield at
        at = at.parent
