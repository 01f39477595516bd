"""What a training needs of each GPU, computed from the model and from what DDP and FSDP2 keep and send."""

import torch
from torch._subclasses import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef

from scratch_transformer.translation import checkpoint, config
from scratch_transformer.translation.objective import Objective

PRESETS, GPUS, WORDS = ("base", "big"), (1, 2, 4, 8), 32
FLOAT = 4
"""Bytes of a parameter, a gradient, and each of Adam's two moments."""


def table():
    """Memory and traffic of each GPU in each step, for every preset, engine and number of GPUs."""
    rows = ["| | GPUs | | parameters, gradients, moments | activations | sent in a step |", "| --- " * 6 + "|"]
    for preset in PRESETS:
        settings = config.preset(preset)
        model = built(settings)
        total, layers, layer = sizes(model)
        of_token, name = saved_bytes(settings) / WORDS, f"{preset}, {total / 1e6:.0f} million parameters"
        for gpus in GPUS:
            activations = settings.training.batch_tokens / gpus * of_token
            for engine, of in (("DDP", ddp), ("FSDP2", fsdp)) if gpus > 1 else (("alone", alone),):
                states, sent = of(total, layers, layer, gpus)
                cells = [name, gpus, engine, *(f"{size / 1e9:.2f} GB" for size in (states, activations, sent))]
                rows.append("| " + " | ".join(map(str, cells)) + " |")
                name = ""
    return "\n".join(rows)


def built(settings):
    """The model, without memory for its numbers."""
    with torch.device("meta"):
        return checkpoint.build_model(settings, settings.tokens.vocab_size, settings.tokens.vocab_size)


def sizes(model):
    """Parameters in all, those of all layers, and of the largest layer: what `distribution.wrap` shards together."""
    each = [sum(p.numel() for p in layer.parameters()) for layer in (*model.encoder.layers, *model.decoder.layers)]
    return sum(p.numel() for p in model.parameters()), sum(each), max(each)


def alone(total, layers, layer, gpus):
    """(bytes kept, bytes sent): parameter, gradient and two moments of everything."""
    return 4 * FLOAT * total, 0


def ddp(total, layers, layer, gpus):
    """The same everywhere, and buckets with all gradients; these go round a ring twice: added up, and shared out."""
    return 5 * FLOAT * total, 2 * (gpus - 1) / gpus * FLOAT * total


def fsdp(total, layers, layer, gpus):
    """A share of each; whole are, with their gradients, what is outside of the layers, and a layer, with the next one's
    parameters. Parameters are gathered, those of layers once more for the backward pass; gradients are shared out.
    """
    outside = total - layers
    whole = 2 * outside + 3 * layer
    return FLOAT * (4 * total / gpus + whole), (gpus - 1) / gpus * FLOAT * (2 * layers + outside + total)


def saved_bytes(settings):
    """What is kept for the backward pass of a pair, counted while it is computed; and the gradient of the logits."""
    size = settings.tokens.vocab_size
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        kept[StorageWeakRef(storage)] = storage.nbytes()
        return tensor

    with FakeTensorMode():  # shapes without numbers
        objective = Objective(checkpoint.build_model(settings, size, size), settings.training.label_smoothing)
        ids = torch.ones(1, WORDS, dtype=torch.int64)
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            objective(ids, ids, ids)
        for parameter in objective.parameters():
            kept.pop(StorageWeakRef(parameter.untyped_storage()), None)
    return sum(kept.values()) + FLOAT * WORDS * size
