"""Guardrails that are agents: what they judge, what they cost, and what happens when they fail."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime, Blocked, Cancelled, NaturalEnd, RunResult, RunStatus, tool
from awaken.errors import DuplicateRegistration, InvalidSpec
from awaken.extensions.guardrails import (
    Action,
    CheckPlace,
    GuardrailsConfig,
    GuardrailsPlugin,
    GuardRule,
    GuardVerdict,
    OnJudgeFailure,
)
from awaken.messages import Role, assistant, user
from awaken.models import TokenUsage
from awaken.testing import ScriptedModel, ToolCalls, Turn, assert_valid_transcript, simulate_agent
from awaken.tools import ToolDescriptor

from .delegating import StoreOf, child_of, on_both_stores, until
from .delegating import runtime as served

YES = '{"passes": true}'
NO = '{"passes": false, "reason": "it asks for homework"}'


def rule(*places: str, **changes: Any) -> GuardRule:
    fields = {"name": "policy", "action": Action.BLOCK, "agent": "judge", **changes}
    return GuardRule(on=tuple(map(CheckPlace, places)), **fields)


class Court:
    """A helper whose texts a judge has to let pass."""

    def __init__(self, rules: Any, verdicts: list[Any], *script: Any, **judge: Any) -> None:
        self.judge = ScriptedModel(verdicts)
        self.model = ScriptedModel(script or ["Sure."])
        given = rules if isinstance(rules, tuple) else (rules,)
        self.agents = [
            Agent(
                "helper",
                model=self.model,
                plugins=[GuardrailsPlugin()],
                config=[GuardrailsConfig(rules=given)],
            ),
            Agent("judge", model=self.judge, **{"output_type": GuardVerdict, **judge}),
        ]

    async def ask(self, text: str = "Do my homework.", **options: Any) -> RunResult:
        async with AgentRuntime(self.agents, **options) as runtime:
            result = await runtime.run("helper", text, thread_id="t")
            messages = [it.message for it in await runtime.messages("t")]
            if not result.tickets:
                assert_valid_transcript(messages)
            return result


def judged(court: Court) -> list[str]:
    return [it.messages[0].text for it in court.judge.requests]


def test_input_that_the_judge_lets_pass_reaches_the_model() -> None:
    court = Court(rule("input"), [YES])
    result = asyncio.run(court.ask())
    assert (result.text, judged(court)) == ("Sure.", ["Do my homework."])


def test_input_that_the_judge_stops_reaches_no_model() -> None:
    court = Court(rule("input"), [NO])
    result = asyncio.run(court.ask())
    assert isinstance(result.termination, Blocked)
    assert court.model.requests == []


def test_an_answer_that_the_judge_stops_is_never_shown() -> None:
    court = Court(rule("output"), [NO], "The answer is a zebra.")

    async def scenario() -> None:
        async with AgentRuntime(court.agents) as runtime:
            events = [repr(it) async for it in runtime.stream("helper", "Hi", thread_id="t")]
            (record, *_) = await runtime.list_runs("t")
            assert isinstance(record.termination, Blocked)
            said = repr(await runtime.messages("t"))
            assert "zebra" not in "".join(events) + said
            assert judged(court) == ["The answer is a zebra."]

    asyncio.run(scenario())


def test_an_answer_that_the_judge_lets_pass_is_shown_once() -> None:
    court = Court(rule("output"), [YES], "The answer is a zebra.")
    result = asyncio.run(court.ask())
    assert (result.text, result.termination) == ("The answer is a zebra.", NaturalEnd())
    assert len(court.model.requests) == 1


def test_each_turn_judges_only_what_is_new() -> None:
    async def scenario() -> None:
        court = Court(rule("input"), [YES, YES], "One.", "Two.")
        async with AgentRuntime(court.agents) as runtime:
            await runtime.run("helper", "First.", thread_id="t")
            await runtime.run("helper", "Second.", thread_id="t")
            assert judged(court) == ["First.", "Second."]

    asyncio.run(scenario())


def test_a_person_may_overrule_the_judge_if_the_rule_asks() -> None:
    async def scenario() -> None:
        court = Court(rule("input", action=Action.ASK), [NO])
        async with AgentRuntime(court.agents) as runtime:
            waiting = await runtime.run("helper", "Do my homework.", thread_id="t")
            (ticket,) = waiting.tickets
            assert "it asks for homework" in ticket.suspension.message
            assert court.model.requests == []
            await runtime.decide(ticket.ticket_id)
            ended = await runtime.wait(waiting.run_id, timeout_ms=20_000)
            assert (ended.text, len(court.judge.requests)) == ("Sure.", 1)

    asyncio.run(scenario())


def test_all_judges_of_a_place_have_to_agree() -> None:
    both = (rule("input"), rule("input", name="tone", agent="judge"))
    court = Court(both, [YES, NO])
    assert isinstance(asyncio.run(court.ask()).termination, Blocked)
    assert len(court.judge.requests) == 2


@pytest.mark.parametrize("answer", ["Yes.", '{"passes": "yes"}', "{}", '{"passes": true, "x": 1}'])
@pytest.mark.parametrize("on_failure", list(OnJudgeFailure))
@pytest.mark.parametrize("judge", [{}, {"output_type": None}])
def test_an_answer_that_is_no_verdict_blocks_unless_the_rule_says_pass(
    answer: str, on_failure: OnJudgeFailure, judge: Any
) -> None:
    court = Court(rule("input", on_failure=on_failure), [answer] * 5, **judge)
    result = asyncio.run(court.ask())
    is_passed = on_failure is OnJudgeFailure.PASS
    assert isinstance(result.termination, NaturalEnd if is_passed else Blocked)
    assert len(court.model.requests) == is_passed


@pytest.mark.parametrize("on_failure", list(OnJudgeFailure))
def test_a_judge_that_is_too_slow_gives_no_verdict(on_failure: OnJudgeFailure) -> None:
    async def hangs(_: Any) -> str:
        await asyncio.Event().wait()
        return YES

    court = Court(rule("input", timeout_ms=50, on_failure=on_failure), [hangs])
    result = asyncio.run(court.ask())
    is_passed = on_failure is OnJudgeFailure.PASS
    assert isinstance(result.termination, NaturalEnd if is_passed else Blocked)


def test_what_a_judge_costs_is_counted_for_the_run() -> None:
    usage = TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15)
    court = Court(rule("input"), [Turn(YES, usage=usage)], Turn("Sure.", usage=usage))
    assert asyncio.run(court.ask()).usage.total_tokens == 30


def test_the_model_cannot_call_for_a_review() -> None:
    call = ToolCalls([("guardrail_review", {"check": "policy", "place": "input", "found": []})])
    court = Court(rule("output"), [YES], call, "Fine.")
    asyncio.run(court.ask())
    shown = [it for request in court.model.requests for it in request.messages]
    assert all(not it.tool_calls for it in shown if it.role is Role.ASSISTANT)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"action": Action.REDACT}, "an agent cannot redact"),
        ({"on": ("tool_results",)}, "an agent judges `input` and `output` only"),
        ({"detect": ("secrets",)}, "an agent judges every text"),
        ({"pattern": "x"}, "an agent judges every text"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(changes: Any, problem: str) -> None:
    fields = {"name": "policy", "on": ("input",), "action": "block", "agent": "judge", **changes}
    with pytest.raises(InvalidSpec, match=problem):
        AgentRuntime(Court(GuardRule(**fields), []).agents)


def test_a_judge_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidSpec, match="nowhere"):
        AgentRuntime(Court(rule("input", agent="nowhere"), []).agents)


@pytest.mark.parametrize("place", ["input", "output"])
def test_a_judge_is_asked_once_whenever_the_process_dies(place: str) -> None:
    court = Court(rule(place), [YES])
    assert simulate_agent(court.agents, "Hi", schedules=20).violations == ()


@tool(approval=True)
def look_up(word: str) -> str:
    """Look up what a word means.

    Args:
        word: The word.
    """
    return word


WAITS = ToolCalls([("look_up", {"word": "zebra"})])


@pytest.mark.parametrize("place", ["input", "output"])
@pytest.mark.parametrize("on_failure", list(OnJudgeFailure))
@pytest.mark.parametrize("action", [Action.BLOCK, Action.ASK])
@on_both_stores
def test_a_judge_that_waits_for_a_person_gives_no_verdict_and_is_cancelled(
    place: str, on_failure: OnJudgeFailure, action: Action, store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        about = rule(place, action=action, on_failure=on_failure)
        court = Court(about, [WAITS, YES], tools=[look_up], output_type=GuardVerdict)
        async with served(court.agents, store_of(tmp_path)) as runtime:
            result = await runtime.run("helper", "Hi", thread_id="t")
            judge = await until(
                runtime, (await child_of(runtime, result.run_id)).run_id, RunStatus.DONE
            )
            assert isinstance(judge.termination, Cancelled)
            assert len(court.judge.requests) == 1
            asked = [it.ticket_id for it in await runtime.tickets()]
            assert asked == [it.ticket_id for it in result.tickets]
            if on_failure is OnJudgeFailure.PASS:
                assert result.text == "Sure."
            elif action is Action.BLOCK:
                assert isinstance(result.termination, Blocked)
            else:
                assert "it gave no verdict" in result.tickets[0].suspension.message

    asyncio.run(scenario())


def test_a_judge_reads_the_answers_in_a_history_that_a_client_brings() -> None:
    async def scenario() -> None:
        court = Court(rule("input"), [YES, YES], "One.", "Two.")
        async with AgentRuntime(court.agents) as runtime:
            brought = [user("Before."), assistant("The bomb is ready.")]
            await runtime.run("helper", "Go on.", thread_id="t", messages=brought)
            await runtime.run("helper", "More.", thread_id="t")
        first, second = judged(court)
        assert first == "Before.\n\nThe bomb is ready.\n\nGo on."
        # The agent's own answers are output.
        assert second == "More."

    asyncio.run(scenario())


def test_a_judge_has_the_context_of_the_run_in_its_instructions() -> None:
    court = Court(rule("input"), [YES], instructions="The caller is {context.tier}.")

    async def scenario() -> None:
        async with AgentRuntime(court.agents) as runtime:
            await runtime.run("helper", "Hi", context={"tier": "gold"})

    asyncio.run(scenario())
    assert court.judge.requests[0].system == ("The caller is gold.",)


def test_a_judge_judges_the_context_once_in_each_run() -> None:
    async def scenario() -> None:
        look = ToolCalls([("look_up", {"word": "zebra"})])
        court = Court(rule("input"), [YES] * 2, look, "One.", "Two.")
        court.agents[0] = dataclasses.replace(court.agents[0], tools=[plain_look_up])
        async with AgentRuntime(court.agents) as runtime:
            given = {"note": 'Say "bomb".'}
            await runtime.run("helper", "First.", thread_id="t", context=given)
            await runtime.run("helper", "Second.", thread_id="t", context=given)
        about = 'Context of the run: {"note":"Say \\"bomb\\"."}'
        assert judged(court) == [f"{about}\n\nFirst.", f"{about}\n\nSecond."]

    asyncio.run(scenario())


@tool(effect="none", id="look_up")
def plain_look_up(word: str) -> str:
    """Look up what a word means."""
    return word


@on_both_stores
def test_a_rule_that_asks_looks_at_the_context_of_each_run(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        about = GuardRule(
            name="falcon", on=(CheckPlace.INPUT,), action=Action.ASK, pattern="(?i)falcon"
        )
        court = Court(about, [], "Sure.", "Again.")
        async with served(court.agents, store_of(tmp_path)) as runtime:
            given = {"deep": [{"note": "Project Falcon"}]}
            for answer in ("Sure.", "Again."):
                waiting = await runtime.run("helper", "Hi", thread_id="t", context=given)
                (ticket,) = waiting.tickets
                assert "Check 'falcon'" in ticket.suspension.message
                assert len(court.model.requests) == (answer == "Again.")
                await runtime.decide(ticket.ticket_id)
                ended = await runtime.wait(waiting.run_id, timeout_ms=20_000)
                assert ended.text == answer

    asyncio.run(scenario())


CLIENTS = ToolDescriptor(id="clipboard", name="clipboard", description="Read the clipboard.")


@on_both_stores
def test_a_judge_judges_what_a_tool_of_the_client_returns(
    store_of: StoreOf, tmp_path: Path
) -> None:
    async def scenario() -> None:
        court = Court(rule("input"), [YES, NO], ToolCalls([("clipboard", {})]), "Sure.")
        async with served(court.agents, store_of(tmp_path)) as runtime:
            waiting = await runtime.run("helper", "Hi", thread_id="t", frontend_tools=[CLIENTS])
            (ticket,) = waiting.tickets
            await runtime.decide(ticket.ticket_id, result="Do my homework.")
            ended = await runtime.wait(waiting.run_id, timeout_ms=20_000)
            assert isinstance(ended.termination, Blocked)
            assert (judged(court)[0], len(judged(court))) == ("Hi", 2)
            assert "Do my homework." in judged(court)[1]
            assert len(court.model.requests) == 1

    asyncio.run(scenario())


def test_results_of_the_agents_own_tools_are_not_input() -> None:
    look = ToolCalls([("look_up", {"word": "zebra"})])
    court = Court(rule("input"), [YES], look, "Sure.")
    court.agents[0] = dataclasses.replace(court.agents[0], tools=[plain_look_up])
    asyncio.run(court.ask("Hi"))
    assert judged(court) == ["Hi"]


@pytest.mark.parametrize("form", ["section", "rules", "data"])
def test_a_judge_that_a_rule_is_given_is_registered_with_its_agent(form: str) -> None:
    judge = Agent("judge", model=ScriptedModel([NO]), output_type=GuardVerdict)
    about = rule("input", agent=judge)
    assert about == rule("input", agent="judge")
    data = {"name": "policy", "on": ["input"], "action": "block", "agent": judge}
    config: Any = {
        "section": [GuardrailsConfig(rules=(about,))],
        "rules": {"guardrails": {"rules": [about]}},
        "data": {"guardrails": {"rules": [data]}},
    }[form]
    model = ScriptedModel(["Sure."])
    helper = Agent("helper", model=model, plugins=[GuardrailsPlugin()], config=config)
    assert helper.spec.sections["guardrails"]["rules"][0]["agent"] == "judge"
    assert isinstance(helper.run_sync("Do my homework.").termination, Blocked)


def test_two_judges_with_one_id_are_refused() -> None:
    ones = [Agent("judge", model=ScriptedModel([NO]), output_type=GuardVerdict) for _ in range(2)]
    rules = tuple(rule("input", name=f"r{at}", agent=it) for at, it in enumerate(ones))
    with pytest.raises(DuplicateRegistration):
        AgentRuntime(Court(rules, []).agents[:1])


@pytest.mark.parametrize("agent", [7, GuardVerdict, object()])
def test_a_judge_that_is_no_agent_is_refused(agent: Any) -> None:
    with pytest.raises(InvalidSpec, match="is no agent"):
        rule("input", agent=agent)


@pytest.mark.parametrize("place", ["input", "output"])
@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("it asks for homework", "it asks for homework"),
        ("", "it gave no reason"),
        ("the key AKIAABCDEFGHIJKLMNOP is in it", "the key [secrets.aws_key] is in it"),
        ("it says: The Answer is a Zebra, which is wrong", "it says: […], which is wrong"),
        ("x" * 2_000, "x" * 500),
    ],
)  # fmt: skip
def test_a_block_says_the_reason_of_the_judge_and_not_the_text(
    place: str, reason: str, said: str
) -> None:
    text = "The answer is a zebra."
    verdict = msgspec.json.encode({"passes": False, "reason": reason}).decode()
    court = Court(rule(place), [verdict], text)
    ended = asyncio.run(court.ask(text))
    assert isinstance(ended.termination, Blocked)
    expected = f"did not let it pass. Check 'policy' objects: {said}"
    assert ended.termination.reason.endswith(expected)
