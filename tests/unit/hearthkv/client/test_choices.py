"""Tests of hearthkv/client/choices.py."""

import pytest

from hearthkv.client.choices import checked_choice
from hearthkv.core.errors import BadInputError
from hearthkv.core.routing import CacheHint


@pytest.mark.parametrize("hint", CacheHint)
def test_a_choice_is_made_by_its_member_or_its_text(hint: CacheHint):
    assert checked_choice(CacheHint, "cache_hint", hint) is hint
    assert checked_choice(CacheHint, "cache_hint", hint.value) is hint


def test_what_is_no_choice_is_named_with_those_that_are():
    with pytest.raises(BadInputError, match=r"cache_hint is 'maybe', must be one of .*reuse"):
        checked_choice(CacheHint, "cache_hint", "maybe")
