"""What the programs by WebDataset share: shards of a file system opened, an item's class, WAV members, the pipeline."""

OPENED = """
$head
shards = sorted(map(str, data.glob("*.tar")))


def opened(shards):
    for shard in shards:
        with open(shard["url"], "rb", buffering=256 * 1024) as stream:  # the library's own opener reads less at once
            yield {**shard, "stream": stream}
"""
TARGET = """

def target_of(item):
    return json.loads(item["json"])["classes"][0]  # the first class of an item; others follow it


$empty_batch
"""
WAV = (
    TARGET
    + """

import io
import numpy as np
$when decoder=wave
import wave
def collate(items):
    audio = empty_batch(len(items))
    for item, row in zip(items, audio.numpy()[:, 0], strict=True):
        with wave.open(io.BytesIO(item["wav"])) as file:
            pcm = np.frombuffer(file.readframes(samples), dtype="<i2")
        np.multiply(pcm, np.float32(1 / 32768), out=row[: len(pcm)])
        row[len(pcm) :] = 0
    return {"audio": audio, "target": torch.tensor([target_of(item) for item in items])}
$when decoder=soundfile
import soundfile
def decode(item):
    audio = np.zeros((1, samples), dtype=np.float32)
    pcm, _ = soundfile.read(io.BytesIO(item["wav"]), dtype="float32")
    audio[0, : len(pcm)] = pcm[:samples]
    return {"audio": audio, "target": target_of(item)}


def collate(items):
    return torch.utils.data.default_collate([decode(item) for item in items])
$end
"""
)
PIPELINE = """\
import json
import torch
import webdataset as wds
from webdataset.tariterators import group_by_keys, tar_file_expander


dataset = wds.DataPipeline(
    wds.SimpleShardList(shards),
    wds.split_by_worker,
    wds.detshuffle(bufsize=len(shards), initial=len(shards), seed=$seed),
    opened,
    tar_file_expander,
    group_by_keys,
    wds.detshuffle(bufsize=$shuffle_buffer, initial=min($shuffle_buffer, 100), seed=$seed),
    wds.batched(batch_size, partial=True, collation_fn=collate),
)
loader = wds.WebLoader(
    dataset,
    batch_size=None,
    $worker_arguments
)

$loop
"""
