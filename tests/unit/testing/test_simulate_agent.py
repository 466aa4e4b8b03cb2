"""A user's agent is simulated: what is right passes, every planted bug is found and replayed."""

import asyncio
import logging
from collections import Counter
from typing import Any

import pytest

from awaken import Agent, ToolContext, tool
from awaken.contracts.errors import InvalidInput
from awaken.contracts.lifecycle import RunStatus
from awaken.contracts.messages.message import ToolCall as Call
from awaken.contracts.messages.message import assistant, tool_answer, user
from awaken.contracts.models.errors import RateLimited
from awaken.contracts.models.inference import InferenceRequest
from awaken.contracts.runs.records import RunRecord, RunRequest
from awaken.contracts.storage.queries import ThreadQuery
from awaken.contracts.storage.store import Commit
from awaken.contracts.suspension.tickets import DecisionAction, ResumeMode, Ticket
from awaken.extensions.background import BackgroundTasksPlugin
from awaken.extensions.handoff import HandoffPlugin
from awaken.mailbox.mailbox import Mailbox
from awaken.mailbox.outbox_handlers import OutboxHandlers
from awaken.mailbox.sweeper import Sweeper
from awaken.runtime.tools import batch
from awaken.testing import (
    AgentViolated,
    ScriptedModel,
    ToolCalls,
    Turn,
    simulate_agent,
    trials,
)
from awaken.testing.trial_checks import prefix_problems

FEW = 12


def scripted(*entries: Any, **agent: Any) -> Agent:
    return Agent("a", model=ScriptedModel(list(entries)), **agent)


class Counted:
    """A tool of one effect whose executions are counted by idempotency key."""

    def __init__(self, **options: Any) -> None:
        self.ran: Counter[str] = Counter()

        @tool(id="act", **options)
        async def act(ctx: ToolContext, what: str = "it") -> str:
            """Act."""
            self.ran[ctx.idempotency_key] += 1
            await asyncio.sleep(0.1)
            return f"did {what}"

        self.tool = act


def acting(**options: Any) -> Agent:
    return scripted(ToolCalls([("act", {})]), "done", tools=[Counted(**options).tool])


def test_an_agent_without_a_bug_passes_and_the_report_counts_what_was_tried() -> None:
    report = simulate_agent(acting(), "go", schedules=FEW)
    assert report.schedules == FEW
    # A tool and at least three commits, each before and after.
    assert report.crash_points >= 8
    assert str(report) == f"{FEW} schedules, {report.crash_points} crash points, 0 violations"


def test_every_other_schedule_comes_with_a_crash_and_every_fourth_with_two() -> None:
    reports = [simulate_agent(acting(), "go", seed=seed) for seed in range(4)]
    assert [report.crash_points for report in reports] == [0, 1, 0, 2]
    assert [report.schedules for report in reports] == [1, 1, 1, 1]


@pytest.mark.parametrize("effect", ["none", "idempotent", "once"])
def test_each_effect_keeps_its_promise_through_every_crash(effect: Any) -> None:
    counted = Counted(effect=effect)
    agent = scripted(ToolCalls([("act", {}), ("act", {})]), "done", tools=[counted.tool])
    simulate_agent(agent, ["go", "again"], schedules=FEW)
    assert counted.ran


def test_no_trial_knows_of_another_one() -> None:
    seen: list[int] = []

    def answer(request: InferenceRequest) -> str:
        seen.append(len(request.messages))
        return "done"

    simulate_agent(scripted(answer), "go", schedules=FEW)
    assert set(seen) == {1}


def test_a_script_is_played_by_turn_however_often_a_turn_is_asked_for() -> None:
    said: list[str] = []

    def last(request: InferenceRequest) -> str:
        said.append(request.messages[-1].text)
        return "done"

    agent = scripted(ToolCalls([("act", {})]), last, tools=[Counted(effect="none").tool])
    simulate_agent(agent, "go", schedules=FEW)
    assert set(said) == {"did it"}


def test_each_of_two_agents_plays_its_own_script_after_a_handoff() -> None:
    told: list[str] = []

    def last(request: InferenceRequest) -> str:
        told.append(request.messages[-1].text)
        return "settled"

    handoff = ToolCalls([("transfer_to_agent", {"agent_id": "billing"})])
    desk = Agent("desk", model=ScriptedModel([handoff]), plugins=[HandoffPlugin({"billing": ""})])
    entries = [ToolCalls([("act", {"what": "billing"})]), last, "by card"]
    billing = Agent("billing", model=ScriptedModel(entries), tools=[Counted(effect="none").tool])

    async def story(mailbox: Mailbox) -> None:
        for agent_id, text in (("desk", "pay"), (None, "how?")):
            messages = (user(text),)
            await mailbox.submit(RunRequest(thread_id="t", agent_id=agent_id, messages=messages))

    report = simulate_agent([desk, billing], story, schedules=FEW)
    assert report.crash_points >= 14
    assert set(told) == {"did billing"}


def test_a_turn_that_fails_first_succeeds_when_it_is_asked_for_again() -> None:
    answered: list[str] = []

    def last(_request: InferenceRequest) -> str:
        answered.append("done")
        return "done"

    agent = scripted(Turn(error=RateLimited("busy")), last)
    simulate_agent(agent, ["go", "again"], crash="before commit 99")
    assert answered == ["done"]


def test_a_tool_that_takes_longer_than_a_lease_is_not_taken_over() -> None:
    ran: list[str] = []

    @tool(effect="idempotent")
    async def dawdle() -> str:
        """Dawdle."""
        ran.append("begun")
        await asyncio.sleep(100)
        return "ok"

    agent = scripted(ToolCalls([("dawdle", {})]), "done", tools=[dawdle])
    # A crash at a point that is never reached: one trial without a crash.
    simulate_agent(agent, "go", crash="before commit 99")
    assert ran == ["begun"]


def test_nothing_of_a_process_goes_on_after_its_death() -> None:
    marks: list[str] = []
    steps: list[int] = []

    @tool
    async def spin() -> str:
        """Spin."""
        for _ in range(10_000):
            steps.append(len(marks))
            await asyncio.sleep(0)
        return "ok"

    @tool
    async def mark() -> str:
        """Mark."""
        await asyncio.sleep(0)
        marks.append("here")
        return "ok"

    calls = ToolCalls([("spin", {}), ("mark", {})])
    simulate_agent(scripted(calls, "done", tools=[spin, mark]), "go", crash="after tool 2")
    assert marks == ["here"]
    assert set(steps) == {0}


def test_a_suspended_call_is_approved_and_goes_on_through_every_crash() -> None:
    @tool
    def ask(ctx: ToolContext, question: str) -> Any:
        """Ask."""
        return f"heard {ctx.resume.result}" if ctx.resume else ctx.suspend(question)

    told: list[str] = []

    def last(request: InferenceRequest) -> str:
        told.append(request.messages[-1].text)
        return "done"

    agent = scripted(ToolCalls([("ask", {"question": "sure?"})]), last, tools=[ask])
    report = simulate_agent(agent, "go", schedules=FEW)
    assert report.crash_points >= 10
    assert "heard approved" in told


def test_the_decisions_of_the_user_are_taken() -> None:
    asked: list[Ticket] = []

    @tool
    def ask(ctx: ToolContext) -> Any:
        """Ask."""
        return ctx.suspend("sure?", mode=ResumeMode.USE_DECISION_AS_TOOL_RESULT)

    def refuse(ticket: Ticket) -> DecisionAction:
        asked.append(ticket)
        return DecisionAction.CANCEL

    agent = scripted(ToolCalls([("ask", {})]), "done", tools=[ask])
    simulate_agent(agent, "go", decide=refuse, schedules=FEW)
    assert asked


def test_a_run_that_waits_because_nobody_decides_is_no_violation() -> None:
    @tool
    def ask(ctx: ToolContext) -> Any:
        """Ask."""
        return ctx.suspend("sure?")

    agent = scripted(ToolCalls([("ask", {})]), "done", tools=[ask])
    assert not simulate_agent(agent, "go", decide=lambda _: None, schedules=FEW).violations


def test_a_client_of_ones_own_may_do_what_a_mailbox_can() -> None:
    async def story(mailbox: Mailbox) -> None:
        for thread_id in ("one", "two"):
            request = RunRequest(thread_id=thread_id, agent_id="a", messages=(user("go"),))
            await mailbox.submit(request)
        await mailbox.cancel("two")

    assert not simulate_agent(acting(), story, schedules=FEW).violations


SPAWN = ("spawn_agent", {"agent_id": "worker", "prompt": "go"})
TO_CLERK = {"relation": "agent", "thread_id": "desk", "agent_id": "clerk"}
WRITE = ("send_message", {"to": TO_CLERK, "message": "Take note."})


def team(*calls: Any) -> list[Agent]:
    """An agent that starts a task or writes to a third one, and hears of the task's end."""
    script = [ToolCalls(list(calls)), "Started.", "Heard."]
    names = ["worker", "clerk"]
    boss = Agent(
        "boss", model=ScriptedModel(script), plugins=[BackgroundTasksPlugin()], delegates=names
    )
    return [boss, *(Agent(it, model=ScriptedModel([f"{it} done"])) for it in names)]


def test_what_agents_write_to_each_other_and_what_tasks_come_to_arrives_through_every_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trials_seen, final = 0, trials.final_problems

    async def seen(store: Any) -> list[str]:
        nonlocal trials_seen
        trials_seen += 1
        threads = (await store.list_threads(ThreadQuery())).items
        said = [[it.text for it in (await store.checkout(it.id)).messages] for it in threads]
        last = {texts[-1] for texts in said}
        # A worker that is done before the boss speaks again is heard with that answer.
        assert last - {"Started.", "Heard."} == {"clerk done", "worker done"}
        assert len(last) == 3
        assert sum('"result":"worker done"' in text for texts in said for text in texts) == 1
        assert sum("Take note." in text for texts in said for text in texts) == 1
        return await final(store)

    monkeypatch.setattr(trials, "final_problems", seen)
    report = simulate_agent(team(SPAWN, WRITE), "go", schedules=1)
    # The trial without a crash finds the points; the last is the schedule.
    assert trials_seen == 1 + report.crash_points + 1


def test_a_message_that_does_not_arrive_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nowhere(*_: Any) -> None:
        raise RuntimeError("the line is cut")

    monkeypatch.setattr(OutboxHandlers, "carry_out", nowhere)
    with pytest.raises(AgentViolated, match="was given up: RuntimeError: the line is cut"):
        simulate_agent(team(WRITE), "go", seed=0)


def test_a_once_tool_that_is_run_again_after_a_crash_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def forget(*_: Any) -> None:
        return None

    monkeypatch.setattr(batch, "recall", forget)
    with pytest.raises(AgentViolated, match="effect 'once' and ran 2 times") as caught:
        simulate_agent(acting(effect="once"), "go", schedules=FEW)
    smallest = caught.value.report.smallest
    assert smallest is not None
    assert (smallest.seed, smallest.crash) == (None, "before commit 3")
    with pytest.raises(AgentViolated, match="ran 2 times"):
        simulate_agent(acting(effect="once"), "go", crash=smallest.crash)
    assert not simulate_agent(acting(effect="once"), "go", crash="before tool 1").violations


def test_a_repeatable_tool_may_run_again_after_a_crash() -> None:
    counted = Counted(effect="idempotent")
    agent = scripted(ToolCalls([("act", {})]), "done", tools=[counted.tool])
    simulate_agent(agent, "go", crash="after tool 1")
    # Once in the dead process and once in the next; the key stays the same.
    assert list(counted.ran.values()) == [2]


def answering(found: str | None) -> Any:
    def reconcile(what: str) -> str | None:
        return found

    return reconcile


def test_a_call_that_its_tool_takes_back_may_run_again_and_one_it_confirms_does_not() -> None:
    for found, count in ((None, 2), ("did it", 1)):
        counted = Counted(effect="once", reconcile=answering(found))
        agent = scripted(ToolCalls([("act", {})]), "done", tools=[counted.tool])
        simulate_agent(agent, "go", crash="after tool 1")
        assert list(counted.ran.values()) == [count]


def test_a_process_that_dies_while_it_recovers_is_replaced_as_well() -> None:
    counted = Counted(effect="idempotent")
    agent = scripted(ToolCalls([("act", {})]), "done", tools=[counted.tool])
    simulate_agent(agent, "go", crash="after tool 1, after tool 2, before commit 5")
    assert list(counted.ran.values()) == [3]


def test_a_run_that_nobody_takes_over_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def reclaim_nothing(_self: Sweeper) -> int:
        return 0

    monkeypatch.setattr(Sweeper, "reclaim", reclaim_nothing)
    with pytest.raises(AgentViolated, match="not done after 100000 virtual seconds") as caught:
        simulate_agent(acting(), "go", crash="after commit 2")
    assert "is claimed" in str(caught.value)


def test_a_task_that_a_tool_leaves_behind_is_found_without_a_crash() -> None:
    @tool
    async def leak() -> str:
        """Leak."""
        leaked.add(asyncio.get_running_loop().create_task(asyncio.sleep(3600), name="leaked"))
        return "ok"

    leaked: set[Any] = set()
    agent = scripted(ToolCalls([("leak", {})]), "done", tools=[leak])
    with pytest.raises(AgentViolated, match="task 'leaked' outlived its process") as caught:
        simulate_agent(agent, "go", schedules=2)
    assert caught.value.report.smallest is not None
    assert caught.value.report.smallest.seed is None
    assert caught.value.report.smallest.crash is None


def test_a_bug_of_one_schedule_is_found_by_its_seed_and_seen_again_with_it() -> None:
    order: list[str] = []

    @tool(effect="none")
    async def step(name: str) -> str:
        """Step."""
        await asyncio.sleep(0.1)
        order.append(name)
        if order[-2:] == ["b", "a"]:
            asyncio.get_running_loop().create_task(asyncio.sleep(3600), name="leaked")
        return name

    calls = ToolCalls([("step", {"name": "a"}), ("step", {"name": "b"})])
    agent = scripted(calls, "done", tools=[step])

    def tried(**range_: Any) -> Any:
        order.clear()
        return simulate_agent(agent, "go", **range_)

    seeds = [seed for seed in range(20) if _is_violated(tried, seed)]
    assert seeds
    assert len(seeds) < 20
    assert [seed for seed in range(20) if _is_violated(tried, seed)] == seeds


def _is_violated(tried: Any, seed: int) -> bool:
    try:
        tried(seed=seed)
    except AgentViolated:
        return True
    return False


def test_a_transcript_that_was_invalid_for_one_moment_is_found() -> None:
    call = Call(id="c", name="act", arguments={})
    asked = [user("go"), assistant("", tool_calls=(call,))]
    answered = tool_answer("c", "done")

    def commits(*parts: Any, status: RunStatus = RunStatus.RUNNING) -> list[Commit]:
        run = RunRecord(run_id="r", thread_id="t", agent_id="a", status=status)
        return [
            Commit(
                commit_id=str(number),
                thread_id="t",
                expected_version=number,
                committed_at=0,
                messages=tuple(part),
                run=run,
            )
            for number, part in enumerate(parts)
        ]

    assert prefix_problems(commits(asked, [answered], [user("more")])) == []
    assert prefix_problems(commits(asked, [user("more")], [answered]))
    assert prefix_problems(commits(asked, [answered], [answered]))
    assert prefix_problems(commits(asked)) == []
    assert prefix_problems(commits(asked, status=RunStatus.DONE))


class Moody:
    name = "moody"

    def stream(self, request: InferenceRequest) -> Any:
        raise AssertionError("never asked")


def test_a_model_that_may_answer_otherwise_is_refused_and_can_be_replaced() -> None:
    agent = Agent("a", model=Moody())
    with pytest.raises(InvalidInput, match=r"agent 'a'.*'moody'.*pass model="):
        simulate_agent(agent, "go")
    assert not simulate_agent(agent, "go", model=ScriptedModel(["hi"]), schedules=2).violations


def test_nothing_to_simulate_and_unknown_crashes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="none to simulate"):
        simulate_agent([], "go")
    with pytest.raises(InvalidInput, match="crash 'during lunch'"):
        simulate_agent(acting(), "go", crash="during lunch")
    with pytest.raises(InvalidInput, match="schedule"):
        simulate_agent(acting(), "go", schedule=3)  # type: ignore[call-arg]


def test_tools_can_be_stood_in_for() -> None:
    counted = Counted()
    agent = scripted(ToolCalls([("act", {})]), "done", tools=[counted.tool])
    report = simulate_agent(agent, "go", has_real_tools=False, schedules=FEW)
    assert report.crash_points >= 8
    assert not counted.ran


def test_logging_is_as_it_was_afterwards(caplog: pytest.LogCaptureFixture) -> None:
    logger, below = logging.getLogger("awaken"), logging.getLogger("awaken.mailbox.worker")

    @tool
    def act() -> str:
        """Log something that is not to be seen."""
        below.warning("unseen")
        return "acted"

    with caplog.at_level(logging.INFO, "awaken"):
        simulate_agent(scripted(ToolCalls([("act", {})]), "done", tools=[act]), "go", schedules=1)
        assert (logger.level, logger.disabled) == (logging.INFO, False)
        # A logger below has asked in the meantime, and remembers no answer.
        below.warning("seen")
    assert [it.message for it in caplog.records if it.name == below.name] == ["seen"]
