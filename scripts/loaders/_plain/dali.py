"""NVIDIA DALI: nodes of whole files and of audio, and epochs of a pipeline's batches with their labels."""

import torch
from nvidia.dali import fn, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

from scripts.loaders._plain.epochs import Epochs
from scripts.loaders._plain.labels import rows_of


def whole_files(data, ending, positions, shuffle):
    """Return the nodes of whole numbered files and of their positions; DALI shuffles them again after each epoch."""
    return fn.readers.file(
        files=[f"{data}/{position:06d}.{ending}" for position in positions],
        labels=positions,
        shuffle_after_epoch=shuffle,
        pad_last_batch=True,  # or else it is filled with items of the next epoch, which go lost there
        name="reader",
    )


def decode(encoded, samples):
    """Return the node float32 (1, samples), padded or cut, of whole 16-bit mono WAV files."""
    pcm, _ = fn.decoders.audio(encoded, dtype=types.INT16, downmix=False)  # its own float32 is scaled by 1 / 32767
    flat = fn.reshape(pcm, shape=[-1])  # DALI cuts much faster along one dimension
    fixed = fn.slice(flat, start=[0], shape=[samples], axes=[0], out_of_bounds_policy="pad", fill_values=0)
    return fn.reshape(fixed * (1 / 32768), shape=[1, samples])


def moved(rows, device):
    """Return a tensor on the device, without waiting for the copy."""
    return rows if device == "cpu" else rows.pin_memory().to(device, non_blocking=True)


def by_position(labels, device):
    """Return a function from a batch of positions to the labels there, on the device."""
    labels = {name: rows.to(device) for name, rows in labels.items()}
    return lambda where: rows_of(labels, moved(where.flatten().long(), device))


class Pipelined(Epochs):
    """Gives the epochs of a pipeline's batches: their data, and the labels that `labels_of` makes of the rest.

    One that is left before its end goes on in the next: DALI cannot begin it anew.
    """

    def __init__(self, pipeline, key, device, labels_of):
        super().__init__(self.epoch)
        pipeline = pipeline(device_id=None if device == "cpu" else torch.cuda.current_device())
        self.key, self.labels_of = key, labels_of
        self.iterator = DALIGenericIterator(
            pipeline,
            [key, "rest"],
            reader_name=next(iter(pipeline.reader_meta()), None),  # without a reader, StopIteration ends an epoch
            last_batch_policy=LastBatchPolicy.PARTIAL,
            auto_reset=True,
        )

    def epoch(self, _number):
        for [batch] in self.iterator:
            if len(batch["rest"]):  # none: the padding of a rank whose share is an item smaller than another's
                yield {self.key: batch[self.key], **self.labels_of(batch["rest"])}
