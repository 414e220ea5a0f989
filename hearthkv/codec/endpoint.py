"""Where a node is, which a node's hello and a router's answers both carry. Pure."""

import math

from hearthkv.core.errors import BadRequestError
from hearthkv.core.routing import NodeEndpoint, NodeState
from hearthkv.core.session_id import check_node_id
from hearthkv.v1 import membership_pb2, router_pb2

ADDRESS_CHARS_MAX = 256
ENGINE_URL_CHARS_MAX = 2048


def decode_endpoint(
    message: membership_pb2.NodeHello | router_pb2.NodeEndpoint, state: NodeState
) -> NodeEndpoint:
    """
    Return where a node is.

    Raises:
        BadInputError: If the id is malformed, the address empty, a text too long or not
            printable, or the weight not over 0 and finite.
    """
    if not 0 < message.weight < math.inf:
        raise BadRequestError(f"weight is {message.weight}, must be over 0 and finite")
    if not message.address:
        raise BadRequestError("address is empty, must be host:port")
    return NodeEndpoint(
        node_id=check_node_id(message.node_id),
        address=printable("address", message.address, ADDRESS_CHARS_MAX),
        engine_url=printable("engine_url", message.engine_url, ENGINE_URL_CHARS_MAX),
        epoch=message.epoch,
        weight=message.weight,
        state=state,
    )


def printable(name: str, text: str, chars_max: int) -> str:
    """
    Return `text`.

    Raises:
        BadRequestError: If it is longer than `chars_max`, or not printable.
    """
    if len(text) > chars_max:
        raise BadRequestError(f"{name} is {len(text)} characters, must be <= {chars_max}")
    if not text.isprintable():
        raise BadRequestError(f"{name} is {text!r}, must be printable")
    return text
