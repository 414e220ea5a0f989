"""
The tree of errors. Pure.

::

    HearthKVError
    ├── BadInputError            what a caller sent can't be used
    │   ├── BadKeysError         packed keys of an impossible width or length
    │   ├── BadSessionIdError    empty, too long, or with control characters
    │   ├── BadNamespaceError    an id or a field of a namespace
    │   ├── BlockSizeError       payload of another size than the namespace's
    │   ├── LayoutMismatchError  an array or a buffer that does not fit the layout
    │   └── BadRequestError      anything else in a request
    ├── SettingsError            a file, a variable or a flag; names field, value, allowed
    ├── StaleProofError          a client's proof is not that of this start of the node
    ├── ReservationOverError     a reservation was committed, given up, or not in time
    ├── NoNodeError              no live cache node
    ├── SettlingError            a router that has just started
    ├── UnknownNodeError         a node that this router does not know
    ├── StreamEndedError         a router has no use for a node's stream any more; says why
    ├── LimitError               more of something than this server is set to hold
    ├── StoreError               a tier's store
    │   ├── StoreUnavailableError    it does not answer; nothing is known of the block
    │   ├── StoreFullError           it has no space left for the block
    │   └── BlockLostError           it answers, but the block's bytes are gone or damaged
    ├── FrameError               stored bytes that are not the block they should be
    ├── RespError                a Redis server answered with an error
    ├── DirectPathError          a node's stores can't be used directly; the node itself may be well
    ├── PeerError                a router or node that does not do its part
    │   ├── PeerUnreachableError it can't be reached, or is left alone after it could not be
    │   ├── PeerTimeoutError     it did not answer in time
    │   ├── PeerRefusedError     it answered that it will not
    │   └── PeerContractError    its answer breaks the contract
    ├── ModelFileError           the demo's model file
    ├── EngineBusyError          the reference engine has too many requests
    └── StartupError             the process can't start; says what to do

Ordinary outcomes (hit, miss, no room) are values, not errors.
"""


class HearthKVError(Exception):
    """The root of all errors that HearthKV raises on purpose."""


class BadInputError(HearthKVError):
    """What a caller sent can't be used."""


class BadKeysError(BadInputError):
    """Packed keys have an impossible width or length."""


class BadSessionIdError(BadInputError):
    """A session id is empty, too long, or has control characters."""


class BadNamespaceError(BadInputError):
    """A namespace id or one of its fields is out of bounds."""


class BlockSizeError(BadInputError):
    """A payload has another size than its namespace's blocks."""


class LayoutMismatchError(BadInputError):
    """An array or a buffer does not fit the block layout."""


class BadRequestError(BadInputError):
    """A request breaks the contract in some other way."""


class SettingsError(HearthKVError):
    """A setting is unknown or impossible."""


class StaleProofError(HearthKVError):
    """A client's proof that it shares the node's host is wrong, or of another start."""


class ReservationOverError(HearthKVError):
    """A reservation was committed or given up already, or its time is over."""


class NoNodeError(HearthKVError):
    """No cache node is live."""


class SettlingError(HearthKVError):
    """A router that has just started does not know yet who holds what."""


class UnknownNodeError(HearthKVError):
    """A router was asked about a node that it does not know."""


class StreamEndedError(HearthKVError):
    """A router has no use for a node's stream any more; says why."""


class LimitError(HearthKVError):
    """More of something was asked for than this server is set to hold."""


class StoreError(HearthKVError):
    """A tier's store did not do what was asked."""


class StoreUnavailableError(StoreError):
    """The store does not answer; nothing is known of the block."""


class StoreFullError(StoreError):
    """The store has no space left for the block."""


class BlockLostError(StoreError):
    """The store answers, but the block's bytes are gone or damaged."""


class FrameError(HearthKVError):
    """Stored bytes are not the block that they should be."""


class RespError(HearthKVError):
    """A Redis server answered with an error; the text begins with its kind, for instance OOM."""


class DirectPathError(HearthKVError):
    """A node's stores can't be used directly, and what is wanted goes through the node."""


class PeerError(HearthKVError):
    """A router or node does not do its part."""


class PeerUnreachableError(PeerError):
    """A peer can't be reached, or is left alone for a while after it could not be."""


class PeerTimeoutError(PeerError):
    """A peer did not answer within the deadline."""


class PeerRefusedError(PeerError):
    """
    A peer answered that it will not do what it was asked.

    Args:
        text: Who refused, with which status and why.
        status: Name of the gRPC status, for instance `UNAVAILABLE`.
    """

    def __init__(self, text: str, *, status: str) -> None:
        super().__init__(text)
        self.status = status


class PeerContractError(PeerError):
    """A peer's answer breaks the contract."""


class ModelFileError(HearthKVError):
    """The demo's model file is missing or not what it should be."""


class EngineBusyError(HearthKVError):
    """The reference engine has as many requests as it may."""


class StartupError(HearthKVError):
    """The process can't start; the text says what to do."""
