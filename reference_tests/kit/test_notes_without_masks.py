"""What is said for information of attention that takes no mask: nothing about masks."""

from reference_tests.kit.learners.checked import check_text

HEAD = """
class AttentionHead(nn.Module):
    def __init__(self, dim_in, dim_q, dim_k):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(dim_in, dim_q), nn.Linear(dim_in, dim_k), nn.Linear(dim_in, dim_k)

    def forward(self, query, key, value):
        q, k, v = self.q(query), self.k(key), self.v(value)
        return torch.softmax(q.bmm(k.transpose(1, 2)) / q.size(-1) ** 0.5, dim=1).bmm(v)
"""


def test_no_query_is_left_with_nothing_where_nothing_is_hidden(tmp_path):
    result = check_text(HEAD, tmp_path)["AttentionHead"]
    assert [named.id for named in result.mistakes] == ["A2"]
