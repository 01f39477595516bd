"""The sentence beside a mistake: its numbers are those that can be computed by hand."""

import math
from types import SimpleNamespace

import pytest
import torch

from reference_tests.kit.made import variant
from scratch_transformer.kit.judge import evidence as judged
from scratch_transformer.kit.judge.diagnose import diagnose
from scratch_transformer.kit.judge.evidence import evidence, share
from scratch_transformer.kit.judge.search import Change
from scratch_transformer.kit.judge.session import Session
from scratch_transformer.kit.kind import Probe
from scratch_transformer.kit.recipe import RIGHT

OTHER = Change("B1", "", ())


@pytest.mark.parametrize(
    "error, said",
    [
        (0.0, "rounding"),
        (9e-13, "rounding"),
        (1e-12, "1e-10 % of the largest value"),
        (0.0434, "4.3 % of the largest value"),
        (0.996, "100 % of the largest value"),
        (1.0, "1 times the largest value"),
        (2.54, "2.5 times the largest value"),
    ],
)
def test_share(error, said):
    assert share(error) == said


def made_up(error, ordinary=None, builtin="torch.nn.X", provoking=False, inputs=("x",)):
    """A session whose largest error is known, and that on ordinary input."""
    result = SimpleNamespace(probe=Probe("p", {}, shows="tiny tokens", provoking=provoking))
    usual = SimpleNamespace(probe=Probe("q", {}, shows="tokens"))

    def worst(design, **options):
        assert design == RIGHT
        if options == {"ordinary": True}:
            return (math.inf, None) if ordinary is None else (ordinary, usual)
        assert options == {}
        return error, result

    return SimpleNamespace(worst=worst, kind=SimpleNamespace(builtin=builtin, inputs=inputs))


@pytest.mark.parametrize(
    "session, said",
    [
        (made_up(math.inf), "With tiny tokens, shape or NaNs differ from torch.nn.X's."),
        (made_up(1e-12), "With tiny tokens, its output differs from torch.nn.X's by 1e-10 % of the largest value."),
        (made_up(0.5, 0.25), "With tiny tokens, its output differs from torch.nn.X's by 50 % of the largest value."),
        (made_up(0.5, inputs=("next_logits",)), "With tiny tokens, it writes other ids than torch.nn.X."),
        (made_up(1e-12, inputs=("next_logits",)), "With tiny tokens, it writes other ids than torch.nn.X."),
        (made_up(9e-13, inputs=("next_logits",)), "It agrees with torch.nn.X, set up in this way."),
        (made_up(9e-13), "It agrees with torch.nn.X, set up in this way."),
        (made_up(0.5), "With tiny tokens, its output differs from torch.nn.X's by 50 % of the largest value."),
        (
            made_up(0.5, builtin=""),
            "With tiny tokens, its output differs from the reference's by 50 % of the largest value.",
        ),
        (
            made_up(0.5, 0.25, provoking=True),
            "With tiny tokens, its output differs from torch.nn.X's by 50 % of the largest value; "
            "with tokens, by 25 % of the largest value.",
        ),
        (
            made_up(0.5, None, provoking=True),
            "With tiny tokens, its output differs from torch.nn.X's by 50 % of the largest value.",
        ),
    ],
)
def test_how_far_off(session, said):
    assert evidence(session, OTHER, RIGHT) == said


def test_nothing_ran():
    session = SimpleNamespace(worst=lambda design, **options: (math.inf, None), kind=SimpleNamespace(builtin=""))
    assert evidence(session, OTHER, RIGHT) == ""


# ---- Numbers of single mistakes ----


def special(kind, id, settings=None, **changes):
    """What is said before how far off it is."""
    session = Session(variant(kind, settings or {}, **changes))
    change = Change(id, "", tuple(changes.items()))
    said, general = evidence(session, change, RIGHT), judged._general(session, RIGHT)
    assert said.endswith(general) and general
    return said.removesuffix(general).rstrip(" "), session


def test_unbiased():
    said, _ = special("LayerNorm", "LN1", {"d_model": 12}, ddof=1)
    ratio = math.sqrt(11 / 12)
    seen, ideal = said.removesuffix(" for n = 12.").split(" times PyTorch's; √((n - 1)/n) is ")
    assert ideal == f"{ratio:.6f}"
    assert float(seen.removeprefix("Its normalized values are ")) == pytest.approx(ratio, abs=2e-5)


def test_unbiased_in_what_is_no_norm():
    said, _ = special("EncoderLayer", "LN1", {"d_model": 12, "num_heads": 3}, ddof=1)
    assert said == f"√((n - 1)/n) is {math.sqrt(11 / 12):.6f} for n = 12."


def test_eps_outside():
    said, session = special("LayerNorm", "LN2", eps_inside=False)
    result = next(r for r in session.ran if r.probe.name == "shrinking")
    x, eps = result.probe.inputs["x"][-1, -1], session.settings["eps"]
    sigma = x.std(correction=0)
    ratio = ((sigma**2 + eps).sqrt() / (sigma + eps)).item()
    assert said == f"For the token with the smallest deviation it gives {ratio:.4g} times PyTorch's values."
    assert special("EncoderLayer", "LN2", eps_inside=False)[0] == ""


@pytest.mark.parametrize("kind", ["LayerNorm", "RMSNorm"])
def test_a_ratio_is_of_the_last_tokens_normalized_features(kind):
    session = Session(variant(kind))
    assert judged._ratio(session, "ordinary") == pytest.approx(1, abs=1e-12)
    assert judged._ratio(session, "no such probe") is None
    place = next(i for i, r in enumerate(session.results) if r.probe.name == "ordinary")
    result = session.results[place]
    bias = session.state.get("bias", torch.zeros(()))
    session.results[place] = type(result)(result.probe, bias + 3 * (result.output - bias))
    assert judged._ratio(session, "ordinary") == pytest.approx(3, abs=1e-12)
    only_last = result.output.clone()
    only_last[-1, -1] = bias + 2 * (result.output[-1, -1] - bias)
    session.results[place] = type(result)(result.probe, only_last)
    assert judged._ratio(session, "ordinary") == pytest.approx(2, abs=1e-12)
    session.results[place] = type(result)(result.probe, result.output[..., :-1])
    assert judged._ratio(session, "ordinary") is None
    session.results[place] = type(result)(result.probe, None)
    assert judged._ratio(session, "ordinary") is None


@pytest.mark.parametrize(
    "settings, scale, said",
    [
        ({"d_model": 36, "num_heads": 4}, "none", "1; 1/√d_k is 0.3333 for d_k = 9."),
        ({"d_model": 36, "num_heads": 4}, "1/sqrt(d_model)", "0.1667; 1/√d_k is 0.3333 for d_k = 9."),
        ({"d_model": 36, "num_heads": 4}, "1/sqrt(h)", "0.5; 1/√d_k is 0.3333 for d_k = 9."),
        ({"d_model": 36, "num_heads": 4}, "1/sqrt(S)", "0.378 (for 7 keys); 1/√d_k is 0.3333 for d_k = 9."),
        ({"d_model": 36, "num_heads": 4}, "1/sqrt(B)", "0.7071 (for 2 samples); 1/√d_k is 0.3333 for d_k = 9."),
        ({"d_model": 36, "num_heads": 4, "d_k": 16}, "1/d_k", "0.0625; 1/√d_k is 0.25 for d_k = 16."),
    ],
)
def test_scaled(settings, scale, said):
    change = Change("A1", "", (("scale", scale),))
    session = SimpleNamespace(settings=settings)
    assert judged._scaled(session, change) == f"The scores are multiplied by {said}"


def test_a_wrong_scale_with_how_far_off_it_is():
    said, _ = special("SelfAttention", "A1", {"d_model": 36, "num_heads": 4}, scale="none")
    assert said == "The scores are multiplied by 1; 1/√d_k is 0.3333 for d_k = 9."


def test_a_ratio_is_of_norms_only():
    session = Session(variant("FeedForward"))
    assert judged._ratio(session, session.ran[0].probe.name) is None


def test_scaled_elsewhere():
    session = SimpleNamespace(settings={"d_model": 36, "num_heads": 4})
    assert judged._scaled(session, Change("A1", "", (("scale_place", "after softmax"),))) == ""
    both = Change("A1", "", (("scale_place", "after softmax"), ("scale", "1/sqrt(d_model)")))
    assert judged._scaled(session, both).startswith("The weights, after the softmax, are multiplied by ")


@pytest.mark.long
def test_of_several_mistakes_it_is_said_what_each_makes_alone():
    diagnosis = diagnose(variant("EncoderLayer", {}, ddof=1, eps_inside=False))
    said = {f.mistake.id: f.evidence for f in diagnosis.findings if f.mistake.id in ("LN1", "LN2")}
    assert all("That is what LN1 and LN2 make together" in text for text in said.values())
    alone = {id: text.rpartition("alone makes ")[2] for id, text in said.items()}
    assert alone["LN1"] != alone["LN2"]
