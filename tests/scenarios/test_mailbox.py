"""Input that is durable before anybody executes it: the four modes, dedupe, bounds."""

import asyncio
from typing import Any

import pytest

from awaken import (
    AwakenError,
    InputMode,
    InvalidInput,
    MailboxConfig,
    Message,
    RunRequest,
    RunStatus,
    SubmitReceipt,
    TenantLimits,
    UnknownRun,
    user,
)
from awaken.buses.memory import MemoryBus
from awaken.contracts.messages.message import as_blocks
from awaken.contracts.tenancy import namespace_of
from awaken.errors import DedupeConflict, InvalidResume, LimitExceeded, QueueFull, TenantQueueFull
from awaken.mailbox import submissions
from awaken.mailbox.mailbox import Mailbox
from awaken.messages import Role
from awaken.stores import DispatchStatus, Signal, SignalKind
from awaken.testing import SequentialIds
from awaken.tools import TicketStatus

from .posts import Post, SlowStore, assert_cancelled, decision, gathered, played

# --- queue ---


def test_queued_input_is_durable_and_its_receipt_names_everything() -> None:
    async def scenario(post: Post) -> None:
        receipt = await post.submit("hi", priority=7)
        (stored,) = await post.dispatches()
        assert receipt == SubmitReceipt(
            dispatch_id=stored.dispatch_id,
            thread_id="t",
            run_id=stored.run_id,
            status=DispatchStatus.QUEUED,
            mode=InputMode.QUEUE,
            message_ids=(stored.request.messages[0].id,),
        )
        assert stored.priority == 7
        assert stored.max_attempts == 5
        assert stored.request.thread_id == "t"
        assert stored.request.dispatch_id == stored.dispatch_id
        assert stored.request.messages[0].text == "hi"

    post = played(scenario)
    assert [signal.kind for signal in post.signals] == [SignalKind.DISPATCH_QUEUED]


def test_input_without_a_thread_gets_one_of_its_own() -> None:
    async def scenario(post: Post) -> None:
        first, second = await post.submit(thread=None), await post.submit(thread=None)
        assert first.thread_id != second.thread_id
        assert len(await post.claim(limit=2)) == 2

    played(scenario)


def test_a_thread_gets_its_input_by_priority_and_then_in_order() -> None:
    async def scenario(post: Post) -> None:
        sent = [await post.submit(str(n)) for n in range(5)]
        urgent = await post.submit("urgent", priority=0)
        order = []
        for _ in range(6):
            (claimed,) = await post.claim()
            order.append(claimed.dispatch_id)
            await post.store.release(claimed.dispatch_id, claimed.claim_token or "")
        assert order == [urgent.dispatch_id, *(receipt.dispatch_id for receipt in sent)]

    played(scenario)


def test_threads_take_turns_however_much_one_of_them_has_queued() -> None:
    async def scenario(post: Post) -> None:
        for n in range(50):
            await post.submit(str(n), thread="greedy")
        for n in range(5):
            post.clock.advance(1)
            await post.submit(thread=f"modest-{n}")
        served = []
        for _ in range(12):
            post.clock.advance(1)
            (claimed,) = await post.claim()
            served.append(claimed.thread_id)
            await post.store.release(claimed.dispatch_id, claimed.claim_token or "")
        # Nobody waits for more than one round.
        assert {f"modest-{n}" for n in range(5)} <= set(served[:7])

    played(scenario)


def test_delayed_input_is_not_due_before_its_time() -> None:
    async def scenario(post: Post) -> None:
        await post.submit(delay_ms=500)
        post.clock.advance(499)
        assert await post.claim() == ()
        post.clock.advance(1)
        assert len(await post.claim()) == 1

    played(scenario)


# --- dedupe ---


@pytest.mark.parametrize("mode", [InputMode.QUEUE, InputMode.STEER, InputMode.INTERRUPT])
def test_one_of_128_racing_submitters_wins_and_all_get_its_receipt(mode: InputMode) -> None:
    async def scenario(post: Post) -> None:
        receipts = await gathered(128, lambda _: post.submit(mode=mode, dedupe_key="k"))
        (stored,) = await post.dispatches()
        assert stored.status is DispatchStatus.QUEUED
        assert sum(not receipt.is_duplicate for receipt in receipts) == 1
        assert {(it.dispatch_id, it.run_id, it.message_ids) for it in receipts} == {
            (stored.dispatch_id, stored.run_id, (stored.request.messages[0].id,))
        }

    played(scenario)


@pytest.mark.parametrize("mode", [InputMode.QUEUE, InputMode.INTERRUPT])
def test_a_key_stays_taken_after_its_dispatch_has_ended(mode: InputMode) -> None:
    async def scenario(post: Post) -> None:
        first = await post.submit(mode=mode, dedupe_key="k")
        (claimed,) = await post.claim()
        await post.store.release(claimed.dispatch_id, claimed.claim_token or "")
        again = await post.submit(mode=mode, dedupe_key="k")
        assert again.is_duplicate
        assert again.dispatch_id == first.dispatch_id
        assert again.status is DispatchStatus.ACKED

    played(scenario)


def test_the_same_key_for_another_request_is_refused() -> None:
    async def scenario(post: Post) -> None:
        await post.submit("one", dedupe_key="k")
        with pytest.raises(DedupeConflict):
            await post.submit("two", dedupe_key="k")
        with pytest.raises(DedupeConflict):
            await post.submit("one", mode=InputMode.STEER, dedupe_key="k")
        assert not (await post.submit("one", thread="other", dedupe_key="k")).is_duplicate
        assert len(await post.dispatches()) == 1

    played(scenario)


# --- steer ---


def test_steering_names_the_messages_under_which_it_will_appear() -> None:
    async def scenario(post: Post) -> None:
        receipt = await post.submit(mode=InputMode.STEER)
        (waiting,) = await post.store.list_inputs("t")
        assert receipt.message_ids == tuple(it.id for it in waiting.request.messages)
        assert receipt.mode is InputMode.STEER

    post = played(scenario)
    assert {signal.kind for signal in post.signals} == {
        SignalKind.CONTROL,
        SignalKind.DISPATCH_QUEUED,
    }


def test_a_message_keeps_the_id_that_its_sender_gave_it() -> None:
    async def scenario(post: Post) -> None:
        mine = Message(role=Role.USER, id="mine", content=as_blocks("hi"))
        request = RunRequest(thread_id="t", messages=(mine,))
        assert (await post.mailbox.submit(request)).message_ids == ("mine",)

    played(scenario)


# --- interrupt ---


def test_an_interrupt_drops_what_is_queued_and_cancels_what_executes() -> None:
    async def scenario(post: Post) -> None:
        claimed = await post.begin_claimed_run()
        queued = await post.submit("queued")
        receipt = await post.submit("now", mode=InputMode.INTERRUPT)
        assert await post.status_of(queued) is DispatchStatus.SUPERSEDED
        assert await post.status_of(receipt) is DispatchStatus.QUEUED
        (news,) = post.store.lease_keeper().extend([claimed.claim_token or ""], 1000)
        assert news.cancel_cause == "interrupt"
        run = await post.store.load_run(claimed.run_id)
        assert run is not None
        assert run.status is RunStatus.RUNNING, "its worker ends it"

    played(scenario)


def test_an_interrupt_ends_a_run_that_waits_and_closes_its_tickets() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions(calls=2)
        receipt = await post.submit("now", mode=InputMode.INTERRUPT)
        await assert_cancelled(post, "interrupt")
        (claimed,) = await post.claim()
        assert claimed.dispatch_id == receipt.dispatch_id

    played(scenario)


def test_an_interrupt_that_comes_twice_interrupts_once() -> None:
    async def scenario(post: Post) -> None:
        first = await post.submit("now", mode=InputMode.INTERRUPT, dedupe_key="k")
        (claimed,) = await post.claim()
        await post.begin_run(claimed.claim_token, claimed.run_id)
        await post.suspend_run(claimed.claim_token, claimed.run_id)
        again = await post.submit("now", mode=InputMode.INTERRUPT, dedupe_key="k")
        assert again.dispatch_id == first.dispatch_id
        run = await post.store.load_run(claimed.run_id)
        assert run is not None
        assert run.status is RunStatus.WAITING, "the interrupt must not end its own run"

    played(scenario)


@pytest.mark.parametrize(
    ("request_options", "options", "error"),
    [
        ({"messages": (Message(role=Role.ASSISTANT, content=as_blocks("x")),)}, {}, InvalidInput),
        ({"agent_id": " "}, {}, InvalidInput),
        ({}, {"dedupe_key": "taken"}, DedupeConflict),
        ({}, {"priority": 256}, InvalidInput),
    ],
)
def test_an_interrupt_that_must_fail_fails_before_anything_is_cancelled(
    request_options: dict[str, Any], options: dict[str, Any], error: type[AwakenError]
) -> None:
    async def scenario(post: Post) -> None:
        await post.submit("first", dedupe_key="taken")
        claimed = (await post.claim())[0]
        queued = await post.submit("queued")
        request = RunRequest(**({"thread_id": "t", "messages": (user("x"),)} | request_options))
        with pytest.raises(error):
            await post.mailbox.submit(request, mode=InputMode.INTERRUPT, **options)
        assert await post.status_of(queued) is DispatchStatus.QUEUED
        (news,) = post.store.lease_keeper().extend([claimed.claim_token or ""], 1000)
        assert news.cancel_cause is None
        assert len(await post.dispatches()) == 2

    played(scenario)


# --- resume ---


def test_a_message_resumes_the_run_that_waits_under_its_own_id() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions()
        receipt = await post.submit("go on", mode=InputMode.RESUME, dedupe_key="k")
        (stored,) = await post.dispatches()
        assert (receipt.run_id, receipt.mode) == ("r", InputMode.RESUME)
        assert stored.request.continue_run_id == "r"
        again = await post.submit("go on", mode=InputMode.RESUME, dedupe_key="k")
        assert again.dispatch_id == receipt.dispatch_id
        assert again.is_duplicate

    played(scenario)


def test_resuming_with_decisions_decides_and_continues_in_one_step() -> None:
    async def scenario(post: Post) -> None:
        await post.wait_for_decisions()
        request = RunRequest(
            thread_id="t", messages=(user("and hurry"),), decisions=(("c0", decision()),)
        )
        receipt = await post.mailbox.submit(request, mode=InputMode.RESUME)
        (stored,) = await post.dispatches()
        assert stored.dispatch_id == receipt.dispatch_id
        assert [it.text for it in stored.request.messages] == ["and hurry"]
        ticket = await post.store.find_ticket("r-c0")
        assert ticket is not None
        assert stored.request.decisions == (("r-c0", ticket.decision),)
        ticket = await post.store.find_ticket("r-c0")
        assert ticket is not None
        assert ticket.status is TicketStatus.DECIDED

    played(scenario)


def test_nothing_to_resume_is_said_clearly() -> None:
    async def scenario(post: Post) -> None:
        with pytest.raises(InvalidResume, match="no run of thread 't' waits"):
            await post.submit(mode=InputMode.RESUME)
        await post.begin_claimed_run()
        with pytest.raises(InvalidResume, match="not waiting"):
            await post.submit(mode=InputMode.RESUME)
        request = RunRequest(thread_id="t", continue_run_id="gone", messages=(user("x"),))
        with pytest.raises(UnknownRun):
            await post.mailbox.submit(request, mode=InputMode.RESUME)
        with pytest.raises(InvalidInput, match="no decision and no message"):
            await post.mailbox.submit(RunRequest(thread_id="t"), mode=InputMode.RESUME)
        assert len(await post.dispatches()) == 1

    played(scenario)


# --- bad input and bounds ---


@pytest.mark.parametrize("bad", ["", "  ", "x" * 257, "a\nb", "\x00", "\ud800"])
@pytest.mark.parametrize(
    "name", ["thread_id", "agent_id", "run_id_hint", "continue_run_id", "dispatch_id_hint"]
)
def test_an_id_that_would_be_trouble_is_refused_and_nothing_is_written(name: str, bad: str) -> None:
    async def scenario(post: Post) -> None:
        with pytest.raises(InvalidInput, match=name):
            await post.mailbox.submit(RunRequest(**{name: bad}))
        assert await post.store.count_queued() == 0

    assert played(scenario).signals == []


@pytest.mark.parametrize(
    "options",
    [
        {"dedupe_key": ""},
        {"dedupe_key": "a\tb"},
        {"dedupe_key": "ticket:x"},
        {"priority": -1},
        {"delay_ms": -1},
        {"thread": None, "dedupe_key": "k"},
        {"thread": None, "mode": InputMode.STEER},
        {"thread": None, "mode": InputMode.INTERRUPT},
    ],
)
def test_a_delivery_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    async def scenario(post: Post) -> None:
        with pytest.raises(InvalidInput):
            await post.submit(**options)
        assert await post.store.count_queued() == 0

    played(scenario)


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message(role=Role.TOOL, content=as_blocks("x"), tool_call_id="c"), InvalidInput),
        (user("\ud800"), InvalidInput),
        (Message(role=Role.USER, id="a\nb", content=as_blocks("x")), InvalidInput),
        (user("x" * 200), LimitExceeded),
    ],
)
def test_a_message_that_cannot_be_kept_is_refused(
    message: Message, error: type[AwakenError], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submissions, "MESSAGE_BYTES", 200)

    async def scenario(post: Post) -> None:
        with pytest.raises(error):
            await post.mailbox.submit(RunRequest(thread_id="t", messages=(message,)))
        assert await post.store.count_queued() == 0

    played(scenario)


def test_a_full_thread_refuses_more_and_says_when_to_try_again() -> None:
    async def scenario(post: Post) -> None:
        for n in range(3):
            await post.submit(str(n))
        with pytest.raises(QueueFull) as refused:
            await post.submit("one too many")
        assert refused.value.retryable
        assert refused.value.retry_after_ms > 0
        await post.submit(thread="other")

    played(scenario, thread_backlog=3)


def test_a_full_mailbox_refuses_more_until_there_is_room() -> None:
    class Counted(SlowStore):
        counts = 0

        async def count_queued(self) -> int:
            self.counts += 1
            return await super().count_queued()

    async def scenario(post: Post) -> None:
        for n in range(3):
            await post.submit(thread=f"t{n}")
        with pytest.raises(QueueFull) as refused:
            await post.submit(thread="more")
        for claimed in await post.claim(limit=3):
            await post.store.release(claimed.dispatch_id, claimed.claim_token or "")
        post.clock.advance(refused.value.retry_after_ms)
        await post.submit(thread="more")
        assert isinstance(post.store, Counted)
        assert post.store.counts == 2, "it is counted at most once a second"

    played(scenario, store=Counted, queue_limit=3)


def test_a_tenant_with_a_full_queue_is_refused_and_others_are_not() -> None:
    tenants = {"ann": TenantLimits(queue_limit=2), "*": TenantLimits(queue_limit=3)}

    async def scenario(post: Post) -> None:
        for n in range(2):
            await submit_of(post, "ann", f"t{n}")
        with pytest.raises(TenantQueueFull, match=r"'ann' has 2 .* `queue_limit`") as refused:
            await submit_of(post, "ann", "t2")
        with pytest.raises(TenantQueueFull):
            # The operator counts as the tenant whose thread it is.
            await submit_of(post, None, "@ann:t2")
        for n in range(3):
            await submit_of(post, "bob", f"t{n}")
        with pytest.raises(TenantQueueFull):
            await submit_of(post, "bob", "t3")
        for n in range(5):
            await submit_of(post, None, f"free-{n}")
        (claimed,) = await post.claim()
        await post.store.release(claimed.dispatch_id, claimed.claim_token or "")
        post.clock.advance(refused.value.retry_after_ms)
        await submit_of(post, "ann", "t2")

    played(scenario, tenants=tenants)


def test_a_burst_of_a_tenant_does_not_get_past_its_bound() -> None:
    async def scenario(post: Post) -> None:
        for _ in range(2):
            outcomes = await gathered(64, lambda n: submit_of(post, "ann", f"t{n}"))
            assert sum(isinstance(it, TenantQueueFull) for it in outcomes) >= 58
        assert (await post.store.count_queued_by_tenant()) == {"ann": 6}

    played(scenario, tenants={"ann": TenantLimits(queue_limit=6)})


async def submit_of(post: Post, tenant: str | None, thread: str) -> None:
    thread_id = namespace_of(tenant) + thread
    request = RunRequest(agent_id="a", thread_id=thread_id, tenant_id=tenant, messages=(user("x"),))
    await post.mailbox.submit(request)


@pytest.mark.parametrize(
    "wrong", [{"": TenantLimits()}, {" ann": TenantLimits()}, {"ann": 3}, ["ann"], {7: None}]
)
def test_limits_of_what_is_no_tenant_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="tenants"):
        MailboxConfig(tenants=wrong)


def test_a_burst_at_the_start_does_not_get_past_the_bound() -> None:
    class SlowCount(SlowStore):
        async def count_queued(self) -> int:
            counted = await super().count_queued()
            await asyncio.sleep(0.01)
            return counted

    async def scenario(post: Post) -> None:
        for _ in range(2):
            outcomes = await gathered(128, lambda n: post.submit(thread=f"t{n}"))
            assert sum(isinstance(it, QueueFull) for it in outcomes) >= 118
        assert await post.store.count_queued() <= 10

    played(scenario, store=SlowCount, queue_limit=10)


def test_what_was_written_counts_although_nobody_could_be_told() -> None:
    class Deaf(MemoryBus):
        def tell(self, signal: Signal) -> None:
            raise OSError("no route")

    async def scenario(post: Post) -> None:
        mailbox = Mailbox(post.store, Deaf(), post.clock, SequentialIds("x"), MailboxConfig())
        await mailbox.submit(RunRequest(thread_id="t", messages=(user("hi"),)))
        assert len(await post.dispatches()) == 1

    played(scenario)


def test_a_full_queue_still_has_the_receipt_of_what_was_sent_before() -> None:
    async def scenario(post: Post) -> None:
        first = await post.submit("hi", dedupe_key="k")
        with pytest.raises(QueueFull):
            await post.submit("more", thread="other")
        again = await post.submit("hi", dedupe_key="k")
        assert (again.dispatch_id, again.is_duplicate) == (first.dispatch_id, True)

    played(scenario, queue_limit=1)
