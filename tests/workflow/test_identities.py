"""A worker's name for itself is short, and honest about what it leaves out."""

from perdure.temporal.connect import connect
from perdure.temporal.survey import listed
from perdure.temporal.workers import agents_of, identity, served
from tests.conftest import StageOf

MANY = [f"department-{number:02}" for number in range(45)]


def test_an_identity_names_every_agent_while_there_is_room() -> None:
    assert agents_of(identity(["b", "a"])) == {"a", "b"}
    assert agents_of(identity([])) == frozenset()


def test_an_identity_stays_short_and_counts_the_agents_it_does_not_name() -> None:
    said = identity(MANY)
    assert len(said) <= 120
    assert said.count("department-") + int(said.rpartition("and ")[2].removesuffix(" more]")) == 45


def test_a_worker_that_cannot_name_all_its_agents_is_not_believed_to_lack_one() -> None:
    assert agents_of(identity(MANY)) is None
    assert agents_of(identity(["x" * 64, "y" * 64, "z" * 64])) is None
    assert agents_of("7@host [and 45 more]") is None


async def test_what_is_served_is_unknown_once_one_worker_has_too_many_agents_to_name(stage: StageOf) -> None:
    async with stage([]) as desk:
        await desk.rest()
        desk.client = await connect(identity=identity(MANY))
        desk.task_queue += "-many"
        await desk.serve()
        assert await served(desk.client, desk.task_queue) is None


def test_a_list_of_workers_is_bounded_whatever_they_call_themselves() -> None:
    told = listed(["x" * 5_000] * 40)
    assert len(told) < 700
    assert told.endswith("... and 35 more")
