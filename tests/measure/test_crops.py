"""Random crops and flips: real parts of the image, by their seed; what is no part is told apart."""

import pytest
import torch

from scripts.measure.crops import Crops, is_part
from scripts.measure.tasks import augment
from tests.support.loader_cases import request_for, write_format
from tests.support.made_corpus import make_corpus

IMAGES = torch.randint(256, (16, 3, 32, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(3))


def test_crops_are_parts_of_their_images_and_half_of_them_mirrored():
    crops = Crops(0)(IMAGES)
    assert crops.shape == (16, 3, 28, 35) and crops.dtype == torch.uint8
    assert all(is_part(crop, image) for crop, image in zip(crops, IMAGES, strict=True))
    parts = IMAGES.unfold(2, 28, 1).unfold(3, 35, 1)
    plain = [
        any(torch.equal(parts[at, :, top, left], crop) for top in range(5) for left in range(6))
        for at, crop in enumerate(crops)
    ]
    assert 2 < sum(plain) < 14, "some are mirrored, some are not"


def test_the_same_seed_gives_the_same_crops_and_another_one_others():
    first, again, other = (Crops(seed)(IMAGES) for seed in (5, 5, 6))
    assert torch.equal(first, again) and not torch.equal(first, other)
    random = Crops(5)
    assert torch.equal(random(IMAGES), first) and not torch.equal(random(IMAGES), first), "the next batch has others"


def test_the_way_of_a_gpu_gives_the_same(monkeypatch):
    """It indexes; here on a CPU that says that it is none."""

    class Elsewhere(torch.Tensor):
        @property
        def device(self):
            return type("Device", (), {"type": "cuda"})()

    monkeypatch.setattr(torch.Tensor, "to", lambda self, *_: self)
    found = Crops(5)(IMAGES.as_subclass(Elsewhere))
    assert torch.equal(found.as_subclass(torch.Tensor), Crops(5)(IMAGES))


@pytest.mark.parametrize("wrong", [
    lambda image: image.flip(1)[:, :28, :35],
    lambda image: image.flip(0)[:, :28, :35],
    lambda image: torch.roll(image, 1, 2)[:, 2:30, :35],
    lambda image: (image ^ 1)[:, :28, :35],
    lambda image: image.transpose(1, 2)[:, :28, :28],
    lambda image: image.float()[:, :28, :35],
    lambda image: torch.nn.functional.pad(image, (3, 3, 3, 3))[:, :28, :35],
    lambda _image: IMAGES[1, :, :28, :35],
])  # fmt: skip
def test_what_is_no_part_is_told_apart(wrong):
    image = IMAGES[0]
    assert is_part(image[:, 3:31, 2:37], image) and is_part(image[:, 3:31, 2:37].flip(2), image)
    assert not is_part(wrong(image), image)


def test_the_task_reads_crops_and_refuses_a_wrong_one_and_other_data(tmp_path, monkeypatch):
    from scripts.kinds import image

    corpus = make_corpus(tmp_path / "images", items=20, kind=image.Kind((20, 24)))
    write_format(corpus, "memmap", tmp_path / "memmap", readers=1)
    request = request_for(corpus, "numpy_memmap", tmp_path / "memmap")
    batch = {"image": IMAGES, "target": torch.arange(16), "labels": torch.zeros(16, 5), "item": torch.arange(16)}
    checksum = augment.sink(request).consume(batch)
    assert checksum.item.tolist() == list(range(16))
    for name, other in (
        ("image", IMAGES.flip(3)),
        ("labels", torch.ones(16, 5)),
        ("target", torch.zeros(16, dtype=torch.int64)),
    ):
        found = augment.sink(request).consume(batch | {name: other})
        same = [torch.equal(one, two) for one, two in zip(found, checksum, strict=True)]
        assert same.count(False) == 1, f"other {name} in a timed epoch is seen by its checksum"
    monkeypatch.setattr("scripts.measure.crops.Crops.__call__", lambda _self, images: images.flip(1))
    with pytest.raises(ValueError, match="the crop of item 0 is no part of its image"):
        augment.sink(request).consume(batch)
