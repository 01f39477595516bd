"""Metrics: by hand where that is possible, and as sacrebleu gives them."""

import math

import pytest
import torch

from reference_tests.translation import small_run
from scratch_transformer import functional, masks
from scratch_transformer.translation import metrics
from scratch_transformer.translation.checkpoint import load_run

REFERENCES = ["the cat sat on the mat today", "one two three four"]


def test_what_is_right_scores_best():
    scores = metrics.text_metrics(REFERENCES, REFERENCES)
    assert scores["BLEU"] == pytest.approx(100) and scores["chrF"] == pytest.approx(100)
    assert scores["CER"] == scores["WER"] == 0
    assert scores["exact_match"] == 1


def test_bleu_is_the_papers_for_one_wrong_word():
    found = ["the cat sat on the mat tonight", "one two three four"]
    scores = metrics.text_metrics(found, REFERENCES)
    precisions = (10 / 11, 8 / 9, 6 / 7, 4 / 5)  # words, pairs, triples, fours that agree; lengths are equal
    assert scores["BLEU"] == pytest.approx(100 * math.prod(precisions) ** 0.25)
    assert scores["WER"] == pytest.approx(1 / 11)
    assert scores["exact_match"] == 0.5


def test_characters_are_counted_over_all_sentences():
    scores = metrics.text_metrics(["sitting", "abc"], ["kitten", "abc"])
    assert scores["CER"] == pytest.approx(3 / 9)
    assert scores["WER"] == pytest.approx(1 / 2)


def test_single_words_have_a_bleu_score():
    assert metrics.text_metrics(["eins", "zwei"], ["eins", "drei"])["BLEU"] == pytest.approx(50)


def test_signatures_are_sacrebleus():
    import sacrebleu

    scores = metrics.text_metrics(REFERENCES, REFERENCES)
    version = f"version:{sacrebleu.__version__}"
    assert scores["BLEU signature"] == f"nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp|{version}"
    assert scores["chrF signature"] == f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|{version}"


def test_four_words_or_more_have_the_usual_bleu():
    import sacrebleu

    found = ["the cat sat on a mat today", "one two three five"]
    expected = sacrebleu.corpus_bleu(found, [REFERENCES]).score
    assert metrics.text_metrics(found, REFERENCES)["BLEU"] == expected


@pytest.mark.parametrize(
    "found, expected, message",
    [
        ([], [], "at least one, but got 0 translations and 0 references"),
        (["a"], ["a", "b"], "got 1 translations and 2 references"),
        (["a", "b"], ["a", " "], "reference 2 is empty"),
    ],
)
def test_what_cannot_be_compared_is_refused(found, expected, message):
    with pytest.raises(ValueError, match=message):
        metrics.text_metrics(found, expected)


def test_tokens_are_scored_as_the_model_scores_them():
    run = load_run(small_run.folder())
    source, target = run.source_tokenizer, run.target_tokenizer
    pairs = [("seven", "zwei"), ("twenty-three", "dreiundzwanzig"), ("two", "zweiundsiebzig")]
    sources = [[*source.encode(text), source.eos_id] for text, _ in pairs]
    actual = metrics.token_metrics(run, sources, [text for _, text in pairs])

    log_p, right = [], []
    for ids, (_, text) in zip(sources, pairs, strict=True):
        output = [*target.encode(text), target.eos_id]
        inputs = torch.tensor([[target.bos_id, *output[:-1]]])
        with torch.no_grad():
            logits = run.model(torch.tensor([ids]), inputs, None, masks.causal(len(output)))[0]
        log_p += functional.log_softmax(logits, -1)[range(len(output)), output].tolist()
        right += (logits.argmax(-1) == torch.tensor(output)).tolist()
    assert actual["token_accuracy"] == sum(right) / len(right) < 1
    assert actual["perplexity"] == pytest.approx(math.exp(-sum(log_p) / len(log_p)), rel=1e-5)
