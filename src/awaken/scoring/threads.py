"""Threads for work that may hang: they never keep the process from ending."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class AbandonableThreads(Executor):
    """One daemon thread for each call, at most so many at once; a call that hangs keeps its place.

    A thread cannot be ended from outside. When hung calls hold all places, further calls fail at
    once instead of piling up.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._active = 0
        self._lock = threading.Lock()

    def submit(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Call a function in a thread of its own.

        Raises:
            RuntimeError: Too many calls have not returned.
        """
        with self._lock:
            if self._active >= self._most:
                message = f"{self._active} scorers have not returned; no other is called"
                raise RuntimeError(message)
            self._active += 1
        future: Future[T] = Future()

        def work() -> None:
            result: Any = None
            failure: BaseException | None = None
            try:
                result = function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - handed to the caller
                failure = error
            finally:
                with self._lock:
                    self._active -= 1
            if not future.set_running_or_notify_cancel():
                return
            if failure is None:
                future.set_result(result)
            else:
                future.set_exception(failure)

        threading.Thread(target=work, name="awaken-scorer", daemon=True).start()
        return future
