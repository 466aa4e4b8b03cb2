"""Where a thread was compacted is shown over HTTP, and can be undone."""

from awaken.contracts.state.context_state import (
    CONTEXT_STATE,
    CompactionMark,
    ContextState,
    Cut,
)
from awaken.contracts.storage.store import Commit

from .managed_world import World, world


async def _compact(at: World, thread_id: str) -> None:
    checkout = await at.runtime.store.checkout(thread_id)
    assert checkout is not None
    first = checkout.messages[0].id or ""
    mark = CompactionMark(
        message_id=first, place=0, summary="They greeted.", pre_tokens=90, post_tokens=9, at=5
    )
    state = ContextState(marks=(mark,), cut=Cut(message_id=first, place=1), total_compactions=1)
    await at.runtime.store.commit(
        Commit(
            commit_id="compacted",
            thread_id=thread_id,
            expected_version=checkout.thread.version,
            committed_at=checkout.thread.metadata.updated_at or 0,
            state={CONTEXT_STATE.name: CONTEXT_STATE.encode(state)},
        )
    )


def test_marks_are_shown_and_undone() -> None:
    async def scenario(at: World) -> None:
        await at.run("helper", "t")
        before = await at.get("/v1/threads/t/context")
        assert (before["marks"], before["cut_seq"], before["total_compactions"]) == ([], None, 0)
        await _compact(at, "t")
        shown = await at.get("/v1/threads/t/context", who="reader")
        (mark,) = shown["marks"]
        assert (mark["seq"], mark["summary"], shown["cut_seq"]) == (1, "They greeted.", 2)
        assert (mark["pre_tokens"], mark["post_tokens"], mark["at"]) == (90, 9, 5)
        assert (await at.ask("DELETE /v1/threads/t/context", who="reader")).status == 403
        for who in ("reader", "boss"):
            assert (await at.ask("GET /v1/threads/none/context", who=who)).status == 404
        assert (await at.ask("GET /v1/threads/t/context", who="tenant")).status == 404
        after = await at.do("DELETE /v1/threads/t/context")
        assert (after["marks"], after["cut_seq"]) == ([], None)
        assert await at.get("/v1/threads/t/context") == after
        assert len((await at.get("/v1/threads/t/messages"))["items"]) == 2

    world(scenario)
