"""The judge of the control stages notices every kind of broken promise; it is given one of each."""

import asyncio
import itertools
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from awaken.stores.sqlite.writer import run_without_suspending

from .control_driver import Client, InProcessNode
from .control_model import Record, Told, find_problems
from .control_node import OK, REFUSED, Place, Reply, Request, open_runtime
from .history import Effect, Ledger
from .runtime_worlds import quiet
from .store_file import StoreFile


class Played:
    """A store in which clients have done a little of everything, one thing at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = Record()
        asyncio.run(self._play())
        self.ledger = Ledger(folder / "effects").read()

    async def _play(self) -> None:
        store, effects = str(self.folder / "store.db"), str(self.folder / "effects")
        place = Place(store=store, ledger=effects, socket="")
        async with open_runtime(place) as runtime:
            client = Client("c", [InProcessNode(runtime)], self.record, "1", itertools.count(1))
            for act in (client.approve, client.decline, client.cancel_anywhere, client.steer):
                await client.act(act)
            await client.act(client.write_to_other)
            await client.act(client.delete_after_writing)
            assert client.failures == []
            await quiet(runtime.store)

    def problems(self) -> list[str]:
        file = StoreFile(self.folder / "store.db")
        try:
            return run_without_suspending(find_problems(file, self.record, self.ledger))
        finally:
            file.shut()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("control"))


def told(record: Record, kind: str, action: str = "resume") -> Told:
    """A request of a kind that was acknowledged."""
    return next(
        it for it in record.of_kind(kind) if it.is_acknowledged and it.asked.action == action
    )


def answer(asked: Request, outcome: str, value: object = True) -> Told:
    return Told(asked=asked, reply=Reply(number=asked.number, outcome=outcome, value=value))


def test_a_store_that_keeps_its_promises_passes(played: Played) -> None:
    assert played.problems() == []
    assert played.record.accepted
    assert played.ledger


def second_decision(played: Played) -> None:
    asked = told(played.record, "decide").asked
    other = msgspec.structs.replace(asked, decision_id="other", action="cancel")
    played.record.requests.append(answer(other, OK))


def dropped_decision(played: Played) -> None:
    asked = told(played.record, "decide").asked
    played.record.requests.remove(told(played.record, "decide"))
    played.record.requests.append(answer(msgspec.structs.replace(asked, decision_id="mine"), OK))


def refused_decision(played: Played) -> None:
    told(played.record, "decide").reply = Reply(number=0, outcome=REFUSED)


def declined_effect(played: Played) -> None:
    declined = told(played.record, "decide", "cancel")
    approved = told(played.record, "decide")
    declined.asked, approved.asked = (
        msgspec.structs.replace(declined.asked, action="resume"),
        msgspec.structs.replace(approved.asked, action="cancel"),
    )


def doubled_effect(played: Played) -> None:
    played.ledger.append(played.ledger[0])


def undecided_effect(played: Played) -> None:
    played.ledger.append(Effect(run_id="r", call_id="pay 9", attempt=0, pid=0, at="start"))


def lost_cancel(played: Played) -> None:
    run_id = told(played.record, "submit").reply.value  # type: ignore[union-attr]
    played.record.requests.append(answer(Request(number=0, kind="cancel", run_id=run_id), OK))


def refused_cancel(played: Played) -> None:
    for it in played.record.of_kind("cancel"):
        it.reply = Reply(number=0, outcome=OK, value=False)


def lost_message(played: Played) -> None:
    asked = msgspec.structs.replace(told(played.record, "submit").asked, text="never said")
    played.record.requests.append(answer(asked, OK, "no-run"))


def two_runs_of_one_key(played: Played) -> None:
    played.record.requests.append(answer(told(played.record, "submit").asked, OK, "other-run"))


def lost_note(played: Played) -> None:
    asked = msgspec.structs.replace(told(played.record, "submit").asked, kind="steer", text="psst")
    played.record.requests.append(answer(asked, OK))


def lost_letter(played: Played) -> None:
    target = next(iter(played.record.written.values()))
    played.record.written["never written"] = target
    played.record.accepted.add("never written")


def undead_thread(played: Played) -> None:
    thread_id = told(played.record, "submit").asked.thread_id
    request = Request(number=0, kind="delete", thread_id=thread_id)
    played.record.requests.append(answer(request, OK))


def nameless_error(played: Played) -> None:
    played.record.broken.append(("decide", "KeyError: 'r'"))


@pytest.mark.parametrize(
    "falsify",
    [
        nameless_error,
        second_decision,
        dropped_decision,
        refused_decision,
        declined_effect,
        doubled_effect,
        undecided_effect,
        lost_cancel,
        refused_cancel,
        lost_message,
        two_runs_of_one_key,
        lost_note,
        lost_letter,
        undead_thread,
    ],
)
def test_a_broken_promise_is_found(falsify: Callable[[Played], None], tmp_path: Path) -> None:
    played = Played(tmp_path)
    falsify(played)
    assert played.problems() != []


def test_nothing_asked_proves_nothing(played: Played) -> None:
    played.record = Record()
    assert played.problems() == ["nothing was asked for"]
