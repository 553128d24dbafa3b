"""An API server in memory: for tests, for the demo, and for trying things without a cluster.

One synchronous `store.Store` holds the objects; `server.ApiServer` puts an HTTP face on it, in a
thread and event loop of its own, that kopf, our client and kubectl take for a real API server::

    with server.ApiServer(store.Store()) as api:
        print(api.url)                                  # kubectl --server <url> get pods
        api.fail("PATCH", r"/api/v1/nodes/.*", status=500, times=2)

It behaves as kube-apiserver 1.36 does wherever this operator or its users could tell the
difference: versions, watches, selectors, patches, preconditions, bindings, deletion, the texts
of refusals. It does what a bare API server does and no more: no controller runs behind it (so
Deployments make no pods, and Nodes keep their not-ready taint until somebody removes it), with
one exception: a deleted Namespace goes at once, with all that is in it.

Left out: server-side apply (415), protobuf, CEL (``matchConditions`` of a webhook
are not evaluated: the webhook is called), ``managedFields``, pruning of unknown fields.
"""
