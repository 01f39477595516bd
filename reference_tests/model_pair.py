"""The tutorials' model and the same model around `torch.nn.Transformer`, small and with all sizes distinct."""

import math

import torch
from torch import nn

from scratch_transformer import masks
from scratch_transformer.conversion import from_torch, to_torch
from scratch_transformer.model import build_transformer

B, S, T = 2, 5, 7
D_MODEL, H, N, D_FF = 12, 3, 2, 17  # d_k = 4
SRC_VOCAB, TGT_VOCAB, SRC_LENGTH, TGT_LENGTH = 19, 23, 11, 13
SRC_PAD, TGT_PAD = 18, 1

OURS_TO_TORCH = {
    "src_embed.embedding.weight": "src_embedding.weight",
    "tgt_embed.embedding.weight": "tgt_embedding.weight",
    "projection_layer.proj.weight": "projection.weight",
    "projection_layer.proj.bias": "projection.bias",
}


def small_model(dropout=0.0, **options):
    model = build_transformer(
        SRC_VOCAB, TGT_VOCAB, SRC_LENGTH, TGT_LENGTH, D_MODEL, N, H, dropout=dropout, d_ff=D_FF, **options
    )
    return randomised(model)


def randomised(module):
    """Every parameter drawn anew: biases of zero and scales of one hide mistakes."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    return module


def draw_ids(padding="right"):
    """src (B, S) and tgt (B, T), the second sentence of each padded on the side `padding`, or "none"."""
    src, tgt = torch.randint(2, SRC_PAD, (B, S)), torch.randint(2, TGT_VOCAB, (B, T))
    where = {"right": slice(-2, None), "left": slice(None, 2), "none": slice(0)}[padding]
    src[1, where] = SRC_PAD
    tgt[1, where] = TGT_PAD
    return src, tgt


def our_masks(src, tgt):
    return masks.padding(src, SRC_PAD), masks.padding(tgt, TGT_PAD) & masks.causal(tgt.shape[1], device=tgt.device)


def formula_of_the_paper(length, d_model):
    """Section 3.5, one number at a time."""
    rows = [[_code(pos, k, d_model) for k in range(d_model)] for pos in range(length)]
    return torch.tensor(rows, dtype=torch.float64)


def _code(pos, k, d_model):
    angle = pos / 10000 ** ((k - k % 2) / d_model)
    return math.cos(angle) if k % 2 else math.sin(angle)


class TorchModel(nn.Module):
    """Embedding · √d_model + positions, torch.nn.Transformer, projection; with the weights of `ours`."""

    def __init__(self, ours, norm_first, dropout=0.0, final_norm=None):
        super().__init__()
        final_norm = norm_first if final_norm is None else final_norm
        self.src_embedding = nn.Embedding(SRC_VOCAB, D_MODEL)
        self.tgt_embedding = nn.Embedding(TGT_VOCAB, D_MODEL)
        self.projection = nn.Linear(D_MODEL, TGT_VOCAB)
        self.dropout = nn.Dropout(dropout)
        options = {"dropout": dropout, "batch_first": True, "norm_first": norm_first}
        encoder_layer = nn.TransformerEncoderLayer(D_MODEL, H, D_FF, **options)
        decoder_layer = nn.TransformerDecoderLayer(D_MODEL, H, D_FF, **options)
        norms = [nn.LayerNorm(D_MODEL) if final_norm else None for _ in range(2)]
        self.transformer = nn.Transformer(
            D_MODEL,
            H,
            custom_encoder=nn.TransformerEncoder(
                encoder_layer, len(ours.encoder.layers), norms[0], enable_nested_tensor=False
            ),
            custom_decoder=nn.TransformerDecoder(decoder_layer, len(ours.decoder.layers), norms[1]),
            **options,
        )
        state = ours.state_dict()
        outside = {theirs: state[name] for name, theirs in OURS_TO_TORCH.items()}
        stacks = {f"transformer.{name}": values for name, values in to_torch(state).items()}
        self.load_state_dict(outside | stacks)

    def forward(self, src, tgt):
        src_padding, tgt_padding = src == SRC_PAD, tgt == TGT_PAD
        later = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool, device=tgt.device).triu(1)
        memory = self.transformer.encoder(self.embed(src, self.src_embedding), src_key_padding_mask=src_padding)
        decoded = self.transformer.decoder(
            self.embed(tgt, self.tgt_embedding),
            memory,
            tgt_mask=later,
            tgt_key_padding_mask=tgt_padding,
            memory_key_padding_mask=src_padding,
        )
        return self.projection(decoded)

    def embed(self, ids, embedding):
        positions = formula_of_the_paper(ids.shape[1], D_MODEL).to(embedding.weight)
        return self.dropout(embedding(ids) * math.sqrt(D_MODEL) + positions)

    def gradients(self):
        """By our names."""
        gradients = {name: parameter.grad for name, parameter in self.named_parameters()}
        stacks = {name.removeprefix("transformer."): grad for name, grad in gradients.items() if "transformer." in name}
        return {name: gradients[theirs] for name, theirs in OURS_TO_TORCH.items()} | from_torch(stacks)


def gradients(model):
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def assert_equal(ours, theirs, tolerance=1e-12):
    """‖ours - theirs‖∞ ≤ tolerance · ‖theirs‖∞ for every tensor of two dicts.

    A tensor that is zero by mathematics, as the gradient of a key's bias is, consists of rounding errors: no tensor's
    norm counts as less than 1/1000 of the largest one.
    """
    assert ours.keys() == theirs.keys()
    floor = max(tensor.abs().max() for tensor in theirs.values()) / 1000
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape and ours[name].dtype == expected.dtype, name
        error = (ours[name] - expected).abs().max() / expected.abs().max().clamp(min=floor)
        assert error <= tolerance, f"{name}: relative error {error:.2e}"
