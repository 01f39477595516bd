"""The page's arithmetic: Python's tokens, Python's translations, and the catalogue's mistakes to the last digits."""

import json
import random

import pytest
import tokenizers
import torch

from scratch_transformer import masks
from scratch_transformer.kit.canonical.stacks import Seq2Seq
from scratch_transformer.kit.recipe import Recipe
from scratch_transformer.translation import tokenizer
from scratch_transformer.translation.config import Data, Model
from scratch_transformer.translation.corpus.numbers import in_words
from scratch_transformer.translation.translator import Search, encode, translate
from scratch_transformer.view import payload
from scratch_transformer.view.mistakes import offered

ODD = ["", " ", "a\u00a0b", "▁a", "a▁b", "é", "e\u0301", "\ufeffx", "a\x1cb", "日本語 x", "<eos> a", "😀😀", "a-b,c."]


TYPED = """(texts) => texts.map((text) => {
    const sentence = document.getElementById("sentence");
    sentence.value = text;
    sentence.dispatchEvent(new Event("input"));
    return document.getElementById("answer").textContent;
})"""
"""What is answered to each text, as if it was typed: a browser that waits for each picture takes long."""


def test_translates_as_python_does(run, open_page):
    texts = [text for text, _ in run.held_out()[:100]]
    texts += [text for text, _ in in_words([*range(0, 100, 2), *range(100, 1000, 18)], Data())]
    assert len(set(texts)) >= 200
    found = translate(run, [encode(run, text, text) for text in texts], Search())
    visit = open_page("#at=src_embed.scaled")
    expected = [run.target_tokenizer.decode(hypothesis.ids) for [hypothesis] in found]
    for text, translation in list(zip(texts, expected, strict=True))[:10]:
        assert visit.translate(text) == translation
    assert visit.page.evaluate(TYPED, texts) == expected
    assert visit.errors == []


@pytest.mark.parametrize("kind", ["bpe", "word", "char", "bpe of whole words"])
def test_tokens_are_pythons(kind, run, open_page):
    draw = random.Random(0)
    corpus = [text for pair in run.held_out()[:300] for text in pair] + ["Ünïcode, 日本 & more: a-b (c)! <eos> x_y"]
    ours = tokenizer.train(kind.partition(" ")[0], 90, corpus)
    if kind == "bpe of whole words":  # as earlier versions made it
        ours.library.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace("▁", prepend_scheme="always")
    texts = [*ODD, *corpus[:40], corpus[-1]]
    texts += ["".join(draw.choices("abz üé,-▁ \t日<>.", k=draw.randrange(1, 20))) for _ in range(200)]
    of_page = open_page().page.evaluate(
        """([of, texts]) => { const t = new view.Tokenizer(of); return texts.map((text) => {
            const ids = t.encode(text); return [ids, t.decode(ids)]; }); }""",
        [payload.tokenizer(ours), texts],
    )
    for text, (ids, back) in zip(texts, of_page, strict=True):
        assert ids == ours.encode(text), (kind, text)
        assert back == ours.decode(ids), (kind, text)


MISTAKES = [
    (entry["id"], form, change)
    for entry in offered(Model())
    for form, change in entry["forms"].items()
    if "decoding" not in change
]


def canonical(run, changes):
    """The kit's model with the run's weights."""
    m = run.config.model
    sizes = {"d_model": m.d_model, "num_heads": m.num_heads, "d_ff": m.d_ff, "num_layers": m.num_layers, "max_len": 64}
    sizes |= {"src_pad": 0, "tgt_pad": 0}
    sizes |= {"src_vocab_size": run.source_tokenizer.vocab_size, "tgt_vocab_size": run.target_tokenizer.vocab_size}
    model = Seq2Seq(sizes, Recipe().with_({"norm_order": "pre", "final_norm": True, **changes})).double().eval()
    state = {kits_name(name): values for name, values in run.model.state_dict().items() if not name.endswith(".pe")}
    model.load_state_dict({name: state[name] for name in model.state_dict()})
    return model


def kits_name(name):
    for ours, kits in (
        ("self_attention_block", "self_attn"), ("cross_attention_block", "cross_attn"), ("_block", ""),
        ("linear_", "linear"), ("projection_layer.proj", "projection"), (".embedding.weight", ".weight"),
        (".alpha", ".weight"),
        *((f"residual_connections.{i}.norm", f"norm{i + 1}") for i in range(3)),
    ):  # fmt: skip
        name = name.replace(ours, kits)
    return name


def test_every_mistake_is_the_catalogues(run, open_page):
    """The logits of a padded sentence with each mistake, beside those of the kit's own model with it."""
    source = encode(run, "four hundred and twenty-one", "")
    source, target = [*source, 0, 0, 0], [2, *translate(run, [source], Search())[0][0].ids]
    masked = masks.padding(torch.tensor([source]), 0), masks.causal(len(target))[None, None]
    found = open_page().page.evaluate(
        """([source, target, all]) => all.map((changes) =>
            [...view.session.model.forward(source, target, {changes}).data])""",
        [source, target, [{}, *(changes for _, _, changes in MISTAKES)]],
    )
    right, *wrong = (torch.tensor(logits, dtype=torch.float64) for logits in found)
    assert len(MISTAKES) > 80
    for (id, form, changes), ours in zip([("", "", {}), *MISTAKES], [right, *wrong], strict=True):
        with torch.no_grad():
            expected = canonical(run, changes)(torch.tensor([source]), torch.tensor([target]), *masked).flatten()
        # the model keeps its table of positions in float32
        assert torch.allclose(ours, expected, rtol=1e-5, atol=2e-6), (id, form)
        if changes and (id, form) not in INVISIBLE:
            assert not torch.allclose(ours, right, rtol=0, atol=1e-6), f"{id} {form} changes nothing"


INVISIBLE = {
    ("LN5", ""): "in float64, two ways to compute one variance",
    ("A10", "-10000"): "no score is below -10000",
    ("A21", "key and value are swapped"): "both are the same tensor in every layer",
}
"""Mistakes that a trained model of this size does not show, and why."""


@pytest.mark.parametrize(
    ("mistake", "seen"),
    [("D4", "#cut:text('no end in sight')"), *((id, "#answer:not(:text-is('sieben'))") for id in ("D6", "D8"))],
)
def test_mistakes_of_decoding(mistake, seen, open_page):
    visit = open_page("#s=seven")
    assert visit.text("#answer") == "sieben"
    visit.page.evaluate(f"location.hash = '#s=seven&mistake={mistake}'")
    visit.page.wait_for_selector(seen)


def test_the_page_carries_the_catalogues_own_words(run, open_page):
    document = json.loads(open_page().page.evaluate("document.getElementById('data').textContent"))
    assert document["mistakes"] == json.loads(json.dumps(offered(run.config.model)))
