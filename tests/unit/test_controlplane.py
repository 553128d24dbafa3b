"""The tools that build and start the real control plane, tried on programs that take no time."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
import yaml

from tests.controlplane import build, cache, cluster, commands, process, toolchain

FAKE_GO = """#!/bin/sh
if [ "$1" = version ]; then echo "go version go${FAKE_GO_VERSION:-1.26.1} linux/amd64"; exit 0; fi
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then output="$2"; fi
  last="$1"; shift
done
echo "$last" >> "$FAKE_GO_BUILT"
echo half > "$output"
if [ -n "$FAKE_GO_ERROR" ]; then echo "$FAKE_GO_ERROR"; exit 1; fi
printf '#!/bin/sh\\necho %s; exit 3\\n' "$last" > "$output"
chmod +x "$output"
"""


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and, on its PATH, a Go that only pretends to compile."""
    script(tmp_path / "bin" / "go", FAKE_GO)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_GO_BUILT", str(tmp_path / "built"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def built(machine: Path) -> list[str]:
    log = machine / "built"
    return log.read_text().split() if log.exists() else []


# ---- build -------------------------------------------------------------------------------------


def test_what_is_missing_is_built_once(machine: Path) -> None:
    first = build.ensure(("etcd",))
    second = build.ensure(("etcd", "kube-apiserver"))
    assert first == second == build.cache_folder()
    assert build.missing(first, build.PACKAGES) == [
        "kube-scheduler",
        "kube-controller-manager",
        "kubelet",
        "oracle",
    ]
    assert built(machine) == [build.PACKAGES["etcd"], build.PACKAGES["kube-apiserver"]]


def test_a_failed_build_shows_the_compiler_and_leaves_nothing_that_looks_finished(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_GO_ERROR", "undefined: everything")
    with pytest.raises(process.ProcessError, match=r"etcd failed(.|\n)*undefined: everything"):
        build.ensure(("etcd",))
    assert build.missing(build.cache_folder(), ["etcd"]) == ["etcd"]
    monkeypatch.delenv("FAKE_GO_ERROR")
    assert build.missing(build.ensure(("etcd",)), ["etcd"]) == []


def test_an_unknown_component_is_refused_by_name(machine: Path) -> None:
    with pytest.raises(ValueError, match="no component kube-proxy; there are etcd, "):
        build.ensure(("etcd", "kube-proxy"))


def test_given_binaries_come_before_the_cache(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(machine / "given" / "etcd", "#!/bin/sh\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "given"))
    assert build.ensure(("etcd",)) == machine / "given"
    assert built(machine) == []


def test_given_binaries_that_lack_one_are_left_alone_and_it_is_said(
    machine: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script(machine / "given" / "etcd", "#!/bin/sh\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "given"))
    assert build.ensure(("etcd", "kube-apiserver")) == build.cache_folder()
    assert "given lacks kube-apiserver: using the cache" in capsys.readouterr().err
    assert len(built(machine)) == 2


def test_a_file_that_cannot_be_executed_counts_as_missing(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("half a download")
    assert build.missing(tmp_path, ["etcd"]) == ["etcd"]


def test_the_cache_folder_names_both_versions(machine: Path) -> None:
    name = build.cache_folder().name
    versions = [build.version(build.KUBERNETES_MODULE), build.version(build.ETCD_MODULE)]
    assert name.startswith("kubernetes-{}-etcd-{}-".format(*versions))


def test_a_module_that_go_mod_does_not_require_has_no_version() -> None:
    with pytest.raises(ValueError, match=r"does not require example\.com/none"):
        build.version("example.com/none")


def test_every_staging_module_is_replaced_by_the_same_release() -> None:
    text = (build.GO_MODULE / "go.mod").read_text()
    staging = re.findall(r"^\s*(k8s\.io/\S+) => (\S+) (\S+)$", text, flags=re.MULTILINE)
    want = build.version(build.KUBERNETES_MODULE).replace("v1.", "v0.", 1)
    assert len(staging) > 30
    assert [row for row in staging if row != (row[0], row[0], want)] == []


def test_every_component_of_another_module_is_a_tool_of_ours() -> None:
    text = (build.GO_MODULE / "go.mod").read_text()
    tools = re.search(r"^tool \(\n(.*?)^\)", text, flags=re.MULTILINE | re.DOTALL)
    assert tools is not None
    foreign = [package for package in build.PACKAGES.values() if not package.startswith("./")]
    assert sorted(tools[1].split()) == sorted(foreign)


def test_a_program_of_ours_is_built_again_when_its_sources_change(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "GO_MODULE", machine / "go")
    for name in ("go.mod", "go.sum", "oracle/main.go"):
        script(machine / "go" / name, "k8s.io/kubernetes v1.2.3\ngo.etcd.io/etcd/server/v3 v3\n")
    first = [build.executable("oracle"), build.executable("oracle")]
    script(machine / "go" / "oracle" / "main.go", "package main\n")
    second = build.executable("oracle")
    assert first == [first[0], first[0]]
    assert first[0] != second
    assert [path.is_file() for path in (first[0], second)] == [True, True]
    assert built(machine) == ["./oracle", "./oracle"]


def test_the_command_prints_the_folder(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["etcd"]) == 0
    assert capsys.readouterr().out == f"{build.cache_folder()}\n"
    assert built(machine) == [build.PACKAGES["etcd"]]


def test_the_command_builds_what_the_tests_start_by_default(machine: Path) -> None:
    assert build.main([]) == 0
    assert built(machine) == [build.PACKAGES[name] for name in build.DEFAULT_COMPONENTS]


def test_the_command_fails_with_a_sentence(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build.main(["kube-proxy"]) == 1
    assert "no component kube-proxy" in capsys.readouterr().err


# ---- toolchain ---------------------------------------------------------------------------------


def fake_install(requirement: str, target: Path) -> None:
    script(target / "go" / "bin" / "go", FAKE_GO)
    script(target / "bin" / "kubectl", "#!/bin/sh\n")


def test_a_new_enough_go_on_path_is_taken(machine: Path) -> None:
    assert toolchain.go() == machine / "bin" / "go"


@pytest.mark.parametrize("version", ["1.25.9", "1.9.1", "unknown"])
def test_an_old_go_is_replaced_by_the_pinned_package(
    machine: Path, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    monkeypatch.setenv("FAKE_GO_VERSION", version)
    monkeypatch.setattr(toolchain, "_install", fake_install)
    folder = cache.root() / toolchain.GO_PACKAGE.replace("==", "-")
    assert toolchain.go() == folder / "target" / "go" / "bin" / "go"


def test_kubectl_on_path_is_taken_else_the_pinned_package(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_install", fake_install)
    monkeypatch.setenv("PATH", str(machine / "bin"))
    packaged = toolchain.kubectl()
    own = script(machine / "bin" / "kubectl", "#!/bin/sh\n")
    folder = cache.root() / toolchain.KUBECTL_PACKAGE.replace("==", "-")
    assert packaged == folder / "target" / "bin" / "kubectl"
    assert toolchain.kubectl() == own


def test_a_package_is_installed_once(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "_install", fake_install)
    first = toolchain.installed("one==1", "bin/kubectl")
    monkeypatch.setattr(toolchain, "_install", None)
    assert toolchain.installed("one==1", "bin/kubectl") == first


def test_a_package_without_the_command_is_refused_by_name(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_install", fake_install)
    with pytest.raises(process.ProcessError, match="one==1 has no executable bin/other"):
        toolchain.installed("one==1", "bin/other")


def test_a_go_that_does_not_start_has_version_zero(tmp_path: Path) -> None:
    assert toolchain.go_version(tmp_path / "none") == (0, 0)


def test_the_pinned_packages_fit_the_module() -> None:
    text = (build.GO_MODULE / "go.mod").read_text()
    wanted = re.search(r"^go (\d+)\.(\d+)", text, flags=re.MULTILINE)
    kubernetes = build.version(build.KUBERNETES_MODULE).removeprefix("v")
    assert wanted is not None
    assert (int(wanted[1]), int(wanted[2])) == toolchain.GO_MINIMUM
    assert toolchain.KUBECTL_PACKAGE.endswith(f"=={kubernetes}")


# ---- cache -------------------------------------------------------------------------------------


def test_the_cache_is_below_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache.root() == Path("/home/somebody/.cache/hami-operator/controlplane")


def test_a_held_lock_is_waited_for_within_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(cache, "POLL_S", 0.001)
    message = "locked by another process"
    with (
        cache.exclusive(tmp_path, timeout_s=1),
        pytest.raises(TimeoutError, match=message),
        cache.exclusive(tmp_path, timeout_s=0.01),
    ):
        pass
    assert "waiting for another process to fill" in capsys.readouterr().err


def test_a_lock_is_free_again_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(KeyError), cache.exclusive(tmp_path / "new", timeout_s=1):
        raise KeyError("inside")
    with cache.exclusive(tmp_path / "new", timeout_s=0):
        assert (tmp_path / "new" / ".lock").exists()


# ---- process -----------------------------------------------------------------------------------


def test_a_long_command_reports_that_it_still_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "REPORT_EVERY_S", 0.05)
    command = ["sh", "-c", "echo working; sleep 0.3"]
    process.run_reported("work", command, log_path=tmp_path / "log", timeout_s=30)
    told = capsys.readouterr().err
    assert told.startswith("control plane: work: started")
    assert "work: 0 s so far" in told
    assert "work: done after" in told
    assert (tmp_path / "log").read_text() == "working\n"


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo stuck; sleep 60"]
    with pytest.raises(process.ProcessError, match=r"did not end within 0 s(.|\n)*stuck"):
        process.run_reported("work", command, log_path=tmp_path / "log", timeout_s=0.3)


def test_a_program_that_is_not_there_fails_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(process.ProcessError, match="no-such-program"):
        process.run_reported(
            "work", [tmp_path / "no-such-program"], log_path=tmp_path / "log", timeout_s=30
        )


def test_a_process_that_ignores_the_polite_signal_is_killed(tmp_path: Path) -> None:
    command = ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done"]
    stubborn = process.Process("stubborn", command, log_path=tmp_path / "log")
    wait_for_text(tmp_path / "log", "ready")
    stubborn.stop(grace_s=0.2)
    assert stubborn.exit_code() == -signal.SIGKILL
    stubborn.stop()


def test_a_process_gets_the_environment_and_folder_it_is_given(tmp_path: Path) -> None:
    child = process.Process(
        "child",
        ["/bin/sh", "-c", 'echo "$WORD in $PWD"'],
        log_path=tmp_path / "log",
        env={"WORD": "hello"},
        cwd=tmp_path,
    )
    assert child.wait(timeout_s=30) == 0
    assert (tmp_path / "log").read_text() == f"hello in {tmp_path.resolve()}\n"


PARENT = """
import pathlib, sys, time
from tests.controlplane import process
log = pathlib.Path(sys.argv[1])
print(process.Process("child", ["sleep", "60"], log_path=log).pid, flush=True)
time.sleep(60)
"""


def test_a_process_dies_with_its_parent(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert is_alive(child)
        parent.kill()
    deadline = time.monotonic() + 30
    while is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_for_text(path: Path, text: str) -> None:
    deadline = time.monotonic() + 30
    while text not in path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_missing_log_is_said_and_no_error(tmp_path: Path) -> None:
    assert process.tail(tmp_path / "none").startswith("(no log: ")


def test_the_tail_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("1\n2\n3\n")
    assert process.tail(tmp_path / "log", lines=2) == "2\n3"


# ---- commands ----------------------------------------------------------------------------------


def test_ports_are_distinct_and_out_of_the_way_of_outgoing_connections() -> None:
    ports = commands.free_ports()
    numbers = {getattr(ports, name) for name in ports.__slots__}
    assert len(numbers) == 5
    assert all(20_000 <= number < 32_000 for number in numbers)


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param(
            commands.Options(),
            ["--disable-admission-plugins=ServiceAccount"],
            id="a pod needs no ServiceAccount unless asked for",
        ),
        pytest.param(commands.Options(service_account_admission=True), [], id="nothing else"),
        pytest.param(
            commands.Options(
                service_account_admission=True,
                max_requests_inflight=7,
                max_mutating_requests_inflight=3,
                apiserver_arguments=["--v=4"],
            ),
            ["--max-requests-inflight=7", "--max-mutating-requests-inflight=3", "--v=4"],
            id="limits and further arguments come last",
        ),
    ],
)
def test_options_become_arguments(options: commands.Options, want: list[str]) -> None:
    arguments = commands.apiserver(
        ports=commands.free_ports(),
        cert_dir=Path("/c"),
        token_file=Path("/t"),
        audit_policy=Path("/p"),
        audit_log=Path("/l"),
        options=options,
    )
    fixed = arguments.index("--audit-log-maxsize=100000") + 1
    assert arguments[fixed:] == want


def test_the_audit_policy_leaves_out_the_servers_own_requests() -> None:
    assert yaml.safe_load(commands.audit_policy("Request"))["rules"] == [
        {"level": "None", "users": ["system:apiserver"]},
        {"level": "Request"},
    ]


# ---- cluster -----------------------------------------------------------------------------------


def test_a_server_that_ends_at_once_fails_the_start_with_its_log_and_stops_the_others(
    machine: Path,
) -> None:
    plane = cluster.ControlPlane()
    with pytest.raises(
        process.ProcessError, match=r"etcd ended with exit code 3(.|\n)*etcd/server"
    ):
        plane.__enter__()
    with pytest.raises(KeyError):
        plane.pid("kube-apiserver")
    assert plane.directory.is_dir()


def test_a_server_that_is_never_ready_fails_within_a_bound(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in build.DEFAULT_COMPONENTS:
        script(machine / "given" / name, "#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "given"))
    monkeypatch.setattr(cluster, "READY_TIMEOUT_S", 0.3)
    with pytest.raises(process.ProcessError, match="kube-apiserver was not ready within 0 s"):
        cluster.ControlPlane().__enter__()


def test_a_half_written_audit_line_is_left_for_later() -> None:
    plane = cluster.ControlPlane()
    assert plane.audit_events() == []
    plane.audit_log.write_text('{"verb": "get"}\n{"verb": "li')
    assert plane.audit_events() == [{"verb": "get"}]


def test_a_kubeconfig_is_for_its_owners_eyes_only(tmp_path: Path) -> None:
    plane = cluster.ControlPlane()
    path = plane.write_kubeconfig(tmp_path / "config", "secret")
    content = yaml.safe_load(path.read_text())
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert content["users"] == [{"name": "user", "user": {"token": "secret"}}]
    assert content["clusters"][0]["cluster"]["server"] == plane.url
