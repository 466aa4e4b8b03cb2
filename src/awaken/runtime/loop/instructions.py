"""The instructions that are made for one run: once per agent of the run, and kept in its record."""

import logging
from typing import Any

import msgspec

from awaken.authoring.foreign_calls import CallTookTooLong
from awaken.authoring.functions import is_interruption
from awaken.authoring.run_contexts import RunContext, decode_context
from awaken.contracts.errors import (
    InstructionsFailed,
    InvalidContext,
    LimitExceeded,
)
from awaken.redaction import describe_error, make_loggable
from awaken.runtime.resolution.resolver import ResolvedAgent
from awaken.runtime.run import Run

logger = logging.getLogger(__name__)


def build_run_context(run: Run, agent: ResolvedAgent) -> RunContext[Any, Any]:
    """Return what the functions of an agent get of a run.

    Raises:
        InvalidContext: The run's context does not fit the agent.
        Misuse: The runtime is not open.
    """
    value = decode_context(agent.context, agent.spec.id, run.record.context)
    found = run.services.dependencies
    deps = None if found is None else found.get()
    return RunContext(run=run.identity, agent=agent.spec, context=value, deps=deps)


async def instruct_agent(run: Run, agent: ResolvedAgent) -> ResolvedAgent:
    """Return an agent with the run's instructions for it; made now if the run has none.

    The next commit of the run keeps them, so that a process that continues the run has the same.

    Raises:
        InvalidContext: The run's context does not fit the agent.
        InstructionsFailed: The agent's function failed, or took too long.
        LimitExceeded: They are too long.
    """
    agent_id, kept = agent.spec.id, run.record.instructions or {}
    if agent_id in kept:
        return agent.with_instructions(kept[agent_id])
    context, limits = build_run_context(run, agent), run.services.limits
    if agent.instructions is None:
        return agent
    try:
        text = await agent.instructions.make(context, limits.instructions_ms / 1000)
    except CallTookTooLong as error:
        problem = f"they took longer than {limits.instructions_ms} ms"
        raise InstructionsFailed(agent_id=agent_id, problem=problem) from error
    except (InvalidContext, InstructionsFailed):
        raise
    except BaseException as error:
        if is_interruption(error):
            raise
        shown = make_loggable(error)
        logger.warning("The instructions of agent %r failed.", agent_id, exc_info=shown)
        raise InstructionsFailed(agent_id=agent_id, problem=describe_error(error)) from error
    if len(text) > limits.instructions_chars:
        what = f"The text of the instructions of agent '{agent_id}'"
        raise LimitExceeded(what=what, size=len(text), limit=limits.instructions_chars)
    run.record = msgspec.structs.replace(run.record, instructions={**kept, agent_id: text})
    return agent.with_instructions(text)
