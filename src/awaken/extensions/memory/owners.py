"""Whose memory a run has: decided by the principal of the run and the agent's configuration."""

from typing import Literal

from awaken.contracts.identity import RunIdentity, normalize_id
from awaken.contracts.memory.errors import NoMemoryOwner
from awaken.contracts.memory.records import Partition, project_memory, user_memory

from .config import MemoryConfig

About = Literal["user", "project"]


def find_owner(run: RunIdentity, config: MemoryConfig, about: About) -> Partition:
    """Return the memory of the run's user, or of the agent's project.

    Nothing that a model or a client writes takes part in it.

    Raises:
        NoMemoryOwner: The run has no user, or the agent no project.
    """
    if about == "project":
        if config.project is None:
            remedy = "the section 'memory' of the agent names no project"
            raise NoMemoryOwner(kind="project", remedy=remedy)
        return project_memory(run.tenant_id, config.project)
    user_id = normalize_id(run.user_id)
    if user_id is None:
        raise NoMemoryOwner(kind="user", remedy="the run has no user; start it with user_id")
    return user_memory(run.tenant_id, user_id)


def list_owners(run: RunIdentity, config: MemoryConfig) -> list[tuple[About, Partition]]:
    """Return the memories that a run has: its user's and its agent's project's, if any."""
    found: list[tuple[About, Partition]] = []
    abouts: tuple[About, ...] = ("user", "project")
    for about in abouts:
        try:
            found.append((about, find_owner(run, config, about)))
        except NoMemoryOwner:
            continue
    return found
