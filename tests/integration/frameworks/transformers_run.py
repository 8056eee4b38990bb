"""Two ranks under Hugging Face's Trainer: `transformers_run.py FILE DIRECTORY DOCUMENTS`."""

import json
import sys
from pathlib import Path

import torch
import transformers

import fastload
from fastload import FastParquetDataset
from fastload.integrations.transformers import Trainer
from forking import run_ranks
from packed_model import PackedModel, packed_dataset

COLUMNS = {"rows": "id", "labels": "price", "name": "name"}


class Model(torch.nn.Module):
    """Remembers the rows that it was trained on."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1)
        torch.nn.init.zeros_(self.linear.weight)
        torch.nn.init.zeros_(self.linear.bias)
        self.seen = []

    def forward(self, rows, labels, name):
        assert name[0] == f"row {rows[0]}"
        if self.training:
            self.seen.append(rows.tolist())
        logits = torch.stack([rows.float(), self.linear(labels[:, None])[:, 0]], dim=1)
        return {"loss": (logits[:, 1] - labels).square().mean(), "logits": logits}


def dataset_of(path, **options):
    options = {"batch_size": 50, "shuffle": True, "shuffle_window": 200, **options}
    return FastParquetDataset(path, columns=COLUMNS, threads=1, **options)


def trainer_of(path, directory, kind=Trainer, model=Model, dataset=dataset_of, **arguments):
    arguments = {
        "num_train_epochs": 3,
        "gradient_accumulation_steps": 4,
        "save_steps": 2,
        **arguments,
    }
    settings = transformers.TrainingArguments(
        str(directory / "run"),
        use_cpu=True,
        save_strategy="steps",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        learning_rate=0.1,
        **arguments,
    )
    return kind(model(), settings, train_dataset=dataset(path))


def trained(path, directory, checkpoint=None, **arguments):
    """The rows of each batch, and the weights at the end."""
    trainer = trainer_of(path, directory, **arguments)
    if checkpoint is not None:
        checkpoint = directory / "run" / f"checkpoint-{checkpoint}"
    trainer.train(resume_from_checkpoint=checkpoint and str(checkpoint))
    weights = [weight.item() for weight in trainer.model.parameters()]
    return {"rows": trainer.model.seen, "weights": weights, "epoch": trainer.state.epoch}


def refused(work):
    try:
        work()
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return None


def evaluated(path, directory):
    """What is predicted, and the loss, by `uneven`; one rank has a row and a batch more."""
    trainer = trainer_of(path, directory)
    found = {}
    for uneven in ("keep", "pad"):
        dataset = dataset_of(path, uneven=uneven, limit=901, shuffle=False)
        predicted = trainer.predict(dataset)
        loss = trainer.evaluate(dataset)["eval_loss"]
        found[uneven] = [predicted.predictions[:, 0].tolist(), predicted.label_ids.tolist(), loss]
    return found


def packed(directory, checkpoint=None):
    """The tokens of each step of two epochs of packed rows, and a sum of the weights."""
    arguments = {"num_train_epochs": 2, "gradient_accumulation_steps": 1, "save_steps": 4}
    if checkpoint is not None:
        arguments["save_steps"] = 100
        checkpoint = str(directory / "packed" / "run" / f"checkpoint-{checkpoint}")
    trainer = trainer_of(
        sys.argv[3], directory / "packed", model=PackedModel, dataset=packed_dataset, **arguments
    )
    trainer.train(resume_from_checkpoint=checkpoint)
    ahead = trainer.predict(packed_dataset(sys.argv[3], shuffle=False))
    return {
        "steps": len(trainer.train_dataset),
        "tokens": trainer.model.seen,
        "weights": trainer.model.sum(),
        "labels": ahead.label_ids[ahead.label_ids != -100].tolist(),
    }


def main(rank, directory):
    path = sys.argv[1]
    plain = trainer_of(path, directory, transformers.Trainer)
    return {
        "plain": refused(plain.train),
        "whole": trained(path, directory),
        # After 4 of the 10 batches of the second epoch, and after all of them.
        "in mid-epoch": trained(path, directory, 4, save_steps=100),
        "at its end": trained(path, directory, 6, save_steps=100),
        "with a worker": trained(
            path,
            directory,
            4,
            save_steps=100,
            dataloader_num_workers=1,
            restore_callback_states_from_checkpoint=True,
        ),
        "miscounted": refused(
            lambda: trained(path, directory, 4, save_steps=100, gradient_accumulation_steps=5)
        ),
        "not counted": trained(
            path, directory, 4, save_steps=100, gradient_accumulation_steps=5, ignore_data_skip=True
        ),
        "evaluated": evaluated(path, directory),
        "packed": packed(directory),
        "packed, in mid-epoch": packed(directory, 4),
        "mixed": mixed(path, directory),
        "mixed, in mid-epoch": mixed(path, directory, 2),
    }


def mixed(path, directory, checkpoint=None):
    """The rows of each batch of a mix, and the number of rows that the Trainer counts."""

    def mix_of(path):
        sources = {
            "head": dataset_of(path, limit=500, batch_size=40),
            "tail": dataset_of(path, offset=500, batch_size=30),
        }
        return fastload.mix(sources, stop="all")

    trainer = trainer_of(path, directory / "mixed", dataset=mix_of, num_train_epochs=1)
    if checkpoint is not None:
        checkpoint = str(directory / "mixed" / "run" / f"checkpoint-{checkpoint}")
    trainer.train(resume_from_checkpoint=checkpoint)
    counted = trainer.num_examples(trainer.get_train_dataloader())
    predicted = trainer.predict(mix_of(path)).predictions[:, 0].tolist()
    return {"rows": trainer.model.seen, "counted": counted, "predicted": predicted}


def alone(path, directory):
    """The checkpoints of two ranks go on on one."""
    plain = trainer_of(path, directory, transformers.Trainer)
    counted = refused(lambda: trained(path, directory, 4))
    return {
        "plain": refused(plain.train),
        "counted": counted,
        **trained(path, directory, 4, ignore_data_skip=True),
        "packed": packed(directory, 4),
    }


if __name__ == "__main__":
    run_ranks(main, 2, sys.argv[2])
    report = alone(sys.argv[1], Path(sys.argv[2]))
    Path(sys.argv[2], "alone.json").write_text(json.dumps(report))
