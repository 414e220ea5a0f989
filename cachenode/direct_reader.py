"""Where blocks lie, for clients on this host that read them by themselves."""

from collections.abc import Sequence

from cachenode.catalog import Catalog
from cachenode.events import BlocksAsked, BlocksLocated
from cachenode.hit_counts import HitCounts
from cachenode.tier_stores import TierStores
from hearthkv.core.block_io import ReadEnd
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import BlockAddress, Located, LocatedBlock, LocateQuery
from hearthkv.core.tier import Tier
from hearthkv.telemetry import Telemetry


class DirectReader:
    """
    Plans reads that others carry out.

    Nothing is kept from erasure meanwhile: a copy's number and checksum go with its address, so
    a client that comes too late has a miss, never wrong bytes (I1).

    Args:
        hits: Is told what was asked for and found, as by a read through the node.
    """

    def __init__(
        self, catalog: Catalog, stores: TierStores, *, hits: HitCounts, telemetry: Telemetry
    ) -> None:
        self._catalog = catalog
        self._stores = stores
        self._hits = hits
        self._telemetry = telemetry

    def locate(self, query: LocateQuery) -> Located:
        """Say where the longest held run of blocks lies, as far as it can be had directly."""
        plan = self._catalog.plan_read(query.namespace_id, query.keys, query.session_id)
        blocks: list[LocatedBlock] = []
        for ref, address in zip(plan.refs, self._addresses(plan.refs), strict=True):
            if address is None:
                break
            blocks.append(LocatedBlock(ref, address))
        self._catalog.finish_read(plan)
        self._stores.work.set()
        end = plan.end if len(blocks) == len(plan.refs) else ReadEnd.UNAVAILABLE
        # What ends as unavailable is asked for again by a read through the node, and counts there.
        asked = len(blocks) if end is ReadEnd.UNAVAILABLE else len(query.keys)
        self._count(asked, [block.ref for block in blocks])
        return Located(tuple(blocks), end)

    def _addresses(self, refs: Sequence[BlockRef]) -> list[BlockAddress | None]:
        """The address of each copy, with one question to each store."""
        addresses: dict[BlockRef, BlockAddress | None] = {}
        for tier, store in self._stores.by_tier.items():
            in_tier = [ref for ref in refs if ref.tier is tier]
            addresses.update(zip(in_tier, store.locate(in_tier), strict=True))
        return [addresses[ref] for ref in refs]

    def _count(self, asked: int, refs: Sequence[BlockRef]) -> None:
        self._hits.asked(asked)
        self._telemetry.emit(BlocksAsked(asked, len(refs)))
        for tier in (Tier.DRAM, Tier.SSD):
            sizes = [ref.size_bytes for ref in refs if ref.tier is tier]
            if sizes:
                self._hits.found(tier, len(sizes))
                self._telemetry.emit(BlocksLocated(tier, len(sizes), sum(sizes)))
