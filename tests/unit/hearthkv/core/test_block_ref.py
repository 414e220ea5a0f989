"""Names of copies."""

from tests.unit.cachenode.catalog_kit import ref


def test_two_copies_of_one_block_have_different_names():
    assert ref(1, sequence=7) != ref(1, sequence=8)
    assert ref(1, sequence=7) == ref(1, sequence=7)
