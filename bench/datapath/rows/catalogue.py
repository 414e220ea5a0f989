"""The catalogue of all rows, in the order of the tables. Not pure."""

from collections.abc import Iterator, Mapping

from bench.datapath import names
from bench.datapath.peer_process import PeerProcess
from bench.datapath.row import Group, Row
from bench.datapath.rows import (
    files,
    grpc_stream,
    hearthkv,
    memory,
    raw_resp_rows,
    raw_socket,
    redis_py,
)
from bench.datapath.rows.peer import PeerRow
from bench.datapath.servers import Server

LMCACHE_THREADS = (2, 8)
"""As many as this bench has cores to give, and as many as LMCache takes if it is not told."""


def all_rows(server: Server, peers: Mapping[str, PeerProcess]) -> list[Row]:
    """
    Return new rows for one server and one load.

    Args:
        server: Where rows go that need a Redis; it must hold the load under `load.keys`.
        peers: Processes by name of the peer, see `peer_process.PEERS`.
    """
    return [
        memory.Memcpy(),
        memory.SharedMemory(),
        raw_socket.RawRead(),
        raw_resp_rows.RawGet(server),
        *(mode(server, codec) for mode in redis_py.GET_MODES for codec in redis_py.Codec),
        raw_socket.RawWrite(),
        raw_resp_rows.RawSet(server),
        *(mode(server, codec) for mode in redis_py.SET_MODES for codec in redis_py.Codec),
        files.Preadv(),
        files.PreadvChecked(),
        files.DirectPreadv(),
        files.ParallelDirectPreadv(),
        grpc_stream.GrpcRead(),
        grpc_stream.GrpcWrite(),
        files.OurReads(),
        files.OurDirectReads(),
        hearthkv.TransportRead(server),
        hearthkv.TransportWrite(server),
        *(row(server) for row in hearthkv.NODE_ROWS),
        *_peer_rows(server, peers),
    ]


def _peer_rows(server: Server, peers: Mapping[str, PeerProcess]) -> Iterator[Row]:
    lmcache, mooncake = peers["lmcache"], peers["mooncake"]
    read, write = Group.DRAM_READ, Group.DRAM_WRITE
    for family, group in ((names.LMCACHE_READ, read), (names.LMCACHE_WRITE, write)):
        for threads in LMCACHE_THREADS:
            yield PeerRow(family, group, process=lmcache, server=server, threads=threads)
    for family, group in ((names.MOONCAKE_READ, read), (names.MOONCAKE_WRITE, write)):
        yield PeerRow(family, group, process=mooncake, server=server)
