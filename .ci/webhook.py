"""Write which pods the webhook must answer for: webhook.py FILE.

With failurePolicy Fail nobody but pods that name one of our resources may depend on us, so the
names go into a match condition; they come from the rows.
"""

import pathlib
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

from hami_operator.devices import registry

TEXT = """\
# Made by .ci/webhook.py from the device types.
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


def text() -> str:
    """The whole patch."""
    names = ", ".join(f"'{name}'" for name in sorted(registry.default().resource_names))
    lines = textwrap.wrap(names, width=92, break_long_words=False, break_on_hyphens=False)
    return TEXT.format(names=textwrap.indent("\n".join(lines), "      "))


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(text())
