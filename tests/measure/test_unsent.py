"""What a worker of torch cannot send reaches whoever waits for it as an error."""

from multiprocessing.queues import Queue

import pytest
from torch.utils.data import DataLoader

from scripts.measure import unsent

PATIENCE = 120  # seconds after which torch gives up waiting


@pytest.fixture(autouse=True)
def telling(monkeypatch):
    """The hook, taken away in the end."""
    monkeypatch.setattr(Queue, "_on_queue_feeder_error", Queue._on_queue_feeder_error)
    unsent.tell()


class Items:
    """Two items, the second of which is a fault."""

    def __init__(self, fault):
        self.fault = fault

    def __len__(self):
        return 2

    def __getitem__(self, number):
        return self.fault() if number else number


def raising():
    raise type("Local", (Exception,), {})("gone")  # pickle finds the class nowhere


@pytest.mark.parametrize(
    ("fault", "error", "said"),
    [
        (raising, RuntimeError, r"(?s)in DataLoader worker process 0.*Local: gone"),
        (lambda: lambda: 0, Exception, r"(?s)in a worker that sends.*(pickle|lambda)"),
    ],
    ids=["exception", "batch"],
)
def test_the_main_process_is_told(fault, error, said):
    loader = DataLoader(Items(fault), batch_size=None, num_workers=1, timeout=PATIENCE, multiprocessing_context="fork")
    batches = iter(loader)
    assert next(batches) == 0, "what can be sent is"
    with pytest.raises(error, match=said):
        next(batches)
