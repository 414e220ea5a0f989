"""The memory of what was evicted."""

from cachenode.eviction.ghosts import Ghosts


def test_what_came_back_is_recalled_once():
    ghosts: Ghosts[str] = Ghosts()
    ghosts.remember(1, "one", 9)
    assert ghosts.recall(1) == "one"
    assert ghosts.recall(1) is None


def test_the_oldest_are_forgotten_first():
    ghosts: Ghosts[str] = Ghosts()
    for number, text in enumerate(["zero", "one", "two"]):
        ghosts.remember(number, text, 9)
    ghosts.remember(0, "zero again", 2)
    assert len(ghosts) == 2
    assert [ghosts.recall(number) for number in range(3)] == ["zero again", None, "two"]
