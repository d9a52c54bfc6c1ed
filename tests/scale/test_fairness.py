"""Who always wants more gets GPU hours by weight, within ten percent."""

from tests.scale.fairness import SPACES, AlwaysMore, unfairness


def test_gpu_hours_are_within_ten_percent_of_the_weights() -> None:
    result = AlwaysMore(nodes=50, seed=3).run()
    assert result.use > 0.9, "somebody always wanted more"
    found = unfairness(result.gpu_s)
    assert found.keys() == SPACES.keys()
    assert max(map(abs, found.values())) <= 0.1, found
