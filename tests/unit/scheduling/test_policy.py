"""Policy words, chains and weights."""

from __future__ import annotations

import pytest

from hami_operator.protocol import keys
from hami_operator.scheduling import policy
from hami_operator.scheduling.policy import Criterion

HIGH, LOW = Criterion.HIGHEST_SCORE, Criterion.LOWEST_SCORE
NUMA, LOW_NUMA = Criterion.HIGHEST_NUMA, Criterion.LOWEST_NUMA
USED = Criterion.FEWEST_USED


@pytest.mark.parametrize(
    ("text", "want", "want_bound"),
    [
        pytest.param("binpack", (HIGH, NUMA), (LOW_NUMA, HIGH), id="binpack alone"),
        pytest.param("spread", (LOW, NUMA), (NUMA, LOW), id="spread alone"),
        pytest.param(" spread ", (LOW, NUMA), (NUMA, LOW), id="blanks around a word"),
        pytest.param("mutex", (USED, NUMA), (USED, NUMA), id="mutex alone counts slots"),
        pytest.param("topology-aware", (LOW, NUMA), (NUMA, LOW), id="links alone, as spread"),
        pytest.param("numa", (NUMA,), (NUMA,), id="numa alone is a chain"),
        pytest.param("binpack,numa", (HIGH, NUMA), (NUMA, HIGH), id="numa moves to the front"),
        pytest.param("numa,spread", (NUMA, LOW), (NUMA, LOW), id="numa is in front already"),
        pytest.param("binpack,spread", (HIGH, LOW), (NUMA, HIGH, LOW), id="numa is put in front"),
        pytest.param("binpack, binpack", (HIGH,), (NUMA, HIGH), id="doubles are dropped"),
        pytest.param("mutex,topology-aware", (LOW,), (NUMA, LOW), id="no word orders: spread"),
        pytest.param("nonsense,binpack", (HIGH,), (NUMA, HIGH), id="unknown words are dropped"),
        pytest.param("nonsense,", (LOW,), (NUMA, LOW), id="a list of unknown words: spread"),
    ],
)
def test_a_card_policy_gives_an_order(
    text: str, want: tuple[Criterion, ...], want_bound: tuple[Criterion, ...]
) -> None:
    found, _ = policy.card_policy(text, setting="binpack")
    assert (found.criteria(numa_bind=False), found.criteria(numa_bind=True)) == (want, want_bound)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("mutex,binpack", ("mutex", "binpack"), id="words in written order"),
        pytest.param(" mutex , nonsense", ("mutex",), id="trimmed, the unknown one left out"),
        pytest.param("Mutex,numa", ("numa",), id="words are exact"),
    ],
)
def test_the_words_of_a_card_policy_act_in_the_fit(text: str, want: tuple[str, ...]) -> None:
    assert policy.card_policy(text, setting="spread")[0].words == want


@pytest.mark.parametrize(
    ("text", "setting", "want_words", "want_warnings"),
    [
        pytest.param(None, "binpack", ("binpack",), 0, id="absent: the setting, without a word"),
        pytest.param("", "binpack", ("binpack",), 1, id="empty: the setting, with a warning"),
        pytest.param("nonsense", "mutex,numa", ("mutex", "numa"), 1, id="unknown: the setting"),
        pytest.param("spread", "binpack", ("spread",), 0, id="a known word"),
        pytest.param("a,b,spread,", "binpack", ("spread",), 2, id="a warning per unknown word"),
        pytest.param(None, "nonsense", ("spread",), 0, id="a setting that means nothing: spread"),
    ],
)
def test_a_card_policy_falls_back_to_the_setting(
    text: str | None, setting: str, want_words: tuple[str, ...], want_warnings: int
) -> None:
    found, warnings = policy.card_policy(text, setting=setting)
    assert (found.words, len(warnings)) == (want_words, want_warnings)


def test_links_between_cards_are_no_order_and_no_reason_to_warn() -> None:
    _, warnings = policy.card_policy("topology-aware", setting="binpack")
    assert warnings == ()


@pytest.mark.parametrize(
    ("text", "want", "want_warnings"),
    [
        pytest.param(None, "spread", 0, id="absent: the setting"),
        pytest.param("binpack", "binpack", 0, id="binpack"),
        pytest.param(" spread ", "spread", 0, id="blanks are nothing"),
        pytest.param("numa", "spread", 1, id="a word for cards is none for nodes"),
        pytest.param("", "spread", 1, id="an empty word"),
    ],
)
def test_a_node_policy_is_one_of_two_words(
    text: str | None, want: str, want_warnings: int
) -> None:
    found, warnings = policy.node_policy(text, setting="spread")
    assert (found, len(warnings)) == (want, want_warnings)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(None, (1, 1, 1), id="absent"),
        pytest.param("slot=1,core=2,memory=3", (1, 2, 3), id="in order"),
        pytest.param("memory=3, core = 0 ,slot=+2", (2, 0, 3), id="any order, blanks, a plus"),
    ],
)
def test_weights_are_read(text: str | None, want: tuple[int, int, int]) -> None:
    slot, core, memory = want
    assert policy.weights(text) == policy.Weights(slot=slot, core=core, memory=memory)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected slot, core, and memory weights"),
        ("slot=1,core=1", "expected slot, core, and memory weights"),
        ("slot=1,core=1,memory=1,", "expected slot, core, and memory weights"),
        ("slot=1,core,memory=3", "expected key=value entries"),
        ("slot=1,slot=1,memory=3", 'duplicate "slot" weight'),
        ("slot=1,core=a,memory=3", '"core" weight must be an integer'),
        ("slot=1,core=1.5,memory=3", '"core" weight must be an integer'),
        ("slot=1,core=,memory=3", '"core" weight must be an integer'),
        ("slot=1,core=2147483648,memory=3", '"core" weight must be an integer'),
        ("slot=1,core=\u0661,memory=3", '"core" weight must be an integer'),
        ("slot=1,core=-1,memory=3", '"core" weight must not be negative'),
        ("slot=1,core=1,disk=3", 'unknown weight "disk"'),
        ("slot=0,core=0,memory=0", "at least one weight must be positive"),
    ],
)
def test_bad_weights_say_what_is_wrong(text: str, problem: str) -> None:
    assert policy.weights(text) == (
        f'invalid hami.io/device-scoring-weights annotation "{text}": {problem}'
    )


def test_all_three_annotations_are_read_together() -> None:
    annotations = {
        keys.NODE_POLICY: "nonsense",
        keys.GPU_POLICY: "binpack",
        keys.SCORING_WEIGHTS: "slot=1",
    }
    assert policy.read(annotations, node_setting="spread", card_setting="spread") == (
        policy.Preferences(
            node="spread",
            cards=policy.CardPolicy(words=("binpack",)),
            weights=policy.Weights(),
            warnings=(
                'hami.io/node-scheduler-policy: "nonsense" is none of binpack, spread; '
                "spread is used",
            ),
            error='invalid hami.io/device-scoring-weights annotation "slot=1": '
            "expected slot, core, and memory weights",
        )
    )


def test_without_annotations_the_settings_hold() -> None:
    assert policy.read({}, node_setting="binpack", card_setting="mutex, numa") == (
        policy.Preferences(
            node="binpack",
            cards=policy.CardPolicy(words=("mutex", "numa"), chain=True),
            weights=policy.Weights(),
        )
    )
