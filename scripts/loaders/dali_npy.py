"""NVIDIA DALI numpy reader: numbered .npy files read by DALI's threads.

The reader gives no label, so each item is known by the name of the file it came from (`source_info`). Its time goes
into opening files and copying memory. Set workers (DALI's threads) to the number of cores.

`reader` says where the threads read to: `cpu`, from where a batch is copied to the device, or `gpu`, straight into the
GPU's memory by GPUDirect Storage (device cuda alone). It opens files with O_DIRECT, so that it goes to the device even
where the page cache has the data, and fails on a file system without that (a RAM disk before Linux 6.6). Where the
kernel module nvidia-fs is not loaded (no /proc/driver/nvidia-fs/version), or does not know the file system, cuFile
reads through host memory instead, by default and in silence: its compatibility mode. NVIDIA's `gdscheck -p` shows what
is supported. CUFILE_ALLOW_COMPAT_MODE=false (or properties.allow_compat_mode in the file that CUFILE_ENV_PATH_JSON
names, /etc/cufile.json by default) makes that an error, so that a number is one of GPUDirect Storage;
CUFILE_FORCE_COMPAT_MODE=true asks for it. cuFile notes what it does in cufile.log in the current folder, or where
CUFILE_LOGFILE_PATH says. DALI_GDS_CHUNK_SIZE sets how much DALI reads at once (2 MiB).
"""

import torch
from nvidia.dali import fn, pipeline_def

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, STAGES, close, simplify
from scripts.loaders._plain.dali import Pipelined, by_position
from scripts.loaders._plain.epochs import shuffled
from scripts.loaders._plain.labels import read_labels

FORMAT = "npy"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
OPTIONS = {"reader": {"enum": ["cpu", "gpu"], "default": "cpu"}}


def never(request):
    """Return a reason where the GPU reader is asked for without a GPU."""
    if request.options["reader"] == "gpu" and request.device == "cpu":
        return "reader gpu reads into a GPU's memory (GPUDirect Storage): it needs device cuda"
    return None


def read(data, positions, reader, shuffle):
    """Return the nodes of files and of their names, padded bytes; DALI shuffles them again after each epoch."""
    item = fn.readers.numpy(
        device=reader,
        files=[f"{data}/{position:06d}.npy" for position in positions],
        shuffle_after_epoch=shuffle,
        pad_last_batch=True,  # or else it is filled with items of the next epoch, which go lost there
        cache_header_information=True,
        name="reader",
    )
    return item, fn.pad(fn.get_property(item, key="source_info"), fill_value=0)


def read_by_name(names):
    """Return the positions of a batch's files by their names: the reader gives no label."""
    stems = (bytes(name).rstrip(b"\0").rpartition(b"/")[2].removesuffix(b".npy") for name in names.cpu().numpy())
    return torch.tensor([int(stem) for stem in stems])


def make_loader(data, key, reader, device, batch_size, workers, prefetch, seed, order=None, shuffle=True):
    """Return a loader of numbered .npy files."""
    labels = read_labels(data)
    order = order or shuffled(len(labels["target"]), seed)
    labels_at = by_position(labels, device)

    @pipeline_def(batch_size=batch_size, num_threads=workers, prefetch_queue_depth=prefetch, seed=seed)
    def pipeline():
        item, name = read(data, order(0).tolist(), "cpu" if device == "cpu" else reader, shuffle)
        return (item if device == "cpu" else item.gpu()), name

    return Pipelined(pipeline, key, device, lambda names: labels_at(read_by_name(names)))


def without_read(read, request):
    """Return a function that gives one batch of zeros in RAM, whose positions come without names."""
    return (lambda where: where) if read.__name__ == "read_by_name" else _dali.without_read(read, request)
