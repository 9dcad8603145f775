"""Deciding: who may, and what their word allows. The run believes no decision that was not checked here."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog
from temporalio import activity

from activities.grants import LIFETIME, sealed
from activities.own import segment
from perdure.core.contracts import CHECK_DECISION, CHECK_STEERING, CheckDecision, Checked, CheckSteering, Choice, Grant

log = structlog.get_logger("perdure")


@dataclass(frozen=True)
class Decisions:
    grant_key: bytes

    @activity.defn(name=CHECK_DECISION)
    async def check_decision(self, asked: CheckDecision) -> Checked:
        """Check a decision. None is signed so far: who decided is what the client says, and marked unverified."""
        decision, now = asked.decision, datetime.now(UTC)
        run_id = segment().workflow_id
        if not re.search(r"\S", decision.by):
            return Checked(accepted=False, why="a decision must say who makes it (by)", decided=now)
        log.info("decision", run=run_id, request=decision.request, choice=decision.choice, by=decision.by)
        return Checked(
            accepted=True,
            decided=now,
            grant=self._grant(asked, run_id, now) if decision.choice is Choice.APPROVE else None,
        )

    @activity.defn(name=CHECK_STEERING)
    async def check_steering(self, asked: CheckSteering) -> Checked:
        """Check what an operator says to a run that did not ask; as with decisions, who it is remains unverified."""
        steering, now = asked.steering, datetime.now(UTC)
        run_id = segment().workflow_id
        if not re.search(r"\S", steering.by):
            return Checked(accepted=False, why="who steers a run must say who it is (by)", decided=now)
        log.info("steering", run=run_id, steer=steering.steer, by=steering.by)
        return Checked(accepted=True, decided=now)

    def _grant(self, asked: CheckDecision, run_id: str, now: datetime) -> Grant:
        grant = Grant(
            request=asked.request.id,
            run_id=run_id,
            key=asked.key,
            digest=asked.request.digest,
            by=asked.decision.by,
            verified=False,
            decided=now,
            until=now + LIFETIME,
        )
        return sealed(grant, self.grant_key)
