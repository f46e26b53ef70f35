"""What the programs by WebDataset share: shards of a file system opened, a clip's class, WAV members, the pipeline."""

OPENED = """
$head
shards = sorted(map(str, data.glob("*.tar")))


def opened(shards):
    for shard in shards:
        with open(shard["url"], "rb", buffering=256 * 1024) as stream:  # the library's own opener reads less at once
            yield {**shard, "stream": stream}
"""
TARGET = """

def target_of(clip):
    return json.loads(clip["json"])["classes"][0]  # the first class of a clip; others follow it


$empty_batch
"""
WAV = (
    TARGET
    + """

import io
import numpy as np
$when decoder=wave
import wave
def collate(clips):
    audio = empty_batch(len(clips))
    for clip, row in zip(clips, audio.numpy()[:, 0], strict=True):
        with wave.open(io.BytesIO(clip["wav"])) as file:
            pcm = np.frombuffer(file.readframes(samples), dtype="<i2")
        np.multiply(pcm, np.float32(1 / 32768), out=row[: len(pcm)])
        row[len(pcm) :] = 0
    return {"audio": audio, "target": torch.tensor([target_of(clip) for clip in clips])}
$when decoder=soundfile
import soundfile
def decode(clip):
    audio = np.zeros((1, samples), dtype=np.float32)
    pcm, _ = soundfile.read(io.BytesIO(clip["wav"]), dtype="float32")
    audio[0, : len(pcm)] = pcm[:samples]
    return {"audio": audio, "target": target_of(clip)}


def collate(clips):
    return torch.utils.data.default_collate([decode(clip) for clip in clips])
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
