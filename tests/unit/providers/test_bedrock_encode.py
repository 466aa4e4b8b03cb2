import json
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from awaken.contracts.messages.content import (
    Audio,
    Base64Source,
    Document,
    Image,
    Text,
    Thinking,
    ToolResultContent,
    ToolUse,
    UrlSource,
    Video,
)
from awaken.contracts.messages.message import (
    Message,
    ToolCall,
    assistant,
    system,
    tool_answer,
    user,
)
from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import (
    Effort,
    EffortBudget,
    InferenceOverride,
    InferenceRequest,
    ModelTool,
)
from awaken.providers.bedrock.encode import ConverseEncoder

CLAUDE = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"
LLAMA = "meta.llama3-70b-instruct-v1:0"
POINT = {"cachePoint": {"type": "default"}}
SEARCH = ModelTool(
    id="search",
    description="Finds things.",
    parameters={"type": "object", "properties": {"q": {"type": "string"}}},
)


def data(media_type: str, text: str = "aGk=") -> Base64Source:
    return Base64Source(media_type=media_type, data=text)


def encoded(*messages: Message, model: str = LLAMA, **fields: Any) -> bytes:
    encoder = ConverseEncoder(enforces_schema=fields.pop("enforces_schema", False))
    request = InferenceRequest(upstream_model=model, messages=list(messages), **fields)
    return encoder.encode(request).body


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    return json.loads(encoded(*messages, **fields))


def blocks(message: Message) -> list[dict[str, Any]]:
    made = body(message)["messages"]
    return made[-1]["content"] if made else []


def test_a_whole_request_is_exactly_these_bytes() -> None:
    overrides = InferenceOverride(
        max_tokens=9000,
        temperature=0.5,
        top_p=0.9,
        reasoning_effort=EffortBudget(budget=2048),
        provider_options={
            "top_k": 5,
            "serviceTier": {"type": "flex"},
            "inferenceConfig": {"stopSequences": ["END"]},
            "toolChoice": {"auto": {}},
        },
    )
    made = encoded(
        user("Hi"),
        model=CLAUDE,
        system=("Be kind.",),
        tools=(SEARCH,),
        overrides=overrides,
        enable_prompt_cache=True,
    )
    assert made == (
        b'{"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2048},'
        b'"top_k":5},"inferenceConfig":{"maxTokens":9000,"temperature":0.5,"topP":0.9,'
        b'"stopSequences":["END"]},"serviceTier":{"type":"flex"},"system":[{"text":"Be kind."},'
        b'{"cachePoint":{"type":"default"}}],"toolConfig":{"tools":[{"toolSpec":{"name":"search",'
        b'"description":"Finds things.","inputSchema":{"json":{"type":"object","properties":'
        b'{"q":{"type":"string"}}}}}},{"cachePoint":{"type":"default"}}],"toolChoice":{"auto":{}}},'
        b'"messages":[{"role":"user","content":[{"text":"Hi"},{"cachePoint":{"type":"default"}}]}]}'
    )


def test_a_plain_request_holds_nothing_but_its_messages() -> None:
    assert encoded(user("Hi")) == b'{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}'


def test_the_model_is_one_segment_of_the_path() -> None:
    request = InferenceRequest(upstream_model="arn:aws:bedrock:a/b c", messages=[user("x")])
    path = ConverseEncoder().encode(request).path
    assert path == "/model/arn%3Aaws%3Abedrock%3Aa%2Fb%20c/converse-stream"


def test_sides_alternate_and_the_results_of_a_turn_stand_together() -> None:
    calls = (
        ToolCall(id="a", name="search", arguments={"q": "x"}),
        ToolCall(id="b", name="search"),
        ToolCall(id="c", name="search", arguments=[1]),
    )
    made = body(
        user("One"),
        user("Two"),
        assistant("Looking.", calls),
        tool_answer("a", "A"),
        tool_answer("b", ""),
        tool_answer("c", (Image(source=data("image/png")),)),
        user("And?"),
        tools=(SEARCH,),
    )
    assert made["messages"] == [
        {"role": "user", "content": [{"text": "One"}, {"text": "Two"}]},
        {
            "role": "assistant",
            "content": [
                {"text": "Looking."},
                {"toolUse": {"toolUseId": "a", "name": "search", "input": {"q": "x"}}},
                {"toolUse": {"toolUseId": "b", "name": "search", "input": {}}},
                {"toolUse": {"toolUseId": "c", "name": "search", "input": {"value": [1]}}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"toolResult": {"toolUseId": "a", "content": [{"text": "A"}]}},
                {"toolResult": {"toolUseId": "b", "content": []}},
                {
                    "toolResult": {
                        "toolUseId": "c",
                        "content": [{"image": {"format": "png", "source": {"bytes": "aGk="}}}],
                    }
                },
                {"text": "And?"},
            ],
        },
    ]


def test_calls_between_text_are_sent_once() -> None:
    use = ToolUse(id="a", name="search", input={"q": 1})
    message = assistant((Text(text="x"), use), (ToolCall(id="a", name="search"),))
    assert blocks(message) == [
        {"text": "x"},
        {"toolUse": {"toolUseId": "a", "name": "search", "input": {"q": 1}}},
    ]
    result = ToolResultContent(tool_use_id="a", content=(Text(text="r"),))
    assert blocks(user(result)) == [{"toolResult": {"toolUseId": "a", "content": [{"text": "r"}]}}]


def test_blank_text_is_left_out_and_so_is_a_message_of_nothing_else() -> None:
    made = body(user(" \n"), assistant(""), user("Hi"))["messages"]
    assert made == [{"role": "user", "content": [{"text": "Hi"}]}]


def test_a_system_message_in_the_conversation_is_told_where_it_stands() -> None:
    assert blocks(system("Be brief.")) == [{"text": "<system>\nBe brief.\n</system>"}]


def test_only_reasoning_that_bedrock_signed_goes_back() -> None:
    thoughts = (
        Thinking(thinking="Hm", signature="sig", origin="bedrock"),
        Thinking(thinking="", signature="redacted:c2Vj", origin="bedrock"),
        Thinking(thinking="", signature="hidden", origin="bedrock"),
        Thinking(thinking="no", signature="sig", origin="anthropic"),
        Thinking(thinking="no", origin="bedrock"),
        Thinking(thinking="no"),
    )
    assert blocks(assistant((*thoughts, Text(text="Yes")))) == [
        {"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "sig"}}},
        {"reasoningContent": {"redactedContent": "c2Vj"}},
        {"reasoningContent": {"reasoningText": {"text": "", "signature": "hidden"}}},
        {"text": "Yes"},
    ]


def test_media_are_sent_as_bytes_of_their_format() -> None:
    pdf = data("application/pdf")
    made = blocks(
        user(
            (
                Image(source=data("image/jpeg")),
                Document(source=pdf, title="Q3: (final)_v2.pdf"),
                Document(source=data("text/plain; charset=utf-8")),
                Audio(source=data("audio/mpeg")),
                Video(source=data("video/quicktime")),
            )
        )
    )
    source = {"bytes": "aGk="}
    assert made == [
        {"image": {"format": "jpeg", "source": source}},
        {"document": {"format": "pdf", "name": "Q3 (final) v2 pdf", "source": source}},
        {"document": {"format": "txt", "name": "document-96e3186af281", "source": source}},
        {"audio": {"format": "mp3", "source": source}},
        {"video": {"format": "mov", "source": source}},
    ]


def test_a_url_is_refused_by_name_and_without_its_query() -> None:
    source = UrlSource(url="https://host/cat.png?signature=secret#x")
    with pytest.raises(InvalidRequest, match=r"image 'https://host/cat\.png'") as caught:
        encoded(user(Image(source=source)))
    assert "secret" not in str(caught.value)


def test_a_format_that_converse_does_not_take_is_refused_by_name() -> None:
    for block in (
        Image(source=data("image/tiff")),
        Image(source=data("application/pdf")),
        Document(source=data("image/png")),
        Audio(source=data("video/mp4")),
    ):
        with pytest.raises(InvalidRequest, match=block.source.media_type):
            encoded(user(block))


def test_ids_of_other_vendors_are_made_to_fit_on_both_sides() -> None:
    odd = "call|" + "x" * 80
    made = body(
        user("x"),
        assistant("", (ToolCall(id=odd, name="t"),)),
        tool_answer(odd, "r"),
        tools=(SEARCH,),
    )
    asked = made["messages"][1]["content"][0]["toolUse"]["toolUseId"]
    assert asked == made["messages"][2]["content"][0]["toolResult"]["toolUseId"]
    assert len(asked) <= 64
    assert asked.replace("_", "").isalnum()


def test_an_id_that_is_used_in_two_turns_is_two_ids() -> None:
    call = ToolCall(id="a", name="t")
    made = body(
        user("x"),
        assistant("", (call,)),
        tool_answer("a", "1"),
        assistant("", (call,)),
        tool_answer("a", "2"),
    )["messages"]
    assert [turn["content"][0]["toolUse"]["toolUseId"] for turn in made[1::2]] == ["a", "a_2"]
    results = [turn["content"][0]["toolResult"] for turn in made[2::2]]
    assert [(it["toolUseId"], it["content"][0]["text"]) for it in results] == [
        ("a", "1"),
        ("a_2", "2"),
    ]


def test_results_come_in_the_order_of_the_calls_and_before_other_text() -> None:
    made = blocks_after(
        assistant("", (ToolCall(id="a", name="t"), ToolCall(id="b", name="t"))),
        user("Quick!"),
        tool_answer("b", "2"),
        tool_answer("a", "1"),
    )
    assert [it.get("toolResult", {}).get("toolUseId") for it in made] == ["a", "b", None]
    assert made[2] == {"text": "Quick!"}


def blocks_after(*messages: Message) -> list[dict[str, Any]]:
    return body(user("x"), *messages)["messages"][-1]["content"]


def test_a_conversation_that_begins_with_an_answer_gets_first_words_of_the_user() -> None:
    made = body(assistant("Welcome."), user("Hi"))["messages"]
    assert [turn["role"] for turn in made] == ["user", "assistant", "user"]
    assert made[0]["content"] == [{"text": "(The conversation begins here.)"}]
    cached = body(assistant("Welcome."), model=CLAUDE, enable_prompt_cache=True)["messages"]
    assert [POINT in turn["content"] for turn in cached] == [False, True]


def test_a_budget_is_left_out_while_calls_wait_that_our_reasoning_did_not_lead_to() -> None:
    for origin in ("bedrock", "gemini"):
        thought = Thinking(thinking="Hm", signature="s", origin=origin)
        made = body(
            user("x"),
            assistant(thought, (ToolCall(id="a", name="t"),)),
            tool_answer("a", "r"),
            model=CLAUDE,
            overrides=InferenceOverride(reasoning_effort=Effort.LOW),
        )
        assert ("additionalModelRequestFields" in made) is (origin == "bedrock")


def test_a_tool_without_parameters_still_gets_an_object_schema() -> None:
    tools = (ModelTool(id="t", description="", parameters={}),)
    (tool,) = body(user("x"), tools=tools)["toolConfig"]["tools"]
    assert tool["toolSpec"]["inputSchema"]["json"] == {"type": "object", "properties": {}}


def test_tools_of_the_conversation_are_declared_when_none_is_offered() -> None:
    made = body(user("x"), assistant("", (ToolCall(id="a", name="old"),)), tool_answer("a", "r"))
    assert [tool["toolSpec"]["name"] for tool in made["toolConfig"]["tools"]] == ["old"]
    assert "toolConfig" not in body(user("x"))


def test_cache_points_go_only_where_they_are_understood() -> None:
    def points(model: str, *messages: Message) -> str:
        asked = messages or (user("x"),)
        text = encoded(
            *asked, model=model, system=("s",), tools=(SEARCH,), enable_prompt_cache=True
        ).decode()
        made = json.loads(text)
        return "".join(
            letter
            for letter, place in (
                ("s", made["system"]),
                ("t", made["toolConfig"]["tools"]),
                ("m", made["messages"][-1]["content"]),
            )
            if place[-1] == POINT
        )

    assert points(CLAUDE) == "stm"
    assert points("us.amazon.nova-pro-v1:0") == "sm"
    assert points(LLAMA) == ""
    assert points(CLAUDE, user(Document(source=data("text/csv")))) == "st"
    plain = body(user("x"), model=CLAUDE, system=("s",), tools=(SEARCH,))
    assert POINT not in plain["system"]


def test_a_longer_conversation_begins_with_the_bytes_of_the_shorter_one() -> None:
    encoder = ConverseEncoder()
    conversation = [
        user("One"),
        assistant("", (ToolCall(id="a", name="search", arguments={"q": "x"}),)),
        tool_answer("a", "A"),
        user("Two"),
        assistant("Three"),
        user("Four"),
    ]
    for cached in (False, True):
        previous = b""
        for count in range(1, len(conversation) + 1):
            request = InferenceRequest(
                upstream_model=CLAUDE,
                messages=conversation[:count],
                system=("s",),
                tools=(SEARCH,),
                enable_prompt_cache=cached,
            )
            made = encoder.encode(request).body
            assert made.startswith(previous)
            assert made == ConverseEncoder().encode(request).body
            previous = made.removesuffix(b"]}]}")
            previous = previous.removesuffix(b',{"cachePoint":{"type":"default"}}')


def test_efforts_are_said_in_the_words_of_converse() -> None:
    def asked(effort: Any, model: str = CLAUDE) -> dict[str, Any]:
        made = body(user("x"), model=model, overrides=InferenceOverride(reasoning_effort=effort))
        del made["messages"]
        return made

    def reasoned(**thinking: Any) -> dict[str, Any]:
        return {"additionalModelRequestFields": {"thinking": thinking}}

    assert asked(Effort.HIGH, LLAMA) == {"outputConfig": {"effort": "high"}}
    assert asked(Effort.HIGH) == reasoned(type="enabled", budget_tokens=16_384)
    assert asked(EffortBudget(budget=1)) == reasoned(type="enabled", budget_tokens=1_024)
    for model in ("anthropic.claude-opus-4-7", "us.anthropic.claude-sonnet-5-v1:0"):
        level = {"outputConfig": {"effort": "medium"}}
        assert asked(EffortBudget(budget=5_000), model) == reasoned(type="adaptive") | level
        assert asked(Effort.MEDIUM, model) == reasoned(type="adaptive") | level
    assert asked(Effort.NONE) == {
        "additionalModelRequestFields": {"thinking": {"type": "disabled"}}
    }
    assert asked(Effort.NONE, LLAMA) == {}
    with pytest.raises(InvalidRequest, match="budget"):
        asked(EffortBudget(budget=1), LLAMA)


def test_the_schema_of_the_answer_is_told_and_enforced_where_wanted() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    told = body(user("x"), system=("s",), output_schema=schema)
    assert told["system"][0] == {"text": "s"}
    assert json.dumps(schema, separators=(",", ":")) in told["system"][1]["text"]
    enforced = body(user("x"), output_schema=schema, enforces_schema=True)
    form = enforced["outputConfig"]["textFormat"]
    strict = {**schema, "additionalProperties": False}
    assert json.loads(form["structure"]["jsonSchema"]["schema"]) == strict
    assert form["type"] == "json_schema"
    assert "system" not in enforced


def test_options_of_the_provider_go_as_they_stand() -> None:
    options = {
        "additionalModelRequestFields": {"a": 1},
        "b": 2,
        "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
        "outputConfig": {"effort": "low"},
    }
    overrides = InferenceOverride(provider_options=options, reasoning_effort=Effort.MAX)
    made = body(user("x"), overrides=overrides)
    assert made["additionalModelRequestFields"] == {"a": 1, "b": 2}
    assert made["guardrailConfig"] == options["guardrailConfig"]
    assert made["outputConfig"] == {"effort": "low"}
    assert options["b"] == 2


def test_what_is_no_json_is_an_invalid_request() -> None:
    for arguments in ({"a": object()}, {"a": "\ud800"}):
        with pytest.raises(InvalidRequest):
            encoded(assistant("", (ToolCall(id="a", name="t", arguments=arguments),)))


def test_botocore_finds_nothing_wrong_with_a_request() -> None:
    service = botocore.session.Session().get_service_model("bedrock-runtime")
    shape = service.operation_model("ConverseStream").input_shape
    overrides = InferenceOverride(
        max_tokens=1,
        temperature=0.1,
        top_p=0.2,
        reasoning_effort=Effort.LOW,
        provider_options={"serviceTier": {"type": "flex"}, "toolChoice": {"any": {}}},
    )
    made = body(
        user(
            (
                Text(text="x"),
                Image(source=data("image/webp")),
                Document(source=data("text/html")),
                Audio(source=data("audio/wav")),
                Video(source=data("video/webm")),
            )
        ),
        assistant(
            (
                Thinking(thinking="Hm", signature="sig", origin="bedrock"),
                Thinking(thinking="", signature="redacted:c2Vj", origin="bedrock"),
            ),
            (ToolCall(id="a" * 65, name="search", arguments={"q": 1}),),
        ),
        tool_answer("a" * 65, "r"),
        model=CLAUDE,
        system=("s",),
        tools=(SEARCH,),
        overrides=overrides,
        output_schema={"type": "object"},
        enforces_schema=True,
        enable_prompt_cache=True,
    )
    report = ParamValidator().validate({"modelId": CLAUDE, **made}, shape)
    assert report.generate_report() == ""
