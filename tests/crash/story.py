"""What a node is told to do before it is killed, and what it said while it lived."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hypothesis import strategies as st

from hearthkv.core.block_io import WriteStatus
from hearthkv.core.tier import Tier
from tests.node_rig import prompt

PROMPTS = 4
BLOCKS_MAX = 8
SHARED_BLOCKS = 3
"""Blocks that all prompts begin with, as those of one system prompt do."""

STEPS_MAX = {"effects": 30, "events": 6000}
"""How far into an operation the knife falls at most: calls and returns of the interpreter, or
its calls into C that change a file or send something. Either is what a write of a whole prompt
takes, with the demotions that it causes."""

OPERATIONS = ("write", "direct", "read", "prefetch", "settle", "drop")
VICTIMS = ("node", "redis", "both")


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing to do with the first blocks of one prompt."""

    kind: str
    name: int
    blocks: int
    is_busy: bool
    """Whether blocks are moved and erased meanwhile."""

    @property
    def keys(self) -> list[bytes]:
        """Keys of the blocks."""
        return keys_of(self.name, self.blocks)


@dataclass(frozen=True, slots=True)
class Knife:
    """Who dies, and when: so many steps after an operation has begun."""

    victims: str
    operation: int
    unit: str
    steps: int


@dataclass(frozen=True, slots=True)
class Story:
    """A node's life."""

    operations: tuple[Operation, ...]
    knife: Knife
    dram_blocks: int
    ssd_blocks: int

    @property
    def has_room(self) -> bool:
        """Whether all prompts fit below every threshold, so that nothing is ever evicted."""
        return self.ssd_blocks >= 2 * PROMPTS * BLOCKS_MAX

    def to_json(self) -> dict[str, object]:
        """The story as the process under the knife is told it."""
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, object]) -> "Story":
        """Understand what `to_json` told."""
        operations, knife = told["operations"], told["knife"]
        assert isinstance(operations, list)
        assert isinstance(knife, dict)
        limits = (told["dram_blocks"], told["ssd_blocks"])
        return cls(tuple(Operation(**each) for each in operations), Knife(**knife), *limits)


@dataclass(frozen=True, slots=True)
class Said:
    """What the node had said when it died."""

    held: frozenset[bytes]
    """Blocks that it acknowledged and was not told to drop."""

    on_ssd: frozenset[bytes]
    """Blocks that lay on the SSD when it was last asked, and no promotion was ordered."""


def keys_of(name: int, blocks: int) -> list[bytes]:
    """The keys of a prompt's first blocks."""
    return [*prompt(SHARED_BLOCKS), *prompt(BLOCKS_MAX, name + 1)[SHARED_BLOCKS:]][:blocks]


def understood(story: Story, lines: Sequence[str]) -> Said:
    """What the reports of a node mean."""
    held: set[bytes] = set()
    on_ssd: set[bytes] = set()
    for operation, line in zip(story.operations, lines, strict=False):
        report = json.loads(line)
        statuses = map(WriteStatus, report["statuses"])  # of the first blocks, or of none
        acknowledged = zip(operation.keys, statuses, strict=False)
        held |= {key for key, status in acknowledged if status.is_held}
        on_ssd = {bytes.fromhex(key) for key in report[Tier.SSD.name]}
    # What a drop that may have begun has touched is nobody's promise any more.
    for operation in story.operations[: len(lines) + 1]:
        if operation.kind == "drop":
            held -= _below(operation)
        if operation.kind == "prefetch":
            on_ssd.clear()
    return Said(frozenset(held), frozenset(on_ssd & held))


def _below(operation: Operation) -> set[bytes]:
    """All that hang on the last block of an operation's keys, itself included."""
    last = operation.keys[-1]
    prompts = [keys_of(name, BLOCKS_MAX) for name in range(PROMPTS)]
    return {key for keys in prompts if last in keys for key in keys[keys.index(last) :]}


operations = st.builds(
    Operation,
    st.sampled_from(OPERATIONS),
    st.integers(0, PROMPTS - 1),
    st.integers(1, BLOCKS_MAX),
    st.booleans(),
)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """A story that begins with a write, for a node that has nothing has nothing to lose."""
    first = Operation("write", 0, BLOCKS_MAX, draw(st.booleans()))
    told = (first, *draw(st.lists(operations, max_size=6)))
    unit = draw(st.sampled_from(list(STEPS_MAX)))
    knife = Knife(
        draw(st.sampled_from(VICTIMS)),
        draw(st.integers(0, len(told) - 1)),
        unit,
        draw(st.integers(0, STEPS_MAX[unit])),
    )
    return Story(
        told,
        knife,
        dram_blocks=draw(st.sampled_from([2, 6, 100])),
        ssd_blocks=draw(st.sampled_from([100, 6])),
    )
