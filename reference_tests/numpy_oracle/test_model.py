import math

import numpy as np
import pytest
import torch

from reference_tests.numpy_oracle.against_torch import B, E, F, H, S, T, as_arrays, assert_close, randomized
from scratch_transformer.numpy_oracle import LayerOptions, model_loss, model_loss_backward, sinusoidal_positions

SRC_VOCABULARY, TGT_VOCABULARY, SRC_PAD, TGT_PAD = 11, 13, 3, 0


class Model(torch.nn.Module):
    """The same model from torch's builtins."""

    def __init__(self, norm_first):
        super().__init__()
        self.src_embedding = torch.nn.Embedding(SRC_VOCABULARY, E)
        self.tgt_embedding = torch.nn.Embedding(TGT_VOCABULARY, E)
        self.transformer = torch.nn.Transformer(E, H, 2, 2, F, batch_first=True, norm_first=norm_first)
        self.projection = torch.nn.Linear(E, TGT_VOCABULARY)

    def forward(self, src_ids, tgt_ids):
        positions = torch.from_numpy(sinusoidal_positions(max(S, T), E))
        pad = src_ids == SRC_PAD
        y = self.transformer(
            self.src_embedding(src_ids) * math.sqrt(E) + positions[:S],
            self.tgt_embedding(tgt_ids) * math.sqrt(E) + positions[:T],
            tgt_mask=torch.ones(T, T, dtype=torch.bool).triu(1),
            src_key_padding_mask=pad,
            tgt_key_padding_mask=tgt_ids == TGT_PAD,
            memory_key_padding_mask=pad,
        )
        return self.projection(y)


def batch():
    src_ids = torch.randint(4, SRC_VOCABULARY, (B, S))
    sentences = torch.randint(1, TGT_VOCABULARY, (B, T + 1))
    src_ids[0, -2:] = SRC_PAD
    src_ids[1, :2] = SRC_PAD
    sentences[2, -2:] = TGT_PAD
    return src_ids, sentences[:, :-1], sentences[:, 1:]


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_loss_logits_and_every_gradient_equal_torch(norm_first, label_smoothing):
    model, (src_ids, tgt_ids, labels) = randomized(Model(norm_first)), batch()
    logits = model(src_ids, tgt_ids)
    loss = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), labels, ignore_index=TGT_PAD, label_smoothing=label_smoothing
    )
    loss.backward()
    (found, found_logits), cache = model_loss(
        src_ids.numpy(),
        tgt_ids.numpy(),
        labels.numpy(),
        as_arrays(model.state_dict()),
        LayerOptions(H, batch_first=True, norm_first=norm_first),
        src_pad_id=SRC_PAD,
        tgt_pad_id=TGT_PAD,
        label_smoothing=label_smoothing,
    )
    assert_close(found, loss.detach(), "loss")
    assert_close(found_logits, logits.detach(), "logits")
    gradients = model_loss_backward(cache)
    assert set(gradients) == set(model.state_dict())
    for key, parameter in model.named_parameters():
        assert_close(gradients[key], parameter.grad, key)


def test_train_mode_drops_embeddings_and_layers_by_name_and_matches_finite_differences():
    """Everything at once and without torch: a derivative along a random direction of all parameters together."""
    model, (src_ids, tgt_ids, labels) = randomized(Model(False)), (ids.numpy() for ids in batch())
    parameters, rng, p = as_arrays(model.state_dict()), np.random.default_rng(0), 0.2
    shapes = {"src_embedding_dropout": (B, S, E), "tgt_embedding_dropout": (B, T, E)}
    for side, length, lengths in (
        ("encoder", S, {"self_attn": S}),
        ("decoder", T, {"self_attn": T, "multihead_attn": S}),
    ):
        for layer in (f"transformer.{side}.layers.{i}" for i in range(2)):
            shapes |= {f"{layer}.{name}": (B, H, length, keys) for name, keys in lengths.items()}
            shapes |= {f"{layer}.dropout{i}": (B, length, E) for i in range(1, len(lengths) + 2)}
            shapes[f"{layer}.dropout"] = (B, length, F)
    keep_masks = {name: rng.uniform(size=shape) > p for name, shape in shapes.items()}

    def forward(parameters, keep_masks=keep_masks):
        options = LayerOptions(H, dropout=p, activation="gelu", batch_first=True)
        pads = {"src_pad_id": SRC_PAD, "tgt_pad_id": TGT_PAD}
        return model_loss(src_ids, tgt_ids, labels, parameters, options, **pads, keep_masks=keep_masks)

    gradients = model_loss_backward(forward(parameters)[1])
    direction = {key: rng.normal(size=value.shape) for key, value in parameters.items()}
    h = 1e-6
    above, below = (
        forward({key: value + step * direction[key] for key, value in parameters.items()})[0][0] for step in (h, -h)
    )
    slope = sum(np.sum(gradients[key] * direction[key]) for key in parameters)
    assert (above - below) / (2 * h) == pytest.approx(slope, rel=1e-7)
    assert forward(parameters, None)[0][0] != forward(parameters)[0][0]
    for name in keep_masks:
        with pytest.raises(KeyError, match=f"no mask for dropout '{name.rsplit('.')[-1]}'|no mask for dropout ''"):
            forward(parameters, {key: mask for key, mask in keep_masks.items() if key != name})


def test_bad_input_is_refused():
    ids, options = np.zeros((1, 2), dtype=int), LayerOptions(H, batch_first=True)
    table = {"src_embedding.weight": np.ones((3, E))}
    with pytest.raises(ValueError, match="options must have batch_first=True"):
        model_loss(ids, ids, ids, table, LayerOptions(H), src_pad_id=0, tgt_pad_id=0)
    with pytest.raises(ValueError, match=r"src_embedding: ids must be \(B, T\), but have shape \(2,\)"):
        model_loss(ids[0], ids, ids, table, options, src_pad_id=0, tgt_pad_id=0)
    with pytest.raises(KeyError, match="'tgt_embedding.weight' is missing"):
        model_loss(ids, ids, ids, table, options, src_pad_id=0, tgt_pad_id=0)
    with pytest.raises(IndexError, match=r"ids must be in \[0, 3\)"):
        model_loss(ids + 3, ids, ids, table, options, src_pad_id=0, tgt_pad_id=0)
