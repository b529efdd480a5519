"""The workflow: its table against the experiments, the rules on this machine, and on a real SLURM of one node."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pods
import pytest
import yaml

import gpu_parts
import make_results
import workflow_table
from chapter import ROOT
from learning_dynamics import data, results
from learning_dynamics.experiments import command
from learning_dynamics.ledger import read

SNAKEMAKE = ROOT / ".venv-workflow" / "bin" / "snakemake"
TRAINING = "python -m learning_dynamics.experiments.data_architecture_alignment.training random --scale smoke"
NAME = "parameterization/data_architecture_alignment/random-smoke"
BROKEN = "python -m learning_dynamics.experiments.value_learning.sweep pond explicit --scale smoke"

needs_snakemake = pytest.mark.skipif(
    not SNAKEMAKE.exists(), reason="no Snakemake in .venv-workflow: make .venv-workflow/ready"
)
needs_slurm = pytest.mark.skipif(
    shutil.which("slurmctld") is None
    or shutil.which("munged") is None
    or Path("/etc/slurm/slurm.conf").exists(),
    reason="no SLURM to start: apt-get install munge slurm-wlm, as root, on a machine without a cluster",
)


needs_pods = pytest.mark.skipif(
    shutil.which("rsync") is None
    or not list((ROOT / ".venv-workflow").glob("lib/*/site-packages/snakemake_executor_plugin_kubernetes")),
    reason="no rsync, or no Kubernetes executor in .venv-workflow",
)


def table() -> dict[str, dict[str, str]]:
    return workflow_table.read(ROOT / workflow_table.TABLE)


def test_the_table_is_what_the_experiments_declare() -> None:
    written = (ROOT / workflow_table.TABLE).read_text(encoding="utf-8")
    assert written == workflow_table.table(), "python tools/workflow_table.py writes it"
    costs = (ROOT / workflow_table.TABLE).with_name("costs.csv").read_text(encoding="utf-8")
    assert costs == workflow_table.costs(written)
    assert "?" not in written, "a new result lacks its minutes or its files"


def test_every_kept_result_and_every_command_of_the_ledger_is_a_rule() -> None:
    rows = table()
    kept = {str(path.relative_to(ROOT / "book" / "results").with_suffix("")) for path in
            (ROOT / "book" / "results").glob("*/*/*.json")}  # fmt: skip
    assert kept <= rows.keys()
    commands = {row["command"] for row in rows.values()}
    for record in read.records(ROOT):
        if record["verdict"] != "out of reach":
            continue
        _, _, line = record["reason"].partition("ready command: ")
        line = line.split("; stand-in:")[0]
        if line.startswith("python -m learning_dynamics.experiments."):
            assert {planned.command for planned in command.plan(line)} <= commands, record["id"]


def test_public_sets_are_downloaded_before_the_results_that_need_them() -> None:
    """Also where the command does not name them, since they are its default."""
    needed = {name: row["sets"].split() for name, row in table().items()}
    assert {each for row in needed.values() for each in row} <= data.public.PUBLIC.keys()
    chapter = "parameterization/exploration_exploitation"
    assert needed[f"{chapter}/mnist-paper"] == ["mnist", "mnist-test"]
    assert needed[f"{chapter}/svhn-augment-paper"] == []  # a file of one's own
    assert needed["adaptivity/gauss_newton_steps/resnet18-cifar-10-ngn-paper"] == [
        "cifar-10",
        "cifar-10-test",
    ]


def test_every_share_of_the_weekly_job_is_over_in_half_its_limit() -> None:
    """Without counting on more than one core; the minutes are those of one core here."""
    job = yaml.safe_load((ROOT / ".github/workflows/weekly.yml").read_text(encoding="utf-8"))["jobs"]["kept"]
    shares = [0.0] * len(job["strategy"]["matrix"]["share"])
    assert job["steps"][-1]["run"].endswith(f"/{len(shares)}")
    rows = [row for row in table().values() if row["which"] == "kept" and row["gpu"] == "0"]
    for minutes in sorted((float(row["minutes"]) for row in rows), reverse=True):
        shares[shares.index(min(shares))] += minutes
    assert 0 < max(shares) <= job["timeout-minutes"] / 2


REFUSALS = {
    "chapter": (["kept", "--chapter=no/such"], "chapter = 'no/such'; allowed: adaptivity/"),
    "spaces": (["kept", "--chapter=a b"], "chapter = 'a b'; allowed: adaptivity/"),
    "shell": (["kept", "--chapter=;touch pwned"], "chapter = ';touch pwned'; allowed: adaptivity/"),
    "result": (["kept", "--chapter=curvature/damping", "--result=x"], "result = 'x'; allowed of curvature/damping: a"),
    "share": (["kept", "--shard=9/8"], "shard = '9/8'; allowed: k/m with 1 <= k <= m"),
    "no share": (["kept", "--shard=0/4"], "shard = '0/4'; allowed: k/m with 1 <= k <= m"),
    "profile": (["paper", "--profile=no"], "profile = 'no'; allowed: gpu, kubernetes, local, slurm, or"),
    "no profile": (["paper", "--profile="], "profile = ''; allowed: gpu,"),
    "no GPU": (["paper", "--chapter=adaptivity/gauss_newton_steps"], "profile = 'local'; allowed where PyTorch"),
    "kubernetes": (["paper", "--profile=kubernetes"], "container-image = None; allowed: what "),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSALS)
def test_what_cannot_be_is_named_in_one_line_before_anything_is_done(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    words, message = REFUSALS[case]
    monkeypatch.setattr(make_results, "cuda", lambda: False)
    monkeypatch.setattr(make_results.subprocess, "Popen", None)
    assert make_results.main(words) == 2
    said = capsys.readouterr()
    assert said.err.startswith(message) and said.err.count("\n") == 1 and not said.out


def test_a_cluster_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert make_results.main(["paper", "--profile=slurm"]) == 2
    assert "allowed where SLURM's sbatch and sinfo are" in capsys.readouterr().err
    for name in ("sbatch", "sinfo"):
        (tmp_path / name).write_text("#!/bin/sh\necho no controller >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    assert make_results.main(["paper", "--profile=slurm"]) == 2
    assert "sinfo says: no controller" in capsys.readouterr().err


def test_without_a_gpu_its_parts_are_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(gpu_parts, "cuda", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_parts.py", "--chapter=recurrence/linear_recurrent_units"])
    assert gpu_parts.main() == 2
    said = capsys.readouterr()
    assert said.err.startswith("device = 'cuda'; allowed where PyTorch finds a GPU; here is none")
    assert said.err.count("\n") == 1 and not said.out


def test_of_a_chapter_one_result_or_those_of_a_pattern_are_chosen() -> None:
    rows = list(table().values())
    chapter = "parameterization/value_learning"
    assert len(gpu_parts.choose(rows, chapter, "chain_explicit")) == 1
    names = {row["name"] for row in gpu_parts.choose(rows, chapter, "chain_*")}
    assert len(names) > 2 and all(name.startswith("chain_") for name in names)
    assert gpu_parts.choose(rows, "", "") == rows


def test_large_results_for_a_gpu_come_in_the_order_of_their_value() -> None:
    rows = [row for row in table().values() if row["gpu"] == "1"]
    rows.sort(key=lambda row: int(row["order"]))
    first = list(dict.fromkeys(row["name"].split("-")[0] for row in rows if row["order"] != "9"))
    assert first == ["timings", "digits", "resnet18"]


def write_table(path: Path, gpu: str = "0", which: str = "kept", **rows: str) -> Path:
    """Write a table of a few commands."""
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, workflow_table.COLUMNS)
        writer.writeheader()
        for name, line in rows.items():
            made = {"which": which, "gpu": gpu, "resumable": "1", "minutes": "1", "basis": "estimated"}
            made["resumable"] = "0" if name == "broken_at_once" else "1"
            made |= {"mem_mb": "1000", "order": "1", "files": "", "sets": "", "command": line}
            chapter = "parameterization/data_architecture_alignment"
            writer.writerow(made | {"chapter": chapter, "name": name.replace("_", "-")})
    return path


def snakemake(folder: Path, profile: str, *more: str, **config: object) -> list[str | Path]:
    """Return the command of a reduced workflow."""
    settings = {
        "out": folder / "results",
        "table": folder / "table.csv",
        "dirty": 1,
        "python": sys.executable,
    }
    return [
        *(SNAKEMAKE, "--snakefile", ROOT / "workflow" / "Snakefile", "--directory", folder, "--nocolor"),
        *("--profile", ROOT / "workflow" / "profiles" / profile, *more),
        *("--config", *(f"{key}={value}" for key, value in (settings | config).items())),
    ]


def run(words: list[str | Path]) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def arrays(folder: Path) -> dict[str, np.ndarray]:
    chapter, name = NAME.rsplit("/", 1)
    return results.load(chapter, name, folder=folder).arrays


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    folder = tmp_path_factory.mktemp("direct")
    words = [sys.executable, *TRAINING.split()[1:], "--out", str(folder), "--dirty"]
    subprocess.run(words, check=True, capture_output=True)
    return arrays(folder)


def agree(folder: Path, uninterrupted: dict[str, np.ndarray]) -> None:
    made = arrays(folder)
    assert made.keys() == uninterrupted.keys()
    for name, values in uninterrupted.items():
        np.testing.assert_array_equal(made[name], values)


@pytest.mark.slow
@needs_snakemake
@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"which": "some"}, "which = 'some'; allowed: kept, paper or all"),
        ({"chapter": "no/chapter"}, "chapter = 'no/chapter'; allowed: adaptivity/"),
        ({"shard": "9/8"}, "shard = '9/8'; allowed: k/m"),
    ],
)
def test_a_wrong_setting_of_the_workflow_is_named(
    config: dict[str, str], message: str, tmp_path: Path
) -> None:
    settings = {"table": ROOT / "workflow" / "results.csv"} | config
    done = run(snakemake(tmp_path, "local", "--dry-run", **settings))
    assert done.returncode != 0 and message in done.stderr + done.stdout


@pytest.mark.slow
@needs_snakemake
def test_the_shares_of_the_kept_results_are_all_of_them_and_about_equal(tmp_path: Path) -> None:
    rows = {name: row for name, row in table().items() if row["which"] == "kept" and not row["files"]}
    seen: list[str] = []
    for k in range(1, 5):
        settings = {"table": ROOT / "workflow" / "results.csv", "shard": f"{k}/4"}
        done = run(snakemake(tmp_path, "local", "--dry-run", "--quiet", "rules", **settings))
        listed = run(snakemake(tmp_path, "local", "--summary", **settings)).stdout
        names = {name for name in rows if f"{name}.npz" in listed}
        assert done.returncode == 0 and names
        minutes = sum(float(rows[name]["minutes"]) for name in names)
        total, longest = (f(float(row["minutes"]) for row in rows.values()) for f in (sum, max))
        assert minutes <= max(total / 4 * 1.2, longest)
        seen += names
    assert sorted(seen) == sorted(rows)


@pytest.mark.slow
@needs_snakemake
def test_here_a_job_whose_time_is_up_goes_on_and_one_that_fails_leaves_nothing(
    tmp_path: Path, uninterrupted: dict[str, np.ndarray]
) -> None:
    write_table(tmp_path / "table.csv", random_smoke=TRAINING, broken=BROKEN)
    words = snakemake(tmp_path, "local", stop=1e-9)
    assert run(words).returncode != 0  # the broken one
    agree(tmp_path / "results", uninterrupted)
    assert not list((tmp_path / "results").rglob("broken.npz"))
    log = (tmp_path / "results" / "logs" / f"{Path(NAME).parent}" / "broken.log").read_text()
    assert log.count("pond") == 1 and "failed before, not tried again" in log
    write_table(tmp_path / "table.csv", random_smoke=TRAINING)
    again = run(snakemake(tmp_path, "local", stop=1))  # although what it is called with has changed
    assert again.returncode == 0 and "Nothing to be done" in again.stdout + again.stderr


@pytest.mark.slow
@needs_snakemake
@pytest.mark.parametrize("profile", ["local", "gpu", "slurm", "kubernetes"])
def test_snakemake_reads_each_profile(profile: str, tmp_path: Path) -> None:
    pod = ["--default-storage-provider", "fs", "--default-storage-prefix", str(tmp_path)]
    if profile == "kubernetes" and not list(
        (ROOT / ".venv-workflow").glob("lib/*/*/snakemake_storage_plugin_fs")
    ):
        pytest.skip("no Kubernetes executor in .venv-workflow")
    write_table(tmp_path / "table.csv", gpu="1", random_smoke=TRAINING)
    words = snakemake(
        tmp_path, profile, "--dry-run", *(pod if profile == "kubernetes" else []), out="results"
    )
    done = run(words)
    assert done.returncode == 0, done.stderr
    assert "gpu=1" in done.stdout + done.stderr and "random-smoke.npz" in done.stdout + done.stderr
    words[words.index("--profile") + 1] = tmp_path / "none"
    assert run(words).returncode != 0


@pytest.mark.slow
@pytest.mark.timeout(900)
@needs_snakemake
@needs_pods
def test_what_pods_are_asked_for_and_that_a_failed_one_is_reported(
    tmp_path: Path, uninterrupted: dict[str, np.ndarray], capfd: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In a stand-in for a cluster, where a pod is a process of this machine; see `pods`."""
    profile = tmp_path / "mine"
    profile.mkdir()
    settings = make_results.settings_of(make_results.PROFILES / "kubernetes")
    settings |= {"container-image": "registry/book:1", "kubernetes-persistent-volumes": [f"clone:{ROOT}"]}
    (profile / "config.yaml").write_text(yaml.safe_dump(settings))
    write_table(tmp_path / "gpu.csv", gpu="1", which="paper", broken_at_once=BROKEN)
    write_table(tmp_path / "table.csv", which="paper", random_smoke=TRAINING)
    with (tmp_path / "table.csv").open("a") as both:
        both.write("".join((tmp_path / "gpu.csv").open().readlines()[1:]))
    make_results.SHARED.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=make_results.SHARED) as folder,
        pods.cluster(tmp_path) as (there, known),
    ):
        words = [
            "paper",
            f"--profile={profile}",
            f"--table={tmp_path / 'table.csv'}",
            f"--out={folder}",
            "--dirty",
        ]
        words += ["--", "--seconds-between-status-checks", "2", "--latency-wait", "5"]
        monkeypatch.setenv("KUBECONFIG", known["KUBECONFIG"])
        assert make_results.main(words) == 1
        said = capfd.readouterr().out
        agree(Path(folder), uninterrupted)
        assert f"{NAME}: done" in said and "broken-at-once: FAILED: " in said and "domain = 'pond'" in said
        assert not list(Path(folder).rglob("broken*.npz"))
        asked = {}
        for job in there.jobs:
            (container,) = job["spec"]["template"]["spec"]["containers"]
            assert (
                container["image"] == "registry/book:1"
                and f"'root={make_results.SHARED}'" in container["args"][1]
            )
            asked["broken" in container["args"][1]] = container["resources"]
        assert len(there.jobs) == 2 and there.deleted
        assert asked[False]["limits"]["memory"] == "1000M" and "nvidia.com/gpu" not in asked[False]["limits"]
        assert asked[True]["limits"]["nvidia.com/gpu"] == "1" == asked[True]["requests"]["nvidia.com/gpu"]
        write_table(tmp_path / "table.csv", which="paper", random_smoke=TRAINING)
        assert make_results.main(words) == 0 and len(there.jobs) == 2


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("slurm")
    script = ROOT / "tools" / "one_node_slurm.sh"
    started = run([script, "start", folder])
    assert started.returncode == 0, started.stderr
    try:
        yield folder
    finally:
        run([script, "stop", folder])
        assert not Path("/etc/slurm/slurm.conf").exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@needs_snakemake
@needs_slurm
def test_on_a_cluster_a_killed_job_goes_on_a_failed_one_leaves_nothing_and_a_second_run_does_nothing(
    cluster: Path, tmp_path: Path, uninterrupted: dict[str, np.ndarray]
) -> None:
    write_table(tmp_path / "table.csv", gpu="1", random_smoke=TRAINING, broken_at_once=BROKEN)
    more = ["--slurm-no-account", "--slurm-status-command", "squeue", "--jobs", "2", "--latency-wait", "5"]
    more += ["--seconds-between-status-checks", "2", "--slurm-init-seconds-before-status-checks", "3"]
    words = [str(word) for word in snakemake(tmp_path, "slurm", *more, stop=1e-9)]
    with (tmp_path / "said").open("w") as said:
        process = subprocess.Popen(words, stdout=said, stderr=subprocess.STDOUT)
        first: Path | None = None
        deadline = time.monotonic() + 240
        while first is None and time.monotonic() < deadline:
            first = next((tmp_path / "results" / ".checkpoints").rglob("*.pt"), None)
            time.sleep(0.1)
        assert first is not None, (tmp_path / "said").read_text()
        made = first.stat().st_mtime_ns
        killed = run(["scancel", "--signal=KILL", "--full", "--user=root"])
        assert killed.returncode == 0
        kept_on = False
        while process.poll() is None and time.monotonic() < deadline + 500:
            others = list((tmp_path / "results" / ".checkpoints").rglob("*.pt"))
            kept_on |= len(others) > 1 and first.exists() and first.stat().st_mtime_ns == made
            time.sleep(0.1)
        assert process.wait(10) != 0  # the broken one
    subprocess.run(
        ["pkill", "-KILL", "-f", str(tmp_path)], check=False
    )  # what the killed job step left behind
    assert kept_on, (tmp_path / "said").read_text()
    assert (tmp_path / "said").read_text().count(
        " has been submitted with SLURM jobid "
    ) >= 4  # one turn a job
    agree(tmp_path / "results", uninterrupted)
    assert not list((tmp_path / "results").rglob("broken*.npz"))
    write_table(tmp_path / "table.csv", random_smoke=TRAINING)
    again = run(words)
    assert again.returncode == 0 and "Nothing to be done" in again.stdout + again.stderr


@pytest.mark.slow
def test_the_parts_for_a_gpu_go_on_and_say_what_is_left(
    tmp_path: Path, uninterrupted: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture
) -> None:  # fmt: skip
    """On a CPU, at smoke: the rows are those of a GPU, the device is not."""
    path = write_table(
        tmp_path / "table.csv", random_smoke=TRAINING, later=TRAINING + " --widths 2", broken=BROKEN
    )
    rows = list(csv.DictReader(path.open()))
    for row, order in zip(rows, ("1", "3", "2"), strict=True):
        row |= {"gpu": "1", "order": order, "files": "FILE=absent.npz" if order == "3" else ""}
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, workflow_table.COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    out = tmp_path / "results"
    words = ["gpu_parts.py", "--table", str(path), "--out", str(out), "--data", str(tmp_path), "--dirty"]
    said = []
    for minutes in ("0.2", "0.2", "0.2", "3"):
        monkeypatch.setattr(sys, "argv", [*words, "--minutes", minutes])
        status = gpu_parts.main()
        said.append(capsys.readouterr().out)
    assert status == 1 and "broken: FAILED with status 2" in said[-1]
    assert "later: needs absent.npz" in said[-1] and "1 of 3 results are there" in said[-1]
    assert "random-smoke: done" in said[-1]
    agree(out, uninterrupted)
