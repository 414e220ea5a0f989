"""What a session id and a node id may look like. Pure."""

import re
from typing import NewType

from hearthkv.core.errors import BadInputError, BadSessionIdError

SessionId = NewType("SessionId", str)
NodeId = NewType("NodeId", str)

SESSION_ID_BYTES_MAX = 256

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NODE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def check_session_id(text: str) -> SessionId:
    """
    Return `text` as a session id. Ids are compared exactly, never by prefix.

    Raises:
        BadSessionIdError: If it is empty, over 256 bytes of UTF-8, or has control characters or
            lone surrogates, which UTF-8 can't carry.
    """
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadSessionIdError(
            f"session_id has the lone surrogate U+{ord(text[error.start]):04X} "
            f"at {error.start}, must be UTF-8"
        ) from None
    if not 1 <= size_bytes <= SESSION_ID_BYTES_MAX:
        raise BadSessionIdError(
            f"session_id is {size_bytes} bytes, must be 1 to {SESSION_ID_BYTES_MAX}"
        )
    control = _CONTROL.search(text)
    if control is not None:
        raise BadSessionIdError(
            f"session_id has the control character U+{ord(control.group()):04X} "
            f"at {control.start()}, must have none"
        )
    return SessionId(text)


def check_node_id(text: str) -> NodeId:
    """
    Return `text` as a node id.

    Raises:
        BadInputError: If it is not 1 to 128 characters of [A-Za-z0-9._-].
    """
    if _NODE_ID.fullmatch(text) is None:
        raise BadInputError(f"node_id is {text[:140]!r}, must be 1 to 128 of [A-Za-z0-9._-]")
    return NodeId(text)
