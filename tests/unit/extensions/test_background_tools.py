"""The tools for background tasks and for messages between agents."""

import asyncio
from typing import Any

import msgspec
import pytest

from awaken import Agent, AgentRuntime
from awaken.contracts.backend_results import BackendRunResult
from awaken.contracts.backends.errors import AgentNotFound
from awaken.contracts.errors import (
    AwakenError,
    InvalidInput,
    InvalidSpec,
    StoreUnavailable,
    UnknownAgent,
)
from awaken.contracts.events import AgentEvent
from awaken.contracts.identity import RunIdentity
from awaken.contracts.messages.message import ToolCall
from awaken.contracts.specs.agents import AgentSpec
from awaken.contracts.tasks import (
    RESERVED_NAMES,
    DuplicateTaskName,
    ParentRunCancelled,
    ReservedTaskName,
    TaskHasNoInbox,
    TaskInfo,
    TaskLimitReached,
    TaskNotFound,
    TaskNotOwned,
    TaskRecord,
    TaskStatus,
    TaskTerminated,
)
from awaken.contracts.tool_results import ToolResult, ToolStatus
from awaken.contracts.tools.context import ToolContext
from awaken.contracts.tools.sub_runs import (
    Delegation,
    DurableMessageRequest,
    FailedMessage,
    SubRuns,
    TaskFunction,
)
from awaken.contracts.tools.tool import (
    ExecutionFailed,
    InvalidArguments,
    Tool,
    ToolDenied,
    ToolEffect,
    check_of,
)
from awaken.extensions.background import (
    BackgroundTasksPlugin,
    MessageError,
    SendMessageReceipt,
    SendMessageTool,
)
from awaken.extensions.background.cancel_task import CancelTaskTool
from awaken.extensions.background.tools import (
    LISTED,
    recover_failed_messages,
    spawn_agent,
    task_status,
)
from awaken.testing import ScriptedModel

SEND, CANCEL = SendMessageTool(), CancelTaskTool()


class Tasks:
    """The tasks and messages of one thread, by the rules of the port."""

    def __init__(self, *tasks: TaskRecord) -> None:
        self.tasks = list(tasks)
        self.spawned: list[tuple[str, str, TaskInfo]] = []
        self.told: list[tuple[str, str]] = []
        self.posted: list[DurableMessageRequest] = []
        self.cancelled: list[str] = []
        self.resent: list[str] = []
        self.failed: tuple[FailedMessage, ...] = ()
        self.below = 0
        """How many runs are below whatever is cancelled."""
        self.refusal: AwakenError | None = None

    def _check(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    async def delegate(self, delegation: Delegation) -> BackendRunResult:
        raise NotImplementedError

    async def spawn(
        self, work: TaskFunction, task: TaskInfo, *, timeout_ms: int | None = None
    ) -> TaskRecord:
        raise NotImplementedError

    async def spawn_agent(self, agent_id: str, prompt: str, task: TaskInfo) -> TaskRecord:
        self._check()
        if task.name in RESERVED_NAMES:
            raise ReservedTaskName(name=task.name)
        if task.name is not None and await self.find_task(task.name) is not None:
            raise DuplicateTaskName(name=task.name)
        self.spawned.append((agent_id, prompt, task))
        record = a_task(f"task-{len(self.spawned)}", name=task.name, agent_id=agent_id)
        self.tasks.insert(0, record)
        return record

    async def list_tasks(self) -> tuple[TaskRecord, ...]:
        return tuple(self.tasks)

    has_own_transport = False

    async def find_task(self, name_or_id: str) -> TaskRecord | None:
        for task in self.tasks:
            if name_or_id == task.task_id:
                return task
        for task in self.tasks:
            if name_or_id == task.name and not task.status.is_terminal:
                return task
        return None

    async def cancel_task(self, task_id: str) -> int:
        self._check()
        self.cancelled.append(task_id)
        return self.below

    async def cancel_self(self) -> int:
        self.cancelled.append("self")
        return self.below

    async def tell_task(self, task_id: str, text: str) -> str:
        self._check()
        self.told.append((task_id, text))
        return "told-1"

    async def send_agent_message(self, request: DurableMessageRequest) -> str:
        self._check()
        self.posted.append(request)
        return "posted-1"

    async def list_failed_messages(self) -> tuple[FailedMessage, ...]:
        return self.failed

    async def resend(self, message_id: str) -> bool:
        self.resent.append(message_id)
        return any(message.message_id == message_id for message in self.failed)


class Channel:
    """The way back to a run with these tasks."""

    def __init__(self, sub_runs: SubRuns) -> None:
        self.sub_runs = sub_runs
        self.is_cancelled = False

    def emit(self, event: AgentEvent) -> None:
        raise NotImplementedError


def a_task(task_id: str, **fields: Any) -> TaskRecord:
    return TaskRecord(task_id=task_id, owner_thread_id="t", **fields)


def a_context(tool: Tool, tasks: Tasks | None, section: Any = None, **run: Any) -> ToolContext:
    return ToolContext(
        run=RunIdentity(thread_id="t", run_id="r", agent_id="boss", **run),
        agent=AgentSpec(
            id="boss",
            model_id="m",
            delegates=("researcher", "writer"),
            sections={} if section is None else {"background_tasks": section},
        ),
        call=ToolCall(id="c1", name=tool.descriptor.id),
        channel=None if tasks is None else Channel(tasks),
    )


def result_of(
    tool: Tool, arguments: Any, tasks: Tasks | None, section: Any = None, **run: Any
) -> ToolResult:
    context = a_context(tool, tasks, section, **run)

    async def call() -> ToolResult:
        output = await tool.execute(tool.validate(arguments), context)
        assert output.command.is_empty
        return output.result

    result = asyncio.run(call())
    assert result.tool_name == tool.descriptor.id
    return result


def data_of(
    tool: Tool, arguments: Any, tasks: Tasks | None, section: Any = None, **run: Any
) -> Any:
    result = result_of(tool, arguments, tasks, section, **run)
    assert result.status is ToolStatus.SUCCESS
    return result.data


def refusal_of(tool: Tool, arguments: Any) -> str:
    async def ask() -> None:
        tool.validate(arguments)
        if (check := check_of(tool)) is not None:
            await check(arguments)

    with pytest.raises(InvalidArguments) as caught:
        asyncio.run(ask())
    return caught.value.message


def to(relation: str, text: str = "hi", **fields: Any) -> dict[str, Any]:
    return {"to": {"relation": relation, **fields}, "message": text}


def target(relation: str, **fields: Any) -> dict[str, Any]:
    return {"target": {"relation": relation, **fields}}


# Writing to other agents.


def test_the_model_is_told_how_to_address_a_message() -> None:
    descriptor = SEND.descriptor
    assert (descriptor.id, descriptor.name) == ("send_message", "send_message")
    assert descriptor.description == "Send a message to a child task, parent agent, or team member."
    assert descriptor.effect is ToolEffect.IDEMPOTENT
    text = {"type": "string"}
    assert descriptor.parameters == {
        "type": "object",
        "properties": {
            "to": {
                "oneOf": [
                    {
                        "type": "object",
                        "properties": {"relation": {"const": "parent"}},
                        "required": ["relation"],
                    },
                    {
                        "type": "object",
                        "properties": {
                            "relation": {"const": "child"},
                            "name": {"type": "string", "description": "Task name or ID"},
                        },
                        "required": ["relation", "name"],
                    },
                    {
                        "type": "object",
                        "properties": {
                            "relation": {"const": "agent"},
                            "thread_id": text,
                            "agent_id": text,
                        },
                        "required": ["relation", "thread_id"],
                    },
                ]
            },
            "message": text,
        },
        "required": ["to", "message"],
    }


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (None, "missing 'to'"),
        ("parent", "missing 'to'"),
        ({"message": "hi"}, "missing 'to'"),
        ({"to": None, "message": "hi"}, "missing 'to.relation'"),
        ({"to": "parent", "message": "hi"}, "missing 'to.relation'"),
        ({"to": {}, "message": "hi"}, "missing 'to.relation'"),
        ({"to": {"relation": 1}, "message": "hi"}, "missing 'to.relation'"),
        (to("child"), "child requires 'name'"),
        (to("child", name=7), "child requires 'name'"),
        (to("agent"), "agent requires 'thread_id'"),
        (to("agent", thread_id=None), "agent requires 'thread_id'"),
        (to("sibling"), "unknown relation 'sibling'"),
        (to("self"), "unknown relation 'self'"),
        ({"to": {"relation": "parent"}}, "missing 'message'"),
        ({"to": {"relation": "parent"}, "message": 5}, "missing 'message'"),
    ],
)
def test_a_message_without_a_whole_address_or_a_text_is_refused(
    arguments: Any, refusal: str
) -> None:
    assert refusal_of(SEND, arguments) == refusal


def test_a_refusal_does_not_repeat_a_huge_relation() -> None:
    assert len(refusal_of(SEND, to("x" * 1_000_000))) < 1000


@pytest.mark.parametrize(
    "arguments",
    [
        to("parent"),
        to("child", name="researcher"),
        to("child", name=""),
        to("agent", thread_id="t2"),
        to("agent", thread_id=""),
        to("agent", thread_id="t2", agent_id="reviewer"),
        to("parent", text=""),
    ],
)
def test_a_well_formed_message_is_accepted(arguments: Any) -> None:
    assert SEND.validate(arguments).message == arguments["message"]


def receipt_of(arguments: Any, tasks: Tasks, **run: Any) -> Any:
    """The receipt of a message without its detail, which is for the model to read."""
    receipt = data_of(SEND, arguments, tasks, **run)
    assert msgspec.convert(receipt, SendMessageReceipt).status == receipt["status"]
    is_told_by_sink = receipt.get("error", "").startswith(MessageError.TRANSPORT_FAILED)
    assert bool(receipt.pop("detail", "")) is not is_told_by_sink
    return receipt


@pytest.mark.parametrize("name", ["finder", "task-1"])
def test_a_child_is_told_by_name_or_id(name: str) -> None:
    tasks = Tasks(a_task("task-1", name="finder"), a_task("task-2", name="other"))
    receipt = receipt_of(to("child", text="hurry", name=name), tasks)
    assert receipt == {"message_id": "told-1", "status": "accepted"}
    assert tasks.told == [("task-1", "hurry")]
    assert not tasks.posted


def test_an_empty_message_is_delivered() -> None:
    tasks = Tasks(a_task("task-1"))
    assert receipt_of(to("child", text="", name="task-1"), tasks)["status"] == "accepted"
    assert tasks.told == [("task-1", "")]


@pytest.mark.parametrize("name", ["nobody", "task-9"])
def test_a_child_that_is_not_there_or_has_ended_is_not_found(name: str) -> None:
    tasks = Tasks(a_task("task-9", status=TaskStatus.COMPLETED))
    assert receipt_of(to("child", name=name), tasks) == {
        "message_id": "",
        "status": "failed",
        "error": "recipient_not_found",
    }
    assert not tasks.told


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TaskNotFound(task_id="task-1"), "recipient_not_found"),
        (TaskNotOwned(task_id="task-1"), "permission_denied"),
        (TaskTerminated(task_id="task-1", status="completed"), "recipient_unavailable"),
        (TaskHasNoInbox(task_id="task-1"), "recipient_unavailable"),
        (UnknownAgent(agent_id="gone", known="all of them"), "recipient_not_found"),
        (
            ParentRunCancelled(run_id="r"),
            "transport_failed: Run 'r' was cancelled; it starts nothing any more.",
        ),
    ],
)
def test_a_child_that_does_not_take_the_message_is_a_failed_receipt(
    error: AwakenError, code: str
) -> None:
    tasks = Tasks(a_task("task-1"))
    tasks.refusal = error
    receipt = receipt_of(to("child", name="task-1"), tasks)
    assert receipt == {"message_id": "", "status": "failed", "error": code}


def test_another_agent_is_written_to_through_the_sink() -> None:
    tasks = Tasks()
    receipt = receipt_of(to("agent", text="hello", thread_id="t2"), tasks)
    assert receipt == {"message_id": "posted-1", "status": "accepted"}
    assert tasks.posted == [
        DurableMessageRequest(
            recipient_thread_id="t2",
            recipient_agent_id=None,
            sender_agent_id="boss",
            message="hello",
        )
    ]


@pytest.mark.parametrize(
    ("given", "sent"), [("researcher", "researcher"), ("", None), (None, None), (3, None)]
)
def test_the_agent_of_the_other_thread_may_be_named(given: Any, sent: str | None) -> None:
    tasks = Tasks()
    receipt_of(to("agent", thread_id="t2", agent_id=given), tasks)
    assert [request.recipient_agent_id for request in tasks.posted] == [sent]


def test_after_a_handoff_the_agent_that_speaks_is_the_sender() -> None:
    tasks = Tasks()
    receipt_of(to("agent", thread_id="t2"), tasks, active_agent_id="billing")
    assert tasks.posted[0].sender_agent_id == "billing"


def test_a_parent_is_written_to_through_the_sink_without_naming_its_agent() -> None:
    tasks = Tasks()
    receipt = receipt_of(to("parent", text="done"), tasks, parent_thread_id="above")
    assert receipt == {"message_id": "posted-1", "status": "accepted"}
    assert tasks.posted == [
        DurableMessageRequest(recipient_thread_id="above", sender_agent_id="boss", message="done")
    ]


@pytest.mark.parametrize("run", [{}, {"parent_run_id": "r0"}])
def test_a_run_without_a_parent_thread_cannot_write_to_it(run: dict[str, Any]) -> None:
    tasks = Tasks()
    receipt = receipt_of(to("parent"), tasks, **run)
    assert receipt == {"message_id": "", "status": "failed", "error": "recipient_unavailable"}
    assert not tasks.posted


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailable(store="sqlite", problem="gone"),
        InvalidInput(what="The inbox payload", problem="it is too large"),
    ],
)
def test_a_sink_that_fails_is_a_failed_receipt_with_its_text(error: AwakenError) -> None:
    tasks = Tasks()
    tasks.refusal = error
    receipt = receipt_of(to("agent", thread_id="t2"), tasks)
    assert receipt == {
        "message_id": "",
        "status": "failed",
        "error": f"transport_failed: {error}",
    }


# Cancelling.


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (None, "missing 'target'"),
        ({}, "missing 'target'"),
        ({"target": {}}, "missing 'target.relation'"),
        ({"target": "self"}, "missing 'target.relation'"),
        (target("child"), "child requires 'name'"),
        (target("child", name=[]), "child requires 'name'"),
        (target("parent"), "unknown relation 'parent'"),
        (target("all"), "unknown relation 'all'"),
    ],
)
def test_a_cancellation_without_a_whole_target_is_refused(arguments: Any, refusal: str) -> None:
    assert refusal_of(CANCEL, arguments) == refusal


def test_the_model_is_told_what_can_be_cancelled() -> None:
    descriptor = CANCEL.descriptor
    assert descriptor.id == "cancel_task"
    assert descriptor.effect is ToolEffect.IDEMPOTENT
    own, child = descriptor.parameters["properties"]["target"]["oneOf"]
    assert own["properties"] == {"relation": {"const": "self"}}
    assert child["required"] == ["relation", "name"]


@pytest.mark.parametrize("below", [1, 3])
def test_a_run_cancels_itself_with_everything_below(below: int) -> None:
    tasks = Tasks()
    tasks.below = below
    assert data_of(CANCEL, target("self"), tasks) == {
        "status": "accepted",
        "root_task_id": "r",
        "cancelled_count": below,
    }
    assert tasks.cancelled == ["self"]


@pytest.mark.parametrize("name", ["finder", "task-1"])
def test_a_child_is_cancelled_by_name_or_id(name: str) -> None:
    tasks = Tasks(a_task("task-1", name="finder"), a_task("task-2"))
    tasks.below = 2
    assert data_of(CANCEL, target("child", name=name), tasks) == {
        "status": "accepted",
        "root_task_id": "task-1",
        "cancelled_count": 2,
    }
    assert tasks.cancelled == ["task-1"]


@pytest.mark.parametrize("name", ["nobody", "task-9"])
def test_a_child_that_is_not_there_or_has_ended_cannot_be_cancelled(name: str) -> None:
    tasks = Tasks(a_task("task-9", status=TaskStatus.FAILED))
    assert data_of(CANCEL, target("child", name=name), tasks) == {
        "status": "failed",
        "root_task_id": name,
        "cancelled_count": 0,
        "error": "task_not_found",
    }
    assert not tasks.cancelled


@pytest.mark.parametrize(
    "refusal", [None, TaskNotFound(task_id="task-1"), TaskNotOwned(task_id="task-1")]
)
def test_a_cancellation_that_stopped_nothing_has_failed(refusal: AwakenError | None) -> None:
    tasks = Tasks(a_task("task-1"))
    tasks.refusal = refusal
    assert data_of(CANCEL, target("child", name="task-1"), tasks) == {
        "status": "failed",
        "root_task_id": "task-1",
        "cancelled_count": 0,
        "error": "task_not_found",
    }


@pytest.mark.parametrize("arguments", [target("self"), target("child", name="finder")])
def test_outside_of_a_run_there_is_nothing_to_cancel(arguments: Any) -> None:
    with pytest.raises(ExecutionFailed, match="current_task_unavailable"):
        result_of(CANCEL, arguments, None)


# Starting tasks.


def test_an_agent_is_started_as_a_task() -> None:
    tasks = Tasks()
    arguments = {
        "agent_id": "researcher",
        "prompt": "find it",
        "name": "finder",
        "description": "looks for it",
    }
    assert spawn_agent.descriptor.effect is ToolEffect.IDEMPOTENT
    started = data_of(spawn_agent, arguments, tasks)
    assert started == {"task_id": "task-1", "name": "finder", "status": "running"}
    info = TaskInfo(name="finder", description="looks for it", task_type="sub_agent")
    assert tasks.spawned == [("researcher", "find it", info)]


@pytest.mark.parametrize("name", [None, "", "  "])
def test_a_task_needs_no_name(name: str | None) -> None:
    tasks = Tasks()
    arguments = {"agent_id": "writer", "prompt": "write", "name": name}
    assert data_of(spawn_agent, arguments, tasks)["name"] is None
    assert tasks.spawned[0][2].name is None


@pytest.mark.parametrize(
    "arguments",
    [
        None,
        {"agent_id": "writer"},
        {"prompt": "write"},
        {"agent_id": "writer", "prompt": " "},
        {"agent_id": "writer", "prompt": 3},
        {"agent_id": "writer", "prompt": "write", "fate": "detach"},
    ],
)
def test_a_task_without_an_agent_or_a_prompt_is_refused(arguments: Any) -> None:
    assert refusal_of(spawn_agent, arguments)


@pytest.mark.parametrize(
    ("section", "agent_id", "known"),
    [
        (None, "boss", "researcher, writer"),
        ({"agents": ["editor"]}, "writer", "editor"),
    ],
)
def test_only_delegates_or_the_agents_in_the_config_may_be_started(
    section: Any, agent_id: str, known: str
) -> None:
    tasks = Tasks()
    arguments = {"agent_id": agent_id, "prompt": "go"}
    with pytest.raises(InvalidArguments, match=f"agent_id must be one of: {known}$"):
        result_of(spawn_agent, arguments, tasks, section)
    assert not tasks.spawned


def test_an_agent_in_the_config_may_be_started_without_being_a_delegate() -> None:
    arguments = {"agent_id": "editor", "prompt": "go"}
    started = data_of(spawn_agent, arguments, Tasks(), {"agents": ["editor"]})
    assert started["status"] == "running"


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_a_task_cannot_have_a_reserved_name(name: str) -> None:
    tasks = Tasks()
    arguments = {"agent_id": "writer", "prompt": "write", "name": f" {name} "}
    result = result_of(spawn_agent, arguments, tasks)
    assert result == ToolResult.error(
        "spawn_agent", str(ReservedTaskName(name=name)), code="reserved_task_name"
    )
    assert not tasks.tasks


def test_a_name_is_taken_while_its_task_runs_and_free_when_it_has_ended() -> None:
    tasks = Tasks(a_task("task-0", name="finder"))
    arguments = {"agent_id": "writer", "prompt": "write", "name": "finder"}
    refused = result_of(spawn_agent, arguments, tasks)
    assert refused.status is ToolStatus.ERROR
    assert refused.metadata == {"code": "duplicate_task_name"}
    tasks.tasks[0] = msgspec.structs.replace(tasks.tasks[0], status=TaskStatus.CANCELLED)
    assert data_of(spawn_agent, arguments, tasks)["name"] == "finder"


@pytest.mark.parametrize(
    "error",
    [
        TaskLimitReached(count=8, scope="run"),
        ParentRunCancelled(run_id="r"),
        AgentNotFound(problem="writer"),
        UnknownAgent(agent_id="writer", known="boss"),
    ],
)
def test_a_task_that_may_not_start_is_an_error_with_its_code(error: AwakenError) -> None:
    tasks = Tasks()
    tasks.refusal = error
    result = result_of(spawn_agent, {"agent_id": "writer", "prompt": "write"}, tasks)
    assert result == ToolResult.error("spawn_agent", str(error), code=error.code)


# Looking at tasks.


def test_all_tasks_are_listed_with_what_became_of_them() -> None:
    assert task_status.descriptor.effect is ToolEffect.NONE
    tasks = Tasks(
        a_task("task-3", name="finder", task_type="sub_agent", agent_id="researcher", created_at=9),
        a_task("task-2", status=TaskStatus.COMPLETED, result={"found": 3}, completed_at=8),
        a_task("task-1", status=TaskStatus.FAILED, error="no such city", parent_run_id="r"),
    )
    assert data_of(task_status, {}, tasks) == {
        "tasks": [
            {
                "task_id": "task-3",
                "status": "running",
                "name": "finder",
                "task_type": "sub_agent",
                "agent_id": "researcher",
                "created_at": 9,
            },
            {
                "task_id": "task-2",
                "status": "completed",
                "result": {"found": 3},
                "completed_at": 8,
            },
            {"task_id": "task-1", "status": "failed", "error": "no such city"},
        ],
        "total": 3,
    }


def test_a_long_list_is_cut_and_says_how_long_it_is() -> None:
    tasks = Tasks(*(a_task(f"task-{number}") for number in range(LISTED + 1)))
    listed = data_of(task_status, None, tasks)
    assert [task["task_id"] for task in listed["tasks"]] == [f"task-{n}" for n in range(LISTED)]
    assert listed["total"] == LISTED + 1


@pytest.mark.parametrize(
    ("name", "task_id"),
    [("task-1", "task-1"), ("finder", "task-2"), (" writer ", "task-5")],
)
def test_one_task_is_shown_by_id_or_name_also_when_it_has_ended(name: str, task_id: str) -> None:
    tasks = Tasks(
        a_task("task-5", name="writer", status=TaskStatus.COMPLETED),
        a_task("task-4", name="writer", status=TaskStatus.FAILED),
        a_task("task-3", name="finder", status=TaskStatus.ORPHANED),
        a_task("task-2", name="finder"),
        a_task("task-1", status=TaskStatus.CANCELLED),
    )
    shown = data_of(task_status, {"name": name}, tasks)
    assert [task["task_id"] for task in shown["tasks"]] == [task_id]
    assert shown["total"] == 1


def test_a_task_that_is_not_there_is_an_error() -> None:
    result = result_of(task_status, {"name": "nobody"}, Tasks())
    missing = str(TaskNotFound(task_id="nobody"))
    assert result == ToolResult.error("task_status", missing, code="task_not_found")


# Messages that were given up.

LOST = FailedMessage(
    message_id="m1", recipient_thread_id="t2", message="hello", error="unknown agent"
)


def test_messages_that_were_given_up_are_listed() -> None:
    tasks = Tasks()
    tasks.failed = (LOST,)
    assert data_of(recover_failed_messages, {}, tasks) == {
        "messages": [
            {
                "message_id": "m1",
                "recipient_thread_id": "t2",
                "message": "hello",
                "error": "unknown agent",
            }
        ],
        "total": 1,
    }
    assert not tasks.resent


def test_a_message_that_was_given_up_is_tried_again() -> None:
    tasks = Tasks()
    tasks.failed = (LOST,)
    receipt = data_of(recover_failed_messages, {"message_id": "m1"}, tasks)
    assert receipt == {"message_id": "m1", "status": "accepted"}
    assert tasks.resent == ["m1"]


def test_a_message_that_is_not_there_cannot_be_tried_again() -> None:
    receipt = data_of(recover_failed_messages, {"message_id": "m2"}, Tasks())
    assert receipt == {"message_id": "m2", "status": "failed", "error": "message_not_found"}


# What an agent has of all this.

CALLS = {
    "spawn_agent": (spawn_agent, {"agent_id": "writer", "prompt": "write"}),
    "task_status": (task_status, {}),
    "cancel_task": (CANCEL, target("self")),
    "send_message": (SEND, to("parent")),
    "recover_failed_messages": (recover_failed_messages, {}),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_tool_that_the_config_withholds_does_nothing(name: str) -> None:
    tool, arguments = CALLS[name]
    others = [other for other in CALLS if other != name]
    with pytest.raises(ToolDenied, match=f"agent 'boss' may not use '{name}'"):
        result_of(tool, arguments, Tasks(), {"tools": others})
    result_of(tool, arguments, Tasks(), {"tools": [name]})


def offered_to(**agent: Any) -> set[str]:
    """The tools that the model of an agent with the plugin is told of."""
    model = ScriptedModel(["done"])

    async def scenario() -> None:
        subject = Agent("boss", model=model, plugins=[BackgroundTasksPlugin()], **agent)
        async with AgentRuntime(agents=[subject, Agent("writer", model=model)]) as runtime:
            await runtime.run("boss", "hello")

    asyncio.run(scenario())
    return {tool.id for tool in model.requests[0].tools} & set(CALLS)


def test_an_agent_with_delegates_is_offered_every_tool() -> None:
    assert offered_to(delegates=["writer"]) == set(CALLS)


def test_an_agent_that_may_start_nobody_is_not_offered_to() -> None:
    assert offered_to() == set(CALLS) - {"spawn_agent"}


def test_an_agent_is_offered_what_its_config_names() -> None:
    section = {"tools": ["task_status", "spawn_agent"], "agents": ["writer"]}
    config = {"background_tasks": section}
    assert offered_to(config=config) == {"task_status", "spawn_agent"}


@pytest.mark.parametrize(
    "section", [{"tools": ["shell"]}, {"agents": "writer"}, {"limit": 3}, ["task_status"]]
)
def test_a_config_that_means_nothing_is_refused(section: Any) -> None:
    with pytest.raises(InvalidSpec, match="Section 'background_tasks' of agent 'boss'"):
        offered_to(config={"background_tasks": section})
