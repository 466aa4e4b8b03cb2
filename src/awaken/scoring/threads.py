"""Threads for work that may hang: they never keep the process from ending."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class AbandonableThreads(Executor):
    """One daemon thread for each call.

    A thread cannot be ended from outside: a call whose caller has gone is counted until it
    returns. When too many hang, further calls fail at once instead of piling up.
    """

    def __init__(self, hung_max: int) -> None:
        self._hung_max = hung_max
        self._hung = 0
        self._lock = threading.Lock()

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a thread of its own.

        Raises:
            RuntimeError: Too many calls have not returned in their time.
        """
        with self._lock:
            if self._hung >= self._hung_max:
                message = f"{self._hung} scorers have not returned; no other is called"
                raise RuntimeError(message)
        future: Future[T] = Future()
        is_done = is_hung = False

        def note_cancel(ended: Future[T]) -> None:
            nonlocal is_hung
            with self._lock:
                is_hung = ended.cancelled() and not is_done
                self._hung += is_hung

        def work() -> None:
            nonlocal is_done
            result: Any = None
            failure: BaseException | None = None
            try:
                result = function(*args, **kwargs)
            except GeneratorExit:
                # In the caller it would mean that the caller itself is closed.
                failure = RuntimeError("the function raised GeneratorExit")
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                failure = error
            with self._lock:
                is_done = True
                self._hung -= is_hung
            if not future.set_running_or_notify_cancel():
                return
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

        future.add_done_callback(note_cancel)
        threading.Thread(target=work, name="awaken-scorer", daemon=True).start()
        return future
