"""Which program does what: everything once, the longest first, and all end together. Needs no GPU and no Triton."""

import threading

import pytest
import torch

from scratch_transformer.attention.gpu import hopper_work

CPU = torch.device("cpu")
PROGRAMS = 132  # of an H100


def shares(*shape):
    """The pieces of each program."""
    table = hopper_work.dealt(*shape, CPU)
    assert table.dtype == torch.int32
    return [row[1 : 1 + row[0]] for row in table.tolist()]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (5, 7, 3, 4), (3, 2, 2, 132), (32, 8, 4, 132)])
def test_every_piece_is_done_once(shape, causal):
    tiles, heads, _, programs = shape
    found = shares(*shape, causal)
    assert len(found) == programs
    assert sorted(piece for share in found for piece in share) == list(range(tiles * heads))


@pytest.mark.parametrize("longest", [None, "first", "last"])
def test_a_section_after_the_other_and_in_it_the_longest_first(longest):
    order = hopper_work.order(5, 7, 3, longest, CPU).tolist()
    assert sorted(order) == list(range(35))
    for first, last, heads in ((0, 15, {0, 1, 2}), (15, 30, {3, 4, 5}), (30, 35, {6})):
        section = order[first:last]
        if longest is not None:
            assert {piece // 5 for piece in section} == heads
            tiles = [piece % 5 for piece in section]
            assert tiles == sorted(tiles, reverse=longest == "last")


@pytest.mark.parametrize("length", [512, 1024, 2048, 4096, 8192, 16384])
@pytest.mark.parametrize("heads", [8, 16, 128, 512])
def test_all_programs_end_together(length, heads):
    """Nobody ends more than 4 % after the mean, or the longest piece; taken in turn it would be up to 47 %."""
    tiles, section = length // 128, min(heads, 2**26 // length // 1024)
    found = shares(tiles, heads, section, PROGRAMS, True)
    loads = [sum(hopper_work.length(piece % tiles) for piece in share) for share in found]
    assert max(loads) <= 1.04 * max(sum(loads) / PROGRAMS, hopper_work.length(tiles - 1))


def test_too_many_to_be_dealt_are_taken_in_turn(monkeypatch):
    monkeypatch.setattr(hopper_work, "dealt", hopper_work.once(hopper_work.dealt.__wrapped__))
    monkeypatch.setattr(hopper_work, "MANY", 10)
    order = hopper_work.order(3, 7, 2, "last", CPU).tolist()
    assert shares(3, 7, 2, 4, True) == [order[program::4] for program in range(4)]


def test_a_table_that_a_graph_reads_is_never_forgotten_and_others_when_nobody_reads_them(monkeypatch):
    """A graph has no reference to it, only its address; and the memory of what is forgotten is soon another's."""
    waited = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    gpu, made = torch.device("cuda:1"), []
    table = hopper_work.once(lambda *shape: made.append(shape) or torch.zeros(1))
    first, second = table(0, gpu), table(1, gpu)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert table(0, gpu) is first
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    for shape in range(2, hopper_work.KEPT + 1):
        table(shape, gpu)
    assert (table(1, gpu), waited) == (second, [])
    table(-1, gpu)
    assert waited == [gpu]
    assert table(0, gpu) is first and table(1, gpu) is not second
    assert len(made) == hopper_work.KEPT + 3


def test_a_table_is_no_part_of_a_graphs_memory(monkeypatch):
    """torch.compile(mode="reduce-overhead") has what a thread allocates for a graph, and refuses what stays there."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    table = hopper_work.once(lambda device: torch.tensor(threading.get_ident()))
    assert table(torch.device("cuda:0")) != threading.get_ident()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="before a CUDA graph captures it, let a call of the same shapes run once"):
        table(torch.device("cuda:1"))
