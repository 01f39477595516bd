"""What the numbers of each mistake look like: layers and stacks, loss, schedule."""

import math

import pytest
import torch

from reference_tests.mutants.catalogue import MUTANTS
from scratch_transformer import functional, nn
from scratch_transformer.conformance import Draw
from scratch_transformer.optim import Adam, schedule

E, H, S, T = 12, 3, 7, 5
X, Y = Draw(1).normal(2, S, E), Draw(2).normal(2, T, E)


def encoder_layer(norm_first=False, dropout=0.0, **options):
    layer = nn.TransformerEncoderLayer(E, H, 17, dropout, norm_first=norm_first, batch_first=True, dtype=torch.float64)
    Draw(3).randomise(layer)
    return layer


def with_zero_sublayers(layer):
    with torch.no_grad():
        for linear in (layer.self_attn.out_proj, layer.linear2):
            linear.weight.zero_()
            linear.bias.zero_()
    return layer


@pytest.mark.parametrize(
    "id, norm_first, expected",
    [
        ("B1", False, lambda layer: X),
        ("B1", True, lambda layer: layer.norm2(layer.norm1(X))),
        ("B2", True, lambda layer: layer.norm2(layer.norm1(X))),
        ("B3", False, lambda layer: X + layer.norm1.bias + layer.norm2.bias),
    ],
)
def test_B1_B2_and_B3_with_sublayers_that_return_zero(id, norm_first, expected):
    with MUTANTS[id].applied():
        layer = with_zero_sublayers(encoder_layer(norm_first))
        assert torch.allclose(layer(X), expected(layer))


def transformer():
    model = nn.Transformer(E, H, 1, 1, 17, dropout=0.0, batch_first=True, dtype=torch.float64)
    Draw(4).randomise(model)
    return model


def test_B4_is_the_paper_and_not_torch():
    right = transformer()
    with MUTANTS["B4-missing"].applied():
        paper = transformer()
    paper.load_state_dict(right.state_dict(), strict=False)
    memory = right.encoder.norm(paper.encoder(X))
    assert torch.allclose(right(X, Y), right.decoder.norm(paper.decoder(Y, memory)))


def test_B6_and_B7_differ_in_training_only():
    for id in ("B6", "B7"):
        right = encoder_layer(dropout=0.5)
        with MUTANTS[id].applied():
            mutant = encoder_layer(dropout=0.5)
        outputs = []
        for layer in (right, mutant):
            torch.manual_seed(0)
            outputs.append(layer(X))
        assert not torch.allclose(*outputs)
        assert torch.equal(right.eval()(X), mutant.eval()(X))


def test_B8_is_off_by_less_than_a_thousandth():
    layer = nn.TransformerEncoderLayer(E, H, activation="gelu")
    with MUTANTS["B8-tanh"].applied():
        mutant = nn.TransformerEncoderLayer(E, H, activation="gelu")
    x = torch.linspace(-5, 5, 10001, dtype=torch.float64)
    difference = (layer.activation(x) - mutant.activation(x)).abs()
    assert difference.max() == pytest.approx(4.73e-4, abs=1e-6)
    assert x[difference.argmax()].abs() == pytest.approx(2.70, abs=0.02)


@pytest.mark.parametrize("id, share", [("B9", 1 / 3), ("B10", 0)])
def test_B9_and_B10_have_fewer_parameters(id, share):
    def count():
        return sum(p.numel() for p in nn.TransformerEncoder(encoder_layer(), 3).parameters())

    right = count()
    with MUTANTS[id].applied():
        assert count() == right * share


def test_B11_leaks_in_evaluation_only():
    layer, changed = encoder_layer(), X.clone()
    changed[:, -1] += 1
    mask = Draw().future(S)
    with MUTANTS["B11"].applied():
        assert torch.equal(layer(X, mask)[:, 0], layer(changed, mask)[:, 0])
        layer.eval()
        assert not torch.allclose(layer(X, mask)[:, 0], layer(changed, mask)[:, 0])


def test_B12_is_random_in_evaluation():
    layer = encoder_layer(dropout=0.5).eval()
    with MUTANTS["B12"].applied():
        assert not torch.equal(layer(X), layer(X))


# ---- Loss ----

V = 11
LOGITS, TARGET = Draw(5).normal(50, V, scale=20.0), Draw(6).ids(50, below=V)


def loss(id, logits=LOGITS, target=TARGET, **options):
    with MUTANTS[id].applied():
        return nn.CrossEntropyLoss(**options)(logits, target)


def test_T1_is_the_same_loss():
    assert loss("T1") == pytest.approx(functional.cross_entropy(LOGITS, TARGET).item(), rel=1e-14)


def test_T2_cannot_become_small():
    certain = torch.eye(V, dtype=torch.float64)[TARGET] * 1000
    bound = math.log(math.e + V - 1) - 1
    assert loss("T2", certain) == pytest.approx(bound)
    assert loss("T2", reduction="none").min() >= bound


def target_probabilities(id, **options):
    """q in ℓ = -Σ q log p, from the gradient of ℓ: p - q."""
    logits = LOGITS[:1].clone().requires_grad_()
    loss(id, logits, torch.tensor([2]), label_smoothing=0.3, **options).backward()
    return (functional.softmax(logits.detach(), -1) - logits.grad)[0].tolist()


def test_T3_has_other_target_probabilities():
    assert target_probabilities("T3-others") == pytest.approx([0.7 if c == 2 else 0.3 / (V - 1) for c in range(V)])
    without_padding = [0.7 if c == 2 else 0.0 if c == 4 else 0.3 / (V - 2) for c in range(V)]
    assert target_probabilities("T3-without-padding", ignore_index=4) == pytest.approx(without_padding)


def test_T4_changes_with_padding():
    padded = torch.cat([TARGET.masked_fill(TARGET == 0, 1), torch.zeros(50, dtype=torch.long)])
    logits = torch.cat([LOGITS, LOGITS])
    right = functional.cross_entropy(logits, padded, ignore_index=0)
    assert loss("T4-mean", logits, padded, ignore_index=0) == pytest.approx(right.item() / 2)
    assert loss("T4-counted", logits, padded, ignore_index=0) == pytest.approx(
        functional.cross_entropy(logits, padded).item()
    )


def test_T5_is_right_if_both_tokenizers_pad_alike():
    assert loss("T5", ignore_index=3) == pytest.approx(functional.cross_entropy(LOGITS, TARGET, ignore_index=4).item())


def test_T7_starts_high_where_the_paper_starts_low():
    assert schedule.warmup_lr(4000, 512) == pytest.approx(6.98771e-4, rel=1e-5)
    assert schedule.warmup_lr(1, 512) == pytest.approx(1.74693e-7, rel=1e-5)
    with MUTANTS["T7-warmup"].applied():
        assert schedule.warmup_lr(1, 512) == pytest.approx(512**-0.5)
        assert schedule.warmup_lr(4000, 512) == pytest.approx(6.98771e-4, rel=1e-5)


def test_T7_remembers_squares_for_longer():
    with MUTANTS["T7-betas"].applied():
        adam = Adam([torch.zeros(1, requires_grad=True)], betas=(0.9, 0.98))
    assert adam.param_groups[0]["betas"] == (0.9, 0.999)
