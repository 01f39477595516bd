"""What trains is read and not run: what it uses is not said to be judged in it, and it is tried as no component."""

import pytest
from torch import nn

from reference_tests.kit.learners.checked import reported
from scratch_transformer.kit.resolve.sorts import A_PART, A_PIECE, MEASURES, TRAINS, methods_of, sort_of


def weighed(logits, weight):
    return logits * weight


class Trained(nn.Module):
    def forward(self, x):
        return x

    def train_epoch(self, batches, optimizer):
        for x in batches:
            optimizer.zero_grad()
            weighed(self(x), 2).sum().backward()


class Used(Trained):
    def forward(self, x):
        return weighed(x, 2)


@pytest.mark.parametrize("whole, is_part", [(Trained, False), (Used, True)])
def test_only_what_is_run_judges_its_pieces(whole, is_part):
    assert (sort_of("weighed", weighed, [whole]) == A_PART.format(whole.__name__)) == is_part


class TranslationRunner:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    @staticmethod
    def split(target):
        return target[:, :-1], target[:, 1:]

    @staticmethod
    def total_bleu(texts):
        return sum(map(len, texts))

    def one(self, source, target):
        given, wanted = self.split(target)
        loss = self.model(source, given, wanted)
        loss.backward()
        self.optimizer.param_groups[0]["lr"] = 1e-3
        return self.total_bleu([]), loss


def test_of_what_is_not_judged_its_pieces_are_not_either():
    piece, measures = f"{TranslationRunner.__name__}.split", f"{TranslationRunner.__name__}.total_bleu"
    said = methods_of("TranslationRunner", TranslationRunner, [])
    assert (said[piece], said[measures]) == (A_PIECE.format("TranslationRunner"), MEASURES)
    judged = methods_of("TranslationRunner", TranslationRunner, ["TranslationRunner"])
    assert judged[piece] == judged[measures] == A_PART.format("TranslationRunner")


class TrainingMetrics:
    def __init__(self):
        self.total = 0.0

    def update(self, loss):
        self.total += loss


def sentence_bleu(text, reference):
    return float(text == reference)


def test_what_measures_is_no_training_and_no_text():
    assert sort_of("TrainingMetrics", TrainingMetrics) == sort_of("sentence_bleu", sentence_bleu) == MEASURES
    assert sort_of("TranslationRunner", TranslationRunner) == TRAINS


LOOPS = """
import torch
import torch.nn.functional as F


def generate_text(model, ids, max_new_tokens):
    for _ in range(max_new_tokens):
        ids = torch.cat((ids, model(ids)[:, -1:].argmax(-1)), 1)
    return ids


def train_model(model, batches, optimizer, start):
    for x, y in batches:
        optimizer.zero_grad()
        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        optimizer.step()
    print(generate_text(model, start, 9))
    return model


def attention_of(model, ids):
    return [block.attn(ids) for block in model.blocks]


class BPETokenizer:
    def __init__(self):
        self.pairs, self.ids = [], {}

    def _train_from_text(self, text, size):
        while len(self.ids) < size:
            self.pairs.append(max(set(zip(text, text[1:])), key=text.count))
        return self.pairs

    def encode(self, text):
        return [self.ids[letter] for letter in text]

    def decode(self, ids):
        return "".join(map(str, ids))


class LinearWithLoRA(torch.nn.Module):
    def __init__(self, linear, rank, alpha):
        super().__init__()
        self.linear, self.scale = linear, alpha / rank
        self.down = torch.nn.Parameter(torch.zeros(linear.in_features, rank))
        self.up = torch.nn.Parameter(torch.zeros(rank, linear.out_features))

    def forward(self, x):
        return self.linear(x) + self.scale * (x @ self.down @ self.up)


class DecisionTransformer(torch.nn.Module):
    def __init__(self, state_dim, act_dim, d_model=64):
        super().__init__()
        self.of_states, self.of_returns = torch.nn.Linear(state_dim, d_model), torch.nn.Linear(1, d_model)
        self.of_actions, self.layer = torch.nn.Embedding(act_dim, d_model), torch.nn.TransformerEncoderLayer(d_model, 4)
        self.head = torch.nn.Linear(d_model, act_dim)

    def forward(self, returns_to_go, states, actions):
        x = torch.stack((self.of_returns(returns_to_go), self.of_states(states), self.of_actions(actions)), 2)
        return self.head(self.layer(x.flatten(1, 2))[:, 1::3])
"""


@pytest.mark.long
def test_what_trains_writes_a_tokenizer_or_adapts_is_said_to_be_that(tmp_path):
    path = tmp_path / "loops.py"
    path.write_text(LOOPS, encoding="utf-8")
    found = reported(path)
    said = dict(one.split(" (", 1) for one in found.ignored)
    assert [one.name for one in found.results] == ["generate_text"]
    assert said["train_model"] == f"{TRAINS})"
    assert said["attention_of"] == "it works on a model that it is given)"
    assert said["BPETokenizer"] == said.get("BPETokenizer._train_from_text", said["BPETokenizer"]) == "of a tokenizer)"
    assert "LoRA" in said["LinearWithLoRA"] and "Decision Transformer" in said["DecisionTransformer"]
