"""How far single classes, a tutorial's or ours, are from PyTorch's with the same weights, at the paper's widths."""

import math

import torch
from torch import nn

from scratch_transformer import functional
from scratch_transformer import nn as scratch_nn
from scratch_transformer.attention import scaled_dot_product_attention
from scratch_transformer.optim import Adam

D_MODEL, H, D_FF = 512, 8, 2048
B, S, T = 2, 5, 7
SRC_PAD, TGT_PAD = 49, 1


def error(actual, expected):
    """‖actual - expected‖∞ / ‖expected‖∞."""
    return ((actual - expected).abs().max() / expected.abs().max()).item()


def outcome(action, *arguments):
    """The name of the exception that `action` ends in, or "works"."""
    try:
        action(*arguments)
    except Exception as raised:
        return f"`{type(raised).__name__}`"
    return "works"


def embedding_error(taught):
    """Beside nn.Embedding, times √d_model."""
    ids = torch.randint(taught.embedding.num_embeddings, (B, S))
    return error(taught(ids), nn.functional.embedding(ids, taught.embedding.weight) * math.sqrt(D_MODEL))


def positions_error(encoding):
    """The largest difference of an encoding of 5000 positions, made in float32, from the formula of the paper."""
    torch.set_default_dtype(torch.float32)
    pe = encoding(D_MODEL, 5000, 0.0).pe[0]
    torch.set_default_dtype(torch.float64)
    return (pe - functional.sinusoidal_positions(5000, D_MODEL)).abs().max().item()


def normalization_ratio(taught, deviation):
    """Taught / nn.LayerNorm(512) on a vector of mean 0 and standard deviation `deviation`."""
    x = torch.randn(D_MODEL)
    x = (x - x.mean()) / x.std(correction=0) * deviation
    return (taught(x) / nn.LayerNorm(D_MODEL)(x)).mean().item()


def feed_forward_error(first, second, taught):
    """Beside Linear, ReLU, Linear."""
    x = torch.randn(B, T, D_MODEL)
    hidden = nn.functional.relu(nn.functional.linear(x, first.weight, first.bias))
    return error(taught(x), nn.functional.linear(hidden, second.weight, second.bias))


def attention_error(taught, w_o):
    """Beside nn.MultiheadAttention, where every query has a key."""
    q, k, v = torch.randn(B, T, D_MODEL), torch.randn(B, S, D_MODEL), torch.randn(B, S, D_MODEL)
    keep = torch.rand(B, 1, T, S) < 0.6
    keep[..., 0] = True
    torchs = nn.MultiheadAttention(D_MODEL, H, bias=w_o.bias is not None, batch_first=True)
    projections = (taught.w_q, taught.w_k, taught.w_v)
    with torch.no_grad():
        torchs.in_proj_weight.copy_(torch.cat([p.weight for p in projections]))
        if w_o.bias is not None:
            torchs.in_proj_bias.copy_(torch.cat([p.bias for p in projections]))
        torchs.out_proj.load_state_dict(w_o.state_dict())
    blocked = ~keep.expand(B, H, T, S).flatten(0, 1)
    return error(taught(q, k, v, keep), torchs(q, k, v, attn_mask=blocked, need_weights=False)[0])


def attends_to_nothing(taught, w_o):
    """What a query that may attend to no key returns: the mean of all values, or nothing."""
    x, zeros = torch.randn(B, T, D_MODEL), torch.zeros(1, 1, T, T)
    mean = nn.functional.linear(taught.w_v(x).mean(1, keepdim=True), w_o.weight, w_o.bias).expand(B, T, D_MODEL)
    nothing = torch.zeros(B, T, D_MODEL) if w_o.bias is None else w_o.bias.expand(B, T, D_MODEL)
    output = taught(x, x, x, zeros)
    return (
        "the mean of all values" if error(output, mean) < 1e-12 else "nothing" if torch.equal(output, nothing) else "?"
    )


def in_half_precision(taught):
    """What becomes of a masked call in float16."""
    x = torch.randn(B, T, D_MODEL).half()
    return outcome(taught.half(), x, x, x, torch.ones(1, 1, T, T))


def row_sums(taught, kept, dropout_rows=100):
    """The smallest and largest row sum of the weights that a training step keeps, and whether they keep its graph."""
    x = torch.randn(B, dropout_rows, D_MODEL)
    taught.train()(x, x, x, None)
    weights = getattr(taught, kept)
    return weights.sum(-1).min().item(), weights.sum(-1).max().item(), weights.requires_grad


def weight_of_a_blocked_key(attention, score):
    """The weight that a blocked key gets beside an open one whose score is `score`."""
    query, key = torch.full((1, 1, 1, 1), float(score)), torch.tensor([[[[1.0], [0.0]]]])
    return attention(query, key, torch.zeros(1, 1, 2, 1), torch.tensor([1, 0]))[1][0, 0, 0, 1].item()


def formula_errors():
    """The formulas of Tutorial C, written out, beside PyTorch."""
    d, eps = D_MODEL, 1e-5
    x, W_1, W_2 = torch.randn(20, d) * 3 + 1, torch.randn(d, D_FF), torch.randn(D_FF, d)
    b_1, b_2 = torch.randn(D_FF), torch.randn(d)
    over_batch = (x - x.sum(0) / 20) / torch.sqrt(((x - x.sum(0) / 20) ** 2).sum(0) / 20 + eps)
    mean = x.sum(-1, keepdim=True) / d
    over_features = (x - mean) / torch.sqrt(((x - mean) ** 2).sum(-1, keepdim=True) / d + eps)
    pos, two_i = torch.arange(50.0).unsqueeze(1), torch.arange(0.0, d, 2)
    pe = torch.zeros(50, d)
    pe[:, 0::2], pe[:, 1::2] = torch.sin(pos / 10000 ** (two_i / d)), torch.cos(pos / 10000 ** (two_i / d))
    hidden = nn.functional.relu(nn.functional.linear(x, W_1.T, b_1))
    return {
        "positions": error(pe, functional.sinusoidal_positions(50, d)),
        "batch norm": error(over_batch, nn.BatchNorm1d(d, eps)(x)),
        "layer norm": error(over_features, nn.LayerNorm(d, eps)(x)),
        "feed forward": error((x @ W_1 + b_1).clamp(min=0) @ W_2 + b_2, nn.functional.linear(hidden, W_2.T, b_2)),
    }


def batch_norm_error():
    """Our BatchNorm1d beside PyTorch's: in training, the running averages after it, in evaluation."""
    x, ours, torchs = torch.randn(20, D_MODEL) * 3 + 1, scratch_nn.BatchNorm1d(D_MODEL), nn.BatchNorm1d(D_MODEL)
    trained = error(ours(x), torchs(x))
    return max(trained, error(ours.running_var, torchs.running_var), error(ours.eval()(x), torchs.eval()(x)))


def core_error():
    """Our scaled_dot_product_attention beside PyTorch's."""
    q, k, v = torch.randn(B, H, T, 64), torch.randn(B, H, S, 64), torch.randn(B, H, S, 64)
    mask = torch.rand(B, 1, T, S) < 0.6
    return error(scaled_dot_product_attention(q, k, v, mask), nn.functional.scaled_dot_product_attention(q, k, v, mask))


def projection_error(factory):
    """Beside nn.Linear."""
    projection, x = factory(D_MODEL, 60), torch.randn(B, T, D_MODEL)
    return error(projection(x), nn.functional.linear(x, projection.proj.weight, projection.proj.bias))


def adam_error():
    """Parameters after 20 steps of our Adam beside those of PyTorch's."""
    ours, torchs = (nn.Parameter(torch.linspace(-1, 1, 60)) for _ in range(2))
    optimizers = [(Adam([ours]), ours), (torch.optim.Adam([torchs]), torchs)]
    for step in range(20):
        for optimizer, parameter in optimizers:
            parameter.grad = (parameter.detach() + step).sin()
            optimizer.step()
    return error(ours, torchs)


def loss_error_of_log_probabilities():
    """Cross-entropy of log probabilities, as Tutorial D computes it, beside that of the logits."""
    logits, target = torch.randn(20, 60), torch.randint(60, (20,))
    loss = nn.CrossEntropyLoss(label_smoothing=0.1)
    return error(loss(logits.log_softmax(-1), target), loss(logits, target))


def padding_in_the_loss(ignored):
    """How many of 8 padded targets move the loss, when the targets `ignored` are left out."""
    logits, target = torch.randn(20, 60, requires_grad=True), torch.randint(2, 40, (20,))
    target[12:] = TGT_PAD
    nn.CrossEntropyLoss(ignore_index=ignored, label_smoothing=0.1)(logits, target).backward()
    return int(logits.grad[12:].any(-1).sum())
