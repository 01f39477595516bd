"""Text to embeddings to similarity; with the installed weights, similarities that make sense."""

from __future__ import annotations

import warnings

import pytest
import torch

from reference_tests.pretrained.small_model import SIZES, needs_readers, needs_weights, write_model
from scratch_transformer.pretrained import TruncationWarning, cosine, embed, load

SENTENCES = ["the cat sleeps in the house", "a dog", "", "a kitten naps near the garden"]


@pytest.fixture
def small(tmp_path, device):
    write_model(tmp_path)
    return load(tmp_path, device=device, dtype=torch.float64)


@pytest.fixture(scope="module")
def minilm(device):
    return load(device=device)


@needs_readers
def test_one_row_of_length_one_for_each_sentence(small):
    embeddings = embed(SENTENCES, small)
    assert embeddings.shape == (4, SIZES.hidden_size)
    torch.testing.assert_close(embeddings.norm(dim=1), torch.ones_like(embeddings[:, 0]))
    assert not embeddings.requires_grad


@needs_readers
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_the_batch_has_no_influence(small, batch_size):
    together, apart = embed(SENTENCES, small), embed(SENTENCES, small, batch_size=batch_size)
    torch.testing.assert_close(apart, together, rtol=0, atol=1e-13)


@needs_readers
def test_no_sentences_give_no_rows(small):
    assert embed([], small).shape == (0, SIZES.hidden_size)


@needs_readers
def test_a_long_sentence_is_cut_and_reported(small):
    long = "the cat " * 6  # 12 words where nine fit
    with pytest.warns(TruncationWarning, match="sentence 4 has 12 tokens; the model reads the first 9") as caught:
        embeddings = embed(["a", "a cat", "a dog", long, "the dog"], small, batch_size=2)
    assert len(caught) == 1
    torch.testing.assert_close(embeddings[3:4], embed(["the cat " * 4 + "the"], small), rtol=0, atol=1e-13)


@needs_readers
def test_a_sentence_that_just_fits_is_not_reported(small):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert embed(["cat " * 9], small).shape == (1, SIZES.hidden_size)


@needs_readers
@pytest.mark.parametrize("sentences", ["a bare string", ["a", None], [b"bytes"]])
def test_other_things_than_sentences_are_refused(small, sentences):
    with pytest.raises(TypeError, match="sentences must be a list of strings, got"):
        embed(sentences, small)


@needs_readers
def test_a_batch_of_none_is_refused(small):
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        embed(["a"], small, batch_size=0)


def test_cosine_is_torchs():
    a, b = torch.randn(5, 7, dtype=torch.float64), torch.randn(3, 7, dtype=torch.float64)
    expected = torch.nn.functional.cosine_similarity(a[:, None], b[None], dim=-1)
    torch.testing.assert_close(cosine(a, b), expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(cosine(a), cosine(a, a), rtol=0, atol=0)


def test_cosine_with_zero_is_zero():
    assert cosine(torch.zeros(1, 3), torch.ones(2, 3)).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(("a", "b"), [(torch.ones(3), None), (torch.ones(2, 3), torch.ones(2, 4))])
def test_cosine_refuses_what_does_not_match(a, b):
    with pytest.raises(ValueError, match=r"a and b must be \(N, E\) and \(M, E\), got"):
        cosine(a, b)


@needs_readers
@needs_weights
def test_similarities_are_the_published_ones(minilm):
    """The example of https://sbert.net/docs/quickstart.html, to the four digits that it prints."""
    sentences = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    published = torch.tensor([[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]])
    torch.testing.assert_close(cosine(embed(sentences, minilm)).cpu(), published, rtol=0, atol=6e-5)


@needs_readers
@needs_weights
@pytest.mark.parametrize(
    ("sentence", "similar", "dissimilar"),
    [
        ("A man is eating food.", "A man is eating a piece of bread.", "A man is riding a horse."),
        ("How old are you?", "What is your age?", "How are you?"),
        ("The bank raised its interest rates.", "Borrowing became more expensive.", "We sat on the bank of the river."),
        ("A cat sleeps on the sofa.", "A kitten is napping on the couch.", "The parliament passed a new tax law."),
    ],
)
def test_the_similar_sentence_is_closer(minilm, sentence, similar, dissimilar):
    near, far = cosine(embed([sentence, similar, dissimilar], minilm))[0, 1:].tolist()
    assert near > far + 0.1


@needs_readers
@needs_weights
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str)
def test_real_weights_give_the_same_on_our_layers_and_on_torchs(device, dtype, tolerance):
    sentences = ["A cat sleeps on the sofa.", "Colorless green ideas sleep furiously, said he.", "Go."]
    ours = embed(sentences, load(device=device, dtype=dtype))
    theirs = embed(sentences, load(layers=torch.nn, device=device, dtype=dtype))
    assert (ours - theirs).abs().max().item() < tolerance


@needs_readers
@needs_weights
def test_a_real_sentence_alone_is_the_same_as_in_a_batch(minilm):
    sentences = ["Go.", "A considerably longer sentence makes the first one wait for a lot of padding."]
    torch.testing.assert_close(embed(sentences[:1], minilm)[0], embed(sentences, minilm)[0], rtol=0, atol=1e-6)
