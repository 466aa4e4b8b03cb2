"""What a turn sends to the other side, and which task it takes for its own."""

from typing import Any

import msgspec
import pytest

from awaken.backends.a2a.turn import A2aTurn, context_of
from awaken.backends.a2a.wire import RemoteMessage, Status, Task
from awaken.contracts.backends.errors import BackendExecutionFailed
from awaken.contracts.backends.requests import BackendRootRunRequest, RemoteTarget
from awaken.contracts.identity import RunIdentity, derive_id
from awaken.contracts.messages import content
from awaken.contracts.messages.message import Message, Visibility, assistant, user
from awaken.testing.fakes import EventRecorder
from awaken.wire.a2a import TaskState

WAITING = RemoteTarget(
    run_id="r", message_id="m", task_id="t-1", context_id="c", last_state=TaskState.INPUT_REQUIRED
)


def said(text: Any, message_id: str = "m1", **more: Any) -> Message:
    return msgspec.structs.replace(user(text, **more), id=message_id)


def turn(
    *new: Message,
    known: RemoteTarget | None = None,
    thread_id: str = "th",
    messages: tuple[Message, ...] = (),
    **more: Any,
) -> A2aTurn:
    request = BackendRootRunRequest(
        agent_id="a",
        messages=[*messages, *new],
        new_messages=new,
        sink=EventRecorder(),
        resolver=None,  # type: ignore[arg-type]
        run_identity=RunIdentity(thread_id=thread_id, run_id="r"),
        **more,
    )
    return A2aTurn.of(request, known)


def found(task_id: str, state: TaskState, *message_ids: str) -> Task:
    history = tuple(RemoteMessage(message_id=it) for it in message_ids)
    return Task(id=task_id, status=Status(state=state), history=history)


def test_the_new_messages_of_the_user_are_sent_under_one_stable_id() -> None:
    hidden = said("hidden", "m2", visibility=Visibility.INTERNAL)
    sent = turn(said("hi"), hidden, assistant("no"), messages=(said("old", "m0"),)).message()
    assert sent == {
        "messageId": derive_id("r", "a2a", "m1"),
        "role": "ROLE_USER",
        "contextId": context_of("th"),
        "parts": [{"text": "hi"}],
    }


def test_without_new_messages_all_of_them_are_sent() -> None:
    assert turn(messages=(said("one"), said("two", "m2"))).parts == [
        {"text": "one"},
        {"text": "two"},
    ]


def test_other_messages_have_another_id() -> None:
    assert turn(said("hi")).message_id != turn(said("hi", "m2")).message_id


def test_files_are_sent_with_their_kind() -> None:
    blocks = (
        content.Image(source=content.Base64Source(media_type="image/png", data="aGk=")),
        content.Document(source=content.UrlSource(url="https://x/a.pdf?v=1#p"), title="a"),
        content.Audio(source=content.UrlSource(url="https://x/unknown")),
        content.Thinking(thinking="no"),
    )
    assert turn(said(blocks)).parts == [
        {"raw": "aGk=", "mediaType": "image/png"},
        {"url": "https://x/a.pdf?v=1#p", "mediaType": "application/pdf", "filename": "a"},
        {"url": "https://x/unknown", "mediaType": "application/octet-stream"},
    ]


def test_nothing_to_say_is_refused() -> None:
    with pytest.raises(BackendExecutionFailed, match="no user message content to send"):
        turn(said(""), assistant("x"))


def test_a_continued_run_answers_the_task_that_waits() -> None:
    sent = turn(said("blue"), known=WAITING, is_continuation=True).message()
    assert (sent["taskId"], sent["contextId"]) == ("t-1", "c")


def test_a_new_run_begins_a_new_task_in_the_known_context() -> None:
    earlier = msgspec.structs.replace(WAITING, run_id="earlier")
    sent = turn(said("again"), known=earlier).message()
    assert "taskId" not in sent
    assert sent["contextId"] == "c"


def test_a_message_that_is_known_to_have_arrived_is_not_sent() -> None:
    message_id = turn(said("hi")).message_id
    known = RemoteTarget(run_id="r", message_id=message_id, task_id="t-9")
    assert turn(said("hi"), known=known, is_recovered=True).accepted_id == "t-9"
    assert turn(said("hi", "m2"), known=known).accepted_id is None
    other = msgspec.structs.replace(known, run_id="another")
    assert turn(said("hi"), known=other).accepted_id is None


def test_the_task_with_our_message_is_ours_whatever_its_state() -> None:
    mine = turn(said("hi"))
    theirs = found("t-1", TaskState.WORKING, "another")
    ours = found("t-2", TaskState.COMPLETED, "x", mine.message_id)
    assert mine.find_own_task([theirs, ours]) is ours
    assert mine.find_own_task([theirs]) is None


def test_a_task_without_messages_is_ours_if_it_can_be_no_other_run_s() -> None:
    ended, active = found("t-1", TaskState.COMPLETED), found("t-2", TaskState.WORKING)
    shared = turn(said("hi"), known=RemoteTarget(run_id="earlier", task_id="t-2"))
    assert shared.find_own_task([ended, active]) is None
    assert turn(said("hi")).find_own_task([ended, active]) is active
    assert turn(said("hi"), thread_id="r").find_own_task([ended, active]) is ended
