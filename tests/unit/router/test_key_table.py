"""router/key_table.py: a dictionary of keys in less memory, against a dictionary."""

import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from router.key_table import KeyTable

KEYS = [bytes([number // 7, number]) for number in range(40)]


def test_a_fresh_table_is_empty():
    table = KeyTable(2)
    assert (len(table), table.last_entry) == (0, 0)
    assert table.find(KEYS[0]) == 0
    assert table.number_of(KEYS[0]) == 0


def test_an_entry_that_was_freed_is_used_again():
    table = KeyTable(2)
    entries = [table.put(key) for key in KEYS[:3]]
    table.numbers[entries[1]] = 7
    table.remove(entries[1])
    assert table.put(KEYS[9]) == entries[1]
    assert table.number_of(KEYS[9]) == 0
    assert table.last_entry == 3


@given(st.integers(1, 32), st.integers(1, 600))
def test_all_keys_are_found_however_often_chains_are_split(width, count):
    table = KeyTable(width)
    keys = [number.to_bytes(width, "little") for number in range(min(count, 256**width))]
    for number, key in enumerate(keys):
        table.numbers[table.put(key)] = number + 1
    assert [table.number_of(key) for key in keys] == list(range(1, len(keys) + 1))
    assert len(table) == len(keys)


def test_keys_of_which_the_hashes_are_equal_are_told_apart(monkeypatch):
    table = KeyTable(2)
    monkeypatch.setattr("router.key_table._HASH_BITS", 0)
    entries = [table.put(key) for key in KEYS]
    assert [table.find(key) for key in KEYS] == entries
    for removed in (0, 20, 39):  # the last of the one chain, one in it, and the first
        table.remove(entries[removed])
        assert table.find(KEYS[removed]) == 0
    assert [table.find(key) for key in KEYS[1:20]] == entries[1:20]


def test_a_key_costs_under_40_bytes():
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    table = KeyTable(16)
    for number in range(20_000):
        table.put(number.to_bytes(16, "big"))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(table) == 20_000
    assert (after - before) / 20_000 < 40


class AgainstADictionary(RuleBasedStateMachine):
    @initialize()
    def start(self):
        self.table = KeyTable(2)
        self.model: dict[bytes, int] = {}

    @rule(key=st.sampled_from(KEYS), number=st.integers(1, 2**32 - 1))
    def put(self, key, number):
        self.table.numbers[self.table.put(key)] = number
        self.model[key] = number

    @rule(key=st.sampled_from(KEYS))
    def remove(self, key):
        entry = self.table.find(key)
        assert bool(entry) == (key in self.model)
        if entry:
            self.table.remove(entry)
            del self.model[key]

    @invariant()
    def they_agree(self):
        assert len(self.table) == len(self.model)
        assert {key: self.table.number_of(key) for key in self.model} == self.model
        assert sorted(filter(None, self.table.numbers)) == sorted(self.model.values())


AgainstADictionary.TestCase.settings = settings(
    max_examples=50, stateful_step_count=60, deadline=None
)
TestAgainstADictionary = AgainstADictionary.TestCase
