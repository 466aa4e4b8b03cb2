"""Decisions, cancellations and replays from any process, durable when they return."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from awaken import AwakenError, Cancelled, InputMode, InvalidInput, RunRequest, user
from awaken.errors import AlreadyDecided, IllegalTransition, UnknownTicket
from awaken.stores import Commit, DispatchStatus, Release, RunDispatch, Signal, SignalKind
from awaken.testing import simulate
from awaken.tools import ToolCallResume

from .posts import Post, assert_cancelled, decision, gathered, played

# --- decide ---


def test_decisions_and_the_continuation_are_one_step() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions(calls=2)
        receipts = await post.mailbox.decide([("r-c0", decision()), ("r-c1", decision("no"))])
        assert [(it.ticket_id, it.run_id, it.decision_id) for it in receipts] == [
            ("r-c0", "r", "d-yes"),
            ("r-c1", "r", "d-no"),
        ]
        assert await post.store.list_tickets("t") == ()
        (stored,) = await post.dispatches()
        assert (stored.mode, stored.run_id) == (InputMode.RESUME, "r")
        assert stored.request.continue_run_id == "r"

    post = played(scenario)
    assert post.signals[-1] == Signal(kind=SignalKind.DISPATCH_QUEUED, thread_id="t", run_id="r")


@pytest.mark.parametrize("is_executing", [False, True])
def test_a_hundred_equal_decisions_give_equal_receipts_and_one_continuation(
    is_executing: bool,
) -> None:
    async def scenario() -> None:
        post = await Post().open()
        if is_executing:
            ticket_id = (await post.begin_claimed_run()).run_id + "-c0"
        else:
            await post.wait_for_decisions()
            ticket_id = "r-c0"
        given = [(ticket_id, decision())]
        receipts = await gathered(100, lambda _: post.mailbox.decide(given))
        assert receipts == [receipts[0]] * 100
        assert isinstance(receipts[0], tuple)
        resumes = [it for it in await post.dispatches() if it.mode is InputMode.RESUME]
        assert len(resumes) == 1

    simulate(scenario, seeds=range(5))


@pytest.mark.parametrize("is_executing", [False, True])
def test_of_a_hundred_different_decisions_one_is_taken(is_executing: bool) -> None:
    async def scenario() -> None:
        post = await Post().open()
        if is_executing:
            ticket_id = (await post.begin_claimed_run()).run_id + "-c0"
        else:
            await post.wait_for_decisions()
            ticket_id = "r-c0"
        outcomes = await gathered(
            100, lambda n: post.mailbox.decide([(ticket_id, decision(str(n)))])
        )
        assert sum(isinstance(it, tuple) for it in outcomes) == 1
        assert sum(isinstance(it, AlreadyDecided) for it in outcomes) == 99
        resumes = [it for it in await post.dispatches() if it.mode is InputMode.RESUME]
        assert len(resumes) == 1

    simulate(scenario, seeds=range(5))


def test_many_tickets_of_one_run_can_be_decided_at_the_same_time() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions(calls=20)
        outcomes = await gathered(
            20, lambda n: post.mailbox.decide([(f"r-c{n}", decision(str(n)))])
        )
        assert all(isinstance(it, tuple) for it in outcomes)
        assert await post.store.list_tickets("t") == ()

    played(scenario)


def test_a_decision_for_a_run_that_executes_elsewhere_waits_for_it_as_input() -> None:
    async def scenario(post: Post) -> None:
        claimed = await post.begin_claimed_run()
        ticket_id = f"{claimed.run_id}-c0"
        await post.mailbox.decide([(ticket_id, decision())])
        (sent,) = await post.store.list_inputs("t")
        assert [(it, given.result) for it, given in sent.request.decisions] == [(ticket_id, "yes")]
        (news,) = post.store.lease_keeper().extend([claimed.claim_token or ""], 1000)
        assert news.has_input
        # The run begins to wait before it has heard of it: the decision stands.
        await post.suspend_run(claimed.claim_token, claimed.run_id)
        await post.mailbox.decide([(ticket_id, decision())])
        with pytest.raises(AlreadyDecided):
            await post.mailbox.decide([(ticket_id, decision("no"))])
        (queued,) = await post.claim()
        assert queued.dispatch_id == sent.dispatch_id

    post = played(scenario)
    assert SignalKind.CONTROL in {signal.kind for signal in post.signals}


@pytest.mark.parametrize("is_waiting", [False, True])
def test_what_carries_a_decision_is_cancelled_with_its_run_and_never_alone(
    is_waiting: bool,
) -> None:
    async def scenario(post: Post) -> None:
        claimed = await post.begin_claimed_run()
        ticket_id = f"{claimed.run_id}-c0"
        await post.mailbox.decide([(ticket_id, decision())])
        (sent,) = await post.store.list_inputs("t")
        if is_waiting:
            await post.suspend_run(claimed.claim_token, claimed.run_id)
        assert await post.mailbox.cancel(sent.dispatch_id)
        with pytest.raises(AlreadyDecided):
            await post.mailbox.decide([(ticket_id, decision("other"))])
        if is_waiting:
            run = await post.store.load_run(claimed.run_id)
            assert run is not None
            assert run.termination == Cancelled(cause="user")
        else:
            (news,) = post.store.lease_keeper().extend([claimed.claim_token or ""], 1000)
            assert news.cancel_cause == "user"

    played(scenario)


def test_a_decision_that_is_being_delivered_is_not_overtaken_by_another() -> None:
    async def scenario(post: Post) -> None:
        claimed = await post.begin_claimed_run()
        ticket_id = f"{claimed.run_id}-c0"
        await post.mailbox.decide([(ticket_id, decision())])
        await post.suspend_run(claimed.claim_token, claimed.run_id)
        assert len(await post.claim()) == 1, "somebody goes on with the run, and has not written"
        await post.mailbox.decide([(ticket_id, decision())])
        with pytest.raises(AlreadyDecided):
            await post.mailbox.decide([(ticket_id, decision("no"))])
        assert await post.store.list_inputs("t") == ()

    played(scenario)


def test_a_decision_for_a_run_that_is_just_being_continued_waits_as_well() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions()
        await post.submit("go on", mode=InputMode.RESUME)
        assert len(await post.claim()) == 1, "its thread is claimed, and the run still waits"
        await post.mailbox.decide([("r-c0", decision())])
        (sent,) = [it for it in await post.store.list_inputs("t") if it.request.decisions]
        assert [ticket_id for ticket_id, _ in sent.request.decisions] == ["r-c0"]
        assert await post.store.list_tickets("t") == (), "it is decided, whoever has the thread"

    played(scenario)


def test_tickets_of_two_runs_are_not_decided_together() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions()
        await post.begin_run(run_id="foreign", thread_id="u")
        with pytest.raises(UnknownTicket):
            await post.mailbox.decide([("r-c0", decision()), ("foreign-c0", decision())])
        assert len(await post.store.list_tickets()) == 2
        assert await post.dispatches() == ()

    played(scenario)


def test_all_decisions_are_taken_or_none() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions(calls=2)
        for target, error in (("nobody", UnknownTicket), ("r-c1", InvalidInput)):
            wrong = ToolCallResume(decision_id="d", action="maybe")  # type: ignore[arg-type]
            given = decision() if target == "nobody" else wrong
            with pytest.raises(error):
                await post.mailbox.decide([("r-c0", decision()), (target, given)])
        assert len(await post.store.list_tickets("t")) == 2
        assert await post.dispatches() == ()

    played(scenario)


@pytest.mark.parametrize(
    ("decisions", "error"),
    [
        ([], InvalidInput),
        ([("", decision())], InvalidInput),
        ([("nobody", decision())], UnknownTicket),
        ([("r-c0", ToolCallResume(decision_id=""))], InvalidInput),
        ([("r-c0", ToolCallResume(decision_id="d", result=object()))], InvalidInput),
    ],
)
def test_a_malformed_decision_changes_nothing(
    decisions: Sequence[Any], error: type[AwakenError]
) -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions()
        with pytest.raises(error):
            await post.mailbox.decide(decisions)
        assert len(await post.store.list_tickets("t")) == 1
        assert await post.dispatches() == ()

    played(scenario)


# --- cancel ---


@pytest.mark.parametrize("name", ["dispatch_id", "run_id", "thread_id"])
def test_what_is_cancelled_while_it_is_queued_never_starts(name: str) -> None:
    async def scenario(post: Post) -> None:
        receipt = await post.submit()
        assert await post.mailbox.cancel(getattr(receipt, name)) is True
        assert await post.status_of(receipt) is DispatchStatus.CANCELLED
        assert await post.claim() == ()
        assert await post.mailbox.cancel(getattr(receipt, name)) is False

    played(scenario)


@pytest.mark.parametrize("name", ["dispatch_id", "run_id", "thread_id"])
@pytest.mark.parametrize("has_begun", [False, True])
def test_whoever_executes_a_run_learns_that_it_is_cancelled(name: str, has_begun: bool) -> None:
    async def scenario(post: Post) -> None:
        await post.submit()
        (claimed,) = await post.claim()
        if has_begun:
            await post.begin_run(claimed.claim_token, claimed.run_id)
        assert await post.mailbox.cancel(getattr(claimed, name), "because") is True
        (news,) = post.store.lease_keeper().extend([claimed.claim_token or ""], 1000)
        assert news.cancel_cause == "because"
        stored = await post.mailbox.status(claimed.dispatch_id)
        assert stored is not None
        assert stored.cancel_cause == "because", "it survives the worker"
        assert post.signals[-1].kind is SignalKind.CONTROL

    played(scenario)


@pytest.mark.parametrize("id_", ["r", "t"])
def test_a_run_that_waits_has_ended_when_cancel_returns(id_: str) -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions(calls=2)
        assert await post.mailbox.cancel(id_) is True
        await assert_cancelled(post)
        with pytest.raises(AlreadyDecided):
            await post.mailbox.decide([("r-c0", decision())])
        assert await post.mailbox.cancel(id_) is False

    played(scenario)


def test_a_run_that_was_decided_and_not_continued_yet_can_be_cancelled() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions()
        await post.mailbox.decide([("r-c0", decision())])
        assert await post.mailbox.cancel("r") is True
        await assert_cancelled(post)
        assert await post.claim() == (), "the continuation never starts"

    played(scenario)


def test_cancelling_a_run_leaves_input_alone_that_another_thread_has_under_its_id() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions()
        request = RunRequest(agent_id="a", thread_id="other", messages=(user("hi"),))
        foreign = RunDispatch(dispatch_id="d", thread_id="other", run_id="r", request=request)
        # As two processes can leave it behind that write at the very same moment.
        owed = {"commit_id": "c", "thread_id": "other", "expected_version": 0, "committed_at": 1}
        await post.store.commit(Commit(enqueued=(foreign,), **owed))
        assert await post.mailbox.cancel_run("r") is True
        await assert_cancelled(post)
        (claimed,) = await post.claim()
        assert claimed.dispatch_id == "d"

    played(scenario)


def test_cancel_and_decide_at_the_same_time_agree_on_one_outcome() -> None:
    async def scenario() -> None:
        post = await Post().open()
        await post.wait_for_decisions()
        decided, cancelled = await asyncio.gather(
            post.mailbox.decide([("r-c0", decision())]),
            post.mailbox.cancel("r"),
            return_exceptions=True,
        )
        assert cancelled is True, "a decision does not keep a run from being cancelled"
        await assert_cancelled(post)
        assert isinstance(decided, tuple | AlreadyDecided)

    simulate(scenario, seeds=range(40))


def test_there_is_nothing_to_cancel_under_an_unknown_id() -> None:
    async def scenario(post: Post) -> None:
        assert await post.mailbox.cancel("nobody") is False
        with pytest.raises(InvalidInput):
            await post.mailbox.cancel(" ")

    played(scenario)


# --- dead letters ---


def test_a_dead_letter_can_be_replayed_once() -> None:
    async def scenario(post: Post) -> None:
        sent = await post.submit(dedupe_key="k")
        (claimed,) = await post.claim()
        with pytest.raises(IllegalTransition):
            await post.mailbox.replay_dead_letter(sent.dispatch_id)
        dead = Release(status=DispatchStatus.DEAD_LETTER, error="no luck")
        await post.store.release(claimed.dispatch_id, claimed.claim_token or "", dead)
        receipt = await post.mailbox.replay_dead_letter(sent.dispatch_id)
        assert receipt.dispatch_id != sent.dispatch_id
        assert receipt.run_id == sent.run_id
        assert receipt.message_ids == sent.message_ids
        (again,) = await post.claim()
        assert (again.dispatch_id, again.attempt_count) == (receipt.dispatch_id, 1)
        with pytest.raises(IllegalTransition):
            await post.mailbox.replay_dead_letter(sent.dispatch_id)

    played(scenario)
