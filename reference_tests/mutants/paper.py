"""Components that torch.nn has no builtin for, with oracles straight from the paper."""

import math

import torch
from torch import Tensor, nn

from scratch_transformer import functional, model
from scratch_transformer.conformance import Call, Case, Component, ErrorCase
from scratch_transformer.conformance.draw import VOCABULARY, B, E, S, T
from scratch_transformer.optim import Adam, schedule


def positions(length: int, d_model: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Section 3.5, number by number."""
    table = [
        [(math.cos if i % 2 else math.sin)(pos / 10000 ** (i // 2 * 2 / d_model)) for i in range(d_model)]
        for pos in range(length)
    ]
    return torch.tensor(table, dtype=dtype)


POSITIONS = Component(
    "sinusoidal_positions",
    lambda *args, **kwargs: functional.sinusoidal_positions(
        *args, **kwargs
    ),  # looked up at the call: mutants replace it
    positions,
    "Vaswani et al. 2017, section 3.5",
    cases=(
        Case("even width", lambda draw: Call(S, E), {"dtype": torch.float64}),
        Case("odd width", lambda draw: Call(S, 7), {"dtype": torch.float64}),
        Case("late positions", lambda draw: Call(300, 6), {"dtype": torch.float64}),
    ),
)


class Encoded(nn.Module):
    """x + pe[position], dropped out."""

    def __init__(self, d_model: int, seq_len: int, dropout: float) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("pe", functional.sinusoidal_positions(seq_len, d_model).unsqueeze(0))

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + torch.stack([self.pe[0, t] for t in range(x.shape[1])]))


_ENCODING = {"d_model": E, "seq_len": S, "dropout": 0.3}

ENCODING = Component(
    "PositionalEncoding",
    model.PositionalEncoding,
    Encoded,
    "Vaswani et al. 2017, section 3.5",
    cases=(
        Case("shorter than the longest", lambda draw: Call(draw.normal(B, T, E)), _ENCODING),
        Case("the longest", lambda draw: Call(draw.normal(B, S, E)), _ENCODING),
        Case("training", lambda draw: Call(draw.normal(B, T, E)), _ENCODING, training=True),
    ),
    errors=(
        ErrorCase(
            "too long",
            ValueError,
            ("8", "seq_len=7"),
            _ENCODING,
            lambda draw: Call(draw.normal(B, S + 1, E)),
            torch_raises=False,
        ),
    ),
)


class Embedded(nn.Module):
    """√d_model times a row of the table."""

    def __init__(self, d_model: int, vocab_size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, d_model)

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding.weight[ids] * math.sqrt(self.embedding.weight.shape[1])


EMBEDDINGS = Component(
    "InputEmbeddings",
    model.InputEmbeddings,
    Embedded,
    "Vaswani et al. 2017, section 3.4",
    cases=(Case("ids", lambda draw: Call(draw.ids(B, T)), {"d_model": E, "vocab_size": VOCABULARY}),),
)


def our_rates(d_model: int, warmup_steps: int) -> Tensor:
    """The learning rates of the first steps."""
    return torch.tensor([schedule.warmup_lr(n, d_model, warmup_steps) for n in range(1, 100)], dtype=torch.float64)


def rates(d_model: int, warmup_steps: int) -> Tensor:
    """Section 5.3, equation 3."""
    n = torch.arange(1, 100, dtype=torch.float64)
    return d_model**-0.5 * torch.minimum(n**-0.5, n * warmup_steps**-1.5)


SCHEDULE = Component(
    "warmup_lr",
    our_rates,
    rates,
    "Vaswani et al. 2017, section 5.3",
    cases=(Case("rise and fall", lambda d: Call(512, 40)),),
)


def minimised(optimizer: type, x: Tensor) -> Tensor:
    """x after five steps downhill from x, with the paper's Adam."""
    x = x.detach().clone().requires_grad_()
    adam = optimizer([x], lr=0.1, betas=(0.9, 0.98), eps=1e-9)
    for _ in range(5):
        adam.zero_grad()
        (x**2).sum().backward()
        adam.step()
    return x.detach()


ADAM = Component(
    "Adam",
    lambda x: minimised(Adam, x),
    lambda x: minimised(torch.optim.Adam, x),
    "Vaswani et al. 2017, section 5.3",
    cases=(Case("five steps", lambda draw: Call(draw.normal(T))),),
)

PAPER = {component.name: component for component in (POSITIONS, ENCODING, EMBEDDINGS, SCHEDULE, ADAM)}
