"""Which session and node ids are taken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearthkv.core.errors import BadInputError, BadSessionIdError
from hearthkv.core.session_id import check_node_id, check_session_id


@pytest.mark.parametrize("text", ["a", "x" * 256, "é" * 128, "会话 7", "👩‍💻", " ", "a/b?c=%00"])
def test_a_session_id_is_any_printable_text_of_256_bytes(text):
    assert check_session_id(text) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "session_id is 0 bytes, must be 1 to 256", id="empty"),
        pytest.param("x" * 257, "session_id is 257 bytes, must be 1 to 256", id="long"),
        pytest.param("é" * 129, "session_id is 258 bytes, must be 1 to 256", id="long-in-bytes"),
        pytest.param(
            "ab\nc",
            "session_id has the control character U+000A at 2, must have none",
            id="newline",
        ),
        pytest.param(
            "\0", "session_id has the control character U+0000 at 0, must have none", id="nul"
        ),
        pytest.param(
            "a\x85", "session_id has the control character U+0085 at 1, must have none", id="c1"
        ),
        pytest.param(
            "\u2028", "session_id has the control character U+2028 at 0, must have none", id="line"
        ),
        pytest.param(
            "ab\ud800", "session_id has the lone surrogate U+D800 at 2, must be UTF-8", id="half"
        ),
    ],
)
def test_any_other_session_id_is_refused(text, message):
    with pytest.raises(BadSessionIdError) as caught:
        check_session_id(text)
    assert str(caught.value) == message


@given(st.text(st.characters(codec=None), max_size=300))
def test_what_is_accepted_can_be_sent(text):
    refused = ""
    try:
        check_session_id(text)
    except BadSessionIdError as error:
        refused = str(error)
    assert len(refused) < 200
    assert refused or 1 <= len(text.encode()) <= 256


@pytest.mark.parametrize("text", ["a", "node-1.example_x", "A" * 128])
def test_a_node_id_is_a_plain_word(text):
    assert check_node_id(text) == text


@pytest.mark.parametrize("text", ["", "a b", "a/b", "é", "a\n", "A" * 129, "x" * 10**6])
def test_any_other_node_id_is_refused(text):
    with pytest.raises(BadInputError, match=r"node_id is '.*', must be 1 to 128 of") as caught:
        check_node_id(text)
    assert len(str(caught.value)) < 250
