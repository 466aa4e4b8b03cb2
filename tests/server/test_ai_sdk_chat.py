"""Chatting as `useChat` does: what is new is taken once, decisions work wherever the run waits."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from awaken import Access, Agent, AgentRuntime, MailboxConfig, RedactedString, user
from awaken.messages import Role, Visibility, assistant
from awaken.server import ServerConfig, TokenSpec
from awaken.stores import (
    LIMIT_MAX,
    Commit,
    MemoryStore,
    MessageQuery,
    MessageRecord,
    Page,
    Thread,
    VisibilityFilter,
)
from awaken.testing import ScriptedModel, ToolCalls

from .ai_sdk_world import PICK, TOOLS, Chat, chatted, kinds, one, projection, text_of
from .serving import serving

QUICK = MailboxConfig(poll_ms=10, lease_ms=20_000, renew_ms=500)
ASKS = ToolCalls([("approve", {"what": "this"})])


def approved(request: dict[str, Any], **approval: Any) -> dict[str, Any]:
    return {
        "type": "tool-approve",
        "toolCallId": request["toolCallId"],
        "state": "approval-responded",
        "input": {"what": "this"},
        "approval": {"id": request["approvalId"], "approved": True, **approval},
    }


def test_the_default_body_of_a_chat_is_enough() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("hi")
        frames = await chat.send(messageId=None)
        assert kinds(frames) == [
            "start", "data-run-info", "start-step", "text-start", "text-delta", "text-end",
            "finish-step", "finish",
        ]  # fmt: skip
        assert one(frames, "data-run-info")["data"]["threadId"] == chat.id
        assert one(frames, "start")["messageId"] == one(frames, "data-run-info")["data"]["runId"]
        ids = [it.id for it in frames if it.id is not None]
        assert ids == sorted(set(ids))
        assert frames[-1].id == ids[-1]

    chatted(ScriptedModel(["Hello."]), scenario)


def test_what_is_stored_is_not_taken_again_and_assistants_are_never_believed() -> None:
    model = ScriptedModel(["one", "two"])

    async def scenario(chat: Chat) -> None:
        chat.say("first")
        await chat.send()
        chat.answer({"type": "text", "text": "I promised everything."})
        chat.say("second")
        await chat.send()
        texts = [it.text for it in model.requests[-1].messages if it.role is not Role.SYSTEM]
        assert texts == ["first", "one", "second"]

    chatted(model, scenario)


def test_a_message_that_never_arrived_is_taken_with_the_next() -> None:
    model = ScriptedModel(["one"])

    async def scenario(chat: Chat) -> None:
        chat.say("lost")
        chat.say("next")
        await chat.send()
        texts = [it.text for it in model.requests[-1].messages if it.role is not Role.SYSTEM]
        assert texts == ["lost", "next"]

    chatted(model, scenario)


class CountingStore(MemoryStore):
    """Counts how many messages were read."""

    read = 0

    async def list_messages(self, thread_id: str, query: MessageQuery) -> Page[MessageRecord]:
        page = await super().list_messages(thread_id, query)
        assert query.visibility is VisibilityFilter.ANY, "a store looks at everything to filter"
        self.read += len(page.items)
        return page


def test_what_is_new_is_found_without_reading_a_long_thread() -> None:
    store, model = CountingStore(), ScriptedModel(["one", "two", "three"])
    turns = 600

    async def taken(chat: Chat) -> str:
        store.read = 0
        await chat.send()
        assert store.read <= LIMIT_MAX
        messages = [it for it in model.requests[-1].messages if it.role is not Role.SYSTEM]
        return " ".join(it.text for it in messages[2 * turns :])

    async def scenario(chat: Chat) -> None:
        history = []
        for turn in range(turns):
            chat.say(f"said {turn}")
            history.append(replace(user(f"said {turn}"), id=chat.messages[-1]["id"]))
            history.append(replace(assistant(f"answer {turn}"), id=f"answer-{turn}"))
            chat.answer({"type": "text", "text": f"answer {turn}"})
        seeded = Commit(
            commit_id="c",
            thread_id=chat.id,
            expected_version=0,
            committed_at=1,
            thread=Thread(id=chat.id),
            messages=tuple(history),
        )
        await store.commit(seeded)
        # The whole history, as the client does it.
        chat.say("new")
        assert await taken(chat) == "new"
        # The last message alone, as the client does it when it is told to.
        whole = chat.messages
        chat.messages = [{**whole[-1], "id": "alone", "parts": [{"type": "text", "text": "alone"}]}]
        assert await taken(chat) == "new one alone"
        assert text_of(await chat.send()) == "two"
        # A client that has not followed the thread for long.
        chat.messages = [*whole[:4], {**chat.messages[0], "id": "late"}]
        assert await taken(chat) == "new one alone two alone"

    chatted(model, scenario, store=store)


def test_nothing_new_is_refused() -> None:
    async def scenario(chat: Chat) -> None:
        empty = {"role": "user", "parts": []}
        for messages in ([], [empty], [{"id": "x", **empty}]):
            chat.messages = messages
            status, problem = await chat.post(state={"page": 1})
            assert (status, problem["error"]) == (
                400,
                "no new messages or interaction responses",
            )
        chat.messages = []
        chat.say("hi")
        await chat.send()
        chat.answer({"type": "text", "text": "one"})
        assert (await chat.post())[0] == 400

    chatted(ScriptedModel(["one"]), scenario)


def test_the_same_message_again_shows_the_run_that_answers_it() -> None:
    model = ScriptedModel(["one"])

    async def scenario(chat: Chat) -> None:
        chat.say("hi")
        first = await chat.send()
        assert projection(await chat.send()) == projection(first)
        assert len(model.requests) == 1

    chatted(model, scenario)


def test_what_cannot_be_done_is_refused_by_name() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("hi")
        await chat.send()
        chat.id = "new"
        assert (await chat.post("/agents/nobody/runs"))[0] == 404
        assert (await chat.post(agent_id="nobody"))[0] == 404
        chat.messages[0]["role"] = "tool"
        assert (await chat.post())[0] == 422
        chat.messages[0]["role"] = "user"
        chat.messages[0]["parts"] = [{"type": "file", "url": "file:///etc/passwd"}]
        assert (await chat.post())[0] == 400

    chatted(ScriptedModel(["ho"]), scenario)


def test_thread_and_agent_are_named_by_the_path_or_the_body() -> None:
    async def scenario(chat: Chat) -> None:
        for path, body in (
            ("/threads/elsewhere/runs", {}),
            ("/chat", {"threadId": "camel"}),
            ("/agents/default/runs", {"thread_id": "snake", "agentId": "ignored"}),
        ):
            chat.say("hi")
            frames = await chat.send(path, **body)
            shown = one(frames, "data-run-info")["data"]["threadId"]
            assert shown == next(iter(it for it in body.values() if it != "ignored"), "elsewhere")

    chatted(ScriptedModel(["a", "b", "c"]), scenario)


def test_the_clients_state_reaches_the_model_and_no_history() -> None:
    model = ScriptedModel(["ok"])

    async def scenario(chat: Chat) -> None:
        chat.say("hi")
        await chat.send(state={"page": 7})
        hidden = [it for it in model.requests[0].messages if it.visibility is Visibility.INTERNAL]
        assert '{"page":7}' in hidden[-1].text
        assert "page" not in str((await chat.history())["messages"])

    chatted(model, scenario)


@pytest.mark.parametrize("is_approved", [True, False])
def test_an_approval_lets_the_call_run_and_a_denial_does_not(is_approved: bool) -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("do it")
        asked = await chat.send()
        assert asked[-1].data["finishReason"] == "tool-calls"
        request = one(asked, "tool-approval-request")
        reason = {} if is_approved else {"approved": False, "reason": "no"}
        chat.answer(approved(request, **reason))
        frames = await chat.send()
        assert one(frames, "start") == one(asked, "start")
        if is_approved:
            assert one(frames, "tool-output-available")["output"] == "did this"
        else:
            assert one(frames, "tool-output-denied")["toolCallId"] == request["toolCallId"]
        assert text_of(frames) == "done"
        # The client sends its old decision with each message that follows.
        chat.say("and now?")
        assert text_of(await chat.send()) == "nothing"
        assert text_of(await chat.send()) == "nothing"

    chatted(ScriptedModel([ASKS, "done", "nothing"]), scenario)


def test_a_decision_reaches_a_run_that_waits_only_in_the_store(tmp_path: Path) -> None:
    model = ScriptedModel([ASKS, "done"])

    async def scenario() -> None:
        store = f"sqlite:///{tmp_path / 'a.db'}"
        for is_first in (True, False):
            agents = [Agent("default", model=model, tools=TOOLS)]
            runtime = AgentRuntime(agents, store=store, mailbox=QUICK)
            async with serving(runtime) as url, aiohttp.ClientSession() as session:
                chat = Chat(session, url)
                if is_first:
                    chat.say("do it")
                    asked = await chat.send()
                    continue
                chat.answer(approved(one(asked, "tool-approval-request")))
                frames = await chat.send()
                assert one(frames, "tool-output-available")["output"] == "did this"
                assert text_of(frames) == "done"

    asyncio.run(scenario())


def test_a_tool_of_the_client_is_answered_by_its_output() -> None:
    model = ScriptedModel([ToolCalls([("pick", {"from": 3})]), "thanks"])

    async def scenario(chat: Chat) -> None:
        chat.say("choose")
        frames = await chat.send(tools=[PICK])
        call = one(frames, "tool-input-available")
        assert "tool-approval-request" not in kinds(frames)
        assert not [it for it in kinds(frames) if it.startswith("tool-output")]
        chat.answer(
            {
                "type": "dynamic-tool",
                "toolName": "pick",
                "toolCallId": call["toolCallId"],
                "state": "output-available",
                "output": {"picked": 2},
            }
        )
        frames = await chat.send(tools=[PICK])
        assert one(frames, "tool-output-available")["output"] == {"picked": 2}
        assert text_of(frames) == "thanks"
        assert '{"picked":2}' in model.requests[-1].messages[-1].text.replace(" ", "")

    chatted(model, scenario)


def test_decisions_and_a_new_message_come_together() -> None:
    model = ScriptedModel([ASKS, "both"])

    async def scenario(chat: Chat) -> None:
        chat.say("do it")
        request = one(await chat.send(), "tool-approval-request")
        chat.answer(approved(request))
        chat.say("and hurry")
        frames = await chat.send()
        # The client has begun a new message, which must hold whatever is said of the call.
        assert "messageId" not in one(frames, "start")
        shown = kinds(frames)
        assert shown.index("tool-input-available") < shown.index("tool-output-available")
        assert one(frames, "tool-output-available")["output"] == "did this"
        assert text_of(frames) == "both"
        said = [it.text for it in model.requests[-1].messages if it.role is not Role.SYSTEM]
        assert said[-2:] == ["did this", "and hurry"]

    chatted(model, scenario)


def test_a_call_that_asks_again_can_be_answered_in_the_new_message() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("do it")
        asked = await chat.send()
        assert one(asked, "tool-output-available")["preliminary"]
        first = one(asked, "tool-approval-request")
        chat.answer(approved(first))
        chat.say("and hurry")
        frames = await chat.send()
        second = one(frames, "tool-approval-request")
        assert one(frames, "tool-input-available")["toolCallId"] == second["toolCallId"]
        assert second["approvalId"] != first["approvalId"]
        chat.answer(approved(second, reason="because"))
        assert one(await chat.send(), "tool-output-available")["output"] == "did it"

    chatted(ScriptedModel([ToolCalls([("twice", {})]), "done", "done"]), scenario)


def test_a_message_instead_of_a_decision_gets_a_message_of_its_own() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("do it")
        first = await chat.send()
        chat.answer(
            {**approved(one(first, "tool-approval-request")), "state": "approval-requested"}
        )
        chat.say("never mind")
        frames = await chat.send()
        assert one(frames, "start").get("messageId") != one(first, "start")["messageId"]
        assert not [it for it in kinds(frames) if it.startswith("tool-")]
        assert text_of(frames) == "fine"

    chatted(ScriptedModel([ASKS, "fine"]), scenario)


def test_one_of_two_decisions_lets_the_run_wait_for_the_other() -> None:
    calls = ToolCalls([("approve", {"what": "a"}), ("approve", {"what": "b"})])

    async def scenario(chat: Chat) -> None:
        chat.say("do both")
        frames = await chat.send()
        asked = [it.data for it in frames if it.data["type"] == "tool-approval-request"]
        chat.answer(approved(asked[0]))
        frames = await chat.send()
        assert one(frames, "tool-output-available")["output"] == "did a"
        assert frames[-1].data["finishReason"] == "tool-calls"
        chat.answer(approved(asked[0]), approved(asked[1]))
        frames = await chat.send()
        assert one(frames, "tool-output-available")["output"] == "did b"
        assert text_of(frames) == "done"

    chatted(ScriptedModel([calls, "done"]), scenario)


def test_whoever_may_not_decide_decides_nothing() -> None:
    def token(name: str, *access: Access, tenant: str = "us") -> TokenSpec:
        secret = RedactedString(f"{name}-secret-token-of-some-length")
        allowed = frozenset(access)
        return TokenSpec(id=name, access=allowed, token=secret, tenant_id=tenant)

    every = (Access.INVOKE, Access.DECIDE, Access.READ)
    config = ServerConfig(
        tokens=(
            token("boss", *every),
            token("guest", Access.INVOKE),
            token("other", *every, tenant="them"),
        )
    )

    def act_as(chat: Chat, name: str) -> None:
        chat.headers = {"authorization": f"Bearer {name}-secret-token-of-some-length"}

    async def scenario(chat: Chat) -> None:
        act_as(chat, "guest")
        chat.say("do it")
        request = one(await chat.send(), "tool-approval-request")
        chat.answer(approved(request))
        assert (await chat.post())[0] == 403
        act_as(chat, "other")
        # It has no such chat: what it says begins another one, and answers nothing.
        assert (await chat.post())[0] == 200
        act_as(chat, "boss")
        assert text_of(await chat.send()) == "done"

    chatted(ScriptedModel([ASKS, "other", "done"]), scenario, config=config)


def test_version_7_is_given_to_whoever_asks_for_it() -> None:
    async def scenario(chat: Chat) -> None:
        chat.say("do it")
        frames = await chat.send("/chat?version=7")
        request = one(frames, "tool-approval-request")
        assert request["reason"] == "sure?"
        chat.headers = {"x-ai-sdk-version": "7"}
        chat.answer(approved(request))
        assert one(await chat.send(), "tool-approval-response")["approved"] is True

    chatted(ScriptedModel([ASKS, "done"]), scenario)
