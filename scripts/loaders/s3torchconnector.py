"""Amazon's connector for PyTorch in a DataLoader: whole objects by its native client, one at a time in each worker.

`dataset: map` reads each object of its S3MapDataset into the batch; `dataset: iterable` is its S3IterableDataset, which
shares objects among workers as they come, and whose items torch collates. A worker waits for each item before it asks
for the next: set workers to as many requests as are to be in flight. Its client takes a second or more to start in each
process.

It does not say which ETag an object had: one that was replaced by another of the same length is noticed by the gate
only.
"""

from contextlib import contextmanager

from scripts.common.request import epoch_order
from scripts.loaders._s3 import (
    ATTEMPTS,
    READS,  # noqa: F401
    SETTINGS,  # noqa: F401
    Fetchers,
    Objects,
    Split,
    pause,
    read_into,
)
from scripts.loaders._stored import first_again
from scripts.loaders._torch import (
    STAGES,  # noqa: F401
    Items,
    epochs_from,
    epochs_of_opened,
    sent_by,
    simplify,  # noqa: F401
    worker_arguments,
)

FORMAT = "npy"
REQUIRES = ("torch", "numpy", "s3torchconnector")
LIFETIME = "lasting"
OPTIONS = {"dataset": {"enum": ["map", "iterable"], "default": "map"}}
SNIPPET = """
from s3torchconnector import S3ClientConfig
from torch.utils.data import DataLoader

$head
$labels
$objects


where = {
    "region": index["region"],
    "endpoint": endpoint,
    "s3client_config": S3ClientConfig(force_path_style=index["path_style"]),
}


def audio_of(reader):  # an S3Reader, a file of its own
    $item = np.load(reader, allow_pickle=False)
    return torch.from_numpy($item)


$when dataset=map
from s3torchconnector import S3MapDataset
from torch.utils.data import Dataset
class Items(Dataset):
    def __init__(self):
        uris = [f"s3://{index['bucket']}/{place(position)[0]}" for position in range(len(target))]
        self.$item = S3MapDataset.from_objects(uris, transform=audio_of, **where)

    def __len__(self):
        return len(target)

    def __getitem__(self, position):
        return {"$item": self.$item[position], "target": target[position], "labels": labels[position]}


loader = $data_loader
$when dataset=iterable
from s3torchconnector import S3IterableDataset
random = np.random.default_rng($seed)  # of the same state in each worker


def in_any_order(_client):
    from s3torchconnector._s3bucket_key_data import S3BucketKeyData

    for position in random.permutation(len(target)).tolist():
        yield S3BucketKeyData(index["bucket"], place(position)[0])


def item_of(reader):
    position = int(Path(reader.key).stem)
    return {"$item": audio_of(reader), "target": target[position], "labels": labels[position]}


dataset = S3IterableDataset(get_dataset_objects=in_any_order, transform=item_of, enable_sharding=True, **where)
loader = DataLoader(
    dataset,
    batch_size=batch_size,
    $worker_arguments
)
$end

$loop
"""
JOIN_SECONDS = 5  # for the native client's threads to end


class ByPosition(Objects):
    """The items of an S3MapDataset, which each process opens itself."""

    def open(self):
        """Return a data set of the objects in manifest order."""
        from s3torchconnector import S3MapDataset

        uris = [self.wanted(position).uri for position in range(self.request.items)]
        found = S3MapDataset.from_objects(uris, **_place(self.request))

        def fetch(wanted, row):
            reader = found[int(wanted.stored.key.removesuffix(".npy"))]
            reader.seek(wanted.first)
            read_into(reader.readinto, row)

        return Fetchers(0, fetch, (), lambda: _close(found))  # the library tries again itself


class InOrder(Items):
    """What gives an S3IterableDataset the objects of an epoch, and makes an item of each."""

    def __init__(self, request):
        from multiprocessing.sharedctypes import RawValue

        super().__init__(request)
        self.wanted = Split(request).wanted
        self.epoch = RawValue("q", 0)  # which begins, seen by workers that live for many epochs

    def objects(self, _client):
        """Yield the objects of this rank's share of the epoch."""
        from s3torchconnector._s3bucket_key_data import S3BucketKeyData

        for position in epoch_order(self.request, self.epoch.value).tolist():
            wanted = self.wanted(position)
            yield S3BucketKeyData(wanted.bucket, wanted.key)

    def item_of(self, reader):
        """Return an item with its labels, read from its object."""
        import torch

        position = int(reader.key.rpartition("/")[2].removesuffix(".npy"))
        wanted = self.wanted(position)
        data = torch.empty(self.sample.shape, dtype=getattr(torch, self.sample.dtype))
        try:
            reader.seek(wanted.first)
            read_into(reader.readinto, memoryview(data.numpy()).cast("B"))
        except Exception as error:
            pause(error, wanted, ATTEMPTS, ())  # the library has tried again itself
        return {
            self.sample.key: data,
            "target": self.target[position],
            "labels": self.labels[position],
            "item": self.index[position],
        }


def open_epochs(request):
    """Return what opens the epoch function over the objects."""
    if request.options["dataset"] == "map":
        return epochs_of_opened(request, ByPosition(request))
    return _in_order(request)


@contextmanager
def _in_order(request):
    """Yield the epoch function over an S3IterableDataset."""
    from s3torchconnector import S3IterableDataset
    from torch.utils.data import DataLoader, default_collate

    class Epoch(S3IterableDataset):
        def __iter__(self):
            read = super().__iter__()
            return first_again(read, request) if "read" in request.without else read

    items = InOrder(request)
    found = Epoch(get_dataset_objects=items.objects, transform=items.item_of, enable_sharding=True, **_place(request))
    found._rank, found._world_size = 0, 1  # its objects are this rank's already
    try:
        kept = None
        if "transfer" in request.without:
            kept = default_collate([next(iter(found))] * request.batch_size)
        loader = DataLoader(
            found,
            batch_size=request.batch_size,
            collate_fn=sent_by(request, default_collate, kept),
            **worker_arguments(request),
        )

        def begin(number):
            items.epoch.value = number

        with epochs_from(loader, request, begin, kept) as epoch:
            yield epoch
    finally:
        _close(found)


def _place(request):
    """Return the arguments of a data set that say where the objects are."""
    from s3torchconnector import S3ClientConfig, S3ReaderConstructor

    location = request.location
    return {
        "region": location.region,
        "endpoint": location.endpoint,
        "s3client_config": S3ClientConfig(force_path_style=location.path_style, max_attempts=ATTEMPTS),
        "reader_constructor": S3ReaderConstructor.sequential(),
    }


def _close(dataset):
    """End a data set's client and wait for its threads; the library does so before a fork, and has no call for it."""
    from s3torchconnectorclient._mountpoint_s3_client import join_all_managed_threads

    client, dataset._client = dataset._client, None
    if client is not None and client._native_client is not None:  # without one, joining its threads crashes
        client._native_client = None
        join_all_managed_threads(JOIN_SECONDS)
