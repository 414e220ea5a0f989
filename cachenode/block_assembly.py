"""Put the chunks of a write together to blocks of their namespace's size. Pure."""

from hearthkv.core.block_io import BlockChunk, BlockHeader
from hearthkv.core.errors import BadRequestError, BlockSizeError
from hearthkv.core.namespace import NamespaceSpec

Payload = bytes | bytearray | memoryview


class BlockAssembly:
    """
    The block of one write that is arriving.

    One that comes in one piece stays where it is. For one that comes in parts the caller provides
    the memory, before its first part is taken.
    """

    def __init__(self, spec: NamespaceSpec) -> None:
        self.memory = memoryview(b"")
        """Writable, of the size of a block: where the next block in parts is put together."""

        self._block_bytes = spec.block_bytes
        self._header: BlockHeader | None = None
        self._filled = 0

    def wants_memory(self, chunk: BlockChunk) -> bool:
        """Whether a chunk begins a block that comes in parts."""
        return chunk.header is not None and len(chunk.data) < self._block_bytes

    def take(self, chunk: BlockChunk) -> tuple[BlockHeader, Payload] | None:
        """
        Take the next chunk and return the block that it completes.

        Raises:
            BlockSizeError: If the block has another size than its namespace's blocks, or more or
                fewer bytes come than its header says.
            BadRequestError: If no header has come before the first bytes.
        """
        if chunk.header is not None:
            self.finish()
            self._check_size(chunk.header)
            if len(chunk.data) == self._block_bytes:
                return chunk.header, chunk.data  # in one piece: no copy
            self._header = chunk.header
            self._filled = 0
        if self._header is None:
            raise BadRequestError("chunk has no header, must have one: no block is open")
        end = self._filled + len(chunk.data)
        if end > self._block_bytes:
            raise BlockSizeError(f"payload is {end} bytes or more, header says {self._block_bytes}")
        self.memory[self._filled : end] = chunk.data
        self._filled = end
        if end < self._block_bytes:
            return None
        header, self._header = self._header, None
        return header, self.memory

    def finish(self) -> None:
        """
        Check that no block is left half.

        Raises:
            BlockSizeError: If fewer bytes came than the header says.
        """
        if self._header is not None:
            raise BlockSizeError(
                f"payload is {self._filled} bytes, header says {self._block_bytes}"
            )

    def _check_size(self, header: BlockHeader) -> None:
        if header.size_bytes != self._block_bytes:
            raise BlockSizeError(
                f"block is {header.size_bytes} bytes, "
                f"the namespace's blocks are {self._block_bytes} bytes"
            )
