"""A torch.autograd.Function is judged as a function: what it computes, its gradients, and its flag for the future."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

TEXT = """
class TiledAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal=False):
        outputs, sums = [], []
        for i in range(0, q.shape[-2], 4):
            rows = q[..., i : i + 4, :]
            most = torch.full((*rows.shape[:-1], 1), -math.inf, dtype=q.dtype)
            total, out = torch.zeros_like(most), torch.zeros_like(rows)
            for j in range(0, k.shape[-2], 4):
                scores = rows @ k[..., j : j + 4, :].transpose(-2, -1) / q.shape[-1] ** 0.5
                if is_causal:
                    places = torch.arange(rows.shape[-2])[:, None] + i, torch.arange(scores.shape[-1]) + j
                    scores = scores.masked_fill(places[1] > places[0], -1e6)
                new = torch.maximum(most, scores.amax(-1, keepdim=True))
                weights = (scores - new).exp()
                total = (most - new).exp() * total + weights.sum(-1, keepdim=True)
                out = (most - new).exp() * out + weights @ v[..., j : j + 4, :]
                most = new
            outputs.append(out / total)
            sums.append(most + total.log())
        out = torch.cat(outputs, -2)
        ctx.save_for_backward(q, k, v, out, torch.cat(sums, -2))
        ctx.is_causal = is_causal
        return out

    @staticmethod
    def backward(ctx, given):
        q, k, v, out, sums = ctx.saved_tensors
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if ctx.is_causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1).bool(), -1e6)
        weights = (scores - sums).exp()
        inner = weights * (given @ v.transpose(-2, -1) - (out * given).sum(-1, keepdim=True)) / q.shape[-1] ** 0.5
        return inner @ k, inner.transpose(-2, -1) @ q, weights.transpose(-2, -1) @ given, None


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps=1e-5):
        root = (x.pow(2).mean(-1, keepdim=True) + eps).rsqrt()
        ctx.save_for_backward(x, weight, root)
        return x * root * weight

    @staticmethod
    def backward(ctx, given):
        x, weight, root = ctx.saved_tensors
        inner = given * weight
        of_x = inner * root - x * root.pow(3) * (inner * x).mean(-1, keepdim=True)
        return of_x, (given * x * root).flatten(0, -2).sum(0), None


class SoftmaxFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        shares = torch.softmax(x, -1)
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx, given):
        (shares,) = ctx.saved_tensors
        return shares * (given - (given * shares).sum(-1, keepdim=True))


class GeluFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        return inputs[0]
"""


def test_it_is_judged_as_a_function(tmp_path):
    found = check_text(TEXT, tmp_path)
    assert {name: (one.kind, one.ids) for name, one in found.items() if name != "GeluFunction"} == {
        "TiledAttention": ("ScaledDotProductAttention", ["A8"]),  # with is_causal=True, in half precision
        "RMSNormFunction": ("RMSNorm", []),
        "SoftmaxFunction": ("softmax", []),
    }
    said = "Its backward was judged too: PyTorch's are the gradients of "
    assert all(
        any(note.startswith(said) for note in found[name].notes) for name in ("TiledAttention", "SoftmaxFunction")
    )
    assert not any("is_causal" in limit for limit in found["TiledAttention"].limits)


@pytest.mark.parametrize(
    ("name", "old", "new", "id", "line"),
    [
        ("TiledAttention", "places[1] > places[0], -1e6)", "places[1] > places[0] + 99, -1e6)", "A25", "masked_fill("),
        ("TiledAttention", ".sum(-1, keepdim=True)) / q.shape[-1] ** 0.5\n", ".sum(-1, keepdim=True))\n", "B33",
         "def backward(ctx, given):"),
        ("TiledAttention", "if ctx.is_causal:", "if False:", "B33", "def backward(ctx, given):"),
        ("TiledAttention", "transpose(-2, -1) / q.shape[-1] ** 0.5\n      ", "transpose(-2, -1)\n      ", "A1",
         "scores = rows @ k"),
        ("RMSNormFunction", "(inner * x).mean(", "(inner * x).sum(", "B33", "def backward(ctx, given):"),
        ("SoftmaxFunction", "(given - (given * shares).sum(-1, keepdim=True))", "(1 - shares) * given", "B33",
         "def backward(ctx, given):"),
    ],
)  # fmt: skip
def test_its_mistake_is_named_with_its_line(name, old, new, id, line, tmp_path):
    assert old in TEXT
    mistakes = [one for one in check_text(TEXT.replace(old, new), tmp_path)[name].mistakes if one.severity == "mistake"]
    assert id in [one.id for one in mistakes]
    shown = next(one for one in mistakes if one.id == id)
    assert line in shown.shown, shown.code


def test_a_backward_that_is_not_written_yet_is_no_mistake(tmp_path):
    begin = TEXT.index("        (shares,) = ctx.saved_tensors")
    end = TEXT.index("\n\n\nclass GeluFunction")
    result = check_text(TEXT[:begin] + "        raise NotImplementedError" + TEXT[end:], tmp_path)["SoftmaxFunction"]
    assert result.ids == [] and "Its backward was not judged: it is not written yet." in result.notes
