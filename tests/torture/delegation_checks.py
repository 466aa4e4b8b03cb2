"""What must be true of runs below runs, of tasks and of messages when nothing is left to do."""

from collections import Counter

import msgspec

from awaken.contracts.lifecycle import Cancelled, NaturalEnd, RunStatus
from awaken.contracts.messages.message import Message, SenderKind
from awaken.contracts.runs.records import RunRecord
from awaken.contracts.tasks import SUB_AGENT

from .delegation_agents import READER
from .runtime_checks import Remains, key_of
from .runtime_worlds import SHUT


def delegation_problems(remains: Remains) -> list[str]:
    """Check that everything was asked for, answered and told exactly once, and nothing is left."""
    return [
        *_left_problems(remains),
        *_child_problems(remains),
        *_task_problems(remains),
        *_message_problems(remains),
    ]


def _left_problems(remains: Remains) -> list[str]:
    problems = [f"order {it.entry_id} ({it.kind}) is left: {it.error}" for it in remains.orders]
    problems += [f"run {run_id} has an open ticket" for run_id in remains.open_tickets]
    return problems + [
        f"run {run.run_id} is {run.status}"
        for run in remains.runs.values()
        if run.status is not RunStatus.DONE
    ]


def _child_problems(remains: Remains) -> list[str]:
    """Every call has one child, and the child's answer is the call's result."""
    children = [run for run in remains.runs.values() if run.parent_run_id is not None]
    calls = Counter((run.parent_run_id, run.parent_tool_call_id) for run in children)
    problems = [f"call {call} has {n} children" for call, n in calls.items() if n > 1]
    for child in children:
        parent = remains.runs.get(child.parent_run_id or "")
        if parent is None:
            problems.append(f"run {child.run_id} has lost its parent")
            continue
        if child.task is None and isinstance(parent.termination, NaturalEnd):
            problems += _answer_problems(remains, child)
        if SHUT in remains.acks and not isinstance(child.termination, Cancelled):
            problems.append(f"run {child.run_id} ended as {child.termination} behind a shut door")
    return problems


def _answer_problems(remains: Remains, child: RunRecord) -> list[str]:
    found = [
        text
        for key, text in remains.results.items()
        if key.startswith(f"{child.parent_run_id}:")
        and key.endswith(f":{child.parent_tool_call_id}")
    ]
    answers = [msgspec.json.decode(text)["response"] for text in found if text.startswith("{")]
    if answers == [child.final_output]:
        return []
    return [f"run {child.run_id} answered '{child.final_output}', its parent was told {found}"]


def _task_problems(remains: Remains) -> list[str]:
    """The end of every task is told once, to its owner; a function is run at most once."""
    told = Counter(
        (thread_id, it.sender.task_id)
        for thread_id, it in _internal(remains)
        if it.sender is not None and it.sender.is_end
    )
    tasks = [run for run in remains.runs.values() if run.task is not None]
    wanted = Counter((run.parent_thread_id, run.run_id) for run in tasks)
    problems = [
        f"the end of task {it} was told {told[it]} times"
        for it in wanted | told
        if told[it] != wanted[it]
    ]
    work = Counter(key_of(it) for it in remains.effects if it.call_id.startswith("work "))
    problems += [f"function {task_id} was run {n} times" for task_id, n in work.items() if n > 1]
    functions = [it for it in tasks if it.task is not None and it.task.task_type != SUB_AGENT]
    return problems + [
        f"function {it.run_id} has ended well and was never run"
        for it in functions
        if isinstance(it.termination, NaturalEnd) and not work[it.run_id]
    ]


def _message_problems(remains: Remains) -> list[str]:
    """Every message that was accepted is in its thread, once, in a run of the agent it names."""
    accepted = [
        msgspec.json.decode(text)["message_id"]
        for text in remains.results.values()
        if text.startswith('{"message_id"')
    ]
    came = [
        it
        for _, it in _internal(remains)
        if it.sender is not None and it.sender.kind is SenderKind.AGENT
    ]
    problems = []
    for message in came:
        run = remains.runs.get((message.metadata and message.metadata.run_id) or "")
        if run is None or (run.agent_id, run.active_agent_id) != (READER, None):
            problems.append(f"message {message.id} was read in {run}")
    ids = [str(it.id) for it in came]
    if sorted(accepted) != sorted(ids):
        problems.append(f"the messages {accepted} were accepted, those that came are {ids}")
    return problems


def _internal(remains: Remains) -> list[tuple[str, Message]]:
    return [
        (thread_id, it.message)
        for thread_id, view in remains.views.items()
        for it in view.messages
        if it.message.sender is not None
    ]
