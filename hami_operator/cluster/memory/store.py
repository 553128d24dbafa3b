"""The objects, their versions, and every read and write: synchronous, for one writer."""

from __future__ import annotations

import copy
import datetime
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

import orjson

from hami_operator import clock
from hami_operator.cluster.memory import (
    binding,
    decoding,
    deletion,
    metadata,
    pages,
    records,
    refusals,
    resources,
    rules,
    selectors,
    updates,
)

Body = bytes | Mapping[str, Any]
Named = str | resources.Resource
Records = list[records.Record]
WatchEvents = list[records.WatchEvent]
JsonPatch = list[dict[str, Any]]

DEFAULT_VERSION: Final = "1.36.3"
DEFAULT_WINDOW: Final = 4096
_NAMESPACES: Final = ("default", "kube-node-lease", "kube-public", "kube-system")
_PRIORITIES: Final = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
EVICTED: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


class Store:
    """An API server without its HTTP face.

    All methods take a kind as ``plural`` or ``plural.group`` and a key as ``(namespace, name)``,
    and raise `refusals.Refused` as a real server refuses. Bodies are copied when they come in;
    the `records.Record` values that come out are never changed, and must not be.

    Args:
        system_clock: where the time comes from.
        new_id: makes UIDs.
        version: the release of Kubernetes that is emulated.
        window: how many changes per kind a watch can go back.
    """

    def __init__(
        self,
        *,
        system_clock: clock.Clock | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        version: str = DEFAULT_VERSION,
        window: int = DEFAULT_WINDOW,
    ) -> None:
        self.kubernetes_version = version.removeprefix("v")
        self.minor = int(version.split(".")[1])
        self.version = 0
        self._clock = system_clock or clock.SystemClock()
        self._new_id = new_id
        self._buckets = {
            row.bucket: records.Bucket(window=window) for row in reversed(resources.ALL)
        }
        self._snapshots = pages.Snapshots()
        self._listeners: list[Callable[[str], None]] = []
        self._rehearsing = False
        self._populate()

    def _populate(self) -> None:
        for name in _NAMESPACES:
            self.create("namespaces", {"metadata": {"name": name}})
        for name, value in _PRIORITIES.items():
            self.create("priorityclasses", {"metadata": {"name": name}, "value": value})

    def now(self) -> datetime.datetime:
        """The time of the store's clock."""
        return self._clock.wall()

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call ``listener`` with the name of the bucket after each write."""
        self._listeners.append(listener)

    def rehearsal(self) -> Store:
        """A store that shows the same objects and answers every write, but keeps none."""
        twin = copy.copy(self)
        twin._rehearsing = True
        return twin

    # Reading

    def find(self, resource: Named, key: records.Key) -> records.Record | None:
        """The object, or None."""
        return self._bucket(resource).records.get(key)

    def get(self, resource: Named, key: records.Key) -> records.Record:
        """The object; 404 if there is none."""
        record = self.find(resource, key)
        if record is None:
            raise refusals.not_found(resources.find(resource).name, key[1])
        return record

    def list(
        self,
        resource: Named,
        *,
        namespace: str = "",
        selector: selectors.Selector = selectors.ALL,
        limit: int = 0,
        token: str = "",
    ) -> pages.Page:
        """A page of what is selected, ordered by namespace and name.

        Args:
            resource: the kind.
            namespace: only this one; empty: all.
            selector: only what it matches.
            limit: objects per page at most; 0: no limit.
            token: from the page before. All pages show the state of the first one; 410 once
                that state has been forgotten.
        """
        bucket = self._bucket(resource)
        name = resources.find(resource).bucket
        if not token:
            keys = bucket.ordered() if limit else bucket.ordered(namespace)
            found = [bucket.records[key] for key in keys]
            if not limit:
                return pages.Page(pages.selected(found, selector), self.version)
            self._snapshots.take(name, self.version, found)
        start, version = pages.read_token(token) if token else (("", ""), self.version)
        return self._snapshots.page(
            name,
            version=version,
            start=start,
            namespace=namespace,
            selector=selector,
            limit=limit,
        )

    def events_since(
        self,
        resource: Named,
        version: int,
        *,
        selector: selectors.Selector = selectors.ALL,
    ) -> WatchEvents:
        """What a watch from ``version`` has to show by now; 410 if that is too long ago."""
        changes = self._bucket(resource).changes_after(version)
        seen = (change.seen(selector) for change in changes)
        return [event for event in seen if event is not None]

    def compact(self, resource: Named) -> None:
        """Forget all changes and list snapshots: who watches from before now gets 410."""
        self.version += 1
        name = resources.find(resource).bucket
        self._buckets[name].forget(self.version)
        self._snapshots.forget(name)

    # Writing

    def create(self, resource: Named, body: Body, *, namespace: str = "") -> records.Record:
        """Store a new object; its namespace is ``namespace`` or, if that is empty, its own."""
        row = resources.find(resource)
        obj = self._prepared(row, body, namespace)
        meta = obj["metadata"]
        causes = metadata.check_name(row, meta) + metadata.check(meta)
        causes += rules.check_create(obj, row)
        if causes:
            raise refusals.invalid(row.full_kind, meta.get("name", ""), causes)
        if self.find(row, records.key_of(obj)):
            raise refusals.already_exists(row.name, meta["name"])
        meta |= {"uid": self._new_id(), "creationTimestamp": self._now_text()}
        if row.generation:
            meta["generation"] = 1
        return self._commit(row, None, obj)

    def preview(self, resource: Named, body: Body, *, namespace: str = "") -> dict[str, Any]:
        """The object that `create` would store, not yet validated: what a webhook is shown."""
        row = resources.find(resource)
        obj = self._prepared(row, body, namespace)
        if row.status:
            obj.pop("status", None)
        return {"kind": row.kind, "apiVersion": row.api_version, **obj}

    def _prepared(self, row: resources.Resource, body: Body, namespace: str) -> dict[str, Any]:
        obj = decoding.read(body, row)
        meta = obj["metadata"]
        self._place(meta, row, namespace)
        if meta.pop("resourceVersion", ""):
            text = "resourceVersion should not be set on objects to be created"
            raise refusals.Refused(500, "", text)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"] + self._new_id()[-5:]
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
            meta.pop(name, None)
        return rules.fill(obj, row, self._context())

    def _place(self, meta: dict[str, Any], row: resources.Resource, namespace: str) -> None:
        """Put the object into its namespace, which must exist."""
        if not row.namespaced:
            meta.pop("namespace", None)
            return
        if namespace:
            updates.check_identity({**meta, "name": ""}, (namespace, ""))
        meta["namespace"] = namespace or meta.get("namespace") or "default"
        self.get(resources.NAMESPACES, ("", meta["namespace"]))

    def _context(self) -> rules.Context:
        classes = self._bucket(resources.PRIORITY_CLASSES).records
        return rules.Context(
            now=self._now_text(),
            lookup=self.find,
            classes=lambda: [record.obj for record in classes.values()],
        )

    def replace(
        self,
        resource: Named,
        body: Body,
        *,
        key: records.Key | None = None,
        subresource: str = "",
    ) -> records.Record:
        """Store a new version of an object (PUT); ``key`` is that of the path, if there is one.

        For some kinds (Leases, Events) an unknown object is created.
        """
        row = resources.find(resource)
        proposal = decoding.read(body, row)
        meta = proposal["metadata"]
        key = key or ((meta.get("namespace") or "default") * row.namespaced, meta.get("name", ""))
        updates.check_identity(meta, key)
        if row.create_on_update and not subresource and self.find(row, key) is None:
            return self.create(row, body, namespace=key[0])
        record = self.get(row, key)
        proposal = updates.replaced(record, row, proposal)
        return self._update(row, record, proposal, subresource)

    def patch(
        self,
        resource: Named,
        key: records.Key,
        body: Body | JsonPatch,
        *,
        content_type: str = updates.MERGE,
        subresource: str = "",
    ) -> records.Record:
        """Change an object; the kind of patch is its content type (`updates.PATCH_TYPES`)."""
        row = resources.find(resource)
        record = self.get(row, key)
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        proposal = updates.patched(record, row, raw, content_type)
        return self._update(row, record, proposal, subresource)

    def _update(
        self,
        row: resources.Resource,
        record: records.Record,
        proposal: dict[str, Any],
        subresource: str,
    ) -> records.Record:
        new = updates.combined(record, row, proposal, status=subresource == "status")
        updates.check(record, row, new)
        if new == record.obj:
            return record
        removed = deletion.is_due(new)
        return self._commit(row, record, new, removed=removed)

    def delete(
        self,
        resource: Named,
        key: records.Key,
        *,
        uid: str = "",
        version: str = "",
        grace_s: int | None = None,
    ) -> records.Record:
        """Delete an object, or mark it for deletion if it has finalizers or a node runs it.

        Args:
            resource: the kind.
            key: which object.
            uid: precondition; 409 if the object has another one.
            version: precondition on its resourceVersion.
            grace_s: how long a bound pod may take to end; None: what the pod says.

        Returns:
            The object as marked, or its last state.
        """
        row = resources.find(resource)
        record = self.get(row, key)
        deletion.check_preconditions(record, row, uid=uid, version=version)
        marked = deletion.marked(record, row, grace_s=grace_s, now=self.now())
        if row is resources.NAMESPACES:
            self._empty_namespace(key[1])
        if marked is record.obj:
            return record
        return self._commit(row, record, marked, removed=deletion.is_due(marked))

    def _empty_namespace(self, namespace: str) -> None:
        """Remove all that is in it, as the controllers of a real cluster would in time."""
        for row in resources.ALL:
            bucket = self._bucket(row)
            for key in tuple(bucket.ordered(namespace)) if row.namespaced else ():
                record = bucket.records[key]
                self._commit(row, record, record.obj, removed=True)

    def delete_all(
        self,
        resource: Named,
        *,
        namespace: str = "",
        selector: selectors.Selector = selectors.ALL,
        grace_s: int | None = None,
    ) -> Records:
        """Delete all that is selected (DELETE of a collection)."""
        page = self.list(resource, namespace=namespace, selector=selector)
        return [self.delete(resource, record.key, grace_s=grace_s) for record in page.records]

    def bind(self, key: records.Key, body: Body) -> records.Record:
        """Give a pod to a node: POST ``pods/binding``."""
        sent = decoding.message(body, "Binding")
        binding.check(key[1], key[0], sent)
        record = self.get(resources.PODS, key)
        bound = binding.assign(
            record.obj,
            sent,
            node=self._node(sent["target"]["name"]),
            now=self._now_text(),
            minor=self.minor,
        )
        return self._commit(resources.PODS, record, bound, valid=False)

    def _node(self, name: str) -> Mapping[str, Any] | None:
        record = self.find(resources.NODES, ("", name))
        return record.obj if record else None

    def evict(self, key: records.Key, body: Body) -> records.Record:
        """Delete a pod: POST ``pods/eviction``. Disruption budgets are not looked at."""
        sent = decoding.message(body, "Eviction")
        options = sent.get("deleteOptions") or {}
        status = {"conditions": [{**EVICTED, "lastTransitionTime": self._now_text()}]}
        self.patch(
            resources.PODS,
            key,
            {"status": status},
            content_type=updates.STRATEGIC,
            subresource="status",
        )
        preconditions = options.get("preconditions") or {}
        return self.delete(
            resources.PODS,
            key,
            uid=preconditions.get("uid", ""),
            grace_s=options.get("gracePeriodSeconds"),
        )

    def _commit(
        self,
        row: resources.Resource,
        before: records.Record | None,
        obj: Mapping[str, Any],
        *,
        removed: bool = False,
        valid: bool = True,
    ) -> records.Record:
        """The only place that changes anything: next version, change, word to the watches."""
        self.version += 1
        after = records.Record(records.stamped(obj, self.version), self.version, valid=valid)
        if self._rehearsing:
            return after
        self._buckets[row.bucket].write(records.Change(before, after, removed=removed))
        for listener in self._listeners:
            listener(row.bucket)
        return after

    def _bucket(self, resource: Named) -> records.Bucket:
        return self._buckets[resources.find(resource).bucket]

    def _now_text(self) -> str:
        return timestamp(self.now())


def timestamp(moment: datetime.datetime) -> str:
    """A time as API objects carry it: RFC 3339, UTC, whole seconds."""
    return moment.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
