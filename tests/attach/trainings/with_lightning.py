"""Lightning's Trainer, with a validation loader beside the training's."""

import time

import lightning
import torch
from torch.utils.data import DataLoader
from work import STEP, Items, model


class Module(lightning.LightningModule):
    """A linear model."""

    def __init__(self):
        super().__init__()
        self.network = model()

    def training_step(self, batch, _number):
        """Return the loss."""
        time.sleep(STEP)
        return torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def validation_step(self, batch, _number):
        """Look at a batch."""
        self.network(batch[0])

    def configure_optimizers(self):
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


if __name__ == "__main__":
    trainer = lightning.Trainer(
        max_epochs=20, accelerator="cpu", logger=False, enable_checkpointing=False, limit_train_batches=40
    )
    trainer.fit(Module(), DataLoader(Items(), batch_size=8, shuffle=True), DataLoader(Items(64, 0.0), batch_size=8))
