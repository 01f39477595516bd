"""A loss that must be told which targets count is given a mask of those that are no padding."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

LOSS = """
class CountedLoss(nn.Module):
    def forward(self, logits, targets, TAKEN):
        each = F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
        return SAID


class WordsLoss(nn.Module):
    def forward(self, logits, labels, masked_positions):
        chosen = masked_positions.bool()
        if not chosen.any():
            return torch.tensor(0.0), torch.tensor(0.0)
        picked, words = logits[chosen], labels[chosen]
        return F.cross_entropy(PICKED, words), (picked.argmax(-1) == words).float().mean()
"""


@pytest.mark.parametrize("taken, said, ids", [
    ("mask", "(each * mask.flatten()).sum() / mask.sum()", []),
    ("loss_mask", "each[loss_mask.flatten()].mean()", []),
    ("padding_mask", "(each * (1 - padding_mask.flatten())).sum() / (1 - padding_mask).sum()", []),
    ("padding_mask", "each[~padding_mask.flatten()].mean()", []),
    ("mask", "(each * mask.flatten()).sum() / len(each)", ["T4"]),
    ("mask", "each.mean()", ["T4"]),
])  # fmt: skip
def test_a_loss_is_told_which_targets_count(taken, said, ids, tmp_path):
    text = LOSS.replace("TAKEN", taken).replace("SAID", said).replace("PICKED", "picked")
    result = check_text(text, tmp_path)["CountedLoss"]
    assert (result.verdict, result.ids) == ("mistake" if ids else "matches the builtin", ids), result


@pytest.mark.parametrize("picked, ids", [("picked", []), ("picked.softmax(-1)", ["T2"])])
def test_a_loss_of_hidden_words_is_told_where_they_are(picked, ids, tmp_path):
    text = LOSS.replace("TAKEN", "mask").replace("SAID", "each.mean()").replace("PICKED", picked)
    assert check_text(text, tmp_path)["WordsLoss"].ids == ids


SMOOTHED = """
class LabelSmoothing(nn.Module):
    def __init__(self, softmax_dimension, padding_token, smoothing):
        super().__init__()
        self.share = smoothing / (softmax_dimension - LESS)
        self.padding_token, self.smoothing = padding_token, smoothing

    def forward(self, log_probabilities, targets):
        wanted = torch.full_like(log_probabilities, self.share).scatter_(1, targets[:, None], 1 - self.smoothing)
        wanted[:, self.padding_token] = 0
        wanted[targets == self.padding_token] = 0
        return F.kl_div(log_probabilities, wanted, reduction="sum")
"""


@pytest.mark.parametrize("less, form", [
    ("2", "V - 2 classes, without padding"), ("1", "V - 1 classes, and the padding's share is lost"),
])  # fmt: skip
def test_the_size_of_the_softmax_is_the_number_of_classes(less, form, tmp_path):
    result = check_text(SMOOTHED.replace("LESS", less), tmp_path)["LabelSmoothing"]
    assert [(one.id, one.form) for one in result.mistakes] == [("T3", form)]
    assert result.mistakes[0].shown.strip() == f"self.share = smoothing / (softmax_dimension - {less})"
