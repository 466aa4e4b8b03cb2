"""Fields that nobody knows are refused by the native API, with the name that was probably meant."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from awaken import Agent, AgentRuntime
from awaken.protocols.native.bodies import StartRun
from awaken.protocols.native.routes import ROUTES
from awaken.testing import ScriptedModel
from awaken.transport.routes import ApiRoute
from awaken.transport.unknown_fields import unknown_field

from .in_process import ask

TAKING = [it for it in ROUTES if it.body is not None or it.query is not None]


def structs(type_: Any, seen: set[type]) -> Iterator[type]:
    """Every record that a type consists of."""
    for found in walked(inspect.type_info(type_)):
        if found.cls not in seen:
            seen.add(found.cls)
            yield found.cls


def walked(info: Any) -> Iterator[inspect.StructType]:
    match info:
        case inspect.StructType():
            yield info
            for field in info.fields:
                yield from walked(field.type)
        case inspect.UnionType(types=types):
            for member in types:
                yield from walked(member)
        case inspect.Metadata(type=inner):
            yield from walked(inner)
        case inspect.CollectionType(item_type=item):
            yield from walked(item)


@pytest.mark.parametrize("route", TAKING, ids=lambda it: f"{it.method} {it.path}")
def test_every_record_that_the_native_api_takes_refuses_what_it_does_not_know(
    route: ApiRoute,
) -> None:
    seen: set[type] = set()
    taken = [it for type_ in (route.body, route.query) if type_ for it in structs(type_, seen)]
    lenient = [it for it in taken if not it.__struct_config__.forbid_unknown_fields]  # type: ignore[attr-defined]
    assert lenient == []


MESSAGE = {"role": "user", "content": "hi"}
IMAGE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}


@pytest.mark.parametrize(
    ("method", "path", "body", "said"),
    [
        ("POST", "/v1/runs", {"agent_id": "a", "message": [MESSAGE]}, "'messages'"),
        ("POST", "/v1/runs", {"agent_id": "a", "theadId": "t", "messages": []}, "'thread_id'"),
        (
            "POST",
            "/v1/runs",
            {"agent_id": "a", "messages": [{**MESSAGE, "contents": 1}]},
            "'content'",
        ),
        (
            "POST",
            "/v1/runs",
            {"agent_id": "a", "messages": [{"content": [{**IMAGE, "sauce": 1}]}]},
            "'source'",
        ),
        (
            "POST",
            "/v1/runs",
            {
                "agent_id": "a",
                "messages": [
                    {
                        "content": [
                            {
                                "type": "image",
                                "source": {
                                    "type": "base64",
                                    "data": "",
                                    "media_type": "a/b",
                                    "mediaType": "a/b",
                                },
                            }
                        ]
                    }
                ],
            },
            "'media_type'",
        ),
        ("POST", "/v1/runs", {"agent_id": "a", "zzz": 1}, "the fields are: agent_id"),
        ("POST", "/v1/threads", {"titel": "x"}, "'title'"),
        ("POST", "/v1/threads/t/messages", {"messages": [MESSAGE], "moda": 1}, "'mode'"),
        ("POST", "/v1/threads/t/mailbox", {"payload": 1, "priority": 3}, "the fields are: payload"),
        ("POST", "/v1/runs/r/decision", {"action": "resume", "playload": 1}, "'payload'"),
        (
            "POST",
            "/v1/runs/r/decision",
            {"action": "resume", "remember": {"scope": "thread", "patern": "x"}},
            "'pattern'",
        ),
        ("GET", "/v1/runs?limt=3", None, "'limit'"),
        ("GET", "/v1/threads?resourceID=3", None, "'resource_id'"),
    ],
)
def test_the_nearest_known_name_is_told(method: str, path: str, body: Any, said: str) -> None:
    async def scenario() -> None:
        async with AgentRuntime([Agent("a", model=ScriptedModel(["never"]))]) as runtime:
            reply = await ask(runtime.asgi(), method, path, body=body)
        assert reply.status == (400 if body is None else 422)
        assert reply.json["code"] == "unknown_field"
        assert said in reply.error, reply.json

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["x" * 1_000_000, "a`b - at `$.c`", "\n", "ä", ""])
def test_whatever_a_field_is_called_its_refusal_is_short(name: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert({"agent_id": "a", name: 1}, StartRun)
    told = unknown_field(refused.value, StartRun)
    assert told is not None
    assert len(told) < 400


def test_other_mistakes_are_told_as_before() -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert({"agent_id": 1}, StartRun)
    assert unknown_field(refused.value, StartRun) is None
