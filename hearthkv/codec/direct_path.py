"""`direct_path.proto` to core types and back. Pure."""

from collections.abc import Iterable
from itertools import groupby

from hearthkv.codec import block, cache_node
from hearthkv.core.block_io import WriteStatus
from hearthkv.core.block_ref import BlockRef
from hearthkv.core.direct_path import (
    Attached,
    Attachment,
    BlockAddress,
    FileAddress,
    Located,
    LocatedBlock,
    LocateQuery,
    RedisAddress,
    Reservation,
    ReservedCopy,
    ReserveQuery,
    ThroughNode,
)
from hearthkv.core.errors import BadRequestError
from hearthkv.core.namespace import check_namespace_id
from hearthkv.core.session_id import check_node_id
from hearthkv.core.tier import Tier
from hearthkv.v1 import direct_path_pb2 as pb2


def encode_attach_request(proof: bytes) -> pb2.AttachRequest:
    """Return the wish for access as a message; an empty proof asks where it is."""
    return pb2.AttachRequest(proof=proof)


def encode_attach_response(attached: Attached) -> pb2.AttachResponse:
    """Return the answer to an `Attach` as a message."""
    message = pb2.AttachResponse(proof_path=attached.proof_path)
    if attached.attachment is not None:
        opened = attached.attachment
        message.attachment.CopyFrom(
            pb2.Attachment(
                node_id=opened.node_id,
                epoch=opened.epoch,
                redis_urls=opened.redis_urls,
                ssd_dir=opened.ssd_dir,
                is_direct_io=opened.is_direct_io,
            )
        )
    return message


def decode_attach_response(message: pb2.AttachResponse) -> Attached:
    """Return the answer to an `Attach`; raises BadInputError."""
    if not message.HasField("attachment"):
        return Attached(message.proof_path, None)
    opened = message.attachment
    attachment = Attachment(
        node_id=check_node_id(opened.node_id),
        epoch=opened.epoch,
        redis_urls=tuple(opened.redis_urls),
        ssd_dir=opened.ssd_dir,
        is_direct_io=opened.is_direct_io,
    )
    return Attached(message.proof_path, attachment)


def encode_locate_request(query: LocateQuery) -> pb2.LocateRequest:
    """Return the query as a message."""
    return pb2.LocateRequest(
        proof=query.proof,
        namespace_id=query.namespace_id,
        keys=block.encode_keys(query.keys),
        first_block=query.first_block,
        session_id=query.session_id or "",
    )


def decode_locate_request(message: pb2.LocateRequest) -> LocateQuery:
    """Return the query; raises BadInputError."""
    return LocateQuery(
        proof=message.proof,
        namespace_id=check_namespace_id(message.namespace_id),
        keys=block.decode_keys(message.keys),
        first_block=message.first_block,
        session_id=cache_node.optional_session(message.session_id),
    )


def encode_locate_response(located: Located) -> pb2.LocateResponse:
    """Return where a prefix lies as a message."""
    message = pb2.LocateResponse(
        sequences=[each.ref.sequence for each in located.blocks],
        checksums=[each.ref.checksum for each in located.blocks],
        offsets=[
            each.address.offset for each in located.blocks if isinstance(each.address, FileAddress)
        ],
        end=cache_node.READ_END[located.end],
    )
    files: dict[str, int] = {}
    for place, run in groupby(located.blocks, key=lambda each: _place(each.address)):
        blocks = sum(1 for _ in run)
        if isinstance(place, str):
            number = files.setdefault(place, len(files))
            message.runs.add(tier=block.encode_tier(Tier.SSD), place=number, blocks=blocks)
        else:
            message.runs.add(tier=block.encode_tier(Tier.DRAM), place=place, blocks=blocks)
    message.files.extend(files)
    return message


def decode_locate_response(
    message: pb2.LocateResponse, query: LocateQuery, block_bytes: int
) -> Located:
    """
    Return where a prefix lies.

    Args:
        message: The answer to `query`.
        query: Its keys are those of the answer's blocks.
        block_bytes: Payload bytes of a block of the namespace.

    Raises:
        BadInputError: If the lists differ in length, name places that are not there, or are
            longer than what was asked for.
    """
    count = sum(run.blocks for run in message.runs)
    if count > len(query.keys) or {len(message.sequences), len(message.checksums)} != {count}:
        raise BadRequestError(
            f"answer has {count} blocks, {len(message.sequences)} sequences and "
            f"{len(message.checksums)} checksums, must have as many of each, "
            f"and {len(query.keys)} at most"
        )
    if message.end not in cache_node.READ_END_OF:
        raise BadRequestError(f"end is {message.end}, must be a known one")
    located = []
    parent_key = b""
    for key, address, sequence, checksum in zip(
        query.keys, _addresses(message), message.sequences, message.checksums, strict=False
    ):
        tier = Tier.DRAM if isinstance(address, RedisAddress) else Tier.SSD
        ref = BlockRef(query.namespace_id, key, parent_key, tier, sequence, checksum, block_bytes)
        located.append(LocatedBlock(ref, address))
        parent_key = key
    return Located(tuple(located), cache_node.READ_END_OF[message.end])


def encode_reserve_request(query: ReserveQuery) -> pb2.ReserveRequest:
    """Return the wish for room as a message."""
    return pb2.ReserveRequest(
        proof=query.proof,
        start=cache_node.encode_write_start(query.start),
        keys=block.encode_keys(query.keys),
        parent_key=query.parent_key,
        checksums=query.checksums,
    )


def decode_reserve_request(message: pb2.ReserveRequest) -> ReserveQuery:
    """Return the wish for room; raises BadInputError."""
    return ReserveQuery(
        proof=message.proof,
        start=cache_node.decode_write_start(message.start),
        keys=block.decode_keys(message.keys),
        parent_key=message.parent_key,
        checksums=tuple(message.checksums),
    )


def encode_reserve_response(reservation: Reservation) -> pb2.ReserveResponse:
    """Return what was reserved as a message."""
    message = pb2.ReserveResponse(reservation_id=reservation.reservation_id)
    message.ttl.FromNanoseconds(round(reservation.ttl_s * 1e9))
    for outcome in reservation.outcomes:
        if isinstance(outcome, ReservedCopy):
            message.blocks.add().copy.CopyFrom(
                pb2.ReservedCopy(sequence=outcome.sequence, server=outcome.server)
            )
        elif isinstance(outcome, WriteStatus):
            message.blocks.add(status=cache_node.WRITE_STATUS[outcome])
        else:
            message.blocks.add(through_node=pb2.ThroughNode())
    return message


def decode_reserve_response(message: pb2.ReserveResponse) -> Reservation:
    """Return what was reserved; raises BadInputError."""
    return Reservation(
        message.reservation_id,
        tuple(map(_outcome, message.blocks)),
        message.ttl.ToNanoseconds() / 1e9,
    )


def encode_commit_request(proof: bytes, reservation_id: str) -> pb2.CommitRequest:
    """Return the wish that a reservation's blocks be held as a message."""
    return pb2.CommitRequest(proof=proof, reservation_id=reservation_id)


def encode_commit_response(statuses: Iterable[WriteStatus]) -> pb2.CommitResponse:
    """Return what became of the reserved copies as a message."""
    return pb2.CommitResponse(statuses=[cache_node.WRITE_STATUS[status] for status in statuses])


def decode_commit_response(message: pb2.CommitResponse) -> list[WriteStatus]:
    """Return what became of the reserved copies."""
    return [cache_node.write_status_of(value) for value in message.statuses]


def encode_abort_request(proof: bytes, reservation_id: str) -> pb2.AbortRequest:
    """Return the end of a reservation as a message."""
    return pb2.AbortRequest(proof=proof, reservation_id=reservation_id)


def _place(address: BlockAddress) -> int | str:
    return address.server if isinstance(address, RedisAddress) else address.name


def _addresses(message: pb2.LocateResponse) -> Iterable[BlockAddress]:
    """The address of each block; raises BadRequestError."""
    offsets = iter(message.offsets)
    for run in message.runs:
        if run.tier == block.encode_tier(Tier.DRAM):
            yield from [RedisAddress(run.place)] * run.blocks
            continue
        if run.tier != block.encode_tier(Tier.SSD) or run.place >= len(message.files):
            raise BadRequestError(
                f"run lies in tier {run.tier}, file {run.place} of {len(message.files)}, "
                f"must lie in DRAM or in a file of the answer"
            )
        for _ in range(run.blocks):
            offset = next(offsets, None)
            if offset is None:
                raise BadRequestError(f"answer has {len(message.offsets)} offsets, must have more")
            yield FileAddress(message.files[run.place], offset)


def _outcome(message: pb2.ReservedBlock) -> ReservedCopy | WriteStatus | ThroughNode:
    kind = message.WhichOneof("outcome")
    if kind == "copy":
        return ReservedCopy(message.copy.sequence, message.copy.server)
    if kind == "status":
        return cache_node.write_status_of(message.status)
    if kind == "through_node":
        return ThroughNode()
    raise BadRequestError("reserved block is empty, must have an outcome")
