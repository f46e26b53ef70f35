"""NVIDIA DALI numpy reader: numbered .npy files of float32 read by DALI's threads.

The reader gives no label, so each clip is known by the name of the file it came from (`source_info`). Its time goes
into opening files and copying memory. Set workers (DALI's threads) to the number of cores.
"""

from contextlib import contextmanager

from dali_pipeline import SETTINGS, STAGES, epochs_of, rank_files, simplify  # noqa: F401

FORMAT = "npy"
ENV = "dali"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")


@contextmanager
def open_epochs(request):
    """Yield the epoch function over numbered .npy files."""
    import torch
    from nvidia.dali import fn

    files, _ = rank_files(request, "npy")

    def outputs():
        audio = fn.readers.numpy(
            files=files,
            shuffle_after_epoch=request.shuffle,
            pad_last_batch=True,
            cache_header_information=True,
            name="reader",
        )
        return audio, fn.pad(fn.get_property(audio, key="source_info"), fill_value=0)

    def positions(names):
        stems = [bytes(name).rstrip(b"\0").rpartition(b"/")[2].removesuffix(b".npy") for name in names.cpu().numpy()]
        return torch.tensor([int(stem) for stem in stems])

    with epochs_of(request, outputs, "reader", positions) as epoch:
        yield epoch
