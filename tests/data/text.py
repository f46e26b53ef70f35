"""Text: the first bytes of each file, as numbers."""

from dataclasses import asdict, dataclass

from scripts.common.sample import Sample

VERSION = 1
OPTIONS = {"length": {"type": "integer", "minimum": 1, "default": 256, "description": "bytes; shorter: left out"}}


@dataclass(frozen=True)
class Kind:
    """What every text of the corpus has in common."""

    length: int = 256

    @property
    def sample(self):
        """What a delivered text is."""
        shape, as_it_is = (self.length,), "none: as it is in the file"
        return Sample("text", "uint8", shape, "uint8", as_it_is, kind="text", ending="txt")

    def check(self):
        """Nothing can be wrong that the schema does not see."""

    def pieces(self, row, path):  # noqa: ARG002
        """Yield the one text of a file."""
        import numpy as np

        from scripts.common.decode import Rejected

        with open(path, "rb") as file:
            content = file.read(self.length)
        if len(content) < self.length:
            raise Rejected(f"too short: {len(content)} bytes, length asks for {self.length}")
        yield np.frombuffer(content, np.uint8)

    def write(self, path, text):
        """Write a text as the corpus keeps it."""
        path.write_bytes(text.tobytes())
        return text

    def about(self, frames):  # noqa: ARG002
        """Return what corpus.json says besides."""
        return {"options": asdict(self)}


def read(source, sample):
    """Return the bytes of a file of the corpus."""
    import numpy as np

    content = source.read_bytes() if hasattr(source, "read_bytes") else source.read()
    if len(content) != sample.bytes:
        raise ValueError("another length")
    return np.frombuffer(content, np.uint8)


def fixed(values, sample):  # noqa: ARG001
    """Return the same: texts have their length already."""
    return values


def delivered(values, sample, out=None):
    """Return the same bytes, in `out` where that is given."""
    if out is None:
        return values.reshape(sample.shape)
    out[...] = values.reshape(sample.shape)
    return out


def examine(found, item, corpus, owner, limit):  # noqa: ARG001
    """Say what is wrong with a delivered text: it must be the corpus's to the bit."""
    from scripts.common.corpus import item_hash
    from scripts.kinds._contract import Found

    if item_hash(found) == item.hash:
        return Found()
    other = owner(found)
    return Found("has other bytes" if other is None else f"is text {other}")
