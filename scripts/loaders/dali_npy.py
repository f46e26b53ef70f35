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

from scripts.loaders import _dali
from scripts.loaders._dali import SETTINGS, STAGES, epochs_of, rank_files, simplify  # noqa: F401
from scripts.machine import gpu

FORMAT = "npy"
REQUIRES = ("torch", "nvidia-dali-cuda120", "numpy")
LIFETIME = "lasting"
OPTIONS = {"reader": {"enum": ["cpu", "gpu"], "default": "cpu"}}
SNIPPET = (
    _dali.HEAD_SNIPPET
    + r"""
    $item = fn.readers.numpy(
        device=$reader,
        files=[str(data / f"{position:06d}.npy") for position in order],
        shuffle_after_epoch=True,
        pad_last_batch=True,  # or else it is filled with items of the next epoch
        cache_header_information=True,
        name="reader",
    )
    name = fn.pad(fn.get_property($item, key="source_info"), fill_value=0)  # of the file: the reader gives no label
    return ($item if device == "cpu" else $item.gpu()), name


def number_of(name):
    return int(bytes(name).rstrip(b"\0").rpartition(b"/")[2].removesuffix(b".npy"))
""".lstrip("\n")
    + _dali.BATCHES_SNIPPET.replace(
        'batch["where"].flatten().long()', 'torch.tensor([*map(number_of, batch["where"].cpu().numpy())])'
    )
)


def never(request):
    """Return a reason where the GPU reader is asked for without a GPU."""
    if request.options["reader"] == "gpu" and request.device == "cpu":
        return "reader gpu reads into a GPU's memory (GPUDirect Storage): it needs device cuda"
    return None


def open_epochs(request):
    """Return what opens the epoch function over numbered .npy files."""
    import torch
    from nvidia.dali import fn

    files, _ = rank_files(request, "npy")
    # batches that are to stay on the CPU, to see what moving them costs, are read there
    on_cpu = request.device == "cpu" or gpu.COPY in request.without
    device = "cpu" if on_cpu else request.options["reader"]

    def outputs():
        data = fn.readers.numpy(
            device=device,
            files=files,
            shuffle_after_epoch=request.shuffle,
            pad_last_batch=True,
            cache_header_information=True,
            name="reader",
        )
        return data, fn.pad(fn.get_property(data, key="source_info"), fill_value=0)

    def positions(names):
        stems = [bytes(name).rstrip(b"\0").rpartition(b"/")[2].removesuffix(b".npy") for name in names.cpu().numpy()]
        return torch.tensor([int(stem) for stem in stems])

    return epochs_of(request, outputs, "reader", positions)
