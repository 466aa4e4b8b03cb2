"""A coding agent executes runs: its answer, its progress, its permissions, how it is stopped."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Cancelled, Failed, NaturalEnd, RemoteEndpoint, UsageError, user
from awaken.backends import AcpBackendFactory, BackendAbortRequest, BackendRunStatus
from awaken.errors import BackendExecutionFailed, Misuse, RemoteUnsupported
from awaken.messages import Base64Source, Document, Image, UrlSource, Video, assistant
from awaken.tools import DecisionAction, ResumeMode, ToolCallResume

from .acp_backend_world import (
    PROMPT_LIMITS,
    Checkpoint,
    Decider,
    Signal,
    Sink,
    backend_of,
    delegate,
    endpoint_of,
    no_process_left,
    root,
    run,
)

SRC = Path(__file__).parents[2] / "src"
YES = ToolCallResume(decision_id="d")


def test_the_answer_is_what_the_agent_says_and_its_work_is_shown(tmp_path: Path) -> None:
    async def scenario() -> None:
        sink, checkpoint = Sink(), Checkpoint()
        backend = backend_of(tmp_path, "scripted")
        result = await backend.execute_root(root("work", sink, checkpoint=checkpoint))
        assert result.status is BackendRunStatus.COMPLETED
        assert result.termination == NaturalEnd()
        assert (result.text, result.agent_id) == ("I look. It is fine.", "coder")
        assert (result.run_id, result.thread_id) == ("r1", "t1")
        last = sink.shown[-1]
        assert (last.activity_type, last.replace) == ("acp-session-progress", True)
        session = f"new in {tmp_path}"
        assert last.content == {
            "schema": "acp-session-progress.v1",
            "session_id": session,
            "text": "I look. It is fine.",
            "tool_calls": [{"id": "c1", "title": "Read x", "kind": "read", "status": "completed"}],
            "plan": [{"content": "write", "status": "in_progress", "priority": "medium"}],
        }
        opened, prompted = checkpoint.saved
        assert opened[0] == prompted[0]
        assert opened[0].startswith("acp:")
        assert (opened[1].context_id, opened[1].message_id) == (session, None)
        assert (prompted[1].context_id, prompted[1].run_id) == (session, "r1")
        assert prompted[1].message_id is not None

    with no_process_left(tmp_path):
        run(scenario)


def test_a_delegated_run_is_executed_alike(tmp_path: Path) -> None:
    async def scenario() -> None:
        result = await backend_of(tmp_path, "raw", "stopping", "end_turn").execute_delegate(
            delegate("go", Checkpoint())
        )
        assert (result.status, result.text) == (BackendRunStatus.COMPLETED, "so far")
        assert result.run_id == "r2"

    with no_process_left(tmp_path):
        run(scenario)


def test_the_agent_is_sent_what_the_user_has_added(tmp_path: Path) -> None:
    picture = Image(source=Base64Source(media_type="image/png", data="AAAA"))
    film = Video(source=Base64Source(media_type="video/mp4", data="BBBB"))
    link = Document(source=UrlSource(url="https://example.org/a/b.pdf"), title=None)
    said = (user("echo"), assistant("no"), user((picture, film)), user((link,)))

    async def scenario() -> None:
        result = await backend_of(tmp_path, "scripted").execute_root(root(said))
        _, kinds, last = result.text.split("|", 2)
        assert kinds == "text,image,resource,resource_link"
        assert "b.pdf" in last
        with pytest.raises(RemoteUnsupported, match="takes no image"):
            await backend_of(tmp_path, "raw", "stopping", "end_turn").execute_root(root(said))
        with pytest.raises(BackendExecutionFailed, match="no user message content"):
            await backend_of(tmp_path, "raw", "silent2").execute_root(root((assistant("x"),)))

    with no_process_left(tmp_path):
        run(scenario)


def test_the_process_sees_only_what_it_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OURS", "secret")
    monkeypatch.setenv("LENT", "lent")

    async def scenario() -> None:
        backend = backend_of(tmp_path, "raw", "showing", GIVEN="given", LENT=None)
        seen = json.loads((await backend.execute_root(root())).text)
        # The interpreter and the shell below it may add names of their own.
        names = set(seen["environment"]) - {"LC_CTYPE"}
        assert names == {"PATH", "HOME", "GIVEN", "LENT"}
        assert (seen["environment"]["GIVEN"], seen["environment"]["LENT"]) == ("given", "lent")
        assert seen["cwd"] == str(tmp_path)
        hello, place, prompted = seen["greeted"]
        lent = hello["clientCapabilities"]
        assert lent == {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        assert place == {"cwd": str(tmp_path), "mcpServers": []}
        assert prompted["prompt"] == [{"type": "text", "text": "go"}]
        monkeypatch.delenv("LENT")
        with pytest.raises(BackendExecutionFailed, match="LENT"):
            await backend.execute_root(root())

    with no_process_left(tmp_path):
        run(scenario)


@pytest.mark.parametrize(
    ("reason", "words"),
    [("refusal", "refused"), ("max_tokens", "tokens"), ("max_turn_requests", "requests")],
)
def test_a_turn_that_stops_early_has_failed(tmp_path: Path, reason: str, words: str) -> None:
    async def scenario() -> None:
        result = await backend_of(tmp_path, "raw", "stopping", reason).execute_root(root())
        assert result.status is BackendRunStatus.FAILED
        assert result.message is not None
        assert words in result.message
        assert result.termination == Failed(message=result.message, code="backend_execution_failed")
        assert result.text == "so far"

    run(scenario)


def test_a_turn_that_the_agent_gives_up_is_cancelled(tmp_path: Path) -> None:
    async def scenario() -> None:
        result = await backend_of(tmp_path, "raw", "stopping", "cancelled").execute_root(root())
        assert (result.status, result.termination) == (BackendRunStatus.CANCELLED, Cancelled())

    run(scenario)


def test_a_permission_is_a_ticket(tmp_path: Path) -> None:
    async def scenario() -> None:
        decider = Decider(YES)
        backend = backend_of(tmp_path, "scripted")
        result = await backend.execute_root(root("erase", decisions=decider))
        assert (result.status, result.text) == (BackendRunStatus.COMPLETED, "o-allow_once")
        ((call, ticket),) = decider.asked
        assert (call.name, call.arguments) == ("acp_permission_delete", {"path": "/x"})
        assert (ticket.pending.id, ticket.suspension.id, ticket.question_kind) == (
            call.id,
            "",
            "permission",
        )
        assert ticket.suspension.message == "Erase /x"
        assert ticket.resume_mode is ResumeMode.PASS_DECISION_TO_TOOL
        assert not ticket.is_question
        assert ticket.expires_at is not None
        options = ticket.suspension.parameters["options"]
        assert [it["kind"] for it in options][:2] == ["allow_once", "allow_always"]
        schema = ticket.suspension.response_schema
        assert schema is not None
        ids = [it["optionId"] for it in options]
        assert schema["properties"]["option_id"]["enum"] == ids

    with no_process_left(tmp_path):
        run(scenario)


def test_a_refusal_is_heard_and_every_question_is_one_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        decider = Decider(ToolCallResume(decision_id="d", action=DecisionAction.CANCEL))
        result = await backend_of(tmp_path, "raw", "erasing").execute_root(root(decisions=decider))
        assert result.text == "o-reject_once o-reject_once "
        assert len({call.id for call, _ in decider.asked}) == 2

    run(scenario)


def test_without_anybody_to_decide_the_answer_is_no(tmp_path: Path) -> None:
    async def scenario() -> None:
        result = await backend_of(tmp_path, "raw", "erasing").execute_root(root())
        assert result.text == "o-reject_once o-reject_once "

    run(scenario)


@pytest.mark.parametrize("is_late", [True, False])
def test_a_question_that_cannot_be_asked_ends_the_run(tmp_path: Path, is_late: bool) -> None:
    async def scenario() -> None:
        sink = Sink()
        decider = Decider(Misuse("the ticket was closed"), after=sink if is_late else None)
        with pytest.raises(UsageError, match="closed"):
            await backend_of(tmp_path, "raw", "waiting").execute_root(
                root("go", sink, decisions=decider)
            )

    with no_process_left(tmp_path):
        run(scenario)


def test_cancelling_reaches_the_agent(tmp_path: Path) -> None:
    async def scenario() -> None:
        sink, signal = Sink(), Signal()
        backend = backend_of(tmp_path, "scripted")
        running = asyncio.create_task(backend.execute_root(root("wait", sink, cancellation=signal)))
        await sink.until(lambda shown: "begin" in shown["text"])
        signal.cancel()
        result = await running
        assert (result.status, result.text) == (BackendRunStatus.CANCELLED, "I begin")
        assert (tmp_path / "heard").read_text() == "cancel"

    with no_process_left(tmp_path):
        run(scenario)


@pytest.mark.parametrize("is_signal", [True, False])
def test_an_open_question_is_withdrawn_when_the_run_is_cancelled(
    tmp_path: Path, is_signal: bool
) -> None:
    async def scenario() -> None:
        decider, signal, sink = Decider(None), Signal(), Sink()
        patient = msgspec.structs.replace(PROMPT_LIMITS, cancel_ms=20_000)
        backend = backend_of(tmp_path, "raw", "waiting", limits=patient)
        running = asyncio.create_task(
            backend.execute_root(root("go", sink, decisions=decider, cancellation=signal))
        )
        await decider.news.wait()
        if is_signal:
            signal.cancel()
            assert (await running).status is BackendRunStatus.CANCELLED
        else:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert decider.was_cancelled
        # The agent heard both, and said so, before it ended its turn.
        assert sink.shown[-1].content["text"] == "I begin cancelled"
        assert (tmp_path / "heard").read_text() == "cancel"

    with no_process_left(tmp_path):
        run(scenario)


def test_abort_and_close_end_what_runs_here_and_nothing_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        factory = AcpBackendFactory(limits=PROMPT_LIMITS)
        endpoint = endpoint_of(tmp_path, "raw", "stubborn")
        request = root()
        aborting = BackendAbortRequest(agent_id="coder", run_identity=request.run_identity)
        await factory.build(endpoint).abort(aborting)
        for end in (lambda: factory.build(endpoint).abort(aborting), factory.close):
            sink = Sink()
            running = asyncio.create_task(factory.build(endpoint).execute_root(root(sink=sink)))
            await sink.until(lambda shown: "begin" in shown["text"])
            await end()
            with pytest.raises(BackendExecutionFailed, match="ended with code -9"):
                await running
        assert factory._running == {}
        await factory.close()

    with no_process_left(tmp_path):
        run(scenario)


def test_a_session_that_was_never_prompted_is_loaded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        backend = backend_of(tmp_path, "scripted")
        for known, session in (("earlier", "earlier"), ("forgotten", f"new in {tmp_path}")):
            checkpoint = Checkpoint(run_id="r1", context_id=known)
            request = root("echo", checkpoint=checkpoint, is_recovered=True)
            result = await backend.execute_root(request)
            assert result.text.split("|")[0] == session
        (warned,) = [it.getMessage() for it in caplog.records if it.name.startswith("awaken")]
        assert "'forgotten'" in warned
        assert "error" in warned

    with no_process_left(tmp_path):
        run(scenario)


def test_a_prompt_that_may_have_arrived_is_never_sent_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        backend = backend_of(tmp_path, "raw", "stopping", "end_turn")
        lost = Checkpoint(run_id="r1", context_id="s-7", message_id="m")
        for checkpoint, session in ((lost, "s-7"), (None, "unknown")):
            with pytest.raises(BackendExecutionFailed, match=f"outcome is unknown.*{session}"):
                await backend.execute_root(root(checkpoint=checkpoint, is_recovered=True))
        assert not (tmp_path / "pid").exists()
        of_another_run = Checkpoint(run_id="r0", context_id="s-7", message_id="m")
        for checkpoint in (of_another_run, Checkpoint()):
            request = root(checkpoint=checkpoint, is_recovered=True)
            assert (await backend.execute_root(request)).text == "so far"
        assert (await backend.execute_root(root(checkpoint=lost))).text == "so far"

    with no_process_left(tmp_path):
        run(scenario)


APP = """
from awaken import Agent, ToolContext, tool
from awaken.testing import ScriptedModel, ToolCalls

@tool
async def erase(name: str, ctx: ToolContext):
    return ctx.suspend(f"erase {name}?") if ctx.resume is None else f"erased {name}"

steps = [ToolCalls([("erase", {"name": "x"})]), "It is done."]
agent = Agent("a", model=ScriptedModel(steps), tools=[erase])
"""


@pytest.mark.parametrize("action", list(DecisionAction))
def test_our_own_server_is_such_an_agent(tmp_path: Path, action: DecisionAction) -> None:
    async def scenario() -> None:
        (tmp_path / "app.py").write_text(APP)
        command = [sys.executable, "-m", "awaken", "acp", "app.py", "--store", "sqlite:///s.db"]
        options: dict[str, Any] = {
            "command": command,
            "cwd": str(tmp_path),
            "env": {"PYTHONPATH": str(SRC)},
        }
        endpoint = RemoteEndpoint(backend="acp", base_url="stdio:", options=options)
        decider, sink = Decider(ToolCallResume(decision_id="d", action=action)), Sink()
        backend = AcpBackendFactory().build(endpoint)
        result = await backend.execute_root(root("erase x", sink, decisions=decider))
        assert (result.status, result.text) == (BackendRunStatus.COMPLETED, "It is done.")
        ((call, ticket),) = decider.asked
        assert (call.arguments, ticket.suspension.message) == ({"name": "x"}, "erase")
        (shown,) = sink.shown[-1].content["tool_calls"]
        is_allowed = action is DecisionAction.RESUME
        assert shown["status"] == ("completed" if is_allowed else "failed")

    run(scenario)


CONTEXT_APP = """
from awaken import Agent
from awaken.testing import ScriptedModel

model = ScriptedModel([lambda request: request.system[0]])
agent = Agent("a", model=model, instructions="For {context.customer}.")
"""


def test_the_context_of_a_run_reaches_the_program(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "app.py").write_text(CONTEXT_APP)
        options: dict[str, Any] = {
            "command": [sys.executable, "-m", "awaken", "acp", "app.py"],
            "cwd": str(tmp_path),
            "env": {"PYTHONPATH": str(SRC)},
        }
        endpoint = RemoteEndpoint(backend="acp", base_url="stdio:", options=options)
        backend = AcpBackendFactory().build(endpoint)
        result = await backend.execute_root(root("go", context={"customer": "c-7"}))
        assert (result.status, result.text) == (BackendRunStatus.COMPLETED, "For c-7.")

    run(scenario)
