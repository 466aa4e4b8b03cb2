"""Requests to the agent, sent through the official library's connection."""

from typing import Any, TypeVar

import msgspec

from awaken.contracts.backends import errors as errors
from awaken.contracts.errors import AwakenError

from .process import AgentProcess
from .wire import AcpWire, load_library

T = TypeVar("T")

_AUTH_REQUIRED = -32000
_SHOWN_CHARS = 500


class Peer:
    """Sends requests to an agent and translates failures to typed errors."""

    def __init__(self, process: AgentProcess, wire: AcpWire, handler: Any) -> None:
        self._acp = load_library()
        self._process = process
        self._wire = wire
        self._connection = self._acp.connection.Connection(handler, wire)

    async def ask(self, method: str, params: Any, type_: type[T]) -> T:
        """Send a request and return the agent's answer.

        Raises:
            RemoteRefused: The agent requires a login first.
            RemoteError: The answer is an error, or malformed.
            BackendExecutionFailed: The agent's process ended.
        """
        try:
            return msgspec.convert(await self._connection.send_request(method, params), type_)
        except self._acp.RequestError as error:
            raise self._make_refusal(method, error) from error
        except msgspec.ValidationError as error:
            said = str(error)[:_SHOWN_CHARS]
            raise errors.RemoteMalformed(problem=f"its answer to {method}: {said}") from error
        except ConnectionError as error:
            raise await self._make_loss() from error

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification.

        Raises:
            ConnectionError: The agent's process ended.
        """
        await self._connection.send_notification(method, params)

    async def close(self) -> None:
        """End every task of the connection."""
        await self._connection.close()

    async def _make_loss(self) -> AwakenError:
        if self._wire.broken.done():
            return self._wire.broken.result()
        how = await self._process.describe_end()
        return errors.BackendExecutionFailed(problem=f"the coding agent {how}")

    def _make_refusal(self, method: str, error: Any) -> errors.RemoteError:
        data = "" if error.data is None else f" {msgspec.json.encode(error.data).decode()}"
        said = self._process.redact_text(f"{error}{data}")[:_SHOWN_CHARS]
        if error.code == _AUTH_REQUIRED:
            advice = "log in with the agent's own command, or give it a key in options.env"
            return errors.RemoteRefused(problem=f"the coding agent wants a login: {said}; {advice}")
        return errors.RemoteError(problem=f"its answer to {method} is error {error.code}: {said}")
