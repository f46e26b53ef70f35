"""Hugging Face datasets with a column of encoded files: each is decoded into its row of the batch."""

import io

from datasets import Audio

from scripts.loaders._plain.data_loader import empty_batch
from scripts.loaders._plain.labels import labelled


def decode_by_soundfile(audio, row):
    """Decode a file, {"bytes": ...}, into a row of the batch, (1, samples): padded with zeros or cut."""
    import soundfile

    found, _ = soundfile.read(io.BytesIO(audio["bytes"]), out=row[0])
    row[0, len(found) :] = 0


def decode_by_torchcodec(audio, row):
    """The same, by the library's own feature Audio."""
    found = Audio().decode_example(audio).get_all_samples().data[0, : row.shape[1]].numpy()
    row[0, : len(found)] = found
    row[0, len(found) :] = 0


def decode_of(decoder):
    """Return the function that decodes a file."""
    if decoder == "soundfile":
        return decode_by_soundfile
    return decode_by_torchcodec


def collated(decode, key, shape, dtype, classes):
    """Return a function that makes a batch of the library's rows, each decoded into its row of the batch."""
    labels_of = labelled(classes)

    def collate(rows):
        batch = empty_batch(len(rows), shape, dtype)
        for found, row in zip(rows, batch.numpy(), strict=True):
            decode(found[key], row)
        return {key: batch, **labels_of(rows)}

    return collate
