"""Tests of hearthkv/demo/openai_api.py."""

import json

import pytest

from hearthkv.core.errors import BadInputError
from hearthkv.core.routing import CacheHint
from hearthkv.demo.openai_api import (
    MESSAGES_MAX,
    OUTPUT_TOKENS_DEFAULT,
    Answer,
    ChatMessage,
    Usage,
    error_body,
    parse_chat_request,
    parse_messages,
    sse,
)

HELLO = {"role": "user", "content": "hello"}
ANSWER = Answer("chatcmpl-1", "tiny", 1_700_000_000)


def nested(depth: int) -> list[object]:
    value: list[object] = []
    for _ in range(depth):
        value = [value]
    return value


def test_a_request_with_nothing_but_a_message_gets_the_usual():
    asked = parse_chat_request({"messages": [HELLO]})
    assert asked.messages == (ChatMessage("user", "hello"),)
    assert (asked.model, asked.stream, asked.includes_usage) == ("", False, True)
    assert (asked.max_tokens, asked.session_id) == (OUTPUT_TOKENS_DEFAULT, None)
    assert asked.cache_hint is CacheHint.REUSE


def test_every_field_that_is_used_is_read():
    asked = parse_chat_request(
        {
            "model": "tiny",
            "messages": [HELLO],
            "stream": True,
            "stream_options": {"include_usage": False},
            "max_tokens": 9,
            "metadata": {"session_id": "s-1", "cache_hint": "bypass"},
            "temperature": 0.7,
        }
    )
    assert (asked.model, asked.stream, asked.includes_usage) == ("tiny", True, False)
    assert (asked.max_tokens, asked.session_id) == (9, "s-1")
    assert asked.cache_hint is CacheHint.BYPASS


def test_the_newer_name_of_the_limit_counts_before_the_older():
    body = {"messages": [HELLO], "max_tokens": 5, "max_completion_tokens": 7}
    assert parse_chat_request(body).max_tokens == 7


def test_null_is_as_good_as_absent():
    names = ("model", "stream", "stream_options", "max_tokens", "metadata", "tools")
    plain = parse_chat_request({"messages": [HELLO]})
    assert parse_chat_request({"messages": [HELLO], **dict.fromkeys(names)}) == plain


def test_parts_of_a_content_are_joined():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert parse_messages({"messages": [{"role": "user", "content": parts}]}) == (
        ChatMessage("user", "ab"),
    )


def test_tool_calls_become_text_behind_the_content():
    call = {"id": "1", "function": {"name": "run"}}
    said = {"role": "assistant", "content": "see", "tool_calls": [call]}
    silent = {**said, "content": None}
    line = '{"function": {"name": "run"}, "id": "1"}'
    assert [m.content for m in parse_messages({"messages": [said, silent]})] == [
        f"see\n{line}",
        line,
    ]


def test_a_developer_speaks_as_the_system():
    (message,) = parse_messages({"messages": [{"role": "developer", "content": "be brief"}]})
    assert message.role == "system"


TOOL = {"type": "function", "function": {"name": "run"}}
TOOLS_TEXT = (
    "You may call these tools, one JSON object a line:\n"
    '{"function": {"name": "run"}, "type": "function"}'
)


def test_tools_are_written_behind_the_system_message():
    system = {"role": "system", "content": "be brief"}
    messages = parse_messages({"messages": [system, HELLO], "tools": [TOOL]})
    assert messages[0] == ChatMessage("system", f"be brief\n\n{TOOLS_TEXT}")
    assert len(messages) == 2


def test_tools_make_a_system_message_where_there_is_none():
    messages = parse_messages({"messages": [HELLO], "tools": [TOOL]})
    assert messages == (ChatMessage("system", TOOLS_TEXT), ChatMessage("user", "hello"))


def test_the_order_of_keys_in_a_tool_changes_nothing():
    turned = dict(reversed(TOOL.items()))
    bodies = [{"messages": [HELLO], "tools": [tool]} for tool in (TOOL, turned)]
    assert parse_messages(bodies[0]) == parse_messages(bodies[1])


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        pytest.param({"model": 5}, "model is 5, must be a text", id="model"),
        pytest.param({"messages": None}, "messages must be a list of 1 to 4096", id="no-messages"),
        pytest.param({"messages": []}, "messages must be a list of 1", id="empty-messages"),
        pytest.param({"messages": "hi"}, "messages must be a list", id="messages-text"),
        pytest.param({"messages": [HELLO] * (MESSAGES_MAX + 1)}, "messages must be", id="too-many"),
        pytest.param({"messages": [5]}, r"messages\[0\] is a int, must be an object", id="message"),
        pytest.param(
            {"messages": [{"role": "x"}]}, r"messages\[0\].role is 'x', must be", id="role"
        ),
        pytest.param({"messages": [{"role": []}]}, r"messages\[0\].role is \[\]", id="role-list"),
        pytest.param(
            {"messages": [HELLO, {"role": "user", "content": 5}]},
            r"messages\[1\].content must be a text or a list",
            id="content",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": ["x"]}]},
            r"messages\[0\].content\[0\] is a str, must be an object",
            id="part",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            r"messages\[0\].content\[0\].type is 'image_url', must be 'text'",
            id="image",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]},
            r"messages\[0\].content\[0\].type is 'text'",
            id="part-without-text",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": "a\ud800"}]},
            r"messages\[0\].content has the lone surrogate U\+D800 at 1, must be UTF-8",
            id="content-surrogate",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "\udfff"}]}]},
            r"messages\[0\].content\[0\].text has the lone surrogate",
            id="part-surrogate",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "tool_calls": {}}]},
            r"messages\[0\].tool_calls is a dict, must be a list",
            id="tool_calls",
        ),
        pytest.param({"tools": {}}, "tools is a dict, must be a list", id="tools"),
        pytest.param({"tools": ["x"]}, r"tools\[0\] is a str, must be an object", id="tool"),
        pytest.param({"tools": [{"x": "\ud800"}]}, r"tools\[0\] has the lone", id="tool-surrogate"),
        pytest.param(
            {"tools": [{"x": nested(3000)}]}, r"tools\[0\] is nested too deep", id="nested"
        ),
        pytest.param({"stream": 1}, "stream is 1, must be true or false", id="stream"),
        pytest.param({"stream_options": []}, "stream_options is a list", id="stream_options"),
        pytest.param(
            {"stream_options": {"include_usage": "no"}},
            "stream_options.include_usage is 'no', must be true or false",
            id="include_usage",
        ),
        pytest.param(
            {"max_tokens": 0}, "max_tokens is 0, must be a whole number >= 1", id="limit-0"
        ),
        pytest.param({"max_tokens": True}, "max_tokens is True, must be", id="limit-flag"),
        pytest.param({"max_tokens": 1.5}, "max_tokens is 1.5, must be", id="limit-part"),
        pytest.param(
            {"max_completion_tokens": "7"}, "max_completion_tokens is '7'", id="newer-limit-text"
        ),
        pytest.param({"metadata": "s"}, "metadata is a str, must be an object", id="metadata"),
        pytest.param({"metadata": []}, "metadata is a list, must be an object", id="metadata-list"),
        pytest.param(
            {"metadata": {"session_id": 5}},
            "metadata.session_id is 5, must be a text",
            id="session_id",
        ),
        pytest.param(
            {"metadata": {"session_id": ""}}, "session_id is 0 bytes", id="empty-session_id"
        ),
        pytest.param(
            {"metadata": {"session_id": "\ud800"}}, "lone surrogate", id="session-surrogate"
        ),
        pytest.param(
            {"metadata": {"cache_hint": "maybe"}},
            "metadata.cache_hint is 'maybe', must be one of none, reuse, bypass",
            id="cache_hint",
        ),
        pytest.param(
            {"metadata": {"cache_hint": []}}, r"metadata.cache_hint is \[\]", id="hint-list"
        ),
    ],
)
def test_a_field_that_cannot_be_used_is_named(wrong: dict[str, object], text: str):
    with pytest.raises(BadInputError, match=text):
        parse_chat_request({"messages": [HELLO], **wrong})


def test_a_body_that_is_no_object_is_refused():
    with pytest.raises(BadInputError, match="body is a list, must be an object"):
        parse_chat_request([])
    with pytest.raises(BadInputError, match="body is a str, must be an object"):
        parse_messages("x")


def test_a_whole_answer_has_the_form_of_the_api():
    assert ANSWER.completion("hi", "stop", usage=Usage(10, 2, 8), extra={"miss": None}) == {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "tiny",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "hi"},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 2,
            "total_tokens": 12,
            "prompt_tokens_details": {"cached_tokens": 8},
        },
        "hearthkv": {"miss": None},
    }


def test_a_part_of_a_streamed_answer_has_the_form_of_the_api():
    chunk = ANSWER.chunk({"content": "h"})
    assert chunk["object"] == "chat.completion.chunk"
    assert chunk["choices"] == [{"index": 0, "delta": {"content": "h"}, "finish_reason": None}]


def test_the_figures_of_a_stream_come_without_a_choice():
    chunk = ANSWER.usage_chunk(Usage(10, 2, 8), {"ttft_s": 0.5})
    assert (chunk["choices"], chunk["hearthkv"]) == ([], {"ttft_s": 0.5})
    assert chunk["usage"] == Usage(10, 2, 8).as_json()


def test_an_event_is_one_line_of_json():
    assert sse({"text": "a\nü"}) == b'data: {"text":"a\\n\\u00fc"}\n\n'


def test_an_error_has_the_form_of_the_api():
    body = error_body("too long", "invalid_request_error")
    assert json.loads(json.dumps(body))["error"]["message"] == "too long"
