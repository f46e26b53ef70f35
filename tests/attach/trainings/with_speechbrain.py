"""SpeechBrain's Brain, whose batches are PaddedBatch."""

import tempfile
import time

import speechbrain
import torch
from speechbrain.dataio.batch import PaddedBatch
from work import STEP, Items, model


class Named(Items):
    """Items as dicts, of lengths that differ."""

    def __getitem__(self, number):
        sound, label = super().__getitem__(number)
        return {"id": str(number), "sound": sound[: 32 + number % 32], "label": torch.tensor([label])}


class Brain(speechbrain.Brain):
    """A linear model."""

    def compute_forward(self, batch, stage):  # noqa: ARG002  # noqa: ARG002
        """Return the model's answer."""
        time.sleep(STEP)
        sound, _ = batch.sound
        return self.modules.network(torch.nn.functional.pad(sound, (0, 64 - sound.shape[1])))

    def compute_objectives(self, predictions, batch, stage):  # noqa: ARG002  # noqa: ARG002
        """Return the loss."""
        return torch.nn.functional.cross_entropy(predictions, batch.label.data.squeeze(1))


if __name__ == "__main__":
    brain = Brain(
        {"network": model()}, lambda parameters: torch.optim.SGD(parameters, lr=0.1), {"output": tempfile.gettempdir()}
    )
    brain.fit(range(5), Named(), train_loader_kwargs={"batch_size": 8, "collate_fn": PaddedBatch})
