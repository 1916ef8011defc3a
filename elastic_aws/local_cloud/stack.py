"""A CloudFormation stack: creates its resources in order, with an event each, and takes them back when one fails."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from moto.core.exceptions import ServiceException

from elastic_aws.local_cloud.intrinsic_functions import Scope, TemplateError, evaluate
from elastic_aws.local_cloud.stack_resources import Made, Place, make
from elastic_aws.local_cloud.stack_scope import stack_scope
from elastic_aws.local_cloud.template import Template

POLL = timedelta(seconds=0.02)
"""How often a waiting stack looks whether a group has its instances, or none any more."""


@dataclass(frozen=True, kw_only=True)
class StackEvent:
    """One line of a stack's history."""

    logical_id: str
    physical_id: str
    type: str
    status: str
    reason: str
    at: datetime = field(default_factory=lambda: datetime.now(UTC))
    id: str = field(default_factory=lambda: str(uuid.uuid4()))


class Stack:
    """One stack. Its work runs in a thread of its own; `lock` is held for each resource, never while waiting."""

    def __init__(
        self,
        *,
        place: Place,
        template: Template,
        parameters: dict[str, str],
        lock: threading.RLock,
        parameter_store: Callable[[str], str],
        timeout: timedelta | None,
        rollback: bool,
    ) -> None:
        self.place = place
        self.template = template
        self.parameters = parameters
        self.created = datetime.now(UTC)
        self.updated: datetime | None = None
        self.deleted: datetime | None = None
        self.status = "CREATE_IN_PROGRESS"
        self.reason = ""
        self.events: list[StackEvent] = []
        self.made: dict[str, Made] = {}
        self.outputs: list[dict[str, str]] = []
        self._lock = lock
        self._parameter_store = parameter_store
        self._deadline = None if timeout is None else time.monotonic() + timeout.total_seconds()
        self._rollback = rollback
        self._work = threading.Lock()
        self._abandoned = False
        self.scope: Scope = stack_scope(self.place, template, parameters, self.made, parameter_store)
        self._note_stack("CREATE_IN_PROGRESS", "User Initiated")

    @property
    def name(self) -> str:
        """The stack's name."""
        return self.place.stack

    @property
    def id(self) -> str:
        """The stack's ARN."""
        return self.place.stack_id

    def create(self) -> None:
        """Create everything; roll back when something fails."""
        self._in_thread(self._create)

    def update(self, template: Template, parameters: dict[str, str]) -> None:
        """Change what differs, in place."""
        self.status = "UPDATE_IN_PROGRESS"
        self._note_stack(self.status, "User Initiated")
        self._in_thread(lambda: self._update(template, parameters))

    def delete(self) -> None:
        """Delete everything, also while it is still being created."""
        self._abandoned = True
        self.status = "DELETE_IN_PROGRESS"
        self._note_stack(self.status, "User Initiated")
        self._in_thread(lambda: self._take_back("DELETE_COMPLETE", "DELETE_FAILED"))

    def _in_thread(self, work: Callable[[], None]) -> None:
        def run() -> None:
            with self._work:
                work()

        threading.Thread(target=run, name=f"stack {self.name}", daemon=True).start()

    def _create(self) -> None:
        failure = ""
        for level in self._levels(self.template):
            failure = self._create_level(level)
            if failure or self._abandoned:
                break
        if self._abandoned:
            return
        if not failure:
            failure = self._set_outputs()
        if not failure:
            self.status = "CREATE_COMPLETE"
            self._note_stack(self.status)
        elif self._rollback:
            self.status, self.reason = "ROLLBACK_IN_PROGRESS", failure
            self._note_stack(self.status, failure)
            self._take_back("ROLLBACK_COMPLETE", "ROLLBACK_FAILED")
        else:
            self.status, self.reason = "CREATE_FAILED", failure
            self._note_stack(self.status, failure)

    def _levels(self, template: Template) -> list[list[str]]:
        """Resources that can be created at the same time, level by level."""
        levels: list[list[str]] = []
        done: set[str] = set()
        left = [name for name in template.order() if self._wanted(template, name)]
        while left:
            level = [name for name in left if not (template.needs(name) & set(left)) - done]
            levels.append(level)
            done |= set(level)
            left = [name for name in left if name not in done]
        return levels

    def _wanted(self, template: Template, name: str) -> bool:
        condition = template.resources[name].get("Condition")
        return condition is None or self.scope.condition(condition)

    def _create_level(self, names: list[str]) -> str:
        failed: list[str] = []
        started: list[Made] = []
        for name in names:
            made = self._create_one(name)
            if made is None:
                failed.append(name)
                break
            started.append(made)
        if not failed:
            failed = self._await_ready(started)
        if failed:
            return f"The following resource(s) failed to create: [{', '.join(failed)}]. "
        return ""

    def _create_one(self, name: str) -> Made | None:
        resource = self.template.resources[name]
        kind = resource["Type"]
        self._note(name, "", kind, "CREATE_IN_PROGRESS")
        try:
            with self._lock:
                properties = evaluate(resource.get("Properties", {}), self.scope)
                made = make(name, kind, properties, self.place)
        except (TemplateError, ServiceException, KeyError, ValueError, TypeError, AssertionError) as error:
            self._note(name, "", kind, "CREATE_FAILED", _reason(error))
            return None
        made.keep = resource.get("DeletionPolicy") == "Retain"
        self.made[name] = made
        made.status = "CREATE_IN_PROGRESS"
        self._note(name, made.physical_id, kind, "CREATE_IN_PROGRESS", "Resource creation Initiated")
        if made.ready():
            self._complete(made)
        return made

    def _complete(self, made: Made) -> None:
        made.status = "CREATE_COMPLETE"
        self._note(made.logical_id, made.physical_id, made.type, made.status)

    def _await_ready(self, made: list[Made]) -> list[str]:
        waiting = [one for one in made if one.status != "CREATE_COMPLETE"]
        while waiting and not self._abandoned:
            if self._deadline is not None and time.monotonic() > self._deadline:
                for one in waiting:
                    one.status, one.reason = (
                        "CREATE_FAILED",
                        "Resource creation cancelled: the stack's time limit is over",
                    )
                    self._note(one.logical_id, one.physical_id, one.type, one.status, one.reason)
                return [one.logical_id for one in waiting]
            time.sleep(POLL.total_seconds())
            for one in [one for one in waiting if one.ready()]:
                self._complete(one)
                waiting.remove(one)
        return []

    def _set_outputs(self) -> str:
        try:
            with self._lock:
                self.outputs = [
                    {"OutputKey": key, "OutputValue": str(evaluate(output["Value"], self.scope))}
                    | ({"Description": output["Description"]} if "Description" in output else {})
                    | ({"ExportName": evaluate(output["Export"]["Name"], self.scope)} if "Export" in output else {})
                    for key, output in self.template.outputs.items()
                    if "Condition" not in output or self.scope.condition(output["Condition"])
                ]
        except TemplateError as error:
            return str(error)
        return ""

    def _take_back(self, complete: str, failed: str) -> None:
        levels = [[name for name in level if name in self.made] for level in reversed(self._levels(self.template))]
        troubles: list[str] = []
        for level in levels:
            troubles += self._delete_level([self.made[name] for name in level])
        if troubles:
            self.status, self.reason = failed, f"The following resource(s) failed to delete: [{', '.join(troubles)}]. "
        else:
            self.status = complete
        self._note_stack(self.status, self.reason if troubles else "")
        if self.status == "DELETE_COMPLETE":
            self.deleted = datetime.now(UTC)

    def _delete_level(self, level: list[Made]) -> list[str]:
        waiting, troubles = [], []
        for made in level:
            if made.keep:
                self._note(made.logical_id, made.physical_id, made.type, "DELETE_SKIPPED")
                del self.made[made.logical_id]
                continue
            self._note(made.logical_id, made.physical_id, made.type, "DELETE_IN_PROGRESS")
            try:
                with self._lock:
                    made.end()
                waiting.append(made)
            except (ServiceException, KeyError, ValueError, TypeError) as error:
                made.status = "DELETE_FAILED"
                self._note(made.logical_id, made.physical_id, made.type, made.status, _reason(error))
                troubles.append(made.logical_id)
        while waiting:
            with self._lock:
                over = [made for made in waiting if made.ended()]
            for made in over:
                waiting.remove(made)
                del self.made[made.logical_id]
                self._note(made.logical_id, made.physical_id, made.type, "DELETE_COMPLETE")
            if waiting:
                time.sleep(POLL.total_seconds())
        return troubles

    def _update(self, template: Template, parameters: dict[str, str]) -> None:
        old = self.template
        self.template, self.parameters = template, parameters
        self.scope = stack_scope(self.place, template, parameters, self.made, self._parameter_store)
        failure = ""
        for level in self._levels(template):
            for name in level:
                failure = failure or self._update_one(name)
        removed = [self.made[name] for name in old.resources if name in self.made and name not in template.resources]
        if not failure:
            self._delete_level(removed)
            failure = self._set_outputs()
        self.status = "UPDATE_FAILED" if failure else "UPDATE_COMPLETE"
        self.reason = failure
        self.updated = datetime.now(UTC)
        self._note_stack(self.status, failure)

    def _update_one(self, name: str) -> str:
        if name not in self.made:
            return self._create_level([name])
        made = self.made[name]
        try:
            with self._lock:
                properties = evaluate(self.template.resources[name].get("Properties", {}), self.scope)
                if properties == made.properties:
                    return ""
                self._note(name, made.physical_id, made.type, "UPDATE_IN_PROGRESS")
                made.changed(properties)
        except (TemplateError, ServiceException, KeyError, ValueError, TypeError) as error:
            self._note(name, made.physical_id, made.type, "UPDATE_FAILED", _reason(error))
            return f"The following resource(s) failed to update: [{name}]. {_reason(error)}"
        made.status = "UPDATE_COMPLETE"
        self._note(name, made.physical_id, made.type, made.status)
        return ""

    def _note_stack(self, status: str, reason: str = "") -> None:
        self._note(self.name, self.id, "AWS::CloudFormation::Stack", status, reason)

    def _note(self, logical_id: str, physical_id: str, kind: str, status: str, reason: str = "") -> None:
        event = StackEvent(logical_id=logical_id, physical_id=physical_id, type=kind, status=status, reason=reason)
        self.events.append(event)

    def retagged(self, tags: Mapping[str, str]) -> None:
        """The stack's tags from now on."""
        self.place = replace(self.place, tags=dict(tags))


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"a required property is missing: {error.args[0]}"
    return str(error) or type(error).__name__
