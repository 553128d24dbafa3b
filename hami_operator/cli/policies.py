"""What an API server is told of the device types, written from their rows.

Two manifests of ``manifests/`` name resources or annotation keys of every type; with rows of
one's own they are written again: ``hami-operator vendors manifest``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from hami_operator.devices import registry
from hami_operator.protocol import keys

ACCOUNT: Final = "hami-system/hami-operator"

_HEAD: Final = "# Made by `hami-operator vendors manifest {what}` from the device types.\n"

_MATCH: Final = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata:
  name: hami-operator
webhooks:
- name: pods.hami.io
  failurePolicy: Fail
  matchConditions:
  - name: names-a-device
    expression: >-
      [object.spec.containers, has(object.spec.initContainers) ? object.spec.initContainers : []]
      .exists(listed, listed.exists(one, has(one.resources) && has(one.resources.limits)
      && one.resources.limits.exists(name, name in [
{names}
      ])))
"""

_GUARD: Final = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {name}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      operations: [CREATE, UPDATE]
      resources: [{resources}]
  variables:
  - name: keys
    expression: >-
      [
{keys}
      ]
  - name: before
    expression: >-
      oldObject != null && has(oldObject.metadata.annotations)
      ? oldObject.metadata.annotations : {{}}
  - name: after
    expression: >-
      has(object.metadata.annotations) ? object.metadata.annotations : {{}}
  - name: changed
    expression: >-
      variables.keys.filter(key, (key in variables.after) != (key in variables.before)
      || (key in variables.after && variables.after[key] != variables.before[key]))
{labels}  - name: where
    expression: >-
      {where}
  - name: claim
    expression: >-
      has(request.userInfo.extra)
      && '{claim}' in request.userInfo.extra
      ? request.userInfo.extra['{claim}'] : []
  validations:
  - expression: >-
      variables.{changes}.size() == 0
      || request.userInfo.username == '{user}'
      || (variables.where in variables.claim
      && authorizer.group('hami.io').resource('decisions').check('serve').allowed())
    messageExpression: >-
      variables.{changes}[0] + ' is written by the scheduler or the device plugin of the node only'
    reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {name}
spec:
  policyName: {name}
  validationActions: [Deny]
"""

_LABELS: Final = """\
  - name: labelBefore
    expression: >-
      oldObject != null && has(oldObject.metadata.labels)
      && '{label}' in oldObject.metadata.labels ? oldObject.metadata.labels['{label}'] : ''
  - name: labelAfter
    expression: >-
      has(object.metadata.labels) && '{label}' in object.metadata.labels
      ? object.metadata.labels['{label}'] : ''
  - name: forged
    expression: >-
      variables.changed
      + (variables.labelBefore == variables.labelAfter ? [] : ['label {label}'])
"""

_CLAIM: Final = "authentication.kubernetes.io/node-name"
"""What the API server adds to the token of a pod's account: the node that the pod runs on."""
_POD_WRITES: Final = (
    "pods",
    "pods/binding",
    "pods/ephemeralcontainers",
    "pods/resize",
    "pods/status",
    "bindings",
)


def text(what: str, rows: registry.Registry, account: str = ACCOUNT) -> str:
    """One of `MANIFESTS`.

    Args:
        what: which.
        rows: the device types.
        account: of the operator, ``namespace/name``.
    """
    return _HEAD.format(what=what) + MANIFESTS[what](rows, account)


def _fail(rows: registry.Registry, account: str) -> str:
    """With failurePolicy Fail, nobody but pods that name one of our resources depends on us."""
    return _MATCH.format(names=_listed(rows.resource_names))


def _policy(rows: registry.Registry, account: str) -> str:
    """Whoever may write what we and device plugins say to each other."""
    user = f"system:serviceaccount:{account.replace('/', ':')}"
    pods = _GUARD.format(
        name="hami-operator-pods",
        resources=", ".join(_POD_WRITES),
        keys=_listed(rows.owned_pod_keys),
        labels=_LABELS.format(label=keys.VGPU_NODE),
        changes="forged",
        where="has(dyn(object).spec) && has(dyn(object).spec.nodeName) "
        "? dyn(object).spec.nodeName : ''",
        claim=_CLAIM,
        user=user,
    )
    nodes = _GUARD.format(
        name="hami-operator-nodes",
        resources="nodes, nodes/status",
        keys=_listed(node_keys(rows)),
        labels="",
        changes="changed",
        where="object.metadata.name",
        claim=_CLAIM,
        user=user,
    )
    return f"{pods}---\n{nodes}"


def node_keys(rows: registry.Registry) -> Iterable[str]:
    """What device plugins and we write on Nodes; the cordon is an administrator's."""
    found = {keys.NODE_LOCK}
    for row in rows:
        node = row.node
        found |= {row.lock, node.register, node.listed, *node.extra}
        found |= {node.handshake, node.legacy_handshake}
    return found - {""}


def _listed(names: Iterable[str]) -> str:
    """Names as a list of CEL, some to a line."""
    quoted = ", ".join(f"'{name}'" for name in sorted(names))
    lines = textwrap.wrap(quoted, width=92, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), "      ")


MANIFESTS: Final[Mapping[str, Callable[[registry.Registry, str], str]]] = {
    "fail": _fail,
    "policy": _policy,
}
"""``fail``: which pods the webhook must answer for. ``policy``: who may write which annotation."""
