"""The port between the HTTP client and a wire format."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import InferenceRequest, ModelEvent, VendorAnswer
from awaken.contracts.record import Record
from awaken.contracts.secrets import RedactedString


class WireRequest(Record, frozen=True, kw_only=True):
    """A request as it is sent; its bytes depend only on the inference request."""

    path: str
    """Appended to the provider's base URL."""
    body: bytes


def build_wire_request(
    path: str, body: Callable[[InferenceRequest], bytes], request: InferenceRequest
) -> WireRequest:
    """Build a request with a format's own `body` function.

    Raises:
        InvalidRequest: A part has no JSON form, or the format cannot express it.
    """
    try:
        return WireRequest(path=path, body=body(request))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"the request cannot be written as JSON: {error}"
        raise InvalidRequest(message) from error


def read_vendor_answer(id_: object, model: object) -> VendorAnswer | None:
    """Return the vendor's id and model of an answer; values that are not text are ignored."""
    answer = VendorAnswer(
        id=id_ if id_ and isinstance(id_, str) else None,
        model=model if model and isinstance(model, str) else None,
    )
    return None if answer == VendorAnswer() else answer


class StreamDecoder(Protocol):
    """Turns the events of one stream into model events; one object per stream."""

    is_over: bool
    """Whether the answer is complete; nothing is read after that."""
    vendor: VendorAnswer | None
    """The vendor's id and model of the answer, once known."""

    def take(self, data: bytes) -> Sequence[ModelEvent]:
        """Read the data of one server-sent event.

        Raises:
            ModelError: The provider reports a failure, or this is not its protocol.
        """
        ...

    def end(self) -> Sequence[ModelEvent]:
        """Return the last events after the connection was closed.

        Raises:
            StreamInterrupted: The answer was not over.
        """
        ...


class Codec(Protocol):
    """One vendor's format. Pure: it knows no connection, no clock and no key of its own."""

    origin: str
    """The mark of reasoning that this format may send back to this provider."""
    base_url: str
    """The vendor's address, unless the provider configures another one."""

    def encode(self, request: InferenceRequest) -> WireRequest:
        """Build the request.

        Raises:
            InvalidRequest: The format cannot express a part of it.
        """
        ...

    def headers(self, key: RedactedString | None) -> Mapping[str, str]:
        """Return the headers of every request, including the key."""
        ...

    def decoder(self) -> StreamDecoder:
        """Return a new decoder for one answer."""
        ...
