"""What several loaders say of themselves alike: settings, options, what can be left out, the order of an epoch."""

from collections.abc import Mapping
from typing import Any

from scripts.common.request import LoaderRequest
from scripts.common.settings import OF_WORKERS as SETTINGS  # noqa: F401
from scripts.common.vocabulary import STAGES, simplify

DECODING = (*STAGES, "decode")  # the STAGES of those that decode
GATHER = {"gather": {"enum": ["batch", "item"], "default": "batch"}}  # whole batches, or item by item
REUSE = {"reuse": {"enum": [False, True], "default": False}}  # one buffer for all batches, of this process on a CPU
LIBRARIES = {
    "simplejpeg": "simplejpeg",
    "pillow": "pillow",
    "pillow_simd": "pillow-simd",  # installed in Pillow's place, by the same name
    "opencv": "opencv-python-headless",
    "torchvision": "torchvision",
}
DECODER = {"decoder": {"enum": list(LIBRARIES), "default": "simplejpeg", "requires": LIBRARIES}}  # of images
SHUFFLE = {"shuffle_buffer": {"type": "integer", "minimum": 1, "default": 1000}}
OF_ENCODED_ROWS = {"decoder": {"enum": ["soundfile", "torchcodec"], "default": "soundfile"}}
OF_ENCODED_ROWS["decoder"]["requires"] = {name: name for name in OF_ENCODED_ROWS["decoder"]["enum"]}
OF_WAV_SHARDS = {"decoder": {"enum": ["wave", "soundfile"], "default": "wave"}, **SHUFFLE}
# The ORDER of an epoch by WebDataset, LitData and MosaicML Streaming.
SHARDS = "shards in random order, then a shuffle buffer"
CHUNKS = "chunks in random order, items shuffled within a chunk"
NEAR = "shards in random order, items near to their shard"


def simplify_reuse(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as `simplify` does, `reuse` null where each batch has memory of its own."""
    here = settings["reuse"] and not settings["workers"] and settings["device"] == "cpu"
    return simplify(settings) | {"reuse": True if here and settings.get("gather") != "item" else None}


def simplify_threads(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with at least one worker, of a library whose workers are threads that it cannot do without."""
    return {**settings, "workers": max(1, settings["workers"])}


def lifetime(settings: Mapping[str, Any]) -> str:
    """Return how long a batch of a loader with REUSE lasts."""
    return "next" if settings["reuse"] else "lasting"


def buffered(request: LoaderRequest) -> int:
    """Return the items in the shuffle buffers of all workers: a buffer fills by reading two items for each it gives."""
    return request.options["shuffle_buffer"] * max(1, request.workers) if request.shuffle else 0


def never(request: LoaderRequest) -> str | None:
    """Return why the decoder cannot decode the files of a data set, or None: it knows no PNG."""
    if request.options["decoder"] == "simplejpeg" and request.sample.ending != "jpg":
        return f"simplejpeg decodes JPEG, the data set's files are .{request.sample.ending}: take another decoder"
    return None
