"""Attention maps: the weights the model used, with every axis labelled for what it is."""

import dataclasses
import json
import math

import pytest
import torch

from reference_tests.translation import small_run
from scratch_transformer import masks
from scratch_transformer.translation import attention_maps
from scratch_transformer.translation.checkpoint import load_run

KINDS = ("encoder", "decoder", "cross")


@pytest.fixture(scope="module")
def run():
    return load_run(small_run.folder())


@pytest.fixture(scope="module")
def maps(run):
    source = [*run.source_tokenizer.encode("one hundred and two"), run.source_tokenizer.eos_id]
    return attention_maps.of_translation(run, source, run.target_tokenizer.encode("einhundertzwei"))


def test_every_token_has_a_row_and_a_column(maps):
    S, T = len(maps.source_tokens), len(maps.target_tokens)
    assert S != T
    assert maps.source_tokens[-1] == "<eos>" and maps.target_tokens[0] == "<bos>"
    assert "".join(maps.source_tokens[:-1]) == "▁one▁hundred▁and▁two"
    assert "".join(maps.target_tokens[1:]) == "▁einhundertzwei"
    for kind, shape in zip(KINDS, [(4, S, S), (4, T, T), (4, T, S)], strict=True):
        assert [tuple(layer.shape) for layer in getattr(maps, kind)] == [shape] * 2


def test_rows_are_probabilities_and_the_decoder_sees_no_later_token(maps):
    for kind in KINDS:
        for layer in getattr(maps, kind):
            torch.testing.assert_close(layer.sum(-1), torch.ones(layer.shape[:2]))
    assert all((layer.triu(1) == 0).all() for layer in maps.decoder)


def test_the_first_layers_weights_are_the_papers_equation(run, maps):
    """Rows are queries, of the decoder; columns are keys, of the source."""
    source = [*run.source_tokenizer.encode("one hundred and two"), run.source_tokenizer.eos_id]
    inputs = torch.tensor([[run.target_tokenizer.bos_id, *run.target_tokenizer.encode("einhundertzwei")]])
    model, layer = run.model, run.model.decoder.layers[0]
    with torch.no_grad():
        memory = model.encode(torch.tensor([source]))
        x = model.tgt_pos(model.tgt_embed(inputs))
        causal = masks.causal(inputs.shape[1])
        x = layer.residual_connections[0](x, lambda x: layer.self_attention_block(x, x, x, causal))
        query = layer.cross_attention_block.w_q(layer.residual_connections[1].norm(x))[0]
        key = layer.cross_attention_block.w_k(memory)[0]
        for head in range(4):
            columns = slice(8 * head, 8 * head + 8)
            weights = torch.softmax(query[:, columns] @ key[:, columns].T / math.sqrt(8), dim=-1)
            torch.testing.assert_close(maps.cross[0][head], weights)


def test_the_model_keeps_nothing_afterwards(run, maps):
    blocks = [module for module in run.model.modules() if hasattr(module, "keep_attention_weights")]
    assert len(blocks) == 6
    assert all(not block.keep_attention_weights and block.attention_weights is None for block in blocks)


def test_data_are_bertvizs(maps, tmp_path):
    attention_maps.save(maps, tmp_path / "maps.json")
    data = json.loads((tmp_path / "maps.json").read_text(encoding="utf-8"))
    S, T = len(maps.source_tokens), len(maps.target_tokens)
    assert data["encoder_tokens"] == maps.source_tokens and data["decoder_tokens"] == maps.target_tokens
    for kind, shape in zip(KINDS, [(S, S), (T, T), (T, S)], strict=True):
        assert torch.tensor(data[f"{kind}_attention"]).shape == (2, 1, 4, *shape)
    torch.testing.assert_close(torch.tensor(data["cross_attention"][1][0]), maps.cross[1])


def test_the_picture_labels_queries_on_rows_and_keys_on_columns(maps):
    check_picture(maps)
    assert attention_maps.SIDES["cross"] == ("target", "source")  # the decoder asks, the encoder answers


def test_swapped_labels_are_noticed(maps, monkeypatch):
    monkeypatch.setitem(attention_maps.SIDES, "cross", ("source", "target"))
    with pytest.raises((AssertionError, ValueError)):  # ValueError: so many tokens have no place on this axis
        check_picture(maps)


def check_picture(maps):
    for part, kind in zip(attention_maps.figure(maps).subfigs, KINDS, strict=True):
        queries, keys = attention_maps.SIDES[kind]
        assert part.get_suptitle() == f"{kind} attention"
        assert part.get_supylabel() == f"query: {queries} token"
        assert part.get_supxlabel() == f"key: {keys} token"
        panels = [axes for axes in part.axes if axes.get_title()]
        assert [axes.get_title() for axes in panels] == [f"layer {i}, head {j}" for i in (1, 2) for j in (1, 2, 3, 4)]
        assert labels(panels[0].yaxis) == getattr(maps, f"{queries}_tokens")
        assert labels(panels[-1].xaxis) == getattr(maps, f"{keys}_tokens")
        for panel, weights in zip(panels, torch.cat(getattr(maps, kind)), strict=True):
            shown = torch.from_numpy(panel.images[0].get_array().data)
            assert shown.shape == (len(labels(panels[0].yaxis)), len(labels(panels[-1].xaxis)))
            assert torch.equal(shown, weights)


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("suffix, start", [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
@pytest.mark.long
def test_pictures_are_written(maps, tmp_path, suffix, start):
    one_layer = attention_maps.AttentionMaps(
        ["$a_1$", "語"], ["<bos>"], maps.encoder[:1], maps.decoder[:1], maps.cross[:1]
    )
    path = tmp_path / f"maps{suffix}"
    assert not attention_maps.save(one_layer, path)  # the font lacks 語
    assert path.read_bytes().startswith(start)
    legible = dataclasses.replace(one_layer, source_tokens=["$a_1$", "é"])
    assert attention_maps.save(legible, path)


def test_other_files_are_refused(maps, tmp_path):
    with pytest.raises(ValueError, match=r"expected a file that ends in .json, .png, .svg, .pdf, not maps.gif"):
        attention_maps.save(maps, tmp_path / "maps.gif")
