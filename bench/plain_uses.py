"""The plain use of each library that a loader wraps, as its documentation shows it: what the rows are raced with.

`PLAIN` maps a loader's name to (changes, plain): the settings of the race as keyword arguments of the request, and a
context manager that takes the request and yields an epoch function like a loader's. All read the files of the loader
with as many workers, pad or cut to the fixed length, and deliver the whole split in random order on the CPU, each item
once. What is not said is left at the library's default.

Where the program that a report offers is the plain use, its text is what is raced. A loader may be without one, and is
then not raced. litdata's and mosaic's are here where their isolated environment is on the path: `PYTHONPATH=
.venv/isolated/litdata:. python -m ...`.

By hand, to see that they deliver what they should: python -m bench.plain_uses
"""

import asyncio
import copy
import io
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.common import plugins
from scripts.common.corpus import Corpus
from scripts.common.labels import read_labels
from scripts.common.request import LoaderRequest
from scripts.loaders import _program
from scripts.machine.folders import location_of
from scripts.machine.objects import bucket_of, read_index
from scripts.measure.sink import Sink
from scripts.measure.verify import Verifier
from tests.support.isolated_cases import can_be_tested

Epoch = Callable[[int], Iterator[dict[str, Any]]]
Plain = Callable[[LoaderRequest], Any]

NO_WORKERS: dict[str, Any] = {}  # what maps memory or holds it is fastest without
WORKERS: dict[str, Any] = {"workers": 2, "prefetch": 2}
PLAIN: dict[str, tuple[dict[str, Any], Plain]] = {}


def plain_use(loader: str, changes: dict[str, Any]) -> Callable[[Callable[[LoaderRequest], Epoch]], Plain]:
    """Enter a function from a request to an epoch function into `PLAIN`.

    The epoch function, and with it all that the library has open, is let go of at the end.
    """

    def enter(opened: Callable[[LoaderRequest], Epoch]) -> Plain:
        @contextmanager
        def plain(request: LoaderRequest) -> Iterator[Epoch]:
            yield opened(request)

        PLAIN[loader] = changes, plain
        return plain

    return enter


class Items:
    """A map-style data set: an item's data, of audio float32 (1, samples), by a function of its position, and
    labels.
    """

    def __init__(self, request: LoaderRequest, data: Callable[[int], Any]) -> None:
        import torch

        self.key, self.data = request.sample.key, data
        self.item, self.target, self.labels = map(torch.from_numpy, read_labels(request.label_folder))

    def __len__(self) -> int:
        return len(self.item)

    def __getitem__(self, position: int) -> dict[str, Any]:
        return {self.key: self.data(position), **self.labelled(position)}

    def labelled(self, where: Any) -> dict[str, Any]:
        """Return what is delivered beside the data of one item, or of many."""
        return {"target": self.target[where], "labels": self.labels[where], "item": self.item[where]}


def data_loader(request: LoaderRequest, dataset: Any, **arguments: Any) -> Epoch:
    """Return the epoch function of torch's DataLoader as its documentation has it, on a map-style data set."""
    from torch.utils.data import DataLoader

    if request.workers:  # the default on Linux, which importing torchrl changes
        arguments["multiprocessing_context"] = "fork"
    loader = DataLoader(dataset, batch_size=request.batch_size, shuffle=True, num_workers=request.workers, **arguments)
    return lambda _number: iter(loader)


def items_of(loader: str, request: LoaderRequest, **options: Any) -> Any:
    """Return the data set of the program that a report offers for a loader: the plain use of its library, item by item.

    With `item` beside what the program's own delivers.
    """
    import torch

    module = plugins.load("loaders", loader)
    settings = {name: part["default"] for name, part in getattr(module, "OPTIONS", {}).items()} | options
    settings |= {"device": "cpu", "batch_size": 1, "workers": 2, "prefetch": 2, "pin_memory": False}
    text = _program.program(module, settings, "", request.data, request.sample)
    names: dict[str, Any] = {}
    exec(re.split(r"(?m)^(?:dataset|loader) = ", text)[0], names)
    item = torch.from_numpy(read_labels(request.data)[0])

    class WithItem(names["Items"]):
        def __getitem__(self, position: int) -> dict[str, Any]:
            return {**super().__getitem__(position), "item": item[position]}

    return WithItem()


def of_program(loader: str, changes: dict[str, Any], **options: Any) -> None:
    """Enter the data set of a loader's program, in torch's DataLoader, as its plain use."""
    plain_use(loader, changes)(lambda request: data_loader(request, items_of(loader, request, **options)))


def fixed(audio: Any, request: LoaderRequest) -> Any:
    """Return float32 (1, n), padded with zeros or cut to (1, samples)."""
    import torch

    return torch.nn.functional.pad(audio, (0, request.samples - audio.shape[1]))


# Files, one an item.


of_program("torchaudio", WORKERS, decoder="load")
of_program("npy", WORKERS, gather="item")
of_program("npz", WORKERS, gather="item")
plain_use("soundfile", WORKERS)(lambda request: data_loader(request, items_of("spdl_dataset", request)))

# Arrays, a row an item.


@plain_use("numpy_memmap", NO_WORKERS)
def numpy_rows(request: LoaderRequest) -> Epoch:
    """A row of a mapped array in a Dataset, which is copied when it is collated; PyTorch warns of it once."""
    import numpy as np
    import torch

    rows = np.load(request.data / "audio.npy", mmap_mode="r")
    return data_loader(request, Items(request, lambda position: torch.from_numpy(rows[position])))


@plain_use("memmap_int16", NO_WORKERS)
def int16_rows(request: LoaderRequest) -> Epoch:
    """A row of a mapped array in a Dataset, converted."""
    import numpy as np
    import torch

    rows = np.load(request.data / "audio.npy", mmap_mode="r")
    return data_loader(
        request, Items(request, lambda position: torch.from_numpy(rows[position].astype(np.float32) / 32768))
    )


of_program("torch_storage", NO_WORKERS, gather="item")
of_program("hdf5", WORKERS, gather="item")
of_program("zarr", WORKERS, gather="item")
of_program("arrow", NO_WORKERS, gather="item")


@contextmanager
def lmdb_values(request: LoaderRequest) -> Iterator[Epoch]:
    """A value of an LMDB environment in a Dataset, a transaction each.

    The environment is a copy beside the loader's: the library refuses to open a file twice in a process.
    """
    with tempfile.TemporaryDirectory(dir=request.data.parent) as folder:
        data = shutil.copytree(request.data, Path(folder, "copy"))
        items = items_of("lmdb", replace(request, location=location_of(data)), gather="item")
        yield data_loader(request, items)
        if items.environment is not None:
            items.environment.close()


PLAIN["lmdb"] = NO_WORKERS, lmdb_values


# tensordict and TorchRL. Their documentation indexes whole batches, and single items; here is what is faster.


@plain_use("tensorclass", NO_WORKERS)
def tensorclass_items(request: LoaderRequest) -> Epoch:
    """An item of a tensorclass in RAM in a Dataset: collating copies faster than an index of many does."""
    split = tensorclass_of(request).clone()

    class Items:
        def __len__(self) -> int:
            return len(split)

        def __getitem__(self, position: int) -> dict[str, Any]:
            return dict(split[position].items())

    return data_loader(request, Items())


@plain_use("tensorclass_memmap", NO_WORKERS)
def tensorclass_batches(request: LoaderRequest) -> Epoch:
    """A tensorclass of mapped files as the data set of a DataLoader."""
    epoch = data_loader(request, tensorclass_of(request), collate_fn=lambda batch: batch)
    return lambda number: (dict(batch.items()) for batch in epoch(number))


def tensorclass_of(request: LoaderRequest) -> Any:
    """Return the split as a tensorclass of mapped files."""
    import torch
    from tensordict import TensorDict, tensorclass

    @tensorclass
    class Split:
        audio: torch.Tensor
        target: torch.Tensor
        labels: torch.Tensor
        item: torch.Tensor

    return Split.from_tensordict(TensorDict.load_memmap(request.data))


@plain_use("lazy_memmap", NO_WORKERS)
def replay_buffer(request: LoaderRequest) -> Epoch:
    """An iteration over a replay buffer on the storage, without replacement."""
    from torchrl.data import LazyMemmapStorage, ReplayBuffer
    from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement

    storage = LazyMemmapStorage(request.items, scratch_dir=request.data, existsok=True, auto_cleanup=False)
    storage.loads(request.data)
    buffer = ReplayBuffer(
        storage=storage, sampler=SamplerWithoutReplacement(drop_last=False), batch_size=request.batch_size
    )
    return lambda _number: (dict(batch.items()) for batch in buffer)


# Libraries with a loader of their own.


@plain_use("webdataset", WORKERS)
def webdataset_pipeline(request: LoaderRequest) -> Epoch:
    """The fluid interface with the library's decoder for audio."""
    import torch
    import webdataset as wds

    def labelled(pair: tuple[Any, dict[str, Any]]) -> tuple[Any, ...]:
        (waveform, _sample_rate), about = pair
        labels = torch.zeros(request.classes)
        labels[about["classes"]] = 1.0
        return fixed(waveform, request), about["classes"][0], labels, about["item"]

    return webdataset_epochs(request, wds.torch_audio, labelled, "wav")


def webdataset_epochs(request: LoaderRequest, decoder: Any, labelled: Callable[..., Any], ending: str) -> Epoch:
    """Return the epoch function of the fluid interface, members decoded by the library."""
    import webdataset as wds

    shards = sorted(map(str, request.data.glob("*.tar")))
    dataset = (
        wds.WebDataset(shards, shardshuffle=len(shards))
        .shuffle(1000)
        .decode(decoder)
        .to_tuple(ending, "json")
        .map(labelled)
        .batched(request.batch_size)
    )
    forked = {"multiprocessing_context": "fork"} if request.workers else {}
    loader = wds.WebLoader(dataset, batch_size=None, num_workers=request.workers, **forked)
    names = request.sample.key, "target", "labels", "item"
    return lambda _number: (dict(zip(names, batch, strict=True)) for batch in loader)


@plain_use("torchdata", WORKERS)
def torchdata_nodes(request: LoaderRequest) -> Epoch:
    """The nodes of the migration guide; threads, as the loader has them, where the guide has the choice."""
    from torch.utils.data import RandomSampler, default_collate
    from torchdata.nodes import Batcher, Loader, ParallelMapper, Prefetcher, SamplerWrapper

    dataset = items_of("npy", request, gather="item")
    positions = Batcher(SamplerWrapper(RandomSampler(dataset)), batch_size=request.batch_size, drop_last=False)
    batches = ParallelMapper(
        positions,
        map_fn=lambda batch: default_collate([dataset[position] for position in batch]),
        num_workers=request.workers,
        method="thread",
        in_order=True,
    )
    loader = Loader(Prefetcher(batches, prefetch_factor=request.workers * 2))
    return lambda _number: iter(loader)


@plain_use("spdl", WORKERS)
def spdl_own_reader(request: LoaderRequest) -> Epoch:
    """SPDL's own reader of WAV, an item at a time."""
    import numpy as np
    import spdl.io
    import torch

    def audio(position: int) -> Any:
        pcm = spdl.io.to_numpy(spdl.io.load_wav((request.data / f"{position:06}.wav").read_bytes()))
        return fixed(torch.from_numpy(pcm.T.astype(np.float32) / 32768), request)

    return spdl_pipeline(request, Items(request, audio))


@plain_use("spdl_dataset", WORKERS)
def spdl_migrated(request: LoaderRequest) -> Epoch:
    """A Dataset as it is, in the pipeline that the migration guide begins with."""
    return spdl_pipeline(request, items_of("spdl_dataset", request))


def spdl_pipeline(request: LoaderRequest, dataset: Any) -> Epoch:
    """Return the epoch function of the migration guide's pipeline, which is built for each epoch."""
    from spdl.pipeline import PipelineBuilder
    from torch.utils.data import RandomSampler, default_collate

    def epoch(_number: int) -> Iterator[dict[str, Any]]:
        pipeline = (
            PipelineBuilder()
            .add_source(RandomSampler(dataset))
            .pipe(dataset.__getitem__, concurrency=request.workers, output_order="input")
            .aggregate(request.batch_size)
            .pipe(default_collate)
            .add_sink(request.prefetch)
            .build(num_threads=request.workers)
        )
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


# DALI.


@plain_use("dali_wav", WORKERS)
def dali_audio_decoder(request: LoaderRequest) -> Epoch:
    """The reader of files and the audio decoder."""
    from nvidia.dali import fn, pipeline_def

    files = [str(request.data / f"{position:06}.wav") for position in range(request.items)]

    @pipeline_def
    def pipeline() -> Any:
        encoded, position = fn.readers.file(
            files=files, labels=list(range(request.items)), random_shuffle=True, pad_last_batch=True, name="reader"
        )
        return dali_decoded(encoded, request), position

    return dali_epochs(request, pipeline, Items(request, None).labelled, positions_of_labels, reader_name="reader")


@plain_use("dali_npy", WORKERS)
def dali_numpy_reader(request: LoaderRequest) -> Epoch:
    """The reader of .npy files; an item is known by the name of its file."""
    import torch
    from nvidia.dali import fn, pipeline_def

    files = [str(request.data / f"{position:06}.npy") for position in range(request.items)]

    @pipeline_def
    def pipeline() -> Any:
        audio = fn.readers.numpy(files=files, random_shuffle=True, pad_last_batch=True, name="reader")
        return audio, fn.pad(fn.get_property(audio, key="source_info"))

    def positions(names: Any) -> Any:
        return torch.tensor([int(bytes(name).rstrip(b"\0")[-10:-4]) for name in names.numpy()])

    return dali_epochs(request, pipeline, Items(request, None).labelled, positions, reader_name="reader")


@plain_use("dali_external", WORKERS)
def dali_external_source(request: LoaderRequest) -> Epoch:
    """An external source: an iterator over batches, lists of arrays, one pass an epoch."""
    import numpy as np
    from nvidia.dali import fn, pipeline_def

    rows = np.load(request.data / "audio.npy", mmap_mode="r")

    class Batches:
        def __iter__(self) -> Iterator[tuple[list[Any], list[Any]]]:
            order = np.random.permutation(request.items)
            for start in range(0, request.items, request.batch_size):
                positions = order[start : start + request.batch_size]
                yield [rows[position] for position in positions], [np.array([position]) for position in positions]

    @pipeline_def
    def pipeline() -> Any:
        audio, position = fn.external_source(source=Batches(), num_outputs=2, cycle="raise")
        return audio, position

    return dali_epochs(request, pipeline, Items(request, None).labelled, positions_of_labels)


@plain_use("dali_webdataset", WORKERS)
def dali_webdataset_reader(request: LoaderRequest) -> Epoch:
    """The reader of tar shards, which makes their index itself, and the audio decoder."""
    import json

    import torch
    from nvidia.dali import fn, pipeline_def

    shards = sorted(map(str, request.data.glob("*.tar")))

    @pipeline_def
    def pipeline() -> Any:
        encoded, about = fn.readers.webdataset(
            paths=shards, ext=["wav", "json"], random_shuffle=True, pad_last_batch=True, name="reader"
        )
        return dali_decoded(encoded, request), fn.pad(about)

    def labelled(members: list[dict[str, Any]]) -> dict[str, Any]:
        labels = torch.zeros(len(members), request.classes)
        for row, about in zip(labels, members, strict=True):
            row[about["classes"]] = 1.0
        target = torch.tensor([about["classes"][0] for about in members])
        return {"target": target, "labels": labels, "item": torch.tensor([about["item"] for about in members])}

    def read(members: Any) -> list[dict[str, Any]]:
        return [json.loads(bytes(member).rstrip(b"\0")) for member in members.numpy()]

    return dali_epochs(request, pipeline, labelled, read, reader_name="reader")


def dali_decoded(encoded: Any, request: LoaderRequest) -> Any:
    """Return the node float32 (1, samples) of WAV files: 16 bit, since DALI's own float32 is scaled by 1/32767."""
    from nvidia.dali import fn, types

    audio, _sample_rate = fn.decoders.audio(encoded, dtype=types.INT16)
    padded = fn.slice(audio, start=[0], shape=[request.samples], axes=[0], out_of_bounds_policy="pad")
    return fn.transpose(fn.cast(padded, dtype=types.FLOAT) / 32768, perm=[1, 0])


def positions_of_labels(labels: Any) -> Any:
    """Return int64 (batch,) of a batch of labels that are positions, integers (batch, 1)."""
    return labels.flatten().long()


def dali_epochs(
    request: LoaderRequest,
    pipeline: Callable[..., Any],
    labelled: Callable[[Any], dict[str, Any]],
    read: Callable[[Any], Any],
    **size: Any,
) -> Epoch:
    """Return the epoch function of DALI's iterator for PyTorch.

    `read` makes of the pipeline's second output what `labelled` takes. The readers are told to pad the last batch, and
    the iterator to cut it: the default gives items of it twice.
    """
    from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    iterator = DALIGenericIterator(
        pipeline(batch_size=request.batch_size, num_threads=request.workers, device_id=None),
        [request.sample.key, "where"],
        last_batch_policy=LastBatchPolicy.PARTIAL,
        auto_reset=True,
        **size,
    )

    def epoch(_number: int) -> Iterator[dict[str, Any]]:
        for [batch] in iterator:
            yield {request.sample.key: batch[request.sample.key], **labelled(read(batch["where"]))}

    return epoch


# Images.


@plain_use("image_files", WORKERS)
def image_dataset(request: LoaderRequest) -> Epoch:
    """An image decoded in a Dataset; torch collates."""
    return data_loader(request, decoded_images(request))


@plain_use("spdl_image_batches", WORKERS)
def spdl_decoded(request: LoaderRequest) -> Epoch:
    """The same Dataset in threads, as the migration guide begins with."""
    return spdl_pipeline(request, decoded_images(request))


def decoded_images(request: LoaderRequest) -> Any:
    """Return a Dataset of images that simplejpeg decodes."""
    import simplejpeg
    import torch

    def image(position: int) -> Any:
        content = (request.data / f"{position:06}.jpg").read_bytes()
        return torch.from_numpy(simplejpeg.decode_jpeg(content, "RGB").transpose(2, 0, 1))

    return Items(request, image)


@plain_use("spdl_image_dataset", WORKERS)
def spdl_images_migrated(request: LoaderRequest) -> Epoch:
    """A Dataset as it is, in the pipeline that the migration guide begins with."""
    return spdl_pipeline(request, items_of("spdl_image_dataset", request))


@plain_use("spdl_images", WORKERS)
def spdl_image_batches(request: LoaderRequest) -> Epoch:
    """The guide's own image I/O: frames in threads, a batch of them converted by one of them."""
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    from torch.utils.data import RandomSampler, default_collate

    dataset = Items(request, None)

    def frames(position: int) -> tuple[Any, dict[str, Any]]:
        packets = spdl.io.demux_image(str(request.data / f"{position:06}.jpg"))
        return spdl.io.decode_packets(packets), dataset.labelled(position)

    def batch(items: list[tuple[Any, dict[str, Any]]]) -> dict[str, Any]:
        decoded, labels = zip(*items, strict=True)
        images = spdl.io.to_torch(spdl.io.convert_frames(list(decoded))).permute(0, 3, 1, 2)
        return {request.sample.key: images, **default_collate(labels)}

    def epoch(_number: int) -> Iterator[dict[str, Any]]:
        pipeline = (
            PipelineBuilder()
            .add_source(RandomSampler(dataset))
            .pipe(frames, concurrency=request.workers, output_order="input")
            .aggregate(request.batch_size)
            .pipe(batch)
            .add_sink(request.prefetch)
            .build(num_threads=request.workers)
        )
        with pipeline.auto_stop():
            yield from pipeline

    return epoch


@plain_use("dali_images", WORKERS)
def dali_image_decoder(request: LoaderRequest) -> Epoch:
    """The reader of files and the image decoder; channels first."""
    from nvidia.dali import fn, pipeline_def

    files = [str(request.data / f"{position:06}.jpg") for position in range(request.items)]

    @pipeline_def
    def pipeline() -> Any:
        encoded, position = fn.readers.file(
            files=files, labels=list(range(request.items)), random_shuffle=True, pad_last_batch=True, name="reader"
        )
        return fn.transpose(fn.decoders.image(encoded), perm=[2, 0, 1]), position

    return dali_epochs(request, pipeline, Items(request, None).labelled, positions_of_labels, reader_name="reader")


@plain_use("webdataset_images", WORKERS)
def webdataset_image_pipeline(request: LoaderRequest) -> Epoch:
    """The fluid interface with the library's decoder for images."""
    import torch

    def labelled(pair: tuple[Any, dict[str, Any]]) -> tuple[Any, ...]:
        image, about = pair
        labels = torch.zeros(request.classes)
        labels[about["classes"]] = 1.0
        return image, about["classes"][0], labels, about["item"]

    return webdataset_epochs(request, "torchrgb8", labelled, "jpg")


# Objects in a bucket: whole .npy files.


class Bucket:
    """A split's objects: where they are, by position, and what is in one."""

    def __init__(self, request: LoaderRequest) -> None:
        self.bucket = bucket_of(request.location)
        self.prefix = read_index(request.location.index).prefix
        who = self.bucket.who
        self.client = {
            **{"endpoint_url": self.bucket.endpoint, "region_name": self.bucket.region},
            **{"aws_access_key_id": who.access_key, "aws_secret_access_key": who.secret_key},
        }

    def key(self, position: int) -> str:
        """Return the key of an item's object."""
        return f"{self.prefix}/{position:06}.npy".lstrip("/")

    @staticmethod
    def tensor(content: bytes) -> Any:
        """Return the item of an object."""
        import numpy as np
        import torch

        return torch.from_numpy(np.load(io.BytesIO(content)))


@plain_use("s3_boto3", WORKERS)
def boto3_objects(request: LoaderRequest) -> Epoch:
    """An object in a Dataset, by a client in each process; torch collates."""
    import boto3
    from botocore.config import Config

    bucket, clients = Bucket(request), {}

    def item(position: int) -> Any:
        if os.getpid() not in clients:
            config = Config(s3={"addressing_style": "path"})
            clients[os.getpid()] = boto3.session.Session().client("s3", config=config, **bucket.client)
        found = clients[os.getpid()].get_object(Bucket=bucket.bucket.name, Key=bucket.key(position))
        return bucket.tensor(found["Body"].read())

    return data_loader(request, Items(request, item))


IN_FLIGHT: dict[str, Any] = {"workers": 0, "options": {"in_flight": 20}}


@plain_use("s3_obstore", IN_FLIGHT)
def obstore_batches(request: LoaderRequest) -> Epoch:
    """The objects of a batch at once, by the library's calls for asyncio."""
    from obstore.store import S3Store

    bucket = Bucket(request)
    who = bucket.bucket.who
    store = S3Store(
        bucket.bucket.name,
        endpoint=bucket.bucket.endpoint,
        region=bucket.bucket.region,
        access_key_id=who.access_key,
        secret_access_key=who.secret_key,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )

    async def item(position: int) -> Any:
        found = await store.get_async(bucket.key(position))
        return bucket.tensor(bytes(await found.bytes_async()))

    return gathered_epochs(request, lambda: nullcontext(item))


@plain_use("s3_aiobotocore", IN_FLIGHT)
def aiobotocore_batches(request: LoaderRequest) -> Epoch:
    """The objects of a batch at once, by one client."""
    from aiobotocore.config import AioConfig
    from aiobotocore.session import get_session

    bucket = Bucket(request)

    @asynccontextmanager
    async def opened() -> Any:
        config = AioConfig(max_pool_connections=20, s3={"addressing_style": "path"})
        async with get_session().create_client("s3", config=config, **bucket.client) as client:

            async def item(position: int) -> Any:
                found = await client.get_object(Bucket=bucket.bucket.name, Key=bucket.key(position))
                async with found["Body"] as body:
                    return bucket.tensor(await body.read())

            yield item

    return gathered_epochs(request, opened)


def gathered_epochs(request: LoaderRequest, opened: Callable[[], Any]) -> Epoch:
    """Return the epoch function of a loop of asyncio that gathers a batch; `opened` gives what fetches an item."""
    import torch
    from torch.utils.data import default_collate

    dataset = Items(request, None)

    async def batch(positions: list[int], fetch: Any) -> dict[str, Any]:
        fetched = await asyncio.gather(*map(fetch, positions))
        labels = [dataset.labelled(position) for position in positions]
        return {request.sample.key: torch.stack(fetched), **default_collate(labels)}

    def epoch(_number: int) -> Iterator[dict[str, Any]]:
        with asyncio.Runner() as runner:
            context = opened()
            fetch = runner.run(context.__aenter__())
            try:
                for positions in torch.randperm(request.items).split(request.batch_size):
                    yield runner.run(batch(positions.tolist(), fetch))
            finally:
                runner.run(context.__aexit__(None, None, None))

    return epoch


@plain_use("s3torchconnector", WORKERS)
def connector_map(request: LoaderRequest) -> Epoch:
    """The connector's map-style data set in a DataLoader; torch collates."""
    from s3torchconnector import S3ClientConfig, S3MapDataset

    bucket = Bucket(request)
    uris = [f"s3://{bucket.bucket.name}/{bucket.key(position)}" for position in range(request.items)]
    found = S3MapDataset.from_objects(
        uris,
        region=bucket.bucket.region,
        endpoint=bucket.bucket.endpoint,
        s3client_config=S3ClientConfig(force_path_style=True),
        transform=lambda reader: bucket.tensor(reader.read()),
    )
    return data_loader(request, Items(request, found.__getitem__))


# Libraries of isolated environments: their own data set and loader, on a disk and over a bucket.


class Decoder:
    """What turns an item of such a library into an item with its labels, as a transform in its data set."""

    def __init__(self, request: LoaderRequest) -> None:
        self.items, self.key, self.samples = Items(request, None), request.sample.key, request.samples

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        import torch

        audio = torch.as_tensor(item[self.key])[: self.samples].float() / 32768
        padded = torch.nn.functional.pad(audio, (0, self.samples - len(audio)))
        return {self.key: padded[None], **self.items.labelled(item["position"])}


@contextmanager
def litdata_epochs(request: LoaderRequest, place: Any, **options: Any) -> Iterator[Epoch]:
    """Yield the epoch function of LitData's loader on its data set."""
    from litdata import StreamingDataLoader, StreamingDataset

    made = Decoder(request)

    class Decoded(StreamingDataset):
        def __getitem__(self, index: Any) -> dict[str, Any]:
            return made(super().__getitem__(index))

    dataset = Decoded(place, shuffle=True, drop_last=False, **options)
    loader = StreamingDataLoader(dataset, batch_size=request.batch_size, num_workers=request.workers)
    yield lambda _number: iter(loader)


@contextmanager
def mosaic_epochs(request: LoaderRequest, **place: Any) -> Iterator[Epoch]:
    """Yield the epoch function of MosaicML's loader on its data set."""
    from streaming import StreamingDataLoader, StreamingDataset

    from scripts.loaders._mosaic import _close

    made = Decoder(request)

    class Decoded(StreamingDataset):
        def __getitem__(self, index: Any) -> dict[str, Any]:
            return made(super().__getitem__(index))

    dataset = Decoded(**place, batch_size=request.batch_size, shuffle=True)
    try:
        loader = StreamingDataLoader(dataset, batch_size=request.batch_size, num_workers=request.workers)
        yield lambda _number: iter(loader)
    finally:
        _close(dataset)


@contextmanager
def s3_litdata(request: LoaderRequest) -> Iterator[Epoch]:
    """LitData with a cache that holds all."""
    from litdata.streaming import downloader
    from litdata.streaming.resolver import Dir

    bucket = Bucket(request)
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    options = {"endpoint_url": bucket.bucket.endpoint, "region_name": bucket.bucket.region}
    with tempfile.TemporaryDirectory() as cache, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given buffer is not writable")  # what the library itself gives torch
        place = Dir(path=cache, url=f"s3://{bucket.bucket.name}/{bucket.prefix}")
        with litdata_epochs(request, place, storage_options=options) as epoch:
            yield epoch


@contextmanager
def s3_mosaic(request: LoaderRequest) -> Iterator[Epoch]:
    """MosaicML Streaming with a cache that holds all."""
    bucket = Bucket(request)
    os.environ["S3_ENDPOINT_URL"] = bucket.bucket.endpoint
    remote = f"s3://{bucket.bucket.name}/{bucket.prefix}"
    with tempfile.TemporaryDirectory() as cache, mosaic_epochs(request, remote=remote, local=cache) as epoch:
        yield epoch


ISOLATED = {
    "litdata": lambda request: litdata_epochs(request, str(request.data)),
    "mosaic": lambda request: mosaic_epochs(request, local=str(request.data)),
    "s3_litdata": s3_litdata,
    "s3_mosaic": s3_mosaic,
}
PLAIN |= {loader: (WORKERS, plain) for loader, plain in ISOLATED.items() if loader in can_be_tested("loaders")}


def problems(corpus: Corpus, request: LoaderRequest, plain: Plain, limit: int = 0) -> list[str]:
    """Return what is wrong with three epochs of a plain use, as the gate of a run sees it.

    `limit`: by how much of 255 a pixel may differ that its library decodes.
    """
    found: list[str] = []
    orders: set[tuple[int, ...]] = set()
    with plain(request) as epoch:
        for number in range(3):
            sink = Sink("cpu")
            verifier = Verifier(corpus, "train", request.batch_size, max(1, request.workers), limit=limit)
            verifier.finish([sink.consume(batch) for batch in epoch(number) if verifier.check(batch)])
            found += verifier.problems
            orders.add(tuple(verifier.orders[-1]))
    return found if len(orders) == 3 else [*found, "the same order in two epochs"]


def main() -> None:
    """Make small corpora, and check every plain use on one."""
    import sys

    wrong = 0
    with placed_kinds() as placed:
        for loader in PLAIN:
            found = problems_of(loader, placed)
            print(f"{loader}: {'; '.join(found) or 'every item once, and right'}", flush=True)
            wrong += bool(found)
    sys.exit(wrong)


@contextmanager
def placed_kinds() -> Iterator[dict[str, Any]]:
    """Yield by kind of data a corpus in the formats that have been asked for, with a short last batch.

    Of audio its items are shorter and longer than the fixed length.
    """
    from scripts.kinds import image
    from tests.support.loader_cases import Placed
    from tests.support.made_corpus import make_corpus
    from tests.support.object_stores import object_store

    kinds = {"audio": None, "image": image.Kind((20, 24))}
    with tempfile.TemporaryDirectory() as place, ExitStack() as stores:
        placed = {}
        for name, kind in kinds.items():
            folder = Path(place, name)
            corpus = make_corpus(folder / "corpus", items=45, seconds=0.1, kind=kind)
            placed[name] = Placed(corpus, folder / "formats", stores.enter_context(object_store(folder / "objects")))
        yield placed


def problems_of(loader: str, placed: dict[str, Any]) -> list[str]:
    """Return what is wrong with the plain use of a loader's library."""
    from tests.support.loader_cases import request_for

    module, (changes, plain) = plugins.load("loaders", loader), PLAIN[loader]
    of_kind = placed["audio" if "audio" in plugins.kinds(module) else "image"]
    request = request_for(of_kind.corpus, loader, of_kind.location(loader), **copy.deepcopy(changes))
    return problems(of_kind.corpus, request, plain, plugins.pixel_limit(module, changes, of_kind.corpus.sample))


if __name__ == "__main__":
    main()
