"""What is known of a task, from whatever is told of it, and how a run ends by it."""

from typing import Any

import pytest

from awaken.backends.a2a import task_view
from awaken.backends.a2a.results import (
    answer_of,
    make_timeout_end,
    progress_of,
    read_message_end,
    read_task_end,
)
from awaken.backends.a2a.task_view import TaskView
from awaken.backends.a2a.wire import A2aAnswer, RemoteMessage, Task, read_as
from awaken.contracts.backend_results import BackendRunStatus
from awaken.contracts.backends.errors import RemoteMalformed, RemoteTooLarge
from awaken.contracts.lifecycle import Cancelled, Failed, NaturalEnd, Stopped, Suspended
from awaken.wire.a2a import TaskState


def task(state: str = "WORKING", task_id: str = "t", **more: Any) -> Task:
    said = more.pop("said", None)
    status: dict[str, Any] = {"state": f"TASK_STATE_{state}"}
    if said is not None:
        status["message"] = {"parts": said}
    return read_as({"id": task_id, "status": status, **more}, Task)


def moved(state: str, task_id: str = "t") -> A2aAnswer:
    status = {"state": f"TASK_STATE_{state}"}
    return read_as({"statusUpdate": {"taskId": task_id, "status": status}}, A2aAnswer)


def piece(*parts: Any, name: str = "out", append: bool = True, task_id: str = "t") -> A2aAnswer:
    artifact = {"artifactId": name, "parts": list(parts)}
    update = {"taskId": task_id, "artifact": artifact, "append": append}
    return read_as({"artifactUpdate": update}, A2aAnswer)


def after(view: TaskView, *events: A2aAnswer) -> TaskView:
    for event in events:
        view.apply_event(event)
    return view


def test_the_first_end_stands() -> None:
    view = after(TaskView(task()), moved("COMPLETED"), moved("FAILED"), piece({"text": "late"}))
    view.replace(task("FAILED"))
    assert view.state is TaskState.COMPLETED
    assert view.task.artifacts == ()
    view.replace(task("COMPLETED", artifacts=[{"artifactId": "a", "parts": [{"text": "whole"}]}]))
    assert answer_of(view.task) == "whole"


def test_a_question_that_the_whole_task_no_longer_asks_is_over() -> None:
    for state in ("WORKING", "COMPLETED"):
        view = after(TaskView(task()), moved("INPUT_REQUIRED"), moved("WORKING"))
        assert view.state is TaskState.INPUT_REQUIRED
        view.replace(task(state))
        assert view.state is TaskState(f"TASK_STATE_{state}")


def test_a_task_never_goes_back_to_submitted() -> None:
    view = after(TaskView(task("SUBMITTED")), moved("WORKING"), moved("SUBMITTED"))
    assert view.state is TaskState.WORKING
    view.replace(task("SUBMITTED"))
    assert view.state is TaskState.WORKING


def test_what_is_told_of_another_task_is_not_taken() -> None:
    other = read_as({"task": {"id": "x", "status": {"state": "TASK_STATE_FAILED"}}}, A2aAnswer)
    view = after(TaskView(task()), moved("FAILED", "x"), piece({"text": "x"}, task_id="x"), other)
    assert view.state is TaskState.WORKING
    assert view.task.artifacts == ()


def test_a_task_that_changes_its_context_is_malformed() -> None:
    view = TaskView(task(contextId="c"))
    view.replace(task())
    assert view.target.context_id == "c"
    with pytest.raises(RemoteMalformed):
        view.replace(task(contextId="d"))


def test_texts_in_pieces_become_one_and_other_parts_stay() -> None:
    view = after(
        TaskView(task()),
        piece({"text": "gone"}),
        piece({"text": "He"}, append=False),
        piece({"text": "llo"}, {"data": {"n": 1}}),
        piece({"text": "bye"}),
        piece({"text": "second"}, name="two"),
    )
    first, second = view.task.artifacts
    assert [part.text for part in first.parts] == ["Hello", None, "bye"]
    assert second.artifact_id == "two"


def test_artifacts_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_view, "ARTIFACT_BYTES_MAX", 200)
    view = TaskView(task())
    with pytest.raises(RemoteTooLarge):
        after(view, *[piece({"text": "x" * 50})] * 5)


@pytest.mark.parametrize(
    ("state", "status", "termination"),
    [
        ("COMPLETED", BackendRunStatus.COMPLETED, NaturalEnd()),
        ("CANCELED", BackendRunStatus.CANCELLED, Cancelled(cause="remote")),
        ("FAILED", BackendRunStatus.FAILED, Failed(message="why", code="remote_failed")),
        ("REJECTED", BackendRunStatus.FAILED, Failed(message="why", code="remote_rejected")),
        ("INPUT_REQUIRED", BackendRunStatus.WAITING_INPUT, Suspended()),
        ("AUTH_REQUIRED", BackendRunStatus.WAITING_AUTH, Suspended()),
        ("WORKING", BackendRunStatus.FAILED, Failed(message="why", code="remote_unfinished")),
    ],
)
def test_every_state_has_its_end(state: str, status: BackendRunStatus, termination: Any) -> None:
    ending = read_task_end(task(state, said=[{"text": "why"}]), is_delegate=False)
    assert (ending.status, ending.termination) == (status, termination)
    is_told = status not in (BackendRunStatus.COMPLETED, BackendRunStatus.CANCELLED)
    assert ending.message == ("why" if is_told else None)


def test_an_end_without_words_has_some_where_somebody_needs_them() -> None:
    assert read_task_end(task("FAILED"), is_delegate=False).message == "the remote task failed"
    assert read_task_end(task("INPUT_REQUIRED"), is_delegate=False).message is None
    assert read_task_end(task("AUTH_REQUIRED"), is_delegate=True).message == (
        "the remote task needs authorization"
    )


def test_a_timeout_keeps_what_there_was() -> None:
    partial = task(artifacts=[{"artifactId": "a", "parts": [{"text": "half"}]}])
    ending = make_timeout_end(partial, 500, is_work_left=False)
    assert (ending.status, ending.output.text) == (BackendRunStatus.TIMEOUT, "half")
    assert isinstance(ending.termination, Stopped)
    assert ending.termination.reason.code == "timeout"
    assert make_timeout_end(None, 500, is_work_left=True).output.is_empty


def test_the_answer_is_the_first_artifact_with_a_text_else_the_status_else_the_last_word() -> None:
    history = [
        {"role": "ROLE_AGENT", "parts": [{"text": "word"}]},
        {"role": "ROLE_USER", "parts": [{"text": "mine"}]},
    ]
    silent = {"artifactId": "a", "parts": [{"url": "https://x/y"}]}
    spoken = {"artifactId": "b", "parts": [{"text": "art"}, {"data": {"n": 1}}]}
    said = [{"text": "status"}]
    assert answer_of(task(history=history)) == "word"
    assert answer_of(task(history=history, said=said)) == "status"
    assert answer_of(task(artifacts=[silent, spoken], said=said)) == 'art\n\n{"n":1}'


def test_artifacts_keep_their_names_and_parts() -> None:
    part = {"raw": "aGk=", "mediaType": "image/png", "filename": "a.png"}
    given = {"artifactId": "a", "name": "plan", "parts": [part]}
    ending = read_task_end(task("COMPLETED", artifacts=[given]), is_delegate=False)
    (artifact,) = ending.output.artifacts
    assert (artifact.id, artifact.name, artifact.media_type) == ("a", "plan", "image/png")
    assert artifact.content == [part]
    assert ending.output.text is None
    assert ending.output.raw["artifacts"] == [given]


def test_what_is_no_text_in_a_direct_answer_is_an_artifact() -> None:
    parts = [{"text": "see"}, {"data": [1]}]
    output = read_message_end(read_as({"messageId": "m", "parts": parts}, RemoteMessage)).output
    assert output.text == "see\n\n[1]"
    assert [(it.id, it.content) for it in output.artifacts] == [("m", parts)]
    plain = read_message_end(read_as({"messageId": "m", "parts": parts[:1]}, RemoteMessage))
    assert plain.output.artifacts == ()


def test_progress_says_how_the_task_stands() -> None:
    failed = task("FAILED", said=[{"text": "why"}], contextId="c")
    content = progress_of(failed, "r").content
    assert content["schema"] == "a2a-task-progress.v1"
    assert (content["task_id"], content["context_id"]) == ("t", "c")
    assert (content["state"], content["failure_message"]) == ("TASK_STATE_FAILED", "why")
    assert progress_of(task(said=[{"text": "x"}]), "r").content["failure_message"] is None
