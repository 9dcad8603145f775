"""The retail trial's shop: it acts once per key, and its journal tells on it if it does not."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from trials.retail.cases import Case, cases, totals
from trials.retail.ledger import Answer, Branch, Journal, MisuseError, audit
from trials.retail.shop import shop_app


class Till:
    """A toolkit of the shape that tau2's have: one number, one tool of each mark."""

    def __init__(self) -> None:
        self.cents = 0
        self.entered = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    @property
    def tools(self) -> dict[str, Callable[..., Any]]:
        return {"balance": self.balance, "pay_in": self.pay_in}

    def tool_type(self, tool_name: str) -> str:
        return {"balance": "read", "pay_in": "write"}[tool_name]

    def get_db_hash(self) -> str:
        return f"hash of {self.cents}"

    def balance(self) -> int:
        return self.cents

    def pay_in(self, cents: int) -> dict[str, int]:
        self.entered.set()
        assert self.may_go_on.wait(10)
        if cents <= 0:
            raise ValueError("Nothing to pay in")
        self.cents += cents
        return {"cents": self.cents}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal.jsonl")


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def branch(till: Till, journal: Journal) -> Branch:
    return Branch("retail-1", till, journal)


def counted(journal: Journal) -> Any:
    return audit(journal.path.read_text().splitlines())


def test_the_same_key_gives_the_first_answer_and_acts_once(branch: Branch, till: Till, journal: Journal) -> None:
    first = branch.call("pay_in", {"cents": 5}, "k1")
    branch.call("pay_in", {"cents": 7}, "k2")
    assert branch.call("pay_in", {"cents": 5}, "k1") == first == Answer(result={"cents": 5})
    assert till.cents == 12
    assert (counted(journal).writes, counted(journal).duplicates_refused, counted(journal).effects_twice) == (2, 1, 0)


def test_a_write_that_failed_fails_the_same_way_for_its_key(branch: Branch, journal: Journal) -> None:
    refused = Answer(error="Nothing to pay in")
    assert [branch.call("pay_in", {"cents": 0}, "k1") for _ in range(2)] == [refused, refused]
    assert (counted(journal).errors, counted(journal).duplicates_refused) == (1, 1)


def test_reads_are_executed_every_time(branch: Branch, journal: Journal) -> None:
    assert branch.call("balance", {}) == Answer(result=0)
    branch.call("pay_in", {"cents": 5}, "k1")
    assert branch.call("balance", {}) == Answer(result=5)
    assert (counted(journal).calls, counted(journal).writes) == (3, 1)


def test_a_duplicate_that_overtakes_waits_for_the_first_answer(branch: Branch, till: Till, journal: Journal) -> None:
    till.may_go_on.clear()
    answers: list[Answer] = []
    callers = [
        threading.Thread(target=lambda: answers.append(branch.call("pay_in", {"cents": 5}, "k1"))) for _ in range(2)
    ]
    callers[0].start()
    assert till.entered.wait(10)
    callers[1].start()
    till.may_go_on.set()
    for caller in callers:
        caller.join(10)
    assert answers == [Answer(result={"cents": 5})] * 2
    assert (till.cents, counted(journal).duplicates_refused) == (5, 1)


def test_the_audit_sees_one_action_done_under_two_keys(branch: Branch, journal: Journal) -> None:
    branch.call("pay_in", {"cents": 5}, "k1")
    branch.call("pay_in", {"cents": 5}, "k2")
    assert counted(journal).effects_twice == 1


def test_the_audit_sees_one_key_executed_twice_whatever_the_ledger_believes() -> None:
    effect = json.dumps({"event": "effect", "branch": "retail-1", "key": "k1", "action": "pay_in({})", "error": None})
    elsewhere = effect.replace("retail-1", "retail-2")
    assert audit([effect, elsewhere]).effects_twice == 0
    assert audit([effect, elsewhere, effect]).effects_twice == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "key", "said"),
    [
        ("pay_in", {"cents": 5}, "", "without a key"),
        ("pay_in", {"cents": 6}, "k1", "belongs to"),
        ("pay_out", {"cents": 5}, "k2", "no tool 'pay_out'"),
    ],
)
def test_misuse_does_nothing_and_is_counted(
    branch: Branch, till: Till, journal: Journal, tool: str, arguments: dict[str, Any], key: str, said: str
) -> None:
    branch.call("pay_in", {"cents": 5}, "k1")
    with pytest.raises(MisuseError, match=said):
        branch.call(tool, arguments, key)
    assert (till.cents, counted(journal).misuses) == (5, 1)


def test_a_closed_branch_keeps_its_hash_and_its_answers_and_acts_no_more(branch: Branch) -> None:
    first = branch.call("pay_in", {"cents": 5}, "k1")
    assert branch.close() == branch.close() == branch.hash() == "hash of 5"
    assert branch.call("pay_in", {"cents": 5}, "k1") == first
    with pytest.raises(MisuseError, match="after the branch was closed"):
        branch.call("pay_in", {"cents": 5}, "k2")


@pytest.fixture
def http(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(shop_app(Till, tmp_path / "journal.jsonl")) as client:
        yield client


def test_over_http_each_branch_has_a_database_of_its_own(http: TestClient) -> None:
    for name in ("retail-1", "retail-2"):
        assert http.post(f"/branches/{name}").status_code == 201
    paid = http.post("/branches/retail-1/calls", json={"tool": "pay_in", "arguments": {"cents": 5}, "key": "k1"})
    read = http.post("/branches/retail-2/calls", json={"tool": "balance", "arguments": {}})
    assert (paid.json(), read.json()) == ({"result": {"cents": 5}}, {"result": 0})
    assert http.get("/branches/retail-1").json() == http.delete("/branches/retail-1").json() == {"hash": "hash of 5"}
    assert http.get("/stats").json()["writes"] == 1


def test_over_http_a_tools_error_is_an_answer_and_misuse_is_not(http: TestClient) -> None:
    http.post("/branches/retail-1")
    failed = http.post("/branches/retail-1/calls", json={"tool": "pay_in", "arguments": {"cents": 0}, "key": "k1"})
    assert (failed.status_code, failed.json()) == (200, {"error": "Nothing to pay in"})
    unopened = http.post("/branches/retail-9/calls", json={"tool": "balance", "arguments": {}})
    opened_again = http.post("/branches/retail-1")
    assert (unopened.status_code, opened_again.status_code) == (409, 409)
    assert http.get("/stats").json()["misuses"] == 2


def task(*actions: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    told = {"reason_for_call": "Pay in.", "known_info": None, "unknown_info": None, "task_instructions": "Be brief."}
    return {
        "id": "7",
        "user_scenario": {"instructions": told},
        "evaluation_criteria": {"actions": [{"name": name, "arguments": given} for name, given in actions]},
    }


def test_a_case_holds_what_its_reference_calls_give_when_executed_directly() -> None:
    [case] = cases([task(("balance", {}), ("pay_in", {"cents": 5}), ("pay_in", {"cents": 0}))], Till)
    assert [(call.name, call.writes, call.error) for call in case.calls] == [
        ("balance", False, None),
        ("pay_in", True, None),
        ("pay_in", True, "Nothing to pay in"),
    ]
    assert (case.task_id, case.expected_hash) == ("7", "hash of 5")
    assert case.task == "Case 7. Serve this customer, who was told:\n\nPay in.\nBe brief."
    assert isinstance(case, Case)
    assert (totals([case]).writes, totals([case]).errors) == (2, 1)


def test_a_task_that_asks_for_one_write_twice_is_no_case_for_this_audit() -> None:
    with pytest.raises(ValueError, match="twice"):
        cases([task(("pay_in", {"cents": 5}), ("pay_in", {"cents": 5}))], Till)
