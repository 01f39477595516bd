"""Runs that take a fraction of a second: a text of a few hundred words, and a model that learns nothing."""

from scratch_transformer.language.config import Config
from scratch_transformer.language.train import LANGUAGE_MODEL
from scratch_transformer.translation import train

SETTINGS = {
    "data.length": 8,
    "tokens.vocab_size": 270,
    "model.d_model": 12,
    "model.num_layers": 1,
    "model.num_heads": 2,
    "model.num_kv_heads": 1,
    "model.d_ff": 10,
    "model.dropout": 0.1,
    "training.steps": 6,
    "training.batch_tokens": 64,
    "training.schedule": "constant",  # cosine ends after `steps`: a run of fewer has another
    "training.warmup_steps": 3,
    "training.lr_factor": 0.1,
    "training.checkpoint_every": 2,
    "training.keep": 2,
    "training.log_every": 1,
}


def text():
    """Different lines, so that it matters which are trained on."""
    return "".join(f"line {i}: {i * i} is the square of {i}, and café has an é\n" for i in range(60))


def config(folder, **others):
    """The text is written beside the run's folder."""
    file = folder.parent / "text.txt"
    if not file.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text(), encoding="utf-8")
    changes = {name.replace("__", "."): value for name, value in others.items()}
    return Config().replace(**{**SETTINGS, "data.text": str(file), **changes})


def run(folder, **others):
    """A new run; what it said."""
    said = []
    train.train(config(folder, **others), folder, say=said.append, task=LANGUAGE_MODEL)
    return said


def resume(folder, say=lambda line: None, **changes):
    """Go on with one; the perplexity of the held-out text."""
    return train.resume(folder, say=say, task=LANGUAGE_MODEL, **changes)
