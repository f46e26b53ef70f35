"""Each byte of a batch is read once: a sum per item, on the device."""

from scripts.common.request import LoaderRequest
from scripts.measure.sink import Sink


def sink(request: LoaderRequest) -> Sink:
    """Return what reads every byte."""
    return Sink(request.device)
