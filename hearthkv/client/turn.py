"""One turn of a session: what is loaded before the prefill, what is saved after it. Not pure."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from hearthkv.client.buffers import ByteBuffer, block_payloads, writable_bytes
from hearthkv.client.choices import checked_choice
from hearthkv.client.load_run import LoadQuery, OnProgress
from hearthkv.client.loader import Loader
from hearthkv.client.node_client import NodeClient
from hearthkv.client.outcome import Finished, Loaded, MissReason
from hearthkv.client.saver import SaveRun
from hearthkv.client.settings import ClientSettings
from hearthkv.client.stats import ClientStats
from hearthkv.core.block_key import TOKEN_BYTES, KeyChain, PackedKeys, Tokens, pack_tokens
from hearthkv.core.errors import BadInputError, PeerError
from hearthkv.core.namespace import NamespaceSpec
from hearthkv.core.pulls import PullQuery
from hearthkv.core.routing import PlacementReason
from hearthkv.core.session_id import NodeId, SessionId
from hearthkv.core.tier import TierCounts
from hearthkv.core.turn_end import EndedTurn, TurnEnd


@dataclass(slots=True)
class Prompt:
    """The tokens of a turn, and the keys of their full blocks."""

    session_id: SessionId
    spec: NamespaceSpec
    chain: KeyChain
    """Shared with the session's other turns; what it remembers saves hashing, no more."""

    packed_tokens: bytes
    keys: PackedKeys
    settled_blocks: int = 0
    """Leading blocks that the session's last prompt had too."""

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        return len(self.packed_tokens) // TOKEN_BYTES

    def extend(self, tokens: Tokens) -> None:
        """Put tokens behind the prompt; raises BadInputError and changes nothing then."""
        self.packed_tokens += pack_tokens(tokens)
        self.keys = self.chain.keys_of_packed(self.packed_tokens)


@dataclass(frozen=True, slots=True)
class Seat:
    """Where a turn sits, and what is known of its prefix there."""

    node_id: NodeId | None = None
    """None where the caller named the node by its address, or no node was found."""

    engine_url: str = ""
    reason: PlacementReason | None = None
    """Why that node; None where nobody chose one."""

    matched: TierCounts = field(default_factory=TierCounts)
    miss: MissReason | None = None
    arriving_blocks: int = 0
    """Leading blocks that the node holds or gets from another node."""

    source_address: str = ""
    """Whom it gets them from; empty where only the node knows."""


class Turn:
    """
    One turn of a session. Made by `HearthKV.begin_turn`.

    Nothing here raises for any trouble of the cache (I5): a load brings less, a save is refused,
    and the outcome says why. Only what the caller got wrong raises BadInputError.
    """

    def __init__(
        self,
        prompt: Prompt,
        seat: Seat,
        node: NodeClient | None,
        saves: SaveRun | None,
        *,
        loader: Loader,
        settings: ClientSettings,
        stats: ClientStats,
    ) -> None:
        assert (node is None) == (saves is None)
        self._prompt = prompt
        self._seat = seat
        self._node = node
        self._saves = saves
        self._loader = loader
        self._settings = settings
        self._stats = stats
        self._prompt_blocks = len(prompt.keys)
        self._reported = Finished()
        self._is_end_told = False
        """What `stats` knows of the saves."""

    @property
    def session_id(self) -> SessionId:
        """The session."""
        return self._prompt.session_id

    @property
    def node_id(self) -> NodeId | None:
        """Name of the node; None where it was given by its address, or there is none."""
        return self._seat.node_id

    @property
    def node_address(self) -> str | None:
        """Address of the node that the turn talks to; None where it talks to none."""
        return self._node.address if self._node else None

    @property
    def engine_url(self) -> str:
        """Base URL of the engine beside the node; empty where none is known."""
        return self._seat.engine_url

    @property
    def reason(self) -> PlacementReason | None:
        """Why this node was chosen; None where nobody chose."""
        return self._seat.reason

    @property
    def matched(self) -> TierCounts:
        """Leading blocks of the prompt that the node is said to hold."""
        return self._seat.matched

    @property
    def matched_tokens(self) -> int:
        """Tokens in the matched blocks."""
        return self.matched.total * self.block_size

    @property
    def arriving_blocks(self) -> int:
        """
        Leading blocks that the node holds, or is getting from another node.

        At least those that matched. `load_into` waits for them as far as the buffer has room,
        and as long as that is faster than to compute them.
        """
        return max(self.matched.total, self._seat.arriving_blocks)

    @property
    def miss_reason(self) -> MissReason | None:
        """Why nothing matched; None where something did."""
        return self._seat.miss

    @property
    def block_size(self) -> int:
        """Tokens in a block."""
        return self._prompt.spec.block_size

    @property
    def block_bytes(self) -> int:
        """Payload bytes of a block."""
        return self._prompt.spec.block_bytes

    @property
    def keys(self) -> PackedKeys:
        """Keys of all full blocks, those that `extend` added included."""
        return self._prompt.keys

    async def load_into(
        self,
        buffer: ByteBuffer,
        first_block: int = 0,
        *,
        blocks: int | None = None,
        deadline_s: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Loaded:
        """
        Load a run of the prompt's blocks; each is verified before it counts.

        Where the node is on this host its stores are read directly, and else through the node.
        Once the call is over, however it ends, nothing writes to the buffer any more.

        Args:
            buffer: Writable, C-contiguous: a bytearray, an array of NumPy, pinned memory of
                torch by its `numpy()`. Block i of the prompt goes to
                `(i - first_block) * block_bytes`. What lies behind the blocks that the answer
                counts is undefined afterwards.
            first_block: Where to begin; the caller has the blocks before it.
            blocks: How many to ask for. None: as many as fit, and all that matched must fit.
            deadline_s: Seconds after which to give up; None: `ClientSettings.read_s`.
            on_progress: Told, each time that there are more, how many blocks from the start of
                the buffer are verified and may be used, while those behind them are on their
                way. Called within the event loop: it must be short, and must not raise.

        Raises:
            BadInputError: If a block is asked for that the prompt does not have.
            LayoutMismatchError: If the buffer is too small, read-only or not contiguous.
        """
        wanted, view = self._wanted(buffer, first_block, blocks)
        if self._node is None or wanted == 0:
            return Loaded(miss=self.miss_reason)
        query = LoadQuery(
            spec=self._prompt.spec,
            session_id=self._prompt.session_id,
            keys=self._prompt.keys.slice(first_block, first_block + wanted),
            first_block=first_block,
            matched=self.matched,
            view=view,
            limit_s=self._settings.read_s if deadline_s is None else deadline_s,
            on_progress=on_progress,
            pull=self._pull(),
        )
        loaded = await self._loader.load(self._node, query)
        self._stats.count_load(loaded, self.block_size)
        return loaded

    def note_prefill(self, tokens: int, seconds: float) -> None:
        """
        Tell how long the engine took to compute the KV of `tokens` tokens of this prompt.

        From that, and from what loads take, `load_into` learns which blocks to leave out because
        they are computed faster than loaded. Before it is told, all that is there is loaded.
        """
        self._loader.note_prefill(self._prompt.spec.namespace_id, tokens, seconds)

    def extend(self, tokens: Tokens) -> int:
        """
        Put generated tokens behind the prompt; return how many full blocks there are now.

        Raises:
            BadInputError: If a token id is out of bounds.
        """
        self._prompt.extend(tokens)
        return len(self._prompt.keys)

    def save(self, first_block: int, payloads: Sequence[ByteBuffer]) -> int:
        """
        Queue blocks to be saved in the background; copies them, so buffers are free at once.

        A block is of use only if all before it are held or saved too. What does not fit into
        the queue is refused, which is a miss later; `finish` tells the account.

        Args:
            first_block: Place of the first one in the prompt with its extension.
            payloads: C-contiguous, `block_bytes` each.

        Returns:
            How many of them, from the first on, are queued.

        Raises:
            BadInputError: If there is a block that the turn has no tokens for.
            BlockSizeError: If a payload has another size than `block_bytes`.
            LayoutMismatchError: If a payload is no contiguous buffer.
        """
        end, known = first_block + len(payloads), len(self._prompt.keys)
        if not 0 <= first_block <= end <= known:
            raise BadInputError(
                f"blocks {first_block} to {end} are to be saved, must be in 0..{known}"
            )
        views = block_payloads(payloads, self.block_bytes)
        if self._saves is None:
            return 0
        return self._saves.add(first_block, views, self._prompt.keys)

    async def finish(
        self,
        deadline_s: float | None = None,
        *,
        end: TurnEnd | str = TurnEnd.UNKNOWN,
        returns_in_s: float | None = None,
    ) -> Finished:
        """
        Wait for the saves, and say what became of them.

        A turn that is not finished is saved all the same; only nobody is told. A node that knows
        how turns end keeps the right blocks: those of a session that waits for a tool are in DRAM
        when it returns, and those of one that is over make room for others.

        Args:
            deadline_s: Seconds after which to give up the rest; None: `ClientSettings.finish_s`.
            end: How the turn ended, for the node.
            returns_in_s: Seconds until the session's next turn; None where they are not known.

        Raises:
            BadInputError: If `end` is none of `TurnEnd`, or `returns_in_s` is out of bounds.
        """
        ended = EndedTurn(self.session_id, checked_choice(TurnEnd, "end", end), returns_in_s)
        if self._saves is None or self._node is None:
            return Finished(miss=self.miss_reason)
        limit_s = self._settings.finish_s if deadline_s is None else deadline_s
        loop = asyncio.get_running_loop()
        over_s = loop.time() + limit_s
        account = await self._saves.finish(limit_s)
        self._stats.count_saves(self._reported, account)
        self._reported = account
        # Once also where nobody knows how: the node counts what turns have left to compute.
        if self._is_end_told and ended.end is TurnEnd.UNKNOWN:
            return account
        self._is_end_told = True
        with suppress(PeerError, TimeoutError):  # the frame of the call took note
            async with asyncio.timeout_at(over_s):
                await self._node.end_turn(ended)
        return account

    def _pull(self) -> PullQuery | None:
        """What is on its way to the node; None where nothing is."""
        blocks = min(self._seat.arriving_blocks, self._prompt_blocks)
        if blocks <= self.matched.total:
            return None
        keys = self._prompt.keys.slice(0, blocks)
        return PullQuery(
            self._prompt.spec.namespace_id,
            keys,
            keys[blocks - 1],
            self._seat.source_address,
            self._prompt.session_id,
            self._prompt.spec,
        )

    def _wanted(
        self, buffer: ByteBuffer, first_block: int, blocks: int | None
    ) -> tuple[int, memoryview]:
        """How many blocks to ask for, and the bytes to put them into."""
        if not 0 <= first_block <= self._prompt_blocks:
            raise BadInputError(
                f"first_block is {first_block}, must be in 0..{self._prompt_blocks}"
            )
        there = self._prompt_blocks - first_block
        if blocks is None:
            blocks_min = max(0, self.matched.total - first_block)
            view = writable_bytes(buffer, blocks_min * self.block_bytes)
            return min(there, len(view) // self.block_bytes), view
        if not 0 <= blocks <= there:
            raise BadInputError(f"blocks is {blocks}, must be in 0..{there}")
        return blocks, writable_bytes(buffer, blocks * self.block_bytes)
