"""Messages that plugins put into a request without adding them to the transcript."""

from enum import StrEnum

from awaken.contracts.record import Record

from .content import ContentBlock
from .message import Content, Provenance, Role, Visibility, as_blocks


class ContextTarget(StrEnum):
    """Where in the request a context message goes."""

    SYSTEM = "system"
    SESSION = "session"
    CONVERSATION = "conversation"
    SUFFIX_SYSTEM = "suffix_system"

    @property
    def rank(self) -> int:
        """The order of the targets in a request."""
        return _RANKS[self]


_RANKS = {target: rank for rank, target in enumerate(ContextTarget)}


class ContextMessage(Record, frozen=True, kw_only=True):
    """An injected message; `key` identifies it for replacement and for throttling."""

    key: str
    role: Role = Role.SYSTEM
    content: tuple[ContentBlock, ...] = ()
    visibility: Visibility = Visibility.INTERNAL
    target: ContextTarget = ContextTarget.SYSTEM
    cooldown_turns: int = 0
    """Steps to wait before the same content is injected again."""
    persistent: bool = False
    """Whether it stays for later steps, not only for this one."""
    consume_after_emit: bool = False
    """With `persistent`: dropped after the first request that carried it."""
    priority: int = 0
    """Lower goes earlier within the same target."""
    provenance: Provenance = Provenance.SYSTEM
    """The author of the text. Only the operator's text may be an instruction."""

    def __post_init__(self) -> None:
        if self.role is Role.SYSTEM and self.provenance is not Provenance.SYSTEM:
            message = (
                f"context message '{self.key}' has words of a {self.provenance}; they cannot be "
                "an instruction: give it the role user"
            )
            raise ValueError(message)

    @property
    def order(self) -> tuple[int, int, str]:
        """The sort key of a request."""
        return (self.target.rank, self.priority, self.key)


def system_context(key: str, content: Content, *, persistent: bool = False) -> ContextMessage:
    """Text right after the agent's own instructions."""
    return ContextMessage(key=key, content=as_blocks(content), persistent=persistent)


def suffix_context(key: str, content: Content) -> ContextMessage:
    """Text after everything else."""
    return ContextMessage(key=key, content=as_blocks(content), target=ContextTarget.SUFFIX_SYSTEM)


def session_context(key: str, role: Role, content: Content) -> ContextMessage:
    """A message before the conversation begins."""
    return ContextMessage(
        key=key, role=role, content=as_blocks(content), target=ContextTarget.SESSION
    )


def conversation_context(key: str, role: Role, content: Content) -> ContextMessage:
    """A visible message at the top of the conversation."""
    return ContextMessage(
        key=key,
        role=role,
        content=as_blocks(content),
        target=ContextTarget.CONVERSATION,
        visibility=Visibility.ALL,
    )


def emit_once(key: str, content: Content, *, target: ContextTarget) -> ContextMessage:
    """A message that is sent with the next request and then dropped."""
    return ContextMessage(
        key=key,
        content=as_blocks(content),
        target=target,
        persistent=True,
        consume_after_emit=True,
    )
