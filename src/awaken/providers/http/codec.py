"""The port between the HTTP client and a wire format."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from awaken.contracts.models.errors import InvalidRequest
from awaken.contracts.models.inference import InferenceRequest, ModelEvent, VendorAnswer
from awaken.contracts.record import Record
from awaken.contracts.secrets import RedactedString


class WireRequest(Record, frozen=True, kw_only=True):
    """A request as it is sent; its bytes are a pure function of what was asked."""

    path: str
    """Appended to the provider's base URL."""
    body: bytes


def wire_request(
    path: str, body: Callable[[InferenceRequest], bytes], request: InferenceRequest
) -> WireRequest:
    """Write a request by a format's own `body`.

    Raises:
        InvalidRequest: Something in it is no JSON, or the format has no place for it.
    """
    try:
        return WireRequest(path=path, body=body(request))
    except (TypeError, ValueError, RecursionError) as error:
        message = f"the request cannot be written as JSON: {error}"
        raise InvalidRequest(message) from error


def vendor_answer(id_: object, model: object) -> VendorAnswer | None:
    """What the vendor calls an answer; what is no text names nothing, and harms nothing."""
    told = VendorAnswer(
        id=id_ if id_ and isinstance(id_, str) else None,
        model=model if model and isinstance(model, str) else None,
    )
    return None if told == VendorAnswer() else told


class StreamDecoder(Protocol):
    """Turns the events of one stream into model events; one object per stream."""

    is_over: bool
    """Whether the answer is complete; what comes after it is not read."""
    vendor: VendorAnswer | None
    """What the vendor calls the answer, as soon as it says so."""

    def take(self, data: bytes) -> Sequence[ModelEvent]:
        """Read the data of one server-sent event.

        Raises:
            ModelError: The provider reports a failure, or this is not its protocol.
        """
        ...

    def end(self) -> Sequence[ModelEvent]:
        """The connection was closed: give what is left.

        Raises:
            StreamInterrupted: The answer was not over.
        """
        ...


class Codec(Protocol):
    """One vendor's format. Pure: it knows no connection, no clock and no key of its own."""

    origin: str
    """Marks the reasoning that this format may send back to this provider."""
    base_url: str
    """Where the vendor lives unless the provider says otherwise."""

    def encode(self, request: InferenceRequest) -> WireRequest:
        """Build the request.

        Raises:
            InvalidRequest: The format has no place for something in it.
        """
        ...

    def headers(self, key: RedactedString | None) -> Mapping[str, str]:
        """The headers of every request, with the key where the vendor wants it."""
        ...

    def decoder(self) -> StreamDecoder:
        """Begin to read an answer."""
        ...
