"""The DRAM store against a Redis in a container: over TCP, with a password, and when it hangs."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from testcontainers.community.redis import RedisContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from cachenode.dram_store import DramStore
from hearthkv.core.block_frame import BlockFrame
from hearthkv.core.checksum import block_checksum
from hearthkv.core.errors import BlockLostError, StoreUnavailableError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.session_id import NodeId
from hearthkv.core.tier import Tier
from tests.store_calls import get_one, put_one
from tests.system.conftest import LABEL
from tests.system.loopback_ports import publish

pytestmark = [pytest.mark.docker, pytest.mark.timeout(300)]

PASSWORD = "open-sesame"
WRONG_PASSWORD = "let-me-in"
SPEC = NamespaceSpec(b"n" * 16, 16, 100_000)


@dataclass(frozen=True)
class Server:
    """A Redis in a container, and where it is."""

    container: RedisContainer
    address: str

    @contextmanager
    def paused(self) -> Iterator[None]:
        """While it hangs: its connections stay, and nobody answers."""
        container = self.container.get_wrapped_container()
        container.pause()
        try:
            yield
        finally:
            container.unpause()  # a frozen process does not even hear SIGKILL

    def open_store(self, password: str = PASSWORD, *, deadline_s: float = 10) -> DramStore:
        url = f"redis://:{password}@{self.address}/0"
        return DramStore([url], node_id=NodeId("node-a"), epoch=7, deadline_s=deadline_s)


@pytest.fixture(scope="module")
def server(docker_engine: object) -> Iterator[Server]:
    container = RedisContainer("redis:7-bookworm", password=PASSWORD)
    container.with_kwargs(labels={LABEL: "redis"})
    container.waiting_for(LogMessageWaitStrategy("Ready to accept connections"))
    (address,) = publish(container, 6379)
    with container:
        yield Server(container, address)


@pytest.fixture
async def store(server: Server) -> AsyncIterator[DramStore]:
    """A store over the container's Redis, emptied."""
    store = server.open_store()
    assert (await store.check()).trouble == ""
    await store.erase([frame.ref(Tier.DRAM) for frame in await all_frames(store)])
    yield store
    await store.close()


def block(number: int) -> tuple[BlockFrame, bytes]:
    key = bytes([number]) * 16
    payload = bytes([number]) * SPEC.block_bytes
    checksum = block_checksum(SPEC.namespace_id, key, payload)
    return BlockFrame(SPEC, key, b"", checksum, number), payload


async def all_frames(store: DramStore) -> list[BlockFrame]:
    return [frame async for part in store.scan() for frame in part.frames]


async def test_blocks_are_put_got_scanned_and_erased_over_tcp(store: DramStore):
    blocks = [block(number) for number in range(1, 6)]
    for frame, payload in blocks:
        await put_one(store, frame, payload)
    for frame, payload in blocks:
        assert await get_one(store, frame.ref(Tier.DRAM)) == payload
    frames = [frame for frame, _ in blocks]
    assert sorted(await all_frames(store), key=lambda frame: frame.sequence) == frames
    await store.erase([frame.ref(Tier.DRAM) for frame in frames[1:]])
    assert await all_frames(store) == frames[:1]
    with pytest.raises(BlockLostError):
        await get_one(store, frames[1].ref(Tier.DRAM))


async def test_a_wrong_password_is_told_and_not_repeated(server: Server):
    store = server.open_store(WRONG_PASSWORD)
    frame, payload = block(1)
    with pytest.raises(StoreUnavailableError) as caught:
        await put_one(store, frame, payload)
    for text in (str(caught.value), (await store.check()).trouble):
        assert server.address in text
        assert "password" in text
        assert WRONG_PASSWORD not in text
    await store.close()


async def test_a_redis_that_hangs_is_unavailable_until_it_goes_on(server: Server, store: DramStore):
    frame, payload = block(1)
    await put_one(store, frame, payload)
    hasty = server.open_store(deadline_s=0.5)
    assert (await hasty.check()).trouble == ""
    with server.paused():
        with pytest.raises(StoreUnavailableError, match=r"within 0\.5 s|[Tt]imeout"):
            await get_one(hasty, frame.ref(Tier.DRAM))
        assert (await hasty.check()).trouble != ""
    await hasty.close()
    assert await get_one(store, frame.ref(Tier.DRAM)) == payload
    assert (await store.check()).trouble == ""
