import itertools

import pytest

from data_scripts.chats.repliers import find_repliers
from data_scripts.chats.roles import answering_roles

AGENTS = ["Tom", "Priya"]
CUSTOMERS = [f"customer {number}" for number in range(8)]
SUPPORT = [
    pair
    for agent, customer in itertools.product(AGENTS, CUSTOMERS)
    for pair in ((customer, agent), (agent, customer), (customer, agent))
]


def test_the_authors_who_answer_many_others_are_found_whoever_wrote_first():
    assert find_repliers(SUPPORT) == ["Priya", "Tom"]  # by the number of those whom they answer, then by name
    assert find_repliers([*SUPPORT, ("customer 0", "Priya")]) == ["Priya", "Tom"]
    assert find_repliers([(replier, asker) for asker, replier in SUPPORT]) == ["Priya", "Tom"]


def test_a_few_messages_between_agents_or_without_an_author_change_nothing():
    assert find_repliers([*SUPPORT, ("Tom", "Priya"), (None, "Tom")]) == ["Priya", "Tom"]


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("Ann", "Bob"), ("Bob", "Ann")] * 20,
        [(None, "Ann"), (None, "Bob")] * 20,
        list(itertools.permutations(["Ann", "Bob", "Cleo", "Dan", "Eve"], 2)) * 5,
        [*SUPPORT, *[("Tom", "Priya")] * 8],  # 15 % of the pairs are between agents
        SUPPORT[:3],
        [(customer, "Tom") for customer in CUSTOMERS[:4]],  # four replies
        [(customer, "Tom") for customer in CUSTOMERS[:2]] * 5,  # two others
    ],
)
def test_nobody_is_found_where_roles_are_not_clear(pairs):
    assert find_repliers(pairs) == []


def test_names_of_roles_need_no_counts():
    assert find_repliers([("Customer", "Agent"), ("Agent", "Customer")]) == ["Agent"]
    assert find_repliers([("user", "assistant")]) == ["assistant"]


@pytest.mark.parametrize(
    ("values", "answering"),
    [
        (["customer", "AGENT "], ["AGENT "]),
        (["user", "bot", "agent", "system"], ["agent", "bot"]),
        (["incoming", "outgoing"], ["outgoing"]),
        (["agent"], []),
        (["customer", "Tom"], []),
        (["me", "them", "a", "b", "c"], []),
    ],
)
def test_values_that_name_both_sides_are_roles(values, answering):
    assert answering_roles(values) == answering
