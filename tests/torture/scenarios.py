"""Store scenarios: short lists of steps.

A step depends on the store alone, never on values of an earlier step, so that a scenario can be
taken up after any of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from awaken.contracts.lifecycle import Cancelled
from awaken.contracts.messages.message import Role
from awaken.contracts.runs.threads import Thread
from awaken.contracts.state.profile import ProfileEntry
from awaken.contracts.storage.dispatch import DispatchStatus, InputMode, LeaseReport, Release
from awaken.contracts.storage.store import ToolRecordStatus

from . import building as make
from .building import DONE, LONG_MS, WAITING
from .clients import Client
from .history import Wish

Step = Callable[[Client], Awaitable[object]]

SHORT_MS = 10
DEAD = Release(status=DispatchStatus.DEAD_LETTER, error="broken")


def turns(t: str = "turns") -> Sequence[Step]:
    """A run with a journalled call; the same commit comes twice; a stale one is refused."""
    started, ended = make.tool_record(t, "c"), ToolRecordStatus.FINISHED
    first = make.commit(
        t,
        0,
        messages=(make.said("u1"),),
        run=make.run(t),
        events=(make.started(t),),
        state={"a": make.value("1"), "b": make.value('"x"')},
    )
    called = make.commit(
        t,
        1,
        messages=(make.asked("a1", "c"),),
        tool_records=(started,),
        events=(make.spoken("a"), make.spoken("b")),
    )
    result = make.commit(
        t,
        2,
        messages=(make.answered("r1", "c"),),
        tool_records=(make.tool_record(t, "c", status=ended),),
    )
    stale = make.commit(t, 1, commit_id="stale", messages=(make.said("u9"),))
    last = make.commit(
        t,
        3,
        messages=(make.said("a2", "x" * 2000, Role.ASSISTANT),),
        run=make.run(t, DONE),
        events=(make.spoken("x" * 700),),
        state={"a": None, "c": make.value("[1,2]")},
        outbox=(make.outbox(f"{t}-out"),),
    )
    return (
        lambda c: c.commit(first),
        lambda c: _saved_checkpoint(c, t),
        lambda c: c.commit(called),
        lambda c: c.commit(first),
        lambda c: c.commit(result),
        lambda c: c.commit(stale, must_fail=True),
        lambda c: c.commit(last),
    )


def approval(t: str = "approval") -> Sequence[Step]:
    """A run suspends on two calls; a decision queues its continuation, which ends it."""
    token = f"{t}-token"
    opened = make.commit(
        t, 0, messages=(make.said("u1"), make.asked("a1", "c1", "c2")), run=make.run(t)
    )
    suspended = make.commit(
        t,
        1,
        run=make.run(t, WAITING),
        tickets=tuple(make.ticket(t, call, expires_at=9000) for call in ("c1", "c2")),
        events=(make.spoken("wait"),),
    )
    decided = make.commit(
        t,
        2,
        tickets=(make.ticket(t, "c1", make.DECIDED, expires_at=9000),),
        enqueued=(make.dispatch(f"{t}-go", t, InputMode.RESUME),),
    )
    resumed = make.commit(
        t,
        3,
        fencing_token=token,
        run=make.run(t),
        messages=(make.answered("r1", "c1"), make.answered("r2", "c2")),
        tickets=(make.ticket(t, "c2", make.CLOSED, closed_because="superseded"),),
    )
    ended = make.commit(
        t,
        4,
        fencing_token=token,
        run=make.run(t, DONE),
        messages=(make.said("a2", role=Role.ASSISTANT),),
        release=Release(),
    )
    return (
        lambda c: c.commit(opened),
        lambda c: c.commit(suspended),
        lambda c: c.commit(decided),
        lambda c: c.claim(token, LONG_MS),
        lambda c: c.commit(resumed),
        lambda c: c.commit(ended),
    )


def queue(t: str = "queue") -> Sequence[Step]:
    """Dispatches to their ends: acked with the outcome, given back, dead, revived, cancelled."""
    one, two, three = (make.dispatch(f"{t}-{n}", t, dedupe_key=f"k{n}") for n in range(3))
    work = make.commit(t, 0, fencing_token="w1", run=make.run(t), messages=(make.said("u1"),))
    outcome = make.commit(
        t,
        1,
        fencing_token="w1",
        run=make.run(t, DONE),
        events=(make.spoken("end"),),
        release=Release(),
        enqueued=(three,),
    )
    bare = make.commit(t, 0, commit_id="bare", messages=(make.said("no"),))
    foreign = make.commit(t, 0, commit_id="foreign", fencing_token="w9", messages=bare.messages)
    return (
        lambda c: c.enqueue(one),
        lambda c: c.enqueue(two),
        lambda c: c.enqueue(one),
        lambda c: c.claim("w1", LONG_MS),
        lambda c: asyncio.to_thread(_extended, c, "w1"),
        lambda c: c.commit(bare, must_fail=True),
        lambda c: c.commit(foreign, must_fail=True),
        lambda c: c.commit(work),
        lambda c: c.commit(outcome),
        lambda c: c.claim("w2", LONG_MS),
        lambda c: c.requeue(two.dispatch_id, "w2"),
        lambda c: c.claim_one(two.dispatch_id, "w3", LONG_MS),
        lambda c: c.release(two.dispatch_id, "w3", DEAD),
        lambda c: c.revive(two.dispatch_id, f"{t}-again"),
        lambda c: c.cancel(three.dispatch_id),
    )


def steering(t: str = "steering") -> Sequence[Step]:
    """A foreground run takes its thread, absorbs what was queued for it, and ends as cancelled."""
    steer = make.dispatch(f"{t}-steer", t, InputMode.STEER)
    taken = make.commit(t, 0, run=make.run(t), messages=(make.said("u1"),), **make.taking("fg"))
    absorbed = make.commit(
        t, 1, fencing_token="fg", messages=(make.said("u2"),), absorbed=(steer.dispatch_id,)
    )
    done = make.run(t, DONE)
    other = make.commit(t, 2, commit_id="other", fencing_token="fg", run=done, release=Release())
    cancelled = make.run(t, DONE, termination=Cancelled(cause="user"))
    ended = make.commit(t, 2, fencing_token="fg", run=cancelled, release=Release())
    return (
        lambda c: c.commit(taken),
        lambda c: c.enqueue(steer),
        lambda c: c.commit(absorbed),
        lambda c: _asked_to_cancel(c, t),
        lambda c: c.commit(other, must_fail=True),
        lambda c: c.commit(ended),
    )


def dying(t: str = "dying") -> Sequence[Step]:
    """A foreground run and a worker die; their claims are taken back, their tokens worthless."""
    taken = make.commit(
        t, 0, run=make.run(t), messages=(make.said("u1"),), **make.taking("f", SHORT_MS)
    )
    late = make.commit(t, 1, commit_id="late", fencing_token="f", messages=(make.said("late"),))
    mine = make.commit(t, 1, fencing_token="w2", run=make.run(t, DONE), messages=(make.said("u2"),))
    ended = make.commit(t, 2, fencing_token="w2", release=Release())
    return (
        lambda c: c.commit(taken),
        lambda c: c.reclaim(),
        lambda c: c.commit(late, must_fail=True),
        lambda c: c.claim("w1", SHORT_MS),
        lambda c: c.reclaim(),
        lambda c: c.claim("w2", LONG_MS),
        lambda c: c.commit(mine),
        lambda c: c.commit(ended),
    )


def interrupting(t: str = "interrupting") -> Sequence[Step]:
    """An interrupt drops the queue and asks the claimed run to end."""
    last = make.dispatch(f"{t}-last", t, InputMode.INTERRUPT)
    return (
        lambda c: c.enqueue(make.dispatch(f"{t}-1", t)),
        lambda c: c.enqueue(make.dispatch(f"{t}-2", t)),
        lambda c: c.claim("i1", LONG_MS),
        lambda c: c.interrupt(t, last),
        lambda c: c.requeue(f"{t}-1", "i1", is_charged=False),
        lambda c: c.claim("i2", LONG_MS),
        lambda c: c.release(last.dispatch_id, "i2"),
    )


def family(t: str = "family") -> Sequence[Step]:
    """Threads with children, edited and deleted with everything of them."""
    child = f"{t}-child"
    return (
        lambda c: _saved_thread(c, Thread(id=t)),
        lambda c: _saved_thread(c, Thread(id=child, parent_thread_id=t, resource_id="r")),
        lambda c: c.commit(
            make.commit(
                child,
                0,
                run=make.run(child),
                messages=(make.said("u1"), make.said("u2", "y" * 900)),
                state={"a": make.value("1")},
                events=(make.spoken("a"),),
                outbox=(make.outbox(f"{t}-out"),),
            )
        ),
        lambda c: c.enqueue(make.dispatch(f"{t}-d", child)),
        lambda c: _saved_checkpoint(c, child),
        lambda c: c.delete(t, child),
    )


def ageing(t: str = "old") -> Sequence[Step]:
    """Runs that ended long ago are purged with their events; messages and the latest run stay."""
    return (
        *(
            lambda c, n=n: c.commit(
                make.commit(
                    t,
                    n,
                    run=make.run(t, DONE, name=f"run{n}"),
                    messages=(make.said(f"u{n}"),),
                    events=(make.spoken("a"), make.spoken("b")),
                )
            )
            for n in range(3)
        ),
        lambda c: c.purge(5000),
        lambda c: c.commit(
            make.commit(t, 3, run=make.run(t, name="fresh"), events=(make.spoken("c"),))
        ),
    )


def sending(t: str = "sending") -> Sequence[Step]:
    """Outbox entries are sent and forgotten; profile entries are written and removed."""
    entries = tuple(make.outbox(f"{t}-{n}") for n in range(3))
    profile = ProfileEntry(owner="ann", key="tone", value={"a": 1}, updated_at=1)
    return (
        lambda c: c.commit(make.commit(t, 0, outbox=entries, messages=(make.said("u1"),))),
        lambda c: c.do("sent", Wish(), c.store.delete_outbox([entries[0].entry_id])),
        lambda c: c.do("profile", Wish(), c.store.save_entry(profile)),
        lambda c: c.do("sent", Wish(), c.store.delete_outbox([it.entry_id for it in entries])),
        lambda c: c.do("profile", Wish(), c.store.clear_owner("ann")),
    )


def giving_up(t: str = "giving-up") -> Sequence[Step]:
    """A foreground run is given back in a shutdown and goes on elsewhere."""
    taken = make.commit(t, 0, run=make.run(t), messages=(make.said("u1"),), **make.taking("g1"))
    ended = make.commit(t, 1, fencing_token="g2", run=make.run(t, DONE), release=Release())
    return (
        lambda c: c.commit(taken),
        lambda c: c.give_up(t, "g1"),
        lambda c: c.claim("g2", LONG_MS),
        lambda c: c.commit(ended),
    )


SCENARIOS: Mapping[str, Callable[[], Sequence[Step]]] = {
    "turns": turns,
    "approval": approval,
    "queue": queue,
    "steering": steering,
    "dying": dying,
    "interrupting": interrupting,
    "family": family,
    "ageing": ageing,
    "sending": sending,
    "giving_up": giving_up,
}


async def _saved_checkpoint(client: Client, thread_id: str) -> None:
    work = client.store.save_checkpoint(make.checkpoint(thread_id, "hel"))
    await client.do("checkpoint", Wish(thread_id=thread_id), work)


async def _saved_thread(client: Client, thread: Thread) -> None:
    await client.do("edit", Wish(thread_id=thread.id), client.store.save_thread(thread))


async def _asked_to_cancel(client: Client, thread_id: str) -> None:
    work = client.store.request_cancel(thread_id, "user")
    await client.do("ask_cancel", Wish(thread_id=thread_id), work)


def _extended(client: Client, token: str) -> tuple[LeaseReport, ...]:
    keeper = client.store.lease_keeper()
    try:
        return keeper.extend([token], LONG_MS)
    finally:
        keeper.close()
