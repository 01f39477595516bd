import pytest
import torch
from torch.nn.functional import cross_entropy

from scratch_transformer.language.objective import Objective, documents
from scratch_transformer.language_model import Config, LanguageModel

END = 9


@pytest.fixture
def model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "max_length": 12, "d_model": 8, "num_layers": 2, "num_heads": 2, "d_ff": 6}
    return LanguageModel(Config.llama(**sizes, num_kv_heads=1)).double()


def test_the_loss_is_the_sum_over_the_targets_that_count(model):
    ids, targets = torch.randint(9, (2, 7)), torch.randint(9, (2, 7))
    targets[0, 4:] = -100
    expected = cross_entropy(model(ids).flatten(0, 1), targets.flatten(), reduction="sum")
    torch.testing.assert_close(Objective(model)(ids, targets), expected)
    torch.testing.assert_close(Objective(model).eval()(ids, targets), expected.repeat(2))


def test_which_tokens_are_of_one_document_and_where_they_stand_in_it():
    mask, positions = documents(torch.tensor([[1, 2, END, 3, END, END, 4]]), END)
    assert positions.tolist() == [[0, 1, 0, 1, 0, 0, 1]]
    groups = torch.tensor([0, 0, 1, 1, 2, 3, 3])
    assert mask.shape == (1, 1, 7, 7)
    assert torch.equal(mask[0, 0], groups == groups.unsqueeze(-1))


@pytest.mark.parametrize("apart", [True, False])
def test_packed_documents_apart_have_the_losses_that_each_has_alone(model, apart):
    texts = [torch.tensor([END, *torch.randint(9, (length,))]) for length in (3, 1, 4)]
    packed = torch.cat([*texts, torch.tensor([END])])
    together = Objective(model, END if apart else None)(packed[None, :-1], packed[None, 1:])
    alone = sum(Objective(model)(text[None], torch.cat([text[1:], torch.tensor([END])])[None]) for text in texts)
    assert torch.isclose(together, alone, rtol=1e-6) == apart


def test_autocast_computes_the_model_in_bfloat16_and_the_loss_in_float32(model):
    ids, targets = torch.randint(9, (2, 7)), torch.randint(9, (2, 7))
    exact, rounded = (Objective(model.float(), None, dtype)(ids, targets) for dtype in (None, torch.bfloat16))
    assert rounded.dtype == torch.float32
    assert 0 < abs(exact - rounded) < 0.01 * exact
