"""Stand-ins for packages of hyperparameters: keys are attributes, files are read, two configs become one."""

import dataclasses
import inspect

import pytest

from reference_tests.kit.learners.checked import check_text
from scratch_transformer.kit.discover import hyperparameters, standins
from scratch_transformer.kit.report.finding import FINE
from scratch_transformer.kit.resolve.build import config
from scratch_transformer.kit.resolve.build.values import Values
from scratch_transformer.kit.resolve.names.inputs import first_or_last


@dataclasses.dataclass
class Sizes:
    heads: int = 3
    widths: tuple = (12, 17)


def test_keys_are_attributes_however_deep():
    config = hyperparameters.Hyperparameters({"model": {"heads": 3, "sizes": [{"d": 12}]}}, seed=1)
    assert config.model.heads == config["model"]["heads"] == 3 and config.model.sizes[0].d == 12 and config.seed == 1
    config.model.width = 24
    config.update({"data": {"path": "here"}})
    assert config.model["width"] == 24 and config.data.path == "here" and config.get("none", 5) == 5
    assert config.to_dict() == {
        "model": {"heads": 3, "sizes": [{"d": 12}], "width": 24}, "seed": 1, "data": {"path": "here"},
    }  # fmt: skip
    with pytest.raises(AttributeError, match="nothing"):
        config.nothing  # noqa: B018


def test_copies_are_of_their_own():
    import copy

    config = hyperparameters.Hyperparameters(model={"heads": 3})
    other = copy.deepcopy(config)
    other.model.heads = 4
    assert config.model.heads == 3 and config.copy().model.heads == 3
    assert config.setdefault("seed", 7) == config.seed == 7


def test_what_omegaconf_makes(tmp_path):
    (tmp_path / "model.yaml").write_text("model:\n  heads: 3\n", encoding="utf-8")
    (tmp_path / "more.json").write_text('{"model": {"width": 12}}', encoding="utf-8")
    names = standins._contents("omegaconf")()
    conf = names["OmegaConf"]
    merged = conf.merge(conf.load(tmp_path / "model.yaml"), conf.load(tmp_path / "more.json"), {"seed": 1})
    assert isinstance(merged, names["DictConfig"]) and conf.to_container(merged) == {
        "model": {"heads": 3, "width": 12}, "seed": 1,
    }  # fmt: skip
    assert conf.structured(Sizes).heads == 3 and conf.create(Sizes(heads=4)).heads == 4 and conf.create() == {}
    assert conf.select(merged, "model.width") == 12 and conf.select(merged, "model.none", default=2) == 2


def test_a_node_is_merged_from_files_and_lists(tmp_path):
    (tmp_path / "model.yaml").write_text("heads: 3\n", encoding="utf-8")
    node = standins._contents("yacs.config")()["CfgNode"](heads=1, width=12)
    node.merge_from_file(tmp_path / "model.yaml")
    node.merge_from_list(["width", 24])
    node.freeze()
    assert node.clone() == {"heads": 3, "width": 24}


def test_a_config_whose_base_alone_is_a_dataclass_is_told_by_its_own_constructor():
    @dataclasses.dataclass
    class Base:
        pad_token_id: int = 0

    class Config(Base):
        def __init__(self, hidden_size=4096, intermediate_size=11008, **options):
            super().__init__(**options)
            self.hidden_size, self.intermediate_size = hidden_size, intermediate_size

    parameter = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Config)
    made = config.instances(parameter, {}, Values({"d_model": 12, "d_ff": 17}, {}), {"hidden_size"}, None)[0]
    assert (made.hidden_size, made.intermediate_size) == (12, 17)


def test_numbers_that_a_config_gives_itself_are_ours():
    class Config:
        def __init__(self):
            self.model_dim, self.num_heads, self.name = 512, 8, "base"

    parameter = inspect.Parameter("args", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    made = config.instances(
        parameter, {"Config": Config}, Values({"d_model": 12, "num_heads": 3}, {}), {"model_dim"}, None
    )
    assert (made[0].model_dim, made[0].num_heads, made[0].name) == (12, 3, "base")


def test_a_property_of_a_config_that_stops_says_nothing():
    class Config:
        def __init__(self, model_dim):
            self.model_dim = model_dim

        @property
        def layers(self):
            return len(self.model_dim)

    parameter = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Config)
    made = config.instances(parameter, {}, Values({"d_model": 12}, {}), {"model_dim"}, None)
    assert made[0].model_dim == 12


def test_a_flag_of_a_config_is_no_number_and_two_vocabularies_share_nothing():
    class Config:
        def __init__(self, model_dim=512, shared_embeddings=False, share_weights=True, mask_embeddings=True):
            self.model_dim, self.shared_embeddings, self.share_weights = model_dim, shared_embeddings, share_weights
            self.mask_embeddings = mask_embeddings

    parameter = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Config)
    made = config.instances(parameter, {}, Values({"d_model": 12}, {}), {"model_dim"}, None)[0]
    flags = (made.shared_embeddings, made.share_weights, made.mask_embeddings)
    assert (made.model_dim, *flags) == (12, False, False, True)


def test_of_several_configs_a_class_is_given_that_which_has_little_besides_what_it_reads():
    @dataclasses.dataclass
    class LayerConfig:
        width: int
        heads: int
        dropout: float = 0.1

    @dataclasses.dataclass
    class AttentionConfig:
        width: int
        heads: int

    parameter = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    there, values = {cls.__name__: cls for cls in (LayerConfig, AttentionConfig)}, Values({"d_model": 12}, {})
    for read, cls in (({"width"}, AttentionConfig), ({"width", "dropout"}, LayerConfig)):
        assert type(config.instances(parameter, there, values, read, None)[0]) is cls
        assert ("dropout" in values.used) == (cls is LayerConfig)  # else its class is asked where it drops out


def test_a_dictionary_made_of_a_config_has_what_the_learners_own_has_and_our_sizes():
    there = {"CONFIG": {"emb_dim": 768, "n_heads": 12, "normed": False}}
    parameter = inspect.Parameter("cfg", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    values = Values({"d_model": 12, "num_heads": 3}, {})
    made = config.instances(parameter, there, values, {*there["CONFIG"]}, None)[0]
    ours = {"emb_dim": 12, "n_heads": 3, "normed": False}
    assert {**made} == dict(made) == dict(made.items()) == dict(**made.copy()) == made | {} == ours
    assert list(made) == list(made.keys()) == [*ours] and list(made.values()) == [*ours.values()]
    assert len(made) == 3 and made | {"n_heads": 1} == {**ours, "n_heads": 1}


def test_beside_the_width_of_values_that_of_queries_is_of_a_head_too():
    parameter = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = ["d_model", "num_heads", "d_query", "d_value"]
    for told, wide in ((names, 4), (["num_heads", "d_query"], 12)):  # where nothing else is the model's, it is that
        values = Values({"d_model": 12, "num_heads": 3}, {})
        values.reserve(told)
        made = config.instances(parameter, {}, values, set(told), None)[0]
        assert (made.d_query, made["d_query"]) == (wide, wide)


class Part:
    def __init__(self, width, is_normed=False, kinds=("full",)):
        self.width, self.is_normed, self.kinds = width, is_normed, kinds


class OfPart:
    def __init__(self, cfg):
        self.part = Part(cfg["width"], is_normed=cfg["is_normed"], kinds=cfg["kinds"])


def test_what_a_part_takes_by_default_is_what_a_config_has_under_its_name():
    found = config.Config(Values({"d_model": 12}, {}), None, OfPart)
    assert (found["is_normed"], found["kinds"]) == (False, ("full",))
    with pytest.raises(KeyError):
        found["norms"]


class OfPartOfAnotherName:
    def __init__(self, cfg):
        self.part = Part(cfg["width"], is_normed=cfg["with_norm_or_not"], kinds=cfg.sorts + (cfg["more"],))


class Holding:
    def __init__(self, cfg):
        self.parts = [OfPartOfAnotherName(cfg) for _ in range(2)]


def test_what_is_handed_on_by_another_name_is_what_a_part_takes_by_default_under_that():
    for owner in (OfPartOfAnotherName, Holding):
        found = config.Config(Values({"d_model": 12}, {}), None, owner)
        assert found["with_norm_or_not"] is False
        for name in ("sorts", "more"):
            with pytest.raises(KeyError):
                found[name]


def test_a_config_may_take_its_values_by_name_alone_and_keep_them_as_they_are():
    class Config:
        def __init__(self, *, emb_dim=768, n_heads=12):
            vars(self).update(emb_dim=emb_dim, n_heads=n_heads)

        def __setattr__(self, name, value):
            raise TypeError("frozen")

    parameter = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Config)
    made = config.instances(parameter, {}, Values({"d_model": 12, "num_heads": 3}, {}), {"emb_dim"}, None)[0]
    assert (made.emb_dim, made.n_heads) == (12, 3)


def test_a_config_must_be_told_which_id_ends_a_text_and_is():
    @dataclasses.dataclass
    class Config:
        width: int
        eos_token_id: int

    parameter = inspect.Parameter("config", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Config)
    made = config.instances(parameter, {}, Values({"d_model": 12}, {}), {"eos_token_id"}, None)[0]
    assert made.eos_token_id == first_or_last("eostokenid") == 2


def test_ids_of_words_that_no_text_has_are_known_beside_those_of_padding_and_of_ends():
    found = config.Config(Values({"d_model": 12, "pad": 0}, {}))
    ids = [found.pad_idx, found.sos_idx, found.eos_idx, found.unk_idx, found.src_unk_id, found["mask_token_id"]]
    assert ids == [0, 1, 2, 3, 3, 3]
    assert found.get("unknown_words") is None  # no id


TOLD_OF_SEGMENTS = """
class Encoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.words = nn.Embedding(config.n_vocab, config.d_model)
        self.places = nn.Embedding(config.n_seq, config.d_model)
        self.segments = nn.Embedding(config.n_seg_type, config.d_model)
        layer = nn.TransformerEncoderLayer(config.d_model, config.n_head, config.d_ff, config.dropout, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, config.n_layer, enable_nested_tensor=False)

    def forward(self, inputs, segments):
        hidden = inputs.eq(self.config.i_pad)
        places = torch.arange(inputs.size(1)).expand_as(inputs)
        x = self.words(inputs) + self.places(places) + self.segments(segments)
        return self.layers(x, src_key_padding_mask=hidden)
"""


@pytest.mark.parametrize("name", ["n_seg_type", "num_segments"])
def test_a_config_knows_how_many_segments_there_are(name, tmp_path):
    found = check_text(TOLD_OF_SEGMENTS.replace("n_seg_type", name), tmp_path)["Encoder"]
    assert found.verdict in FINE, found


DECODER = """
class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.n_dec_vocab, config.d_hidn)
        self.places = nn.Embedding(config.n_dec_seq, config.d_hidn)
        layer = nn.TransformerDecoderLayer(config.d_hidn, config.n_head, config.d_ff, batch_first=True)
        self.layers = nn.TransformerDecoder(layer, config.n_layer)

    def forward(self, inputs, enc_inputs, enc_outputs):
        hidden = inputs.eq(self.config.i_pad)
        x = self.embed(inputs) + self.places(torch.arange(inputs.size(1)).expand_as(inputs))
        later = torch.ones(inputs.size(1), inputs.size(1)).triu(1).bool()
        return self.layers(x, enc_outputs, later, None, hidden, enc_inputs.eq(self.config.i_pad))
"""


def test_the_id_of_padding_may_be_asked_for_when_a_decoder_is_called_and_not_before(tmp_path):
    """Where it is another than 0, a word would be hidden as if it were padding."""
    found = check_text(DECODER, tmp_path)["Decoder"]
    assert found.verdict in FINE, found
