"""What a worker process cannot send is told in words to whoever waits for it, which would else be until the limit."""

from multiprocessing.queues import Queue
from typing import Any


def tell() -> None:
    """Let the queues of this process and of those that it forks send an error in place of what cannot be pickled.

    multiprocessing prints it in the worker and sends nothing; the method is what its authors made to be overridden.
    """
    Queue._on_queue_feeder_error = _send_error


def _send_error(queue: Queue, error: Exception, unsent: Any) -> None:
    """Send an error with the number of the batch that torch's DataLoader waits for; called in the feeding thread."""
    from torch._utils import ExceptionWrapper

    match unsent:
        case (_, ExceptionWrapper() as raised):  # by the data set: its class alone cannot be sent
            raised.exc_type = RuntimeError
            queue.put(unsent)
        case (int() as number, _):
            queue.put((number, ExceptionWrapper((type(error), error, error.__traceback__), "in a worker that sends")))
        case _:
            raise error
