"""The agent's own checks of its final answer."""

import asyncio
import logging
from collections.abc import Sequence

from awaken.authoring.validators import BoundValidator, OutputRejected, ValidatorFailed
from awaken.contracts.lifecycle import Failed
from awaken.redaction import describe_error, make_loggable
from awaken.runtime.run import Run

from .instructions import build_run_context

logger = logging.getLogger(__name__)


async def validate_output(
    run: Run, validators: Sequence[BoundValidator]
) -> OutputRejected | Failed | None:
    """Ask every validator; return why the first one refuses the output or has failed, else None."""
    # Validators are foreign code: the answer is durable before they run.
    await run.flush()
    agent, limit = run.agent, run.services.limits.hook_ms / 1000
    output, run.output = run.output, None
    context = build_run_context(run, agent)
    for validator in validators:
        try:
            async with asyncio.timeout(limit):
                await validator.check(context, output)
        except OutputRejected as refusal:
            return refusal
        except Exception as error:
            logger.warning("Validator %r failed.", validator.name, exc_info=make_loggable(error))
            problem, agent_id = describe_error(error), agent.spec.id
            failed = ValidatorFailed(name=validator.name, agent_id=agent_id, problem=problem)
            return Failed(message=str(failed), code=failed.code)
    run.output = output
    return None
