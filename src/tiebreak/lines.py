"""Lines between the driver and Ray workers on the same machine: sockets, past Ray.

A call of Ray to an actor and back takes a millisecond or two, a message through a socket a tenth
of one, and whoever waits at either sleeps. A line is for speed alone: whatever goes wrong with it,
it is hung up and the driver asks by Ray, which restarts workers and brings their errors home.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable
from multiprocessing.connection import Client, Connection, Listener
from typing import Any, TypeVar

T = TypeVar("T")


class Line:
    """The driver's end of a line to ``worker``; one question is under way at a time."""

    def __init__(self, connection: Connection, worker: Any) -> None:
        self._connection, self.worker = connection, worker
        self._open: Question | None = None

    @property
    def is_up(self) -> bool:
        return not self._connection.closed

    def ask(self, message: bytes) -> Question:
        """The question is sent, and its answer not waited for."""
        if self._open is not None:  # a long answer and a long message would wait for each other
            self._open.answer()
        self._open = question = Question(self, message)
        self._tried(lambda: self._connection.send_bytes(message))
        return question

    def receive(self) -> bytes | None:
        """The answer to the question that is open; None if the line is dead."""
        self._open = None
        return self._tried(self._connection.recv_bytes)

    def _tried(self, do: Callable[[], T]) -> T | None:
        try:
            return do()
        except (OSError, EOFError):
            self._connection.close()
            return None
        except BaseException:  # Ctrl-C: half a message may be on the line
            self._connection.close()
            raise


class Question:
    """A message that went out on a line."""

    def __init__(self, line: Line, message: bytes) -> None:
        self.line, self.message = line, message
        self._is_open = True
        self._answer: bytes | None = None

    def answer(self) -> bytes | None:
        """What came back, once it is there; None if the line is dead."""
        if self._is_open:
            self._is_open, self._answer = False, self.line.receive()
        return self._answer

    def by_ray(self) -> Any:
        """The same question as a call of Ray, which has an answer or says why there is none."""
        return self.line.worker.answer.remote(self.message)


def connected(worker: Any) -> Line | None:
    """A line to this actor; None where there can be none, as on another machine or on Windows."""
    import ray

    try:
        with (
            tempfile.TemporaryDirectory() as folder,  # closed to all other users
            Listener(os.path.join(folder, "line"), "AF_UNIX") as listener,
        ):
            is_here = ray.get(worker.connect.remote(listener.address))
            return Line(listener.accept(), worker) if is_here else None
    except (OSError, ValueError, ray.exceptions.RayError):
        return None


def serve(address: str, answer: Callable[[bytes], bytes | None]) -> bool:
    """Answer in a thread what comes from this address; False where it does not exist."""
    try:
        connection = Client(address, "AF_UNIX")
    except (OSError, ValueError):
        return False
    threading.Thread(target=_serve, args=(connection, answer), daemon=True).start()
    return True


def _serve(connection: Connection, answer: Callable[[bytes], bytes | None]) -> None:
    """Until the driver hangs up, or there is something that only Ray can tell it."""
    with connection, contextlib.suppress(Exception):
        while (found := answer(connection.recv_bytes())) is not None:
            connection.send_bytes(found)
