"""
The pulls that are under way: who joins which, and who waits for whom. Pure.

Two pulls of prompts that begin alike would fetch the same blocks twice. So a pull whose next
block belongs to one that knew its keys earlier waits for that one, and nobody waits in a circle:
everybody waits only for those before him.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hearthkv.core.block_key import PackedKeys
from hearthkv.core.pulls import PullEnd, PullQuery


@dataclass(eq=False, slots=True)
class PullRun:
    """
    One pull under way.

    Invariant: `0 <= pulled_blocks <= held_blocks <= len(keys)` once the keys are known.
    """

    query: PullQuery
    """As the first who asked for it had it."""

    blocks: int
    """Blocks of the prefix, as far as that is known; 0 where it is not."""

    is_ordered: bool
    """Whether it goes on though nobody waits."""

    keys: PackedKeys | None = None
    """None until they are known."""

    held_blocks: int = 0
    pulled_blocks: int = 0
    end: PullEnd | None = None
    waiting: int = 0
    """Callers, and other pulls, that wait for it."""

    place: int = 0
    """Its place among the pulls that know their keys; lower ones knew them earlier."""

    _at: dict[bytes, int] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether all of the prefix is held."""
        return self.keys is not None and self.held_blocks == len(self.keys)

    def learn(self, keys: PackedKeys, place: int) -> None:
        """Learn the keys."""
        self.keys = keys
        self.blocks = len(keys)
        self.place = place
        self._at = {key: at for at, key in enumerate(keys)}

    def has(self, namespace_id: bytes, key: bytes) -> bool:
        """Whether a block is one of this pull's."""
        return key in self._at and namespace_id == self.query.namespace_id

    def blocks_to(self, namespace_id: bytes, tip_key: bytes) -> int | None:
        """How many blocks the prefix to a tip has, if it is one of this pull's; else None."""
        if namespace_id != self.query.namespace_id:
            return None
        if tip_key in self._at:
            return self._at[tip_key] + 1
        return self.blocks if tip_key == self.query.tip_key else None

    def common_blocks(self, namespace_id: bytes, keys: PackedKeys) -> int:
        """How many leading blocks a prompt has in common with this pull, by bisection."""
        if namespace_id != self.query.namespace_id:
            return 0
        if self.keys is None:
            is_within = 0 < self.blocks <= len(keys)
            return self.blocks if is_within and self._ends(keys.slice(0, self.blocks)) else 0
        low, high = 0, min(len(keys), len(self.keys))
        while low < high:
            middle = (low + high) // 2
            if keys[middle] in self._at:
                low = middle + 1
            else:
                high = middle
        return low

    def _ends(self, keys: PackedKeys) -> bool:
        return keys[len(keys) - 1] == self.query.tip_key


class PullRuns:
    """
    All pulls under way.

    Invariant (I3): no more than `runs_max` of them.
    """

    def __init__(self, runs_max: int) -> None:
        self._runs_max = runs_max
        self._runs: list[PullRun] = []
        self._next_place = 1

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[PullRun]:
        return iter(tuple(self._runs))

    def joinable(self, query: PullQuery) -> PullRun | None:
        """
        A pull from the same source that brings all that is asked for; None where none does.

        Whoever names no source takes it from any.
        """
        for run in self._runs:
            is_fitting = query.source_address in {"", run.query.source_address}
            if is_fitting and run.blocks_to(query.namespace_id, query.tip_key) is not None:
                return run
        return None

    def begin(self, query: PullQuery, *, blocks: int = 0, is_ordered: bool) -> PullRun | None:
        """
        Begin a pull; None where as many as there may be are under way.

        Args:
            query: What is asked for.
            blocks: Blocks of the prefix, where only its tip is known; 0 where neither is.
            is_ordered: Whether it goes on though nobody waits.
        """
        if len(self._runs) >= self._runs_max:
            return None
        run = PullRun(query, len(query.keys) or blocks, is_ordered)
        self._runs.append(run)
        return run

    def learn(self, run: PullRun, keys: PackedKeys) -> None:
        """Learn the keys of a pull, which puts it behind all that know theirs."""
        run.learn(keys, self._next_place)
        self._next_place += 1

    def end(self, run: PullRun, end: PullEnd | None) -> None:
        """End a pull, once; None where it was given up, for nobody wants it."""
        self._runs.remove(run)
        run.end = end

    def bringer(self, namespace_id: bytes, key: bytes, waiter: PullRun | None) -> PullRun | None:
        """
        The pull that brings a block.

        Args:
            namespace_id: The block's namespace.
            key: The block.
            waiter: The pull that would wait for it, which knows its keys; None: just a caller.

        Returns:
            The one that knew its keys first; for a pull, only one that knew them before it did.
            None where there is none.
        """
        bringing = [
            run
            for run in self._runs
            if run.has(namespace_id, key) and (waiter is None or run.place < waiter.place)
        ]
        return min(bringing, key=lambda run: run.place, default=None)

    def arriving_blocks(self, namespace_id: bytes, keys: PackedKeys, held_blocks: int) -> int:
        """How many leading blocks of a prompt are held or on their way."""
        common = (run.common_blocks(namespace_id, keys) for run in self._runs)
        return max(held_blocks, max(common, default=0))
