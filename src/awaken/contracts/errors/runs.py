"""Errors of runs; those of models, tools and backends are beside their contracts."""

from typing import Any

from .awaken_error import AwakenError


class RunError(AwakenError):
    """A run, or something in it, went wrong."""

    code = "run_error"


class RunFailed(RunError):
    """The run ended with an error; `result` has everything it produced before."""

    code = "run_failed"
    template = "Run '{run_id}' failed ({cause_code}): {cause}"
    run_id: str
    cause: str
    cause_code: str
    result: Any


class PluginFailed(RunError):
    """A plugin's code raised, or answered with something it may not answer with."""

    code = "plugin_failed"
    template = "{what} of plugin '{plugin}' {problem}."
    what: str
    plugin: str
    problem: str


class InstructionsFailed(RunError):
    """The function that makes an agent's instructions failed; the run did not begin."""

    code = "instructions_failed"
    template = "The instructions of agent '{agent_id}' could not be made: {problem}."
    agent_id: str
    problem: str


class LimitExceeded(RunError):
    """Something is larger than its limit."""

    code = "limit_exceeded"
    template = "{what} is {size}, the limit is {limit}."
    what: str
    size: int
    limit: int
