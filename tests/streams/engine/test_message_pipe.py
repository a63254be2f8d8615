"""Messages arrive as they were sent, whatever their size; one that is cut off is the end."""

from __future__ import annotations

import multiprocessing
import os
import threading

import pytest

from dustream.streams.engine.message_pipe import PIPE_BYTES, MessageReceiver, send_message, widen


@pytest.mark.parametrize("is_wide", [True, False])
def test_messages_of_all_sizes_arrive_in_order(is_wide: bool) -> None:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    if is_wide:
        widen(ours)
    messages = [bytes([size % 251]) * size for size in (0, 1, 3 * PIPE_BYTES + 1, 7, PIPE_BYTES, 0)]

    def send_all() -> None:
        for message in messages:
            send_message(theirs, message)
        theirs.close()

    sender = threading.Thread(target=send_all)
    sender.start()
    receiver = MessageReceiver(ours)
    assert [bytes(receiver.next()) for _ in messages] == messages
    sender.join()
    with pytest.raises(EOFError):
        receiver.next()
    ours.close()


@pytest.mark.parametrize("kept", [3, 8, 10])
def test_message_that_is_cut_off_is_the_end(kept: int) -> None:
    ours, theirs = multiprocessing.Pipe(duplex=False)
    os.write(theirs.fileno(), ((4).to_bytes(8) + b"four")[:kept])
    theirs.close()
    with pytest.raises(EOFError):
        MessageReceiver(ours).next()
    ours.close()
