"""
Namespaces: the fingerprint of all that must agree before KV bytes may be reused. Pure.

Any difference, be it a dtype, a layout or a tenant, is another namespace and hence a miss,
never wrong bytes.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field

from hearthkv.core.errors import BadNamespaceError

NAMESPACE_ID_BYTES_MIN = 16
NAMESPACE_ID_BYTES_MAX = 32
BLOCK_SIZE_MAX = 65_536
BLOCK_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class NamespaceSpec:
    """
    What servers know of a namespace.

    Raises:
        BadNamespaceError: If a field is out of bounds.
    """

    namespace_id: bytes
    """16 to 32 opaque bytes."""

    block_size: int
    """Tokens in a block."""

    block_bytes: int
    """Payload bytes of every block."""

    def __post_init__(self) -> None:
        check_namespace_id(self.namespace_id)
        if not 1 <= self.block_size <= BLOCK_SIZE_MAX:
            raise BadNamespaceError(
                f"block_size is {self.block_size}, must be in 1..{BLOCK_SIZE_MAX}"
            )
        if not 1 <= self.block_bytes <= BLOCK_BYTES_MAX:
            raise BadNamespaceError(
                f"block_bytes is {self.block_bytes}, must be in 1..{BLOCK_BYTES_MAX}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNamespace:
    """
    Everything that must agree before one engine may use another's blocks.

    `spec` is the fingerprint that goes over the wire. The salt does not leave the client:
    the id is a hash keyed with it, so a tenant can't compute another tenant's.

    Raises:
        BadNamespaceError: If a count is under 1, the rank not under the size, or the salt over
            64 bytes.
    """

    model: str
    """Name of the model, as its publisher writes it."""

    revision: str
    """Revision or digest of the weights."""

    dtype: str
    """Element type of the KV, for instance `float32`."""

    layers: int
    kv_heads: int
    """KV heads held by one tensor-parallel rank."""

    head_dim: int
    block_size: int = 16
    """Tokens in a block."""

    layout: str = "kv,layer,token,head,dim"
    """Order of the axes of a block, slowest first."""

    byte_order: str = "little"
    tensor_parallel_rank: int = 0
    tensor_parallel_size: int = 1
    element_bytes: int = 4
    engine: str = ""
    """Engine, version and kernel set, where they change the bytes."""

    tenant_salt: bytes = field(default=b"", repr=False)
    """Secret of the tenant, up to 64 bytes; empty for a cache that all share."""

    def __post_init__(self) -> None:
        for name in ("layers", "kv_heads", "head_dim", "block_size", "element_bytes"):
            if getattr(self, name) < 1:
                raise BadNamespaceError(f"{name} is {getattr(self, name)}, must be >= 1")
        if not 0 <= self.tensor_parallel_rank < self.tensor_parallel_size:
            raise BadNamespaceError(
                f"tensor_parallel_rank is {self.tensor_parallel_rank}, must be >= 0 and under "
                f"tensor_parallel_size {self.tensor_parallel_size}"
            )
        if len(self.tenant_salt) > hashlib.blake2b.MAX_KEY_SIZE:
            raise BadNamespaceError(
                f"tenant_salt is {len(self.tenant_salt)} bytes, must be at most "
                f"{hashlib.blake2b.MAX_KEY_SIZE}"
            )

    @property
    def block_bytes(self) -> int:
        """Payload bytes of a block: keys and values of `block_size` tokens of all layers."""
        per_token = 2 * self.layers * self.kv_heads * self.head_dim * self.element_bytes
        return per_token * self.block_size

    @property
    def spec(self) -> NamespaceSpec:
        """
        The fingerprint with the two sizes that servers need.

        Raises:
            BadNamespaceError: If a block has more tokens or bytes than servers take.
        """
        fields = asdict(self)
        del fields["tenant_salt"]
        canonical = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.blake2b(canonical, digest_size=16, key=self.tenant_salt).digest()
        return NamespaceSpec(digest, self.block_size, self.block_bytes)


def check_namespace_id(namespace_id: bytes) -> bytes:
    """
    Return `namespace_id` if its length is allowed.

    Raises:
        BadNamespaceError: If it is not 16 to 32 bytes.
    """
    if not NAMESPACE_ID_BYTES_MIN <= len(namespace_id) <= NAMESPACE_ID_BYTES_MAX:
        raise BadNamespaceError(
            f"namespace_id is {len(namespace_id)} bytes, must be "
            f"{NAMESPACE_ID_BYTES_MIN} to {NAMESPACE_ID_BYTES_MAX}"
        )
    return namespace_id
