"""What the AI SDK's clients send: input, files and decisions, and nothing that is not new."""

from typing import Any

import msgspec
import pytest

from awaken.errors import InvalidDecision
from awaken.messages import (
    Audio,
    Base64Source,
    Document,
    Image,
    Role,
    Text,
    UrlSource,
    Video,
    Visibility,
)
from awaken.protocols.ai_sdk.decode import (
    context_messages,
    decisions_of,
    find_unseen,
    input_messages,
    tool_descriptors,
)
from awaken.protocols.ai_sdk.wire import ChatRequest, UiMessage
from awaken.tools import ResumeMode, Suspension, Ticket
from awaken.transport.problems import HttpError

TICKETS = (
    Ticket(ticket_id="k1", thread_id="t", run_id="r", call_id="c1", tool_name="add"),
    Ticket(
        ticket_id="k2",
        thread_id="t",
        run_id="r",
        call_id="c2",
        tool_name="add",
        suspension=Suspension(id="s2"),
    ),
    Ticket(
        ticket_id="k3",
        thread_id="t",
        run_id="r",
        call_id="c3",
        tool_name="pick",
        resume_mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT,
    ),
)


def ui(role: str, *parts: dict[str, Any], **fields: Any) -> UiMessage:
    return msgspec.convert({"role": role, "parts": list(parts), **fields}, UiMessage)


def file(url: str, media_type: str | None = None, **fields: Any) -> Any:
    part = {"type": "file", "url": url, "mediaType": media_type, **fields}
    (message,) = input_messages([ui("user", part)]).values()
    (block,) = message.content
    return block


def decided(*parts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: (it.action.value, it.result)
        for name, it in decisions_of([ui("assistant", *parts)], TICKETS).items()
    }


@pytest.mark.parametrize(
    ("said", "stored", "is_all", "new"),
    [
        ("u1 a1 u2", "u1", True, "u2"),
        ("u1 a1 u2", "u1", False, "u2"),
        ("u1 a1 u2", "u1 u2", True, ""),
        # Whatever is before a stored message came with it.
        ("u1 u2 a1 u3 u4", "u2", True, "u3 u4"),
        ("u1 a1 u2 u3", "", True, "u1 u2 u3"),
        ("u1 a1 u2 u3", "", False, "u2 u3"),
        ("u3", "", False, "u3"),
        ("u1 a1", "", False, ""),
        ("", "", False, ""),
    ],
)
def test_what_is_new_is_told_by_the_newest_messages(
    said: str, stored: str, is_all: bool, new: str
) -> None:
    roles = {"u": "user", "a": "assistant"}
    given = [ui(roles[id_[0]], {"type": "text", "text": id_}, id=id_) for id_ in said.split()]
    found = find_unseen(given, set(stored.split()), is_all=is_all)
    assert " ".join(input_messages(found)) == new


def test_people_and_the_system_speak_and_assistants_do_not() -> None:
    text = {"type": "text", "text": "hi"}
    given = [
        ui("user", text, {"type": "data-x"}, {"type": "text", "text": "you"}, id="u"),
        ui("assistant", text, id="a"),
        ui("system", text, id=" "),
        ui("user", {"type": "step-start"}, {"type": "text", "text": ""}, id="empty"),
        ui("user", id="nothing"),
    ]
    found = list(input_messages(given).values())
    assert [(it.role, it.id) for it in found] == [(Role.USER, "u"), (Role.SYSTEM, None)]
    assert found[0].content == (Text(text="hi"), Text(text="you"))


def test_messages_without_ids_are_all_new() -> None:
    text = {"type": "text", "text": "hi"}
    assert len(input_messages([ui("user", text), ui("user", text)])) == 2


@pytest.mark.parametrize(
    ("media_type", "class_"),
    [("image/png", Image), ("audio/wav", Audio), ("video/mp4", Video), ("a/b", Document)],
)
def test_files_come_inline_or_by_their_address(media_type: str, class_: type) -> None:
    inline = file(f"data:{media_type};base64,aGk=", "ignored/type")
    assert type(inline) is class_
    assert inline.source == Base64Source(media_type=media_type, data="aGk=")
    linked = file("https://a.example/x", media_type, filename="x")
    assert type(linked) is class_
    assert linked.source == UrlSource(url="https://a.example/x")


def test_plain_data_is_kept_as_base64_and_documents_keep_their_name() -> None:
    block = file("data:text/plain;charset=utf-8,h%C3%A9", filename="note.txt")
    assert block.source == Base64Source(media_type="text/plain", data="aMOp")
    assert block.title == "note.txt"
    assert file("data:,x", "text/csv").source.media_type == "text/csv"


@pytest.mark.parametrize(
    "url",
    ["data:image/png;base64", "data:image/png;base64,*", "file:///etc/passwd", "", "blob:x"],
)
def test_a_malformed_file_is_refused(url: str) -> None:
    with pytest.raises(HttpError) as caught:
        file(url, "image/png")
    assert (caught.value.status, caught.value.code) == (400, "invalid_file")


@pytest.mark.parametrize("kind", ["tool-add", "dynamic-tool"])
def test_each_state_of_a_call_that_waits_is_a_decision(kind: str) -> None:
    call = {"type": kind, "toolCallId": "c1"}
    no = {"id": "k1", "approved": False, "reason": "no"}
    own = {"type": kind, "toolCallId": "c3"}
    assert decided({**own, "state": "output-available", "output": 3}) == {"k3": ("resume", 3)}
    assert decided({**own, "state": "output-error", "errorText": "x"}) == {
        "k3": ("resume", {"error": "x"})
    }
    # An output is no permission.
    for output in (3, "yes", True, {"approved": True}):
        assert decided({**call, "state": "output-available", "output": output}) == {}
    assert decided({**call, "state": "output-denied"}) == {"k1": ("resume", {"approved": False})}
    assert decided({**call, "state": "approval-responded", "approval": no}) == {
        "k1": ("resume", no)
    }
    denied = {**own, "state": "approval-responded", "approval": {"approved": False}}
    assert decided(denied) == {"k3": ("cancel", {"approved": False})}
    yes = {"id": "k1", "approved": True}
    assert decided({**call, "state": "approval-responded", "approval": yes}) == {
        "k1": ("resume", yes)
    }


def test_an_approval_is_found_by_its_own_id_else_by_the_call() -> None:
    part = {"type": "tool-add", "toolCallId": "c1", "state": "approval-responded"}
    assert decided({**part, "approval": {"id": "k1", "approved": True}}).keys() == {"k1"}
    assert decided({**part, "approval": {"approved": True}}).keys() == {"k1"}
    assert decided({**part, "approval": {"id": "s2", "approved": True}}) == {}
    with pytest.raises(InvalidDecision):
        decided({**part, "approval": {"id": "k2", "approved": True}})
    answer = {"type": "tool-pick", "toolCallId": "c3", "state": "approval-responded"}
    with pytest.raises(InvalidDecision):
        decided({**answer, "approval": {"approved": "no"}})
    # What was asked before is not what is asked now.
    assert decided({**part, "approval": {"id": "old", "approved": True}}) == {}


def test_the_later_part_wins_also_when_it_decides_nothing() -> None:
    part = {"type": "tool-pick", "toolCallId": "c3", "state": "output-available"}
    assert decided({**part, "output": 1}, {**part, "output": 2}) == {"k3": ("resume", 2)}
    asked = {"type": "tool-pick", "toolCallId": "c3", "state": "approval-requested"}
    assert decided({**part, "output": 1}, asked) == {}


@pytest.mark.parametrize(
    "part",
    [
        {"toolCallId": "c1", "state": "output-available", "providerExecuted": True},
        {"toolCallId": "c1", "state": "output-error", "providerExecuted": True},
        {"toolCallId": "c1", "state": "output-available", "preliminary": True},
        {"toolCallId": "gone", "state": "output-available"},
        {"toolCallId": "c1", "state": "input-available"},
        {"state": "output-available"},
        {"type": "data-x", "toolCallId": "c1", "state": "output-available"},
    ],
)
def test_what_waits_not_or_was_decided_here_is_no_decision(part: dict[str, Any]) -> None:
    assert decided({"type": "tool-add", **part}) == {}


def test_an_answer_counts_whoever_executes_the_call() -> None:
    part = {"type": "tool-add", "toolCallId": "c1", "providerExecuted": True, "preliminary": True}
    answer = {"id": "k1", "approved": True}
    answered = {**part, "state": "approval-responded", "approval": answer}
    assert decided(answered) == {"k1": ("resume", answer)}


def test_only_assistants_carry_decisions() -> None:
    part = {"type": "tool-add", "toolCallId": "c1", "state": "output-available"}
    assert decisions_of([ui("user", part)], TICKETS) == {}


def test_decisions_have_no_id_of_the_clients_making() -> None:
    part = {"type": "tool-add", "toolCallId": "c1", "state": "output-denied"}
    (decision,) = decisions_of([ui("assistant", part)], TICKETS).values()
    assert (decision.decision_id, decision.result) == ("", {"approved": False})


def test_the_clients_state_is_one_hidden_message() -> None:
    (message,) = context_messages({"page": 1})
    assert message.text == '<frontend-context>\n{"page":1}\n</frontend-context>'
    assert (message.role, message.visibility) == (Role.SYSTEM, Visibility.INTERNAL)
    assert context_messages(None) == context_messages({}) == ()


def test_tools_come_in_a_list_or_by_name() -> None:
    tool = {"description": "d", "parameters": {"type": "object"}}
    for tools in ([{"name": "pick", **tool}], {"pick": tool}):
        request = msgspec.convert({"tools": tools}, ChatRequest)
        (found,) = tool_descriptors(request.tools)
        assert (found.id, found.description) == ("pick", "d")
        assert found.parameters == {"type": "object"}
    (bare,) = tool_descriptors(msgspec.convert({"tools": [{"name": "x"}]}, ChatRequest).tools)
    assert bare.description == "Frontend tool"
    assert bare.parameters["type"] == "object"
