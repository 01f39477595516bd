"""Runs that take a fraction of a second: numbers below 300, and a model that learns nothing."""

from scratch_transformer.translation.config import Config
from scratch_transformer.translation.train import resume, train

SETTINGS = {
    "data.below": 300,
    "data.pairs": 120,
    "data.held_out": 8,
    "data.validation": 9,
    "data.max_length": 16,
    "tokens.kind": "word",
    "tokens.vocab_size": 200,
    "model.d_model": 12,
    "model.num_layers": 1,
    "model.num_heads": 3,
    "model.d_ff": 10,
    "model.dropout": 0.1,
    "training.steps": 6,
    "training.batch_tokens": 96,
    "training.warmup_steps": 3,
    "training.lr_factor": 0.1,
    "training.checkpoint_every": 2,
    "training.keep": 2,
    "training.exact_match": 2,
    "training.samples": 1,
    "training.log_every": 1,
}


def config(**others):
    return Config().replace(**{**SETTINGS, **{name.replace("__", "."): value for name, value in others.items()}})


def run(folder, **others):
    """A new run; what it said."""
    said = []
    train(config(**others), folder, say=said.append)
    return said


def go_on(folder, **changes):
    """A run resumed; what it said."""
    said = []
    resume(folder, say=said.append, **changes)
    return said


def content(folder):
    """Every file of a run but TensorBoard's, whose names and times differ."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and "tensorboard" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
