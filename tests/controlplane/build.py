"""Build the control plane from Go modules, once per user and version.

`python -m tests.controlplane.build [component …]` builds ahead of the tests.
"""

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.controlplane import cache, process, toolchain

GO_MODULE = Path(__file__).parent / "go"
ETCD_MODULE = "go.etcd.io/etcd/server/v3"
KUBERNETES_MODULE = "k8s.io/kubernetes"
PACKAGES = {
    "etcd": ETCD_MODULE,
    "kube-apiserver": f"{KUBERNETES_MODULE}/cmd/kube-apiserver",
    "kube-scheduler": f"{KUBERNETES_MODULE}/cmd/kube-scheduler",
    "kube-controller-manager": f"{KUBERNETES_MODULE}/cmd/kube-controller-manager",
    "kubelet": f"{KUBERNETES_MODULE}/cmd/kubelet",
    # Ours, in a folder of that name beside go.mod.
    "oracle": "./oracle",
}
DEFAULT_COMPONENTS = ("etcd", "kube-apiserver")
BUILD_TIMEOUT_S = 45 * 60.0


def ensure(components: Sequence[str] = DEFAULT_COMPONENTS) -> Path:
    """Return a folder that holds the binaries of these components, building what is missing.

    A folder named by `KUBEBUILDER_ASSETS` comes first if it holds them all.

    Raises:
        ValueError: no such component.
        ProcessError: a build failed; the message ends with what the compiler said.
        TimeoutError: another process held the cache for too long.
    """
    if unknown := sorted(set(components) - set(PACKAGES)):
        raise ValueError(f"no component {', '.join(unknown)}; there are {', '.join(PACKAGES)}")
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given:
        lacking = missing(Path(given), components)
        if not lacking:
            return Path(given)
        process.report(f"KUBEBUILDER_ASSETS={given} lacks {', '.join(lacking)}: using the cache")
    folder = cache_folder()
    if missing(folder, components):
        _fill(folder, components)
    return folder


def executable(component: str) -> Path:
    """Return a component's binary, built if it was missing; raises as `ensure` does."""
    return ensure((component,)) / file_name(component)


def file_name(component: str) -> str:
    """Return the name of a component's binary.

    That of a program of ours ends with a digest of what it is made of: nothing else in the
    folder's name tells that it changed.
    """
    own = GO_MODULE / component
    if not own.is_dir():
        return component
    digest = hashlib.sha256()
    for path in [*sorted(own.glob("*.go")), GO_MODULE / "go.mod", GO_MODULE / "go.sum"]:
        digest.update(path.read_bytes())
    return f"{component}-{digest.hexdigest()[:12]}"


def missing(folder: Path, components: Iterable[str]) -> list[str]:
    """Return the components that the folder has no executable of."""
    return [name for name in components if not os.access(folder / file_name(name), os.X_OK)]


def cache_folder() -> Path:
    """Return the cache folder of the versions in `go.mod` and this machine's architecture."""
    versions = f"kubernetes-{version(KUBERNETES_MODULE)}-etcd-{version(ETCD_MODULE)}"
    machine = platform.machine()
    arch = {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
    return cache.root() / f"{versions}-{arch}"


def version(module: str) -> str:
    """Return the version of a module that `go.mod` requires, such as `v1.36.3`."""
    pattern = rf"^\s*{re.escape(module)} (v\S+)"
    found = re.search(pattern, (GO_MODULE / "go.mod").read_text(), flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"{GO_MODULE / 'go.mod'} does not require {module}")
    return found[1]


def _fill(folder: Path, components: Sequence[str]) -> None:
    with cache.exclusive(folder, timeout_s=BUILD_TIMEOUT_S * len(PACKAGES)):
        # Whoever held the lock before us may have built it all.
        wanted = missing(folder, components)
        go = toolchain.go() if wanted else Path()
        for component in wanted:
            _build(component, folder, go=go)


def _build(component: str, folder: Path, *, go: Path) -> None:
    # A name of its own until complete: an interrupted build leaves nothing that looks finished.
    partial = folder / f".{component}.partial"
    log_path = folder / f"{component}.log"
    log_path.unlink(missing_ok=True)
    process.run_reported(
        f"building {component}",
        [go, "build", *_flags(), "-o", partial, PACKAGES[component]],
        log_path=log_path,
        timeout_s=BUILD_TIMEOUT_S,
        env={**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"},
        cwd=GO_MODULE,
    )
    partial.replace(folder / file_name(component))


def _flags() -> list[str]:
    # Without these the server calls itself v0.0.0, and clients and feature gates believe it.
    release = version(KUBERNETES_MODULE)
    major, minor, _ = release.removeprefix("v").split(".", 2)
    values = {"gitVersion": release, "gitMajor": major, "gitMinor": minor}
    stamps = [f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items()]
    linker = " ".join(["-s", "-w", *stamps])
    return ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", linker]


def main(arguments: Sequence[str]) -> int:
    """Build the named components (default: etcd and kube-apiserver) and print their folder."""
    try:
        print(ensure(tuple(arguments) or DEFAULT_COMPONENTS))
    except (ValueError, TimeoutError, process.ProcessError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
