"""Branches: where a thread was forked from, and which of its branches is the newest."""

import asyncio

import msgspec

from awaken.contracts.runs.threads import ForkPoint, NewestBranch, Thread, ThreadMetadata
from awaken.contracts.storage.store import Store

from .writing import THREAD, Writer, build_user_message, run

POINT = ForkPoint(thread_id="source", message_id="m-1")


async def a_branch_knows_where_it_left(store: Store) -> None:
    """The commit that makes a thread says where it was forked; nothing changes that later."""
    writer = Writer(store)
    made = Thread(id=THREAD, forked_from=POINT)
    await writer.commit(
        thread=made, messages=(build_user_message("m-1"), build_user_message("m-2"))
    )
    await writer.commit(messages=(build_user_message("m-3"),), run=run())
    await store.save_thread(Thread(id=THREAD, metadata=ThreadMetadata(title="new")))
    other = ForkPoint(thread_id="other")
    await store.save_thread(Thread(id=THREAD, forked_from=other))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert thread.forked_from == POINT
    checkout = await store.checkout(THREAD)
    assert checkout is not None
    assert checkout.thread.forked_from == POINT


async def branches_may_have_the_same_message_ids(store: Store) -> None:
    """A message id is unique in its thread, not in the store."""
    await Writer(store).commit(messages=(build_user_message("m-1"),))
    branch = Writer(store, "branch")
    await branch.commit(
        thread=Thread(id="branch", forked_from=POINT), messages=(build_user_message("m-1"),)
    )
    for thread_id in (THREAD, "branch"):
        checkout = await store.checkout(thread_id)
        assert checkout is not None
        assert [message.id for message in checkout.messages] == ["m-1"]


async def the_newest_branch_stays_the_newest(store: Store) -> None:
    """An edit from a stale copy never takes a thread back to an older branch."""
    writer = Writer(store)
    await writer.commit(messages=(build_user_message("m-1"),))
    stale = await store.load_thread(THREAD)
    assert stale is not None
    assert stale.newest_branch is None
    for number in (1, 2):
        newest = NewestBranch(number=number, thread_id=f"branch-{number}")
        await store.save_thread(msgspec.structs.replace(stale, newest_branch=newest))
    await store.save_thread(stale)
    older = NewestBranch(number=1, thread_id="branch-9")
    saved = await store.save_thread(msgspec.structs.replace(stale, newest_branch=older))
    assert saved.newest_branch == NewestBranch(number=2, thread_id="branch-2")
    await writer.commit(messages=(build_user_message("m-2"),))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert thread.newest_branch == saved.newest_branch


async def of_branches_made_at_once_one_is_the_newest(store: Store) -> None:
    """Whatever the order in which they are saved."""
    await Writer(store).commit(messages=(build_user_message("m-1"),))
    edits = [
        Thread(id=THREAD, newest_branch=NewestBranch(number=1, thread_id=f"branch-{n}"))
        for n in range(8)
    ]
    await asyncio.gather(*map(store.save_thread, edits))
    thread = await store.load_thread(THREAD)
    assert thread is not None
    assert thread.newest_branch == NewestBranch(number=1, thread_id="branch-7")


CHECKS = (
    a_branch_knows_where_it_left,
    branches_may_have_the_same_message_ids,
    the_newest_branch_stays_the_newest,
    of_branches_made_at_once_one_is_the_newest,
)
