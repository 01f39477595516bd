"""What makes masks, whatever it is called: functions by what they do, methods, small classes, several masks at once."""

import pytest

from reference_tests.kit.learners.checked import check_text

pytestmark = pytest.mark.long

FUNCTIONS = """
def make_the_mask(tokens, pad_value, device="cpu"):
    filled = torch.full_like(tokens, pad_value).to(device)
    return (tokens != filled){rows}

def causal_bool(sz, device):
    return torch.triu(torch.ones(sz, sz, device=device), diagonal={first}).bool()

def get_tgt_mask(size):
    mask = torch.tri{half}(torch.ones(size, size) == 1).float()
    return mask.masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, 0.0)

def hidden_by_the_mask(seq):
    return (seq == {pad}).unsqueeze(1)

def future_of(n):
    return torch.arange(n)[None, :] {compared} torch.arange(n)[:, None]

def get_trg_pad_mask(seq, pad_idx):
    words = (seq != pad_idx).view(len(seq), 1, 1, -1)
    return words & torch.tri{side}(torch.ones(1, 1, seq.shape[1], seq.shape[1], dtype=torch.int64))
"""
RIGHT = {"rows": "[:, None, None, :]", "first": 1, "half": "l", "side": "l", "pad": 3, "compared": ">"}
NAMES = ("make_the_mask", "causal_bool", "get_tgt_mask", "hidden_by_the_mask", "future_of", "get_trg_pad_mask")


def test_a_function_is_known_by_what_it_does(tmp_path):
    results = check_text(FUNCTIONS.format(**RIGHT), tmp_path)
    assert {name: results[name].verdict for name in NAMES} == dict.fromkeys(NAMES, "matches the builtin")
    kinds = {name: results[name].kind for name in NAMES}
    assert [name for name in NAMES if kinds[name] == "PaddingMask"] == ["make_the_mask", "hidden_by_the_mask"], kinds
    assert "It hides this id as padding, whatever it is told: 3." in results["hidden_by_the_mask"].notes


@pytest.mark.parametrize(
    ("change", "name", "id"),
    [
        ({"rows": "[:, None, :, None]"}, "make_the_mask", "A7"),
        ({"first": 0}, "causal_bool", "A6"),
        ({"half": "u"}, "get_tgt_mask", "A5"),  # what is added says itself what it blocks
        ({"compared": ">="}, "future_of", "A6"),
        ({"side": "u"}, "get_trg_pad_mask", "A5"),
    ],
)
def test_its_mistake_is_named(change, name, id, tmp_path):
    results = check_text(FUNCTIONS.format(**RIGHT | change), tmp_path)
    assert {one: results[one].severe for one in NAMES} == {one: [id] if one == name else [] for one in NAMES}


OTHERS = """
def mask_words(ids, vocab_size, share=0.15):
    chosen = torch.rand(ids.shape) < share
    return torch.where(chosen & (ids != 0), vocab_size, ids)

def count_masked(target, pad):
    return (target != pad).float().mean()

class MaskedMean(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x):
        return self.out(x.mean(1))
"""


def test_what_hides_words_or_counts_them_makes_no_mask(tmp_path):
    results = check_text(OTHERS, tmp_path)
    assert not {"mask_words", "MaskedMean"} & results.keys()
    assert not any(result.severe for result in results.values())


# ---- Methods ----

MODEL = """
class Translator(nn.Module):
    def __init__(self, vocab, d_model, pad_idx=0, device="cpu"):
        super().__init__()
        self.pad_idx, self.device = pad_idx, device
        self.embedding, self.out = nn.Embedding(vocab, d_model), nn.Linear(d_model, vocab)

    def get_tgt_mask(self, size):
        return torch.tril(torch.ones(size, size{told})).bool()

    def create_pad_mask(self, matrix, pad_token):
        return matrix == pad_token

    def both(self, tgt):
        return tgt

    def target_mask(self, tgt):
        return (tgt {differs} self.pad_idx){rows} & self.get_tgt_mask(tgt.shape[1])

    def pad_mask_inside(self, ids):
        return (ids == {pad})[:, None]

    def forward(self, x):
        return self.out(self.embedding(x)) * self.pad_mask_inside(x).transpose(1, 2)
"""
OF_MODEL = {"told": ", device=self.device", "differs": "!=", "rows": "[:, None, None]", "pad": "self.pad_idx"}


def of_methods(change, tmp_path):
    results = check_text(MODEL.format(**OF_MODEL | change), tmp_path)
    return {name: one.severe for name, one in results.items() if name.startswith("Translator.")}


def test_methods_that_forward_does_not_call_are_judged(tmp_path):
    names = ("get_tgt_mask", "create_pad_mask", "target_mask")
    assert of_methods({}, tmp_path) == {f"Translator.{name}": [] for name in names}


@pytest.mark.parametrize(
    ("change", "id"),
    [({"rows": "[:, None, :, None]"}, "A7"), ({"told": ""}, "B32")],
)
def test_the_mistake_of_a_method_is_named(change, id, tmp_path):
    """Padding on the queries, beside the future, too: harmless, as this file fills nothing with -∞."""
    assert check_text(MODEL.format(**OF_MODEL | change), tmp_path)["Translator.target_mask"].ids == [id]


def test_a_function_may_be_for_batches_that_are_not_moved(tmp_path):
    function = """
def target_mask(tgt, pad, device=None):
    return (tgt != pad)[:, None, None] & torch.ones(tgt.shape[1], tgt.shape[1]).tril().bool()
"""
    assert check_text(function, tmp_path)["target_mask"].severe == []


BROKEN = """
class Block(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.attend = nn.MultiheadAttention(d_model, num_heads, batch_first=True)

    def make_causal_mask(self, ids):
        return torch.triu(torch.ones(ids.shape[1], ids.shape[1]), diagonal={0}).bool()

    def make_pad_mask(self, q, k, pad_idx_q, pad_idx_k):
        kept = q.ne(pad_idx_q)[:, :, None].repeat(1, 1, k.shape[1])
        return kept & k.ne(pad_idx_k)[:, None].repeat(1, q.shape[1], 1)

    def mask_of_some(self, ids):
        return self.some.eq(ids)

    def forward(self, x):
        mask = self.make_causal_mask(x) & self.make_pad_mask(x, x, 0, 0) & self.mask_of_some(x)
        return self.attention(x, x, x, attn_mask=mask)[0]
"""


@pytest.mark.parametrize(("first", "ids"), [(1, []), (0, ["A6"])])
def test_of_a_class_that_stops_its_own_masks_are_judged(first, ids, tmp_path):
    results = check_text(BROKEN.format(first), tmp_path)
    assert results["Block.make_causal_mask"].severe == ids
    assert (results["Block.make_pad_mask"].verdict, results["Block.make_pad_mask"].ids) == (
        "harmless deviation",
        ["A11"],
    )
    assert results["Block.mask_of_some"].verdict == "crashed"  # B26 is the class's


# ---- Classes ----

CLASSES = """
class Mask:
    def __init__(self, pad=0):
        self.pad = pad

    def forward(self, ids):
        return (ids != self.pad){rows}

class Triangle_Mask(nn.Module):
    def forward(self, batch_dim, seq_len):
        return torch.tri{half}(torch.ones(batch_dim, seq_len, seq_len))

class Masks:
    def of_source(self, ids, pad):
        return (ids == pad)[:, None]

    def of_target(self, ids, pad):
        return self.of_source(ids, pad) | torch.ones(ids.shape[1], ids.shape[1]).triu({first}).bool()
"""


@pytest.mark.parametrize(
    ("change", "name", "ids"),
    [
        ({}, "", []),
        ({"rows": "[..., None]"}, "Mask", ["A7"]),
        ({"first": 0}, "Masks.of_target", ["A6"]),
    ],
)
def test_small_classes_of_masks(change, name, ids, tmp_path):
    text = CLASSES.format(**{"rows": "[:, None, None]", "half": "l", "first": 1} | change)
    found = {one: result.severe for one, result in check_text(text, tmp_path).items()}
    names = ("Mask", "Triangle_Mask", "Masks.of_source", "Masks.of_target")
    assert found == {one: ids if one == name else [] for one in names}


GENERATOR = """
class MaskGenerator:
    def __init__(self, pad_id=0, device="cpu"):
        self.pad_id, self.device = pad_id, device

    def padding_mask(self, batch):
        return (batch == self.pad_id).to(self.device)

    def look_ahead(self, seq_len):
        return torch.triu(torch.ones(seq_len, seq_len, device=self.device), {first}) == 1

    def __call__(self, src, tgt):
        return self.padding_mask(src), self.look_ahead(tgt.size(1))
"""


@pytest.mark.parametrize(("first", "ids"), [(1, []), (2, ["A6"])])
def test_of_a_class_that_gives_several_masks_the_methods_are_judged(first, ids, tmp_path):
    found = {one: result.severe for one, result in check_text(GENERATOR.format(first=first), tmp_path).items()}
    assert found == {"MaskGenerator.padding_mask": [], "MaskGenerator.look_ahead": ids}


# ---- Several at once ----

SEVERAL = """
def create_masks(src, tgt):  # (length, batch)
    later = torch.triu(torch.ones(tgt.shape[0], tgt.shape[0]), diagonal={first}).bool()
    nothing = torch.zeros(src.shape[0], src.shape[0]).bool()
    src_padding = (src == 0).transpose(0, 1)
    return nothing, later, src_padding, (tgt == 0).transpose(0, 1)

def both_masks(source, target, pad):
    source_mask = (source != pad).unsqueeze({axis})
    target_mask = (target != pad).unsqueeze(1)
    return source_mask, target_mask & torch.ones(target.shape[1], target.shape[1]).tril().bool()
"""
EACH = ("create_masks.later", "create_masks.src_padding", "both_masks.source_mask", "both_masks.target_mask")


@pytest.mark.parametrize(
    ("change", "name", "ids"),
    [
        ({}, "", []),
        ({"first": 0}, "create_masks.later", ["A6"]),
        ({"axis": 2}, "both_masks.source_mask", ["A7"]),
    ],
)
def test_each_of_several_masks_is_judged(change, name, ids, tmp_path):
    results = check_text(SEVERAL.format(**{"first": 1, "axis": 1} | change), tmp_path)
    assert {one: results[one].severe for one in EACH} == {one: ids if one == name else [] for one in EACH}
    assert all(not result.severe for one, result in results.items() if one not in EACH)


EXPANDED = """
def masks_of_both(source, target):
    source_mask = (source != 0).unsqueeze(ROWS).expand(-1, source.size(1), source.size(1))
    target_mask = torch.ones(1, target.size(1), target.size(1)).tril(DIAGONAL)
    THEN
    return source_mask, target_mask
"""
LOST = "target_mask.masked_fill((target == 0)[:, None], 0)"


@pytest.mark.parametrize("rows, diagonal, then, ids", [
    ("1", "0", "pass", ([], [])), ("2", "0", "pass", (["A7"], [])), ("1", "1", "pass", ([], ["A6"])),
    ("1", "0", LOST, ([], ["A24"])),
])  # fmt: skip
def test_a_triangle_of_the_targets_length_is_to_hide_no_padding(rows, diagonal, then, ids, tmp_path):
    results = check_text(EXPANDED.replace("ROWS", rows).replace("DIAGONAL", diagonal).replace("THEN", then), tmp_path)
    assert tuple(results[f"masks_of_both.{one}_mask"].severe for one in ("source", "target")) == ids, results


OF_PADDING = """
def create_target_mask(tgt_pad_mask):
    B, T = tgt_pad_mask.shape
    later = torch.ones((1, 1, T, T)).tril(DIAGONAL) == 1
    return tgt_pad_mask.reshape(B, 1, 1, T) & later
"""


@pytest.mark.parametrize("diagonal, ids", [("0", []), ("1", ["A6"])])
def test_the_targets_mask_may_be_made_of_that_of_its_padding(diagonal, ids, tmp_path):
    result = check_text(OF_PADDING.replace("DIAGONAL", diagonal), tmp_path)["create_target_mask"]
    assert (result.kind, result.severe) == ("TargetMask", ids), result


ALLOWED = """
import numpy as np


def allowed_positions(n_positions):
    masks = np.tril(np.ones((1, n_positions, n_positions)), k=DIAGONAL).astype("bool")
    return RETURNED


def words_that_are_left(length):
    mask = torch.tril(torch.ones(length, length))
    return mask.sum(-1)
"""


@pytest.mark.parametrize("diagonal, returned, ids", [
    ("0", "torch.from_numpy(masks)", []), ("1", "torch.from_numpy(masks)", ["A6"]), ("0", "masks.sum()", None),
])  # fmt: skip
def test_what_returns_a_triangle_that_it_calls_a_mask_makes_one(diagonal, returned, ids, tmp_path):
    results = check_text(ALLOWED.replace("DIAGONAL", diagonal).replace("RETURNED", returned), tmp_path)
    assert "words_that_are_left" not in results
    assert (results["allowed_positions"].ids if "allowed_positions" in results else None) == ids, results


ASKED = """
def attention_mask(query_len, key_len, is_causal=False, device=None):
    if not is_causal:
        return None
    return torch.ones(query_len, key_len, device=device).triu(DIAGONAL)


def expand_mask(mask, batch_size, num_heads, tgt_len, src_len=None):
    src_len = tgt_len if src_len is None else src_len
    return mask.unsqueeze(1)TURNED.expand(batch_size, num_heads, tgt_len, src_len)
"""


@pytest.mark.parametrize("diagonal, ids", [("1", []), ("0", ["A6"])])
def test_what_makes_a_mask_if_it_is_asked_to_is_asked_to(diagonal, ids, tmp_path):
    assert check_text(ASKED.replace("DIAGONAL", diagonal).replace("TURNED", ""), tmp_path)["attention_mask"].ids == ids


@pytest.mark.parametrize("turned, ids", [("", []), (".transpose(-1, -2)", ["A7"])])
def test_what_gives_masks_all_their_axes_is_told_how_many_there_are(turned, ids, tmp_path):
    found = check_text(ASKED.replace("DIAGONAL", "1").replace("TURNED", turned), tmp_path)["expand_mask"]
    assert (found.verdict == "matches the builtin", found.ids) == (not ids, ids), found


OF_MORE_THAN_ONE = """
def causal_mask(seqlen, device):
    if seqlen > 1:
        mask = torch.full((1, 1, seqlen, seqlen), -math.inf, device=device)
        return mask.triu(FIRST)
    return None

def future_mask(size):
    if size == 1:
        return None
    return torch.ones(size, size).tril(LAST) == 1
"""


@pytest.mark.parametrize(("first", "last", "ids"), [("1", "0", []), ("2", "1", ["A6"]), ("0", "-1", ["A6"])])
def test_one_token_needs_no_mask(first, last, ids, tmp_path):
    found = check_text(OF_MORE_THAN_ONE.replace("FIRST", first).replace("LAST", last), tmp_path)
    assert [*found] == ["causal_mask", "future_mask"]
    assert all((result.kind, result.severe) == ("CausalMask", ids) for result in found.values()), found
