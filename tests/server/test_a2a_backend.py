"""Runs that execute at another server over A2A: at ours, at the official one, and when it fails."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from a2a.helpers.proto_helpers import new_data_part, new_text_message, new_text_part
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse

from awaken import (
    Access,
    Agent,
    AgentRuntime,
    Cancelled,
    Message,
    RedactedString,
    RemoteEndpoint,
    RunStatus,
    Stopped,
    Suspended,
    user,
)
from awaken.backends import BackendDelegateRunRequest, BackendParentContext, BackendRunStatus
from awaken.backends.a2a import backend, channel
from awaken.backends.a2a import delivery as sending
from awaken.backends.a2a.outgoing import turn_messages
from awaken.backends.acp.prompts import PromptAbilities, prompt_of
from awaken.contracts.clock import SystemClock
from awaken.contracts.identity import derive_id
from awaken.contracts.messages.message import as_blocks
from awaken.errors import (
    AgentNotFound,
    RemoteMalformed,
    RemoteOutcomeUnknown,
    RemoteRefused,
    RemoteTooLarge,
    RemoteUnreachable,
)
from awaken.events import ActivitySnapshot
from awaken.messages import Role, Sender, SenderKind, Visibility
from awaken.outbound.guard import Outbound
from awaken.server import ServerConfig, TokenSpec
from awaken.stores import RunQuery
from awaken.testing import ScriptedModel, ToolCalls

from .a2a_peers import (
    CONTEXT,
    Executor,
    RawPeer,
    Turns,
    events,
    moved,
    official_peer,
    piece,
    raw_peer,
    task,
    turns,
)
from .a2a_world import ask, held
from .serving import serving

BINDINGS = ((), ("HTTP+JSON",), ("JSONRPC",))
MESSAGE_ID = derive_id("run-1", "a2a", "m-hi")
SEND, LIST, GET = "POST /message:send", "GET /tasks", "GET /tasks/t-1"
SUBSCRIBE, CANCEL = "GET /tasks/t-1:subscribe", "POST /tasks/t-1:cancel"
FAST = {"options": {"poll_interval_ms": 10}}


def ours(*script: Any, **more: Any) -> AgentRuntime:
    return AgentRuntime([Agent("far", model=ScriptedModel(list(script)), tools=[ask], **more)])


def progress(told: Turns) -> list[str]:
    return [
        it.content["state"].removeprefix("TASK_STATE_") for it in told.seen.of(ActivitySnapshot)
    ]


async def works(_: Any, updater: Any) -> None:
    await updater.start_work()
    await updater.add_artifact([new_text_part("The "), new_data_part({"n": 1})], name="report")
    await updater.complete(new_text_message("done"))


# --- at our own server


def test_a_turn_at_our_server_ends_with_its_answer_and_its_task_is_kept() -> None:
    async def scenario() -> None:
        async with (
            serving(ours("hello there")) as url,
            turns(f"{url}/v1/a2a", target="far") as told,
        ):
            result = await told.run()
            assert (result.status, result.text) == (BackendRunStatus.COMPLETED, "hello there")
            assert (result.agent_id, result.run_id, result.steps) == ("far", "run-1", 1)
            assert result.output.artifacts[0].name == "response"
            (kept,) = told.kept.targets.items()
            assert kept[0] == f"a2a:{url}/v1/a2a/far"
            assert (kept[1].run_id, kept[1].message_id) == ("run-1", MESSAGE_ID)
            assert (kept[1].context_id, kept[1].task_id) == (CONTEXT, result.output.raw["id"])
            assert result.output.raw["history"][0]["messageId"] == MESSAGE_ID

    asyncio.run(scenario())


def test_the_task_is_durable_while_we_wait_and_watchers_see_its_progress() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        async with (
            serving(ours(held(gate, "late"))) as url,
            turns(f"{url}/v1/a2a", target="far") as told,
        ):
            running = told.start()
            await told.kept.has_saved.wait()
            assert told.kept.saved[0].task_id
            assert told.kept.saved[0].last_state in ("TASK_STATE_SUBMITTED", "TASK_STATE_WORKING")
            gate.set()
            assert (await running).text == "late"
            assert progress(told)[-1] == "COMPLETED"
            assert len(told.kept.saved) == 2
            snapshot = told.seen.of(ActivitySnapshot)[-1]
            assert snapshot.activity_type == "a2a-task-progress"
            assert snapshot.content["schema"] == "a2a-task-progress.v1"
            assert snapshot.content["text"] == "late"

    asyncio.run(scenario())


def test_a_question_at_our_server_is_answered_by_the_next_turn_in_the_same_task() -> None:
    async def scenario() -> None:
        runtime = ours(ToolCalls([("ask", {"question": "which one?"})]), "the blue one it is")
        async with serving(runtime) as url, turns(f"{url}/v1/a2a", target="far") as told:
            asked = await told.run()
            assert asked.status is BackendRunStatus.WAITING_INPUT
            assert asked.termination == Suspended()
            assert (asked.message or "").startswith("which one?")
            waiting = told.kept.saved[-1]
            assert waiting.last_state == "TASK_STATE_INPUT_REQUIRED"
            answered = await told.run("blue", is_continuation=True)
            assert (answered.status, answered.text) == (
                BackendRunStatus.COMPLETED,
                "the blue one it is",
            )
            assert told.kept.saved[-1].task_id == waiting.task_id

    asyncio.run(scenario())


async def recovered_answers(told: Turns) -> list[Any]:
    """Answer twice, the second time as one that died before it kept what came of it; go on."""
    await told.run()
    asked = dict(told.kept.targets)
    results = [await told.run("blue", is_continuation=True, is_recovered=True)]
    told.kept.targets = asked
    results.append(await told.run("blue", is_continuation=True, is_recovered=True))
    results.append(await told.run("yes", is_continuation=True))
    assert [it.status.value for it in results] == ["waiting_input", "waiting_input", "completed"]
    return results


def test_our_server_gets_a_recovered_answer_once_although_it_has_asked_again_meanwhile() -> None:
    async def scenario() -> None:
        asks = ToolCalls([("ask", {"question": "which one?"})])
        runtime = ours(asks, asks, "done")
        async with serving(runtime) as url, turns(f"{url}/v1/a2a", target="far") as told:
            await recovered_answers(told)
            kept = [it.message for it in await runtime.messages(CONTEXT)]
            said = [it.text for it in kept if it.role is Role.TOOL]
            assert said == ["told blue", "told yes"]

    asyncio.run(scenario())


def test_two_turns_of_a_thread_are_two_tasks_of_one_context() -> None:
    async def scenario() -> None:
        runtime = ours("one", "two")
        async with serving(runtime) as url, turns(f"{url}/v1/a2a", target="far") as told:
            await told.run("first")
            assert (await told.run("second", run_id="run-2")).text == "two"
            first, second = told.kept.saved[0], told.kept.saved[-1]
            assert first.context_id == second.context_id == CONTEXT
            assert first.task_id != second.task_id

    asyncio.run(scenario())


def test_a_token_is_sent_and_a_wrong_one_is_told_as_refused_without_being_repeated() -> None:
    async def scenario() -> None:
        right, wrong = "a-right-token-of-some-length", "a-wrong-token-of-some-length"
        spec = TokenSpec(
            id="us", access=frozenset({Access.INVOKE, Access.READ}), token=RedactedString(right)
        )
        async with serving(ours("yes", "no"), ServerConfig(tokens=(spec,))) as url:
            base = f"{url}/v1/a2a"
            async with turns(base, target="far", auth={"type": "bearer", "token": right}) as told:
                assert (await told.run()).text == "yes"
            async with turns(base, target="far", auth={"type": "bearer", "token": wrong}) as told:
                with pytest.raises(RemoteRefused, match="credentials were refused") as refused:
                    await told.run()
                assert wrong not in str(refused.value)

    asyncio.run(scenario())


def test_an_agent_that_is_not_there_is_told_so() -> None:
    async def scenario() -> None:
        async with (
            serving(ours("x")) as url,
            turns(f"{url}/v1/a2a", target="nobody") as told,
        ):
            with pytest.raises(AgentNotFound):
                await told.run()

    asyncio.run(scenario())


def test_a_cancelled_turn_cancels_the_run_at_our_server() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        runtime = ours(held(gate, "never"))
        async with serving(runtime) as url, turns(f"{url}/v1/a2a", target="far") as told:
            running = told.start()
            await told.kept.has_saved.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await told.abort()
            (record,) = (await runtime._services.store.list_runs(RunQuery())).items
            assert record.status is RunStatus.DONE
            assert record.termination.__class__.__name__ == "Cancelled"

    asyncio.run(scenario())


def given_time(attempt: Callable[[int], bool]) -> None:
    """Try with little time, then with more: a busy machine may need it to get to the point."""
    assert any(attempt(timeout_ms) for timeout_ms in (200, 2_000, 20_000))


def test_a_turn_whose_time_is_over_cancels_the_remote_run_and_keeps_what_there_was() -> None:
    async def scenario(timeout_ms: int) -> bool:
        runtime = ours(held(asyncio.Event(), "never"))
        async with (
            serving(runtime) as url,
            turns(f"{url}/v1/a2a", target="far", timeout_ms=timeout_ms) as told,
        ):
            result = await told.run()
            assert result.status is BackendRunStatus.TIMEOUT
            assert isinstance(result.termination, Stopped)
            assert result.termination.reason.code == "timeout"
            records = (await runtime._services.store.list_runs(RunQuery())).items
            assert [type(it.termination) for it in records] == [Cancelled] * len(records)
            return len(records) == 1

    given_time(lambda timeout_ms: asyncio.run(scenario(timeout_ms)))


def test_after_a_crash_the_task_is_attached_to_and_nothing_is_sent_again() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        runtime = ours(held(gate, "once"), "twice")
        async with serving(runtime) as url, turns(f"{url}/v1/a2a", target="far") as told:
            running = told.start()
            await told.kept.has_saved.wait()
            running.cancel()
            await asyncio.wait([running])
            again = told.start(is_recovered=True)
            gate.set()
            assert (await again).text == "once"
            assert (await runtime._services.store.list_runs(RunQuery(with_total=True))).total == 1

    asyncio.run(scenario())


def test_after_a_crash_before_the_checkpoint_the_task_is_found_by_its_context() -> None:
    async def scenario() -> None:
        gate = asyncio.Event()
        runtime = ours("earlier", held(gate, "once"), "twice")
        async with serving(runtime) as url, turns(f"{url}/v1/a2a", target="far") as told:
            await told.run("before", run_id="run-0")
            before = dict(told.kept.targets)
            running = told.start()
            while told.kept.targets == before:
                told.kept.has_saved.clear()
                await told.kept.has_saved.wait()
            running.cancel()
            await asyncio.wait([running])
            told.kept.targets = before
            again = told.start(is_recovered=True)
            gate.set()
            assert (await again).text == "once"
            assert (await runtime._services.store.list_runs(RunQuery(with_total=True))).total == 2

    asyncio.run(scenario())


# --- at the official server


@pytest.mark.parametrize("bindings", BINDINGS)
def test_a_task_at_the_official_server_ends_with_its_artifacts(bindings: tuple[str, ...]) -> None:
    async def scenario() -> None:
        async with official_peer(Executor(works), *bindings) as url, turns(f"{url}/a2a") as told:
            result = await told.run()
            assert result.status is BackendRunStatus.COMPLETED
            assert result.text == 'The \n\n{"n":1.0}'
            (artifact,) = result.output.artifacts
            assert (artifact.name, artifact.media_type) == ("report", "text/plain")
            assert artifact.content[0] == {"text": "The "}
            assert progress(told)[-1] == "COMPLETED"

    asyncio.run(scenario())


@pytest.mark.parametrize("bindings", BINDINGS)
def test_a_direct_message_is_the_answer(bindings: tuple[str, ...]) -> None:
    async def scenario() -> None:
        async with official_peer(Executor(works), *bindings) as url, turns(f"{url}/a2a") as told:
            result = await told.run("direct")
            assert (result.status, result.text, result.steps) == (
                BackendRunStatus.COMPLETED,
                "at once",
                1,
            )
            assert told.seen.of(ActivitySnapshot) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("bindings", BINDINGS)
def test_a_question_of_the_official_server_is_answered_in_its_task(
    bindings: tuple[str, ...],
) -> None:
    async def asks(context: Any, updater: Any) -> None:
        if context.message.parts[0].text == "hi":
            await updater.requires_input(new_text_message("which one?"))
        else:
            await updater.complete(new_text_message(f"took {context.message.parts[0].text}"))

    async def scenario() -> None:
        async with official_peer(Executor(asks), *bindings) as url, turns(f"{url}/a2a") as told:
            asked = await told.run()
            assert (asked.status, asked.message) == (BackendRunStatus.WAITING_INPUT, "which one?")
            answered = await told.run("blue", is_continuation=True)
            assert (answered.status, answered.text) == (BackendRunStatus.COMPLETED, "took blue")
            assert answered.output.raw["id"] == asked.output.raw["id"]

    asyncio.run(scenario())


def test_the_official_server_gets_a_recovered_answer_once_although_it_asks_again() -> None:
    async def asks(context: Any, updater: Any) -> None:
        if context.message.parts[0].text == "yes":
            await updater.complete(new_text_message("done"))
        else:
            await updater.requires_input(new_text_message("which one?"))

    async def scenario() -> None:
        executor = Executor(asks)
        async with official_peer(executor) as url, turns(f"{url}/a2a") as told:
            await recovered_answers(told)
            assert len(executor.messages) == len(set(executor.messages)) == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("bindings", BINDINGS)
def test_an_abort_reaches_the_agent_of_the_official_server(bindings: tuple[str, ...]) -> None:
    async def hangs(_: Any, updater: Any) -> None:
        await updater.start_work()
        await asyncio.Event().wait()

    async def scenario() -> None:
        executor = Executor(hangs)
        async with official_peer(executor, *bindings) as url, turns(f"{url}/a2a") as told:
            running = told.start()
            await told.kept.has_saved.wait()
            running.cancel()
            await asyncio.wait([running])
            await told.abort()
            assert executor.cancelled == [told.kept.saved[0].task_id]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("end", "status", "message"),
    [
        ("failed", BackendRunStatus.FAILED, "said why"),
        ("reject", BackendRunStatus.FAILED, "said why"),
        ("cancel", BackendRunStatus.CANCELLED, None),
        ("requires_auth", BackendRunStatus.WAITING_AUTH, "said why"),
    ],
)
def test_every_end_at_the_official_server_has_its_status(
    end: str, status: BackendRunStatus, message: str | None
) -> None:
    async def ends(_: Any, updater: Any) -> None:
        await updater.start_work()
        await getattr(updater, end)(new_text_message("said why"))

    async def scenario() -> None:
        async with official_peer(Executor(ends)) as url, turns(f"{url}/a2a") as told:
            result = await told.run()
            assert (result.status, result.message) == (status, message)

    asyncio.run(scenario())


def test_a_send_that_waits_for_the_end_gives_the_end() -> None:
    async def scenario() -> None:
        options = {"return_immediately": False}
        async with (
            official_peer(Executor(works)) as url,
            turns(f"{url}/a2a", options=options) as told,
        ):
            assert (await told.run()).status is BackendRunStatus.COMPLETED
            assert progress(told) == ["COMPLETED"]

    asyncio.run(scenario())


# --- when things go wrong on the way


def against(peer: RawPeer, act: Any, **endpoint: Any) -> Any:
    """Act on a backend whose other side is scripted."""

    async def scenario() -> Any:
        async with raw_peer(peer) as url, turns(url, **{**FAST, **endpoint}) as told:
            return await act(told)

    return asyncio.run(scenario())


def test_a_broken_stream_is_followed_again() -> None:
    peer = RawPeer().on(SEND, {"task": task("SUBMITTED")})
    peer.on(SUBSCRIBE, events(moved("WORKING")), events(moved("COMPLETED")))
    peer.on(GET, task("WORKING"), task("COMPLETED", text="whole"))
    assert against(peer, Turns.run).text == "whole"
    assert peer.places() == [SEND, SUBSCRIBE, GET, SUBSCRIBE, GET]


def test_a_stream_that_begins_with_an_answered_question_does_not_end_the_turn() -> None:
    peer = RawPeer().on(SEND, {"task": task("WORKING")})
    peer.on(SUBSCRIBE, events({"task": task("INPUT_REQUIRED")}), events(moved("COMPLETED")))
    peer.on(GET, task("WORKING"), task("COMPLETED", text="whole"))
    assert against(peer, Turns.run).text == "whole"
    assert peer.places() == [SEND, SUBSCRIBE, GET, SUBSCRIBE, GET]


def test_without_streams_the_task_is_asked_for_through_every_transient_failure() -> None:
    peer = RawPeer().on(SEND, {"task": task("SUBMITTED")})
    failures = [Response(status_code=it) for it in (503, 500, 429)]
    peer.on(GET, task("WORKING"), *failures, task("COMPLETED", text="at last"))
    assert against(peer, Turns.run).text == "at last"
    assert peer.places().count(SUBSCRIBE) == 1


def test_pieces_of_an_artifact_are_put_together_when_the_task_cannot_be_had_again() -> None:
    peer = RawPeer().on(SEND, {"task": task("SUBMITTED")})
    pieces = [piece("old"), piece("Hel"), piece("lo", append=True), moved("COMPLETED")]
    peer.on(SUBSCRIBE, events(*pieces))
    assert against(peer, Turns.run).text == "Hello"


def test_the_first_end_stands_and_what_is_told_of_other_tasks_is_not_ours() -> None:
    peer = RawPeer().on(SEND, {"task": task("WORKING")})
    told = [moved("FAILED", "t-2"), piece("not ours", task_id="t-2"), moved("SUBMITTED")]
    peer.on(SUBSCRIBE, events(*told, moved("COMPLETED"), moved("FAILED")))
    peer.on(GET, task("WORKING"))
    result = against(peer, Turns.run)
    assert (result.status, result.text) == (BackendRunStatus.COMPLETED, "")


def test_a_lost_reply_is_looked_up_and_the_message_is_not_sent_again() -> None:
    peer = RawPeer().on(SEND, Response(status_code=502))
    theirs = task("WORKING", "t-0", history=[{"messageId": "another"}])
    mine = task("COMPLETED", text="arrived", history=[{"messageId": MESSAGE_ID}])
    peer.on(LIST, {"tasks": [theirs, mine]})
    assert against(peer, Turns.run).text == "arrived"
    assert peer.places() == [SEND, LIST]
    assert peer.bodies(LIST)[0]["contextId"] == CONTEXT


def test_a_message_that_did_not_arrive_is_sent_again_under_the_same_id() -> None:
    peer = RawPeer().on(SEND, Response(status_code=503), {"task": task("COMPLETED", text="ok")})
    peer.on(LIST, {"tasks": []})
    assert against(peer, Turns.run).text == "ok"
    assert peer.places() == [SEND, LIST, SEND]
    sent = [body["message"] for body in peer.bodies(SEND)]
    assert sent[0] == sent[1]
    assert (sent[0]["messageId"], sent[0]["contextId"]) == (MESSAGE_ID, CONTEXT)
    assert "taskId" not in sent[0]


FIRST, OLD = {"messageId": "q-1", "timestamp": "1"}, [{"messageId": "earlier"}]


def asking(question: dict[str, Any] = FIRST, **more: Any) -> dict[str, Any]:
    """A task that waits with a question, which has an id and a time if it says so."""
    found = task("INPUT_REQUIRED", text=question.get("text", "which?"), **more)
    found["status"]["message"]["messageId"] = question.get("messageId", "")
    if "timestamp" in question:
        found["status"]["timestamp"] = question["timestamp"]
    return found


def answered_again(known: dict[str, Any], now: dict[str, Any]) -> tuple[RawPeer, Any]:
    """Recover a turn that answers a question, given how the task stood and how it stands."""
    peer = RawPeer().on(GET, known, now).on(SEND, {"task": known}, {"task": task("COMPLETED")})
    peer.on(SUBSCRIBE, Response(status_code=405))

    async def act(told: Turns) -> Any:
        assert (await told.run("earlier")).status is BackendRunStatus.WAITING_INPUT
        peer.on(GET, now)
        return await told.run(is_continuation=True, is_recovered=True)

    return peer, against(peer, act)


@pytest.mark.parametrize(
    "question", [FIRST, {"messageId": "q-1"}, {"timestamp": "1"}], ids=["both", "id", "time"]
)
def test_a_recovered_answer_is_sent_again_if_it_certainly_has_not_arrived(
    question: dict[str, Any],
) -> None:
    peer, result = answered_again(asking(question), asking(question, history=OLD))
    assert result.status is BackendRunStatus.COMPLETED
    first, again = (body["message"] for body in peer.bodies(SEND))
    assert "taskId" not in first
    assert (again["taskId"], again["messageId"]) == ("t-1", MESSAGE_ID)


@pytest.mark.parametrize(
    ("known", "now"),
    [
        (asking(), asking(history=[*OLD, {"messageId": MESSAGE_ID}])),
        (asking(), asking()),
        (asking(), asking({"messageId": "q-2", "timestamp": "1"}, history=OLD)),
        (asking(), asking({"messageId": "q-1", "timestamp": "2"}, history=OLD)),
        (asking(), asking({**FIRST, "text": "and which of these?"}, history=OLD)),
        (asking({"messageId": "q-1"}), asking(history=OLD)),
        (asking({}), asking({}, history=OLD)),
    ],
    ids=["arrived", "no history", "other id", "later", "other words", "time is new", "no names"],
)
def test_an_answer_that_may_have_arrived_is_not_sent_again_and_the_question_is_asked_again(
    known: dict[str, Any], now: dict[str, Any]
) -> None:
    peer, result = answered_again(known, now)
    assert result.status is BackendRunStatus.WAITING_INPUT
    assert result.message == now["status"]["message"]["parts"][0]["text"]
    assert len(peer.bodies(SEND)) == 1


def test_a_recovered_turn_whose_task_has_ended_sends_nothing() -> None:
    peer, result = answered_again(asking(), task("COMPLETED", text="over"))
    assert (result.status, result.text) == (BackendRunStatus.COMPLETED, "over")
    assert len(peer.bodies(SEND)) == 1


def test_a_lost_answer_is_sent_again_at_once_if_its_question_is_still_there() -> None:
    peer = RawPeer().on(
        SEND, {"task": asking()}, Response(status_code=503), {"task": task("COMPLETED")}
    )
    peer.on(GET, asking(history=OLD))

    async def act(told: Turns) -> Any:
        await told.run("earlier")
        return await told.run(is_continuation=True)

    assert against(peer, act).status is BackendRunStatus.COMPLETED
    assert peer.places() == [SEND, SEND, GET, SEND]


def test_a_question_is_kept_as_it_is_told_on_request_however_long_its_server_is_away() -> None:
    """A stream names no time; an answer that is lost later has to find the question again."""
    away = [Response(status_code=503)] * 4
    peer = RawPeer().on(SEND, {"task": task("SUBMITTED")}, Response(status_code=503))
    told_by_stream = {key: value for key, value in asking()["status"].items() if key != "timestamp"}
    peer.on(SUBSCRIBE, events({"statusUpdate": {"taskId": "t-1", "status": told_by_stream}}))
    peer.on(GET, *away, asking(), asking(history=OLD))

    async def act(told: Turns) -> Any:
        assert (await told.run("earlier")).status is BackendRunStatus.WAITING_INPUT
        peer.on(SEND, Response(status_code=503), {"task": task("COMPLETED")})
        return await told.run(is_continuation=True)

    assert against(peer, act).status is BackendRunStatus.COMPLETED
    assert peer.places()[-3:] == [SEND, GET, SEND]


def test_an_id_that_arrives_after_the_cancel_is_cancelled() -> None:
    async def scenario() -> None:
        gate, begun = asyncio.Event(), asyncio.Event()

        async def late(_: Any) -> Any:
            begun.set()
            await gate.wait()
            return {"task": task("WORKING")}

        peer = RawPeer().on(SEND, late).on(CANCEL, task("CANCELED"))
        async with raw_peer(peer) as url, turns(url) as told:
            running = told.start()
            await begun.wait()
            running.cancel()
            await asyncio.wait([running])
            aborting = asyncio.create_task(told.abort())
            gate.set()
            await aborting
            assert peer.places() == [SEND, CANCEL]

    asyncio.run(scenario())


def test_an_abort_without_anything_known_looks_into_the_context() -> None:
    peer = RawPeer().on(LIST, {"tasks": [task("COMPLETED", "t-0"), task("WORKING")]})
    peer.on(CANCEL, task("CANCELED"))
    against(peer, Turns.abort)
    assert peer.places() == [LIST, CANCEL]
    nothing = RawPeer()
    against(nothing, Turns.abort)
    assert nothing.places() == [LIST]


def test_a_task_that_has_ended_needs_no_cancel() -> None:
    gone = {"error": {"details": [{"reason": "TASK_NOT_CANCELABLE"}]}}
    peer = RawPeer().on(LIST, {"tasks": [task("WORKING")]})
    peer.on(CANCEL, JSONResponse(gone, 409))
    against(peer, Turns.abort)
    assert peer.places() == [LIST, CANCEL]


def test_an_abort_that_fails_says_so() -> None:
    peer = RawPeer().on(LIST, {"tasks": [task("WORKING")]})
    peer.on(CANCEL, Response(status_code=503))
    with pytest.raises(RemoteUnreachable):
        against(peer, Turns.abort)
    assert peer.places().count(CANCEL) == 3


def test_a_redirect_is_not_followed_and_the_origin_is_named() -> None:
    peer = RawPeer().on(SEND, RedirectResponse("/elsewhere"))
    with pytest.raises(RemoteRefused, match=r"http://127\.0\.0\.1:\d+ answered with a redirect"):
        against(peer, Turns.run)
    assert peer.places() == [SEND]


@pytest.mark.parametrize("binding", ["HTTP+JSON", "JSONRPC"])
def test_a_card_that_points_elsewhere_is_refused_and_nothing_is_sent(binding: str) -> None:
    interface = {
        "url": "http://169.254.169.254/latest",
        "protocolBinding": binding,
        "protocolVersion": "1.0",
    }
    peer = RawPeer(supportedInterfaces=[interface])
    with pytest.raises(RemoteRefused, match=r"points to http://169\.254\.169\.254"):
        against(peer, Turns.run)
    assert peer.places() == []


def test_the_card_is_asked_for_once_and_without_the_token() -> None:
    peer = RawPeer(name="peer").on(SEND, {"message": {"parts": [{"text": "hi"}]}})

    async def twice(told: Turns) -> None:
        await told.run("one")
        await told.run("two")

    against(peer, twice, auth={"type": "bearer", "token": "a-token"})
    assert [place for place, _ in peer.asked].count("GET /.well-known/agent-card.json") == 1
    assert "authorization" not in peer.headers[0]
    assert peer.headers[1]["authorization"] == "Bearer a-token"
    assert peer.headers[1]["a2a-version"] == "1.0"


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (b"no json", RemoteMalformed),
        (b"[]", RemoteMalformed),
        (b"{}", RemoteMalformed),
        (b'{"task": {"id": "t-1", "status": {"state": "DREAMING"}}}', RemoteMalformed),
        (b'{"task": {"id": "..", "status": {"state": "TASK_STATE_WORKING"}}}', RemoteMalformed),
        (b'{"task": ' + b"[" * 100 + b"]" * 100 + b"}", RemoteTooLarge),
        (b" " * (channel.BODY_BYTES_MAX + 1), RemoteTooLarge),
    ],
)
def test_an_answer_that_is_none_has_a_typed_error(reply: bytes, error: type[Exception]) -> None:
    peer = RawPeer().on(SEND, Response(reply, media_type="application/json"))
    with pytest.raises(error):
        against(peer, Turns.run)


def test_a_body_without_a_length_is_bounded_as_well() -> None:
    async def endless() -> Any:
        for _ in range(channel.BODY_BYTES_MAX // 65536 + 1):
            yield b" " * 65536

    peer = RawPeer().on(SEND, lambda _: StreamingResponse(endless()))
    with pytest.raises(RemoteTooLarge):
        against(peer, Turns.run)


def test_an_event_that_is_too_large_ends_the_turn_and_stops_the_task() -> None:
    peer = RawPeer().on(SEND, {"task": task("WORKING")}).on(CANCEL, task("CANCELED"))
    peer.on(SUBSCRIBE, events(piece("x" * channel.EVENT_BYTES_MAX)))
    with pytest.raises(RemoteTooLarge):
        against(peer, Turns.run)
    assert peer.places() == [SEND, SUBSCRIBE, CANCEL]


def test_a_task_that_turns_into_another_one_is_malformed() -> None:
    peer = RawPeer().on(SEND, {"task": task("WORKING")}).on(GET, task("COMPLETED", "t-2"))
    with pytest.raises(RemoteMalformed):
        against(peer, Turns.run)


def test_an_end_that_is_known_is_no_timeout() -> None:
    async def scenario(timeout_ms: int) -> bool:
        gate = asyncio.Event()
        peer = RawPeer().on(SEND, {"task": task("WORKING")}).on(GET, lambda _: gate.wait())
        peer.on(SUBSCRIBE, events(piece("answer"), moved("COMPLETED")))
        async with raw_peer(peer) as url, turns(url, timeout_ms=timeout_ms) as told:
            result = await told.run()
            gate.set()
        is_known = (result.status, result.text) == (BackendRunStatus.COMPLETED, "answer")
        assert not (is_known and CANCEL in peer.places())
        return is_known

    given_time(lambda timeout_ms: asyncio.run(scenario(timeout_ms)))


def test_closing_ends_a_send_that_is_under_way() -> None:
    async def scenario() -> None:
        begun, gate = asyncio.Event(), asyncio.Event()

        async def late(_: Any) -> Any:
            begun.set()
            return await gate.wait()

        async with asyncio.timeout(30), raw_peer(RawPeer().on(SEND, late)) as url:
            async with turns(url) as told:
                running = told.start()
                await begun.wait()
                running.cancel()
                await asyncio.wait([running])
                assert [it for it in asyncio.all_tasks() if it.get_name() == "a2a-send:run-1"]
            left = [it for it in asyncio.all_tasks() if it.get_name() == "a2a-send:run-1"]
            gate.set()
            assert left == []

    asyncio.run(scenario())


def test_a_delegate_is_told_what_its_task_waits_for() -> None:
    async def act(told: Turns) -> Any:
        root = told.request()
        request = BackendDelegateRunRequest(
            agent_id="far",
            messages=root.messages,
            new_messages=root.new_messages,
            sink=told.seen,
            resolver=root.resolver,
            run_identity=root.run_identity,
            parent=BackendParentContext(),
            checkpoint=told.kept,
        )
        return await told.backend.execute_delegate(request)

    peer = RawPeer().on(SEND, {"task": task("INPUT_REQUIRED")})
    assert against(peer, act).message == "the remote task needs input"
    assert against(peer, Turns.run).message is None


def test_a_letter_of_another_agent_is_sent_and_other_inner_messages_are_not() -> None:
    letter = Message(
        role=Role.USER,
        content=as_blocks("please do it"),
        visibility=Visibility.INTERNAL,
        sender=Sender(kind=SenderKind.AGENT, agent_id="lead"),
    )
    inner = user("a note", visibility=Visibility.INTERNAL)
    assert turn_messages([inner, letter], []) == [letter]
    assert prompt_of([inner, letter], PromptAbilities()) == [
        {"type": "text", "text": "please do it"}
    ]


def test_what_certainly_did_not_arrive_is_sent_again_without_looking() -> None:
    turned_away = Response(status_code=503, headers={"Retry-After": "1"})
    failures = [Response(status_code=429), turned_away]
    peer = RawPeer().on(SEND, *failures, {"task": task("COMPLETED", text="ok")})
    assert against(peer, Turns.run).text == "ok"
    assert peer.places() == [SEND] * 3


def test_what_may_have_arrived_is_not_sent_again_where_tasks_cannot_be_listed() -> None:
    peer = RawPeer().on(SEND, Response(status_code=502))
    with pytest.raises(RemoteOutcomeUnknown, match="cannot list its tasks"):
        against(peer, Turns.run)
    assert peer.places().count(SEND) == 1


def test_a_server_that_is_away_is_asked_again_until_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(sending, "PAUSE_MAX_S", 0.001)
    away = [Response(status_code=429)] * 20
    peer = RawPeer().on(SEND, *away, {"task": task("COMPLETED", text="back")})
    assert against(peer, Turns.run).text == "back"
    problems = []

    def is_away(timeout_ms: int) -> bool:
        try:
            against(RawPeer().on(SEND, away[0]), Turns.run, timeout_ms=timeout_ms)
        except RemoteUnreachable as error:
            problems.append(error)
        return bool(problems)

    given_time(is_away)
    assert "429" in str(problems[0])
    assert not problems[0].is_work_left


def test_a_card_that_fails_once_is_asked_for_again() -> None:
    async def scenario() -> None:
        peer = RawPeer()
        async with raw_peer(peer) as url, turns(url, **FAST) as told:
            rpc = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
            card = {"supportedInterfaces": [rpc]}
            peer.on("GET /.well-known/agent-card.json", Response(status_code=503), card)
            answer = {"jsonrpc": "2.0", "id": 1, "result": {"task": task("COMPLETED", text="ok")}}
            peer.on("POST /", answer)
            assert (await told.run()).text == "ok"
            assert peer.places() == ["POST /"]

    asyncio.run(scenario())


def test_a_binding_that_was_set_up_needs_no_card() -> None:
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"task": task("COMPLETED", text="ok")}}
    peer = RawPeer().on("POST /", answer)
    assert against(peer, Turns.run, options={"binding": "JSONRPC"}).text == "ok"
    assert [place for place, _ in peer.asked] == ["POST /"]


def test_a_task_that_could_not_be_stopped_is_told_as_left() -> None:
    peer = RawPeer().on(SEND, {"task": task("WORKING")}).on(GET, task("WORKING"))
    peer.on(CANCEL, Response(status_code=503))

    def is_left(timeout_ms: int) -> bool:
        result = against(peer, Turns.run, timeout_ms=timeout_ms)
        assert result.status is BackendRunStatus.TIMEOUT
        return bool(result.is_work_left)

    given_time(is_left)
    peer.on(GET, {"id": 7})
    with pytest.raises(RemoteMalformed) as caught:
        against(peer, Turns.run)
    assert caught.value.is_work_left
    peer.on(CANCEL, task("CANCELED"))
    with pytest.raises(RemoteMalformed) as caught:
        against(peer, Turns.run)
    assert not caught.value.is_work_left


def test_backends_that_nobody_asks_for_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "BACKENDS_MAX", 2)
    factory = backend.A2ABackendFactory(Outbound(), SystemClock())
    urls = [f"http://127.0.0.1/{it}" for it in range(3)]
    first, second, _ = (factory.build(RemoteEndpoint(base_url=it)) for it in urls)
    assert factory.build(RemoteEndpoint(base_url=urls[1])) is second
    assert factory.build(RemoteEndpoint(base_url=urls[0])) is not first
