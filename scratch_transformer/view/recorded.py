"""Interim: every named tensor of one pass, by torch.nn.functional. To be replaced by the trace."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from scratch_transformer.translation.checkpoint import Run


def recorded(run: Run, source: list[int], prefix: list[int]) -> dict[str, Tensor]:
    w = {n: p.detach().double() for n, p in run.model.state_dict().items()}
    m, out = run.config.model, {}

    def put(name: str, x: Tensor) -> Tensor:
        out[name] = x
        return x

    def norm(src: str, at: str, x: Tensor) -> Tensor:
        put(f"{at}.mean", x.mean(-1, keepdim=True)), put(f"{at}.variance", x.var(-1, unbiased=False, keepdim=True))
        put(f"{at}.normalized", F.layer_norm(x, x.shape[-1:]))
        return put(f"{at}.output", F.layer_norm(x, x.shape[-1:], w[f"{src}.alpha"], w[f"{src}.bias"]))

    def attend(at: str, x: Tensor, y: Tensor, causal: bool) -> Tensor:
        def lin(n: str, z: Tensor) -> Tensor:
            return F.linear(z, w[f"{at}_block.{n}.weight"], w.get(f"{at}_block.{n}.bias"))

        def split(z: Tensor) -> Tensor:
            return z.unflatten(-1, (m.num_heads, -1)).transpose(0, 1)

        q, k, v = (put(f"{at}.{n}", split(lin(f"w_{n[0]}", z))) for n, z in (("query", x), ("key", y), ("value", y)))
        s = put(f"{at}.scores", q @ k.mT / q.shape[-1] ** 0.5)
        if causal:
            s = s.masked_fill(torch.ones(s.shape[-2:]).triu(1).bool(), float("-inf"))
        put(f"{at}.masked_scores", s)
        put(f"{at}.weights", F.softmax(s, -1))
        o = put(f"{at}.heads", F.scaled_dot_product_attention(q, k, v, is_causal=causal))
        return put(f"{at}.output", lin("w_o", put(f"{at}.concatenated", o.transpose(0, 1).flatten(1))))

    def sub(at: str, i: int, x: Tensor, f) -> Tensor:  # type: ignore[no-untyped-def]
        n = f"{at}.residual_connections.{i}"
        if m.norm == "pre":
            return put(f"{n}.sum", x + f(norm(f"{n}.norm", f"{n}.norm", x)))
        return norm(f"{n}.norm", f"{n}.norm", put(f"{n}.sum", x + f(x)))

    def feed(at: str, x: Tensor) -> Tensor:
        b = f"{at}.feed_forward_block"
        h = put(f"{at}.feed_forward.linear_1", F.linear(x, w[f"{b}.linear_1.weight"], w[f"{b}.linear_1.bias"]))
        h = put(f"{at}.feed_forward.activation", F.relu(h))
        return put(f"{at}.feed_forward.output", F.linear(h, w[f"{b}.linear_2.weight"], w[f"{b}.linear_2.bias"]))

    def embed(side: str, ids: list[int]) -> Tensor:
        x = put(f"{side}_embed.output", F.embedding(torch.tensor(ids), w[f"{side}_embed.embedding.weight"]) * m.d_model**0.5)
        pe = w[f"{side}_pos.pe"]
        pe = put(f"{side}_pos.pe", (pe[0] if pe.dim() == 3 else pe)[: len(ids)])
        return put(f"{side}_pos.output", x + pe)

    x = embed("src", source)
    for i in range(m.num_layers):
        at = f"encoder.layers.{i}"
        x = sub(at, 0, x, lambda z, at=at: attend(f"{at}.self_attention", z, z, False))
        x = sub(at, 1, x, lambda z, at=at: feed(at, z))
    memory = norm("encoder.norm", "encoder.norm", x) if m.norm == "pre" else x
    x = embed("tgt", prefix)
    for i in range(m.num_layers):
        at = f"decoder.layers.{i}"
        x = sub(at, 0, x, lambda z, at=at: attend(f"{at}.self_attention", z, z, True))
        x = sub(at, 1, x, lambda z, at=at: attend(f"{at}.cross_attention", z, memory, False))
        x = sub(at, 2, x, lambda z, at=at: feed(at, z))
    x = norm("decoder.norm", "decoder.norm", x) if m.norm == "pre" else x
    logits = put("logits", F.linear(x, w["projection_layer.proj.weight"], w["projection_layer.proj.bias"]))
    put("probabilities", F.softmax(logits, -1))
    return out
