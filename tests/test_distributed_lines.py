"""Lines past Ray, with threads in the place of workers: what goes wrong with one hangs it up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing import Pipe

import pytest

from tiebreak import lines


def line_to(answer: Callable[[bytes], bytes | None]) -> lines.Line:
    """A line to a thread here, with no Ray behind it."""
    near, far = Pipe()
    threading.Thread(target=lines._serve, args=(far, answer), daemon=True).start()
    return lines.Line(near, None)


def test_questions_may_follow_each_other_before_the_first_answer_is_read():
    """With messages that no buffer holds, either side could wait for the other for ever."""
    line = line_to(lambda message: message[::-1])
    messages = [bytes([i]) + bytes(4_000_000) for i in range(3)]
    asked = [line.ask(message) for message in messages]
    for question, message in zip(reversed(asked), reversed(messages), strict=True):
        assert question.answer() == question.answer() == message[::-1]
    assert line.is_up


def no_answer(message: bytes) -> None:
    return None


def failure(message: bytes) -> bytes:
    raise ValueError("said by Ray, not here")


@pytest.mark.parametrize("answer", [no_answer, failure])
def test_a_worker_that_has_no_answer_hangs_up(answer):
    line = line_to(answer)
    assert line.ask(b"1").answer() is None
    assert not line.is_up
    assert line.ask(b"2").answer() is None


def test_a_wait_that_is_interrupted_hangs_up(monkeypatch):
    """Else the next question would get this one's answer."""
    line = line_to(lambda message: message)
    question = line.ask(b"1")

    def interrupted() -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(line._connection, "recv_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        question.answer()
    assert not line.is_up


def test_on_another_machine_there_is_no_line(tmp_path):
    assert not lines.serve(str(tmp_path / "line"), failure)
