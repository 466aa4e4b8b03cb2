"""The loop's promises about requests, tool results, waiting and steps, on every store."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import (
    Agent,
    AgentRuntime,
    Cancelled,
    ContextWindowPolicy,
    InvalidInput,
    MailboxConfig,
    Message,
    Phase,
    Plugin,
    PluginRegistrar,
    RunFinish,
    RunStatus,
    StateCommand,
    Stopped,
    Suspended,
    SuspendTicket,
    ToolContext,
    ToolResult,
    tool,
    user,
)
from awaken.bootstrap.decisions import build_decision
from awaken.errors import AlreadyDecided, ContextOverflow
from awaken.models import SUMMARY_SYSTEM_PROMPT, InferenceRequest
from awaken.plugins import (
    PENDING_WORK,
    RUN_LIFECYCLE,
    GateDecision,
    StateScope,
    StepEndContext,
    StepStartContext,
    Suspend,
    ToolGateContext,
)
from awaken.protocols.native.bodies import TicketDecision
from awaken.runtime.context.estimate import estimate_tokens
from awaken.stores import RunRecord, WaitingReason
from awaken.testing import ToolCalls, Turn
from awaken.tools import ResumeMode, ToolCallResume, ToolDescriptor, ToolStatus

from .each_store import NewStore, each_store
from .worlds import CheckedModel, Gate

CONFIG = MailboxConfig(poll_ms=20, relay_ms=20, sweep_ms=200, lease_ms=20_000, renew_ms=300)
WORDS = "word " * 160
"""About 200 tokens."""
BUDGET = 2_500
FITTED = ContextWindowPolicy(
    max_context_tokens=BUDGET + 100, max_output_tokens=100, min_recent_messages=2
)
QUOTED = '"word",'
Rewrite = Callable[[list[Message]], list[Message]]


class Colour(str, Enum):  # noqa: UP042 - one that prints itself otherwise than a StrEnum
    RED = "red"


class Rewriting(Plugin):
    """A plugin whose transforms rewrite every request, one after the other."""

    def __init__(self, *rewrites: Rewrite) -> None:
        self.name = "rewriting"
        self.seen: list[list[Message]] = []
        self._rewrites = rewrites

    def register(self, registrar: PluginRegistrar) -> None:
        for rewrite in self._rewrites:
            registrar.transform(lambda messages, _, rewrite=rewrite: self._do(rewrite, messages))

    def _do(self, rewrite: Rewrite, messages: list[Message]) -> list[Message]:
        self.seen.append(list(messages))
        return rewrite(messages)


def said(messages: Sequence[Message]) -> list[str]:
    return [message.text.split(":")[0] for message in messages]


def add_notes(messages: list[Message]) -> list[Message]:
    """Put twenty notes of about 200 tokens each before the history."""
    return [*(user(f"note {n}: {WORDS}") for n in range(20)), *messages]


def add_reminder(messages: list[Message]) -> list[Message]:
    return [*messages, user("reminder: be brief")]


@tool(effect="none")
async def look() -> str:
    """Look something up."""
    return f"found: {WORDS}"


async def talk(
    store: Any, rewriting: Rewriting, answers: Sequence[Any], turns: int
) -> tuple[CheckedModel, list[str]]:
    model = CheckedModel(answers, usage=None)
    agent = Agent("a", model=model, tools=[look], plugins=[rewriting], context_policy=FITTED)
    async with AgentRuntime([agent], store=store) as runtime:
        for n in range(turns):
            await runtime.run("a", f"question {n}: {WORDS}", thread_id="t")
        stored = [it.message.text.split(":")[0] for it in await runtime.messages("t")]
    assert model.problems == []
    return model, stored


@each_store
def test_what_transforms_add_is_counted_before_the_window_is_fitted(
    new_store: NewStore, tmp_path: Path
) -> None:
    rewriting = Rewriting(add_notes, add_reminder)
    answers = [it for n in range(8) for it in (ToolCalls([("look", {})]), f"answer {n}: {WORDS}")]
    model, stored = asyncio.run(talk(new_store(tmp_path)(), rewriting, answers, turns=8))
    for request in model.requests:
        assert estimate_tokens(request.messages) <= BUDGET
        assert said(request.messages)[-1] == "reminder"
    # In the order of their registration, and each sees all that was ever said.
    first, second = rewriting.seen[-2:]
    assert said(second) == [*(f"note {n}" for n in range(20)), *said(first)]
    assert said(first) == stored[:-1]


def add_documents(messages: list[Message]) -> list[Message]:
    """Put nine documents of about 200 tokens each after everything else."""
    return [*messages, *(user(f"document {n}: {WORDS}") for n in range(9))]


@each_store
def test_the_question_stays_when_a_transform_puts_documents_after_it(
    new_store: NewStore, tmp_path: Path
) -> None:
    rewriting = Rewriting(add_documents)
    answers = [f"answer {n}: {WORDS}" for n in range(6)]
    model, _ = asyncio.run(talk(new_store(tmp_path)(), rewriting, answers, turns=6))
    for n, request in enumerate(model.requests):
        assert estimate_tokens(request.messages) <= BUDGET
        assert f"question {n}" in said(request.messages)
        assert said(request.messages)[-1] == "document 8"


@each_store
def test_the_smaller_request_is_cut_from_what_transforms_made(
    new_store: NewStore, tmp_path: Path
) -> None:
    def overflow(_: InferenceRequest) -> Any:
        raise ContextOverflow("prompt is too long")

    rewriting = Rewriting(add_reminder)
    answers = [f"answer 0: {WORDS}", f"answer 1: {WORDS}", overflow, "answer 2"]
    model, _ = asyncio.run(talk(new_store(tmp_path)(), rewriting, answers, turns=3))
    refused, smaller = model.requests[-2:]
    assert estimate_tokens(smaller.messages) < estimate_tokens(refused.messages)
    assert said(smaller.messages)[-2:] == ["question 2", "reminder"]
    assert said(rewriting.seen[-1])[0] == "question 0"


@each_store
def test_transforms_and_summaries_share_one_window(new_store: NewStore, tmp_path: Path) -> None:
    def speak(request: InferenceRequest) -> Turn:
        is_summary = request.system == (SUMMARY_SYSTEM_PROMPT,)
        return Turn("They talked." if is_summary else f"answer: {WORDS}", delay_ms=1)

    def add_memory(messages: list[Message]) -> list[Message]:
        return [user(f"memory: {WORDS}"), *messages, user("reminder: be brief")]

    async def scenario() -> None:
        model = CheckedModel([speak], cycle=True, usage=None)
        rewriting = Rewriting(add_memory)
        policy = msgspec.structs.replace(FITTED, autocompact_threshold=1_500)
        agent = Agent("a", model=model, plugins=[rewriting], context_policy=policy)
        async with AgentRuntime([agent], store=new_store(tmp_path)()) as runtime:
            for n in range(16):
                await runtime.run("a", f"question {n}: {WORDS}", thread_id="t")
            assert len(await runtime.messages("t")) == 32
        asked = [it for it in model.requests if it.system != (SUMMARY_SYSTEM_PROMPT,)]
        assert 0 < len(asked) < len(model.requests)
        for request in asked:
            assert estimate_tokens(request.messages) <= BUDGET
            assert said(request.messages)[-2:] in (
                [f"question {asked.index(request)}", "reminder"],
            )
        # What a summary stands for no transform sees; and no cut loses the summary.
        assert "They talked." in asked[-1].messages[0].text + asked[-1].messages[1].text
        assert "question 0" not in said(rewriting.seen[-1])
        assert model.problems == []

    asyncio.run(scenario())


def given(value: Any) -> Any:
    """A tool that gives a value."""

    async def give() -> Any:
        return value

    return tool(id="give", description="Give something.", effect="none")(give)


RESULTS: list[tuple[Any, str]] = [
    (ToolResult.success("give", "5"), '"5"'),
    (ToolResult.success("give", 5), "5"),
    (ToolResult.success("give", ""), '""'),
    (ToolResult.success("give", "null"), '"null"'),
    (ToolResult.success("give", None), "null"),
    (ToolResult.success("give", 'say "ü"\nnow'), '"say \\"ü\\"\\nnow"'),
    (ToolResult.success("give", '{"a":1}'), '"{\\"a\\":1}"'),
    (ToolResult.success("give", {"a": "1"}), '{"a":"1"}'),
    (ToolResult.success("give", "5", "five"), "five"),
    (ToolResult.success("give", {"a": 1}, '{"b":2}'), '{"b":2}'),
    (ToolResult(tool_name="give", status=ToolStatus.ERROR, data="no"), '"no"'),
    # What a function returns as text was written for the model.
    ("5", "5"),
    (Colour.RED, "red"),
    (5, "5"),
    (date(2030, 1, 2), '"2030-01-02"'),
]


@each_store
def test_a_result_without_a_message_is_told_as_json(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        model = CheckedModel([ToolCalls([("give", {})]), "Done."] * len(RESULTS))
        open_store = new_store(tmp_path)
        for number, (value, told) in enumerate(RESULTS):
            agent = Agent("a", model=model, tools=[given(value)])
            async with AgentRuntime([agent], store=open_store()) as runtime:
                await runtime.run("a", "Go.", thread_id=f"t{number}")
                assert model.requests[-1].messages[-1].text == told
                stored = await runtime.messages(f"t{number}")
                assert stored[2].message.text == told
        assert model.problems == []

    asyncio.run(scenario())


@each_store
@pytest.mark.parametrize(("value", "told"), [("5", '"5"'), (5, "5"), ({"a": "b"}, '{"a":"b"}')])
def test_what_a_client_gives_for_its_tool_is_told_as_json(
    new_store: NewStore, tmp_path: Path, value: Any, told: str
) -> None:
    async def scenario() -> None:
        model = CheckedModel([ToolCalls([("ask", {})]), "Done."])
        client = ToolDescriptor(id="ask", description="Ask.", parameters={"type": "object"})
        async with AgentRuntime([Agent("a", model=model)], store=new_store(tmp_path)()) as runtime:
            waiting = await runtime.run("a", "Go.", frontend_tools=[client])
            await runtime.decide(waiting.tickets[0].ticket_id, result=value)
            await runtime.wait(waiting.run_id)
            assert model.requests[-1].messages[-1].text == told

    asyncio.run(scenario())


def test_a_cut_result_is_told_as_it_was_cut() -> None:
    """Half of a JSON text is no JSON: it is not quoted again, and no longer than allowed."""

    async def told(value: Any) -> str:
        give = given(ToolResult.success("give", value))
        limited = tool(id="give", description="d", effect="none", output_limit=40)(give.__wrapped__)
        model = CheckedModel([ToolCalls([("give", {})]), "Done."])
        async with AgentRuntime([Agent("a", model=model, tools=[limited])]) as runtime:
            await runtime.run("a", "Go.")
        return model.requests[-1].messages[-1].text

    listed = asyncio.run(told(["word"] * 20))
    assert listed == f"{('[' + QUOTED * 20)[:40]}\n[Output cut: 141 characters, 40 shown]"
    lines = asyncio.run(told("\n" * 30))
    assert lines == '"' + ("\\n" * 20)[:39] + "\n[Output cut: 62 characters, 40 shown]"
    assert asyncio.run(told("short")) == '"short"'


class Courier(Plugin):
    """Holds every run, from its first step on, until it reads that something has arrived."""

    name = "courier"

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def register(self, registrar: PluginRegistrar) -> None:
        registrar.hook(Phase.STEP_START, self.count)
        registrar.hook(Phase.STEP_END, self.look)

    async def count(self, context: StepStartContext) -> None:
        self.steps.append((context.step, context.state(RUN_LIFECYCLE).step_count))

    async def look(self, context: StepEndContext) -> StateCommand | None:
        self.steps.append((context.step, context.state(RUN_LIFECYCLE).step_count))
        has_arrived = any("arrived" in message.text for message in context.messages)
        if context.step == 1 or has_arrived:
            return StateCommand().update(PENDING_WORK, not has_arrived)
        return None


def answer_last(request: InferenceRequest) -> str:
    return f"heard {request.messages[-1].text}"


@asynccontextmanager
async def delivering(
    store: Any, *plugins: Plugin, script: Sequence[Any] = (answer_last,), **options: Any
) -> AsyncIterator[AgentRuntime]:
    model = CheckedModel(script, cycle=True)
    agents = [Agent("a", model=model, plugins=list(plugins or [Courier()]), **options)]
    async with AgentRuntime(agents, store=store, mailbox=CONFIG) as runtime, asyncio.timeout(25):
        yield runtime
    assert model.problems == []


def test_pending_work_is_a_flag_that_is_set_and_cleared() -> None:
    assert not PENDING_WORK.default.has_pending
    held = PENDING_WORK.apply_update(PENDING_WORK.default, True)
    assert bytes(PENDING_WORK.encode(held).data) == b'{"has_pending":true}'
    assert PENDING_WORK.apply_update(held, False) == PENDING_WORK.default
    assert (PENDING_WORK.name, PENDING_WORK.scope) == ("__runtime.pending_work", StateScope.RUN)


@each_store
@pytest.mark.parametrize("way", ["run", "stream", "submit"])
def test_a_run_with_pending_work_waits_over_a_restart_until_it_is_cleared(
    new_store: NewStore, tmp_path: Path, way: str
) -> None:
    async def scenario() -> None:
        open_store = new_store(tmp_path)
        async with delivering(open_store()) as runtime:
            if way == "run":
                result = await runtime.run("a", "send it", thread_id="t")
                assert (result.text, result.status) == ("heard send it", RunStatus.WAITING)
                # No task tells it how it goes on: whoever waits for it may stop.
                assert (result.awaits_tasks, result.termination) == (False, Suspended())
            elif way == "stream":
                events = [it async for it in runtime.stream("a", "send it", thread_id="t")]
                finish = events[-1]
                assert isinstance(finish, RunFinish)
                assert not finish.awaits_tasks
                assert (finish.result or {})["status_reason"] == "awaiting_tasks"
            else:
                await runtime.submit("a", "send it", thread_id="t")
            record = await until_waiting(runtime)
            assert record.waiting is not None
            assert record.waiting.reason is WaitingReason.BACKGROUND_TASKS
            assert record.awaits_message
            assert (await runtime.wait(record.run_id)).status is RunStatus.WAITING
        async with delivering(open_store()) as runtime:
            # A message that clears nothing: it waits again, as the same run.
            again = await runtime.run("a", "where is it?", thread_id="t")
            assert (again.run_id, again.status) == (record.run_id, RunStatus.WAITING)
            if way == "submit":
                receipt = await runtime.submit("a", "it has arrived", thread_id="t")
                ended = await runtime.wait(receipt.run_id, timeout_ms=20_000)
            else:
                ended = await runtime.run("a", "it has arrived", thread_id="t")
            assert (ended.run_id, ended.status) == (record.run_id, RunStatus.DONE)
            assert (ended.text, ended.steps) == ("heard it has arrived", 3)
            # The flag was the run's: the next one begins without it.
            fresh = await runtime.run("a", "thanks", thread_id="t")
            assert (fresh.run_id != record.run_id, fresh.status) == (True, RunStatus.DONE)

    asyncio.run(scenario())


async def until_waiting(runtime: AgentRuntime) -> RunRecord:
    while True:
        for record in await runtime.list_runs(thread_id="t"):
            if record.status is RunStatus.WAITING:
                return record
        await asyncio.sleep(0.01)


@each_store
def test_a_run_with_pending_work_can_be_cancelled(new_store: NewStore, tmp_path: Path) -> None:
    async def scenario() -> None:
        open_store = new_store(tmp_path)
        async with delivering(open_store()) as runtime:
            waiting = await runtime.run("a", "send it", thread_id="t")
        async with delivering(open_store()) as runtime:
            assert await runtime.cancel(waiting.run_id)
            ended = await runtime.wait(waiting.run_id, timeout_ms=20_000)
            assert (ended.status, type(ended.termination)) == (RunStatus.DONE, Cancelled)

    asyncio.run(scenario())


@each_store
def test_pending_work_holds_only_a_run_that_would_end_by_itself(
    new_store: NewStore, tmp_path: Path
) -> None:
    async def scenario() -> None:
        script = [ToolCalls([("look", {})])]
        options: dict[str, Any] = {"script": script, "tools": [look], "max_rounds": 2}
        async with delivering(new_store(tmp_path)(), **options) as runtime:
            stopped = await runtime.run("a", "send it", thread_id="t")
            assert (stopped.status, type(stopped.termination)) == (RunStatus.DONE, Stopped)

    asyncio.run(scenario())


@each_store
@pytest.mark.parametrize("way", ["message", "cancel"])
def test_a_sub_agent_with_pending_work_keeps_its_caller_waiting(
    new_store: NewStore, tmp_path: Path, way: str
) -> None:
    async def scenario() -> None:
        parent = CheckedModel([ToolCalls([("agent_run_a", {"prompt": "send it"})]), answer_last])
        child = CheckedModel([answer_last], cycle=True)
        agents = [
            Agent("parent", model=parent, delegates=["a"]),
            Agent("a", model=child, plugins=[Courier()]),
        ]
        store = new_store(tmp_path)()
        async with AgentRuntime(agents, store=store, mailbox=CONFIG) as runtime:
            handle = await runtime.start("parent", "go", thread_id="p")
            async with asyncio.timeout(25):
                below = await until_child_answered(runtime, child)
                if way == "message":
                    assert (await runtime.steer(below, "it has arrived")).is_accepted
                else:
                    assert await runtime.cancel(handle.run_id)
                result = await handle.result()
                ended = await runtime.wait(below)
        assert ended.status is RunStatus.DONE
        if way == "message":
            assert "heard it has arrived" in result.text
        else:
            assert isinstance(result.termination, Cancelled)
            assert isinstance(ended.termination, Cancelled)

    asyncio.run(scenario())


async def until_child_answered(runtime: AgentRuntime, model: CheckedModel) -> str:
    """The id of the run below, once it has answered and does not end."""
    while True:
        for record in await runtime.list_runs():
            if record.agent_id == "a" and model.requests and record.steps == 1:
                return record.run_id
        await asyncio.sleep(0.01)


@each_store
def test_hooks_at_the_end_of_a_step_see_it_counted(new_store: NewStore, tmp_path: Path) -> None:
    courier = Courier()

    async def scenario() -> None:
        script = [ToolCalls([("look", {})]), answer_last]
        options: dict[str, Any] = {"script": script, "tools": [look]}
        async with delivering(new_store(tmp_path)(), courier, **options) as runtime:
            ended = await runtime.run("a", "it has arrived", thread_id="t")
            assert (ended.steps, (await runtime.get_run(ended.run_id)).steps) == (2, 2)

    asyncio.run(scenario())
    assert courier.steps == [(1, 0), (1, 1), (2, 1), (2, 2)]


class Sender:
    """A tool that asks before it sends, and tells what it was told."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def tool(self, mode: ResumeMode) -> Any:
        @tool(effect="once")
        async def send(ctx: ToolContext) -> str | SuspendTicket:
            """Send it."""
            if ctx.resume is None:
                return ctx.suspend("Shall I?", mode=mode)
            self.heard.append(ctx.resume.result)
            return "sent"

        return send


USE, PASS = ResumeMode.USE_DECISION_AS_TOOL_RESULT, ResumeMode.PASS_DECISION_TO_TOOL
OVERRIDES: list[tuple[ResumeMode, ResumeMode | None, Any, list[Any], str]] = [
    (PASS, None, {"id": 7}, [{"id": 7}], "sent"),
    (PASS, USE, {"id": 7}, [], '{"id":7}'),
    (USE, None, {"id": 7}, [], '{"id":7}'),
    (USE, PASS, {"id": 7}, [{"id": 7}], "sent"),
    (USE, ResumeMode.REPLAY_TOOL_CALL, None, [None], "sent"),
]


@each_store
@pytest.mark.parametrize(("mode", "chosen", "result", "heard", "told"), OVERRIDES)
def test_a_decision_may_choose_how_its_call_goes_on(
    new_store: NewStore,
    tmp_path: Path,
    mode: ResumeMode,
    chosen: ResumeMode | None,
    result: Any,
    heard: list[Any],
    told: str,
) -> None:
    async def scenario() -> None:
        sender, open_store = Sender(), new_store(tmp_path)
        script = [ToolCalls([("send", {})]), answer_last]
        options: dict[str, Any] = {"script": script, "tools": [sender.tool(mode)]}
        async with delivering(open_store(), Rewriting(), **options) as runtime:
            waiting = await runtime.run("a", "send it", thread_id="t")
        (ticket,) = waiting.tickets
        options["script"] = [answer_last]
        async with delivering(open_store(), Rewriting(), **options) as runtime:
            decision: dict[str, Any] = {"result": result}
            if chosen is not None:
                decision["resume_mode"] = chosen.value
            await runtime.decide(ticket.ticket_id, **decision)
            ended = await runtime.wait(waiting.run_id, timeout_ms=20_000)
            # The same decision once more is the same, another mode is another decision.
            await runtime.decide(ticket.ticket_id, **decision)
            with pytest.raises(AlreadyDecided):
                await runtime.decide(ticket.ticket_id, result=result, resume_mode=_other(chosen))
        assert (sender.heard, ended.text) == (heard, f"heard {told}")

    asyncio.run(scenario())


def _other(mode: ResumeMode | None) -> ResumeMode:
    return PASS if mode is USE else USE


@each_store
def test_a_chosen_mode_permits_nothing_that_a_gate_asks_about(
    new_store: NewStore, tmp_path: Path
) -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        ran.append("paid")
        return "paid"

    async def ask(context: ToolGateContext) -> GateDecision | None:
        return Suspend(ticket=SuspendTicket()) if context.resume is None else None

    async def scenario() -> None:
        script = [ToolCalls([("pay", {})]), answer_last]
        options: dict[str, Any] = {"script": script, "tools": [pay]}
        async with delivering(new_store(tmp_path)(), Gate(ask), **options) as runtime:
            (ticket,) = (await runtime.run("a", "pay", thread_id="t")).tickets
            for refused in ({"resume_mode": "at once"}, {"resume_mode": "pass_decision_to_tool"}):
                with pytest.raises(InvalidInput):
                    await runtime.decide(ticket.ticket_id, result={"maybe": 1}, **refused)
            await runtime.decide(
                ticket.ticket_id, result={"receipt": 9}, resume_mode="use_decision_as_tool_result"
            )
            ended = await runtime.wait(ticket.run_id, timeout_ms=20_000)
            assert (ended.text, ran) == ('heard {"receipt":9}', [])

    asyncio.run(scenario())


def test_decisions_in_two_modes_are_two_decisions() -> None:
    modes = [{}, {"resume_mode": "replay_tool_call"}, {"resume_mode": "pass_decision_to_tool"}]
    made = [build_decision("t", "resume", mode, 0) for mode in modes]
    assert len({decision.decision_id for decision in made}) == 3


def test_no_client_chooses_how_a_call_goes_on() -> None:
    assert "resume_mode" in ToolCallResume.__struct_fields__
    assert "resume_mode" not in TicketDecision.__struct_fields__
