"""What goes wrong in the host's own code that names agents."""

from .errors import AwakenError


class AgentResolverFailed(AwakenError):
    """The host's resolver raised, took too long, or returned no agent; nothing was written.

    What it raised is `__cause__` and in the log. The message has none of its text, which may hold
    addresses and credentials.
    """

    code = "agent_resolver_failed"
    retryable = True
    template = "The resolver could not say what agent '{agent_id}' is: {problem}."
    agent_id: str
    problem: str
