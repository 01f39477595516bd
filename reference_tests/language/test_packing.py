import numpy as np
import pytest
import torch

from scratch_transformer.language import packing, vocabulary

IDS = np.arange(100, 157, dtype=np.int32)  # 57 tokens, 56 targets


def flat(plan):
    return np.concatenate(plan)


def test_documents_stand_behind_each_other_with_ends_around():
    words = vocabulary.train(257, ["ab"])
    end, a, b = words.eos_id, *words.encode("ab")
    assert packing.pack(["ab", "", "b"], words).tolist() == [end, a, b, end, end, b, end]


def test_in_order_every_token_is_a_target_once():
    plan = packing.plan(IDS, length=10, batch_tokens=30)
    assert [len(batch) for batch in plan] == [3, 3]
    targets = []
    steps = packing.Steps(IDS, 10, plan)
    for i in range(len(steps)):
        (batch,), tokens = steps[i]
        counts = batch.targets != packing.IGNORED
        assert tokens == counts.sum()
        assert (batch.targets[counts] == batch.ids[counts] + 1).all()  # the next token is the next number
        targets += batch.targets[counts].tolist()
    assert targets == IDS[1:].tolist()


def test_in_an_epoch_no_token_is_a_target_twice_and_few_are_left_out():
    for epoch in range(20):
        plan = packing.plan(IDS, 10, 30, (0, epoch))
        steps = packing.Steps(IDS, 10, plan)
        targets = torch.cat([steps[i].pieces[0].targets.flatten() for i in range(len(steps))])
        assert packing.IGNORED not in targets
        assert len(targets.unique()) == len(targets) >= 56 - 2 * 9


def test_epochs_differ_and_come_again():
    plans = {epoch: flat(packing.plan(IDS, 10, 30, (0, epoch))).tolist() for epoch in range(8)}
    assert len({tuple(sorted(plan)) for plan in plans.values()}) > 2, "cut from another place"
    assert any(plan != sorted(plan) for plan in plans.values()), "in another order"
    assert plans[3] == flat(packing.plan(IDS, 10, 30, (0, 3))).tolist()
    assert plans[3] != flat(packing.plan(IDS, 10, 30, (1, 3))).tolist()


@pytest.mark.parametrize(("processes", "pieces"), [(1, 1), (2, 1), (1, 3), (2, 2), (5, 1)])
def test_processes_and_pieces_share_a_step(processes, pieces):
    plan = packing.plan(IDS, 10, 30, (0, 0))
    whole = packing.Steps(IDS, 10, plan)
    shares = [packing.Steps(IDS, 10, plan, rank, processes, pieces) for rank in range(processes)]
    for i in range(len(plan)):
        rows = [row for steps in shares for piece in steps[i].pieces for row in piece.targets.tolist()]
        rows = [row for row in rows if set(row) != {packing.IGNORED}]
        assert sorted(rows) == sorted(whole[i].pieces[0].targets.tolist())
        assert {steps[i].tokens for steps in shares} == {whole[i].tokens}
        assert all(len(steps[i].pieces) == pieces for steps in shares)


def test_a_text_just_long_enough_is_one_sequence():
    assert flat(packing.plan(IDS[:11], 10, 30, (0, 0))).tolist() == [0]
