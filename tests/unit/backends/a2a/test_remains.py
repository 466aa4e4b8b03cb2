"""What a process that died has left at the other side: gone on with, and stopped."""

import asyncio
from typing import Any

import pytest

from awaken.backends.a2a.task_stop import stop_task
from awaken.backends.a2a.turn import context_of
from awaken.contracts.backends.requests import RemoteTarget
from awaken.contracts.identity import RunIdentity
from awaken.wire.a2a import TaskState

from .test_turns import WAITING, found, said, turn

MINE = RunIdentity(thread_id="th", run_id="r")


class Peer:
    """The other side, as far as somebody looks for a task and cancels it."""

    def __init__(self, *tasks: Any) -> None:
        self._tasks = tasks
        self.looked_at: list[str] = []
        self.cancelled: list[str] = []

    async def find(self, context_id: str) -> tuple[Any, ...]:
        self.looked_at.append(context_id)
        return self._tasks

    async def cancel(self, task_id: str) -> None:
        self.cancelled.append(task_id)


def stopped(peer: Peer, known: RemoteTarget | None) -> list[str]:
    asyncio.run(stop_task(peer, MINE, None, known))  # type: ignore[arg-type]
    return peer.cancelled


def test_a_recovered_turn_that_answers_a_task_goes_on_with_it() -> None:
    again = turn(said("blue"), known=WAITING, is_recovered=True)
    assert (again.continued_id, again.accepted_id) == ("t-1", None)
    assert again.message() == turn(said("blue"), known=WAITING, is_continuation=True).message()


def test_a_recovered_turn_whose_question_is_known_is_not_its_own_answer() -> None:
    first = turn(said("hi"))
    known = RemoteTarget(
        run_id="r",
        message_id=first.message_id,
        task_id="t-1",
        last_state=TaskState.INPUT_REQUIRED,
    )
    again = turn(said("hi"), known=known, is_recovered=True)
    assert (again.continued_id, again.accepted_id) == (None, "t-1")


@pytest.mark.parametrize(
    "state",
    [it for it in TaskState if it.is_active or it.is_waiting],
)
@pytest.mark.parametrize("known", [None, RemoteTarget(run_id="earlier", context_id="c")])
def test_a_task_of_which_nothing_was_kept_is_stopped_also_when_it_waits(
    state: TaskState, known: RemoteTarget | None
) -> None:
    peer = Peer(found("t-1", TaskState.COMPLETED, "x"), found("t-2", state, "y"))
    assert stopped(peer, known) == ["t-2"]
    assert peer.looked_at == [context_of("th") if known is None else "c"]


def test_nothing_is_stopped_where_all_has_ended() -> None:
    ended = [it for it in TaskState if not (it.is_active or it.is_waiting)]
    peer = Peer(*(found(f"t-{n}", state) for n, state in enumerate(ended)))
    assert stopped(peer, None) == []
