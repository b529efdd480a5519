"""The commands under faults: failing and aborted runs, bad arguments, an environment like Colab's."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from papermill.exceptions import PapermillExecutionError

import chapter as chapter_tool
import compare
import kept
import notebook as notebook_tool
import preamble
import pull
import repository
import suite
import versions
from chapter import ROOT
from learning_dynamics import results
from learning_dynamics.experiments import command
from learning_dynamics.ledger import read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SCRIPT = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A small chapter

# %% tags=["colab", "remove-cell"]
# colab set-up (generated)

# %% tags=["parameters"]
# parameters (generated)

# %%
import pathlib
import sys
import time

# %%
ledger.check(
    "a:b", "s", measured=[VALUE], criterion=at_most("e", 1), control=control("c", [2.0]), expected="holds"
)
WAIT
"""


def write_script(root: Path, value: str = "0.25", wait: str = "pass") -> None:
    path = root / "chapters" / "part" / "name.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SCRIPT.replace("VALUE", value).replace("WAIT", wait) if wait else SCRIPT)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A repository with one small executed chapter."""
    (tmp_path / "_config.yml").write_text("repository:\n  url: https://github.com/someone/book\n")
    write_script(tmp_path)
    chapter_tool.execute("part/name", tmp_path)
    return tmp_path


def test_executing_twice_gives_the_same_bytes(small: Path) -> None:
    path = read.notebook_path(small, "part/name")
    first = path.read_bytes()
    chapter_tool.execute("part/name", small)
    assert path.read_bytes() == first
    assert "https://github.com/someone/book" in first.decode()


@pytest.mark.parametrize(
    ("value", "wait", "error"),
    [
        ("1.25", "pass", CellExecutionError),
        ("0.25", "1 / 0", CellExecutionError),
        ("0.25", "print('w', file=sys.stderr)", ValueError),
    ],
)
def test_a_failing_chapter_leaves_the_notebook_as_it_was(
    value: str, wait: str, error: type[Exception], small: Path
) -> None:
    path = read.notebook_path(small, "part/name")
    before = path.read_bytes()
    write_script(small, value, wait)
    with pytest.raises(error):
        chapter_tool.execute("part/name", small)
    assert path.read_bytes() == before
    assert list(path.parent.glob("*.part")) == []


def execute_elsewhere(root: Path) -> subprocess.Popen:
    code = f"import chapter, pathlib; chapter.execute('part/name', pathlib.Path({str(root)!r}))"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT / "tools", stderr=subprocess.DEVNULL)


def test_an_aborted_run_leaves_the_notebook_as_it_was(small: Path) -> None:
    path = read.notebook_path(small, "part/name")
    before = path.read_bytes()
    write_script(small, wait="pathlib.Path('started').touch(); time.sleep(60)")
    process = execute_elsewhere(small)
    deadline = time.monotonic() + 60
    while not (path.parent / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    assert path.read_bytes() == before


def test_two_chapters_at_a_time_and_a_third_waits(tmp_path: Path) -> None:
    taken = textwrap.dedent("""
        import chapter, pathlib, sys, time
        with chapter.slot(pathlib.Path(sys.argv[1])):
            print("in", flush=True)
            time.sleep(float(sys.argv[2]))
        """)

    def take(seconds: float) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", taken, str(tmp_path), str(seconds)],
            cwd=ROOT / "tools",
            stdout=subprocess.PIPE,
            text=True,
        )

    first, second = take(30), take(30)
    assert [process.stdout.readline() for process in (first, second)] == ["in\n", "in\n"]
    third = take(0)
    assert third.stdout.readline().startswith("waiting")
    first.kill()
    first.wait()
    assert third.stdout.readline() == "in\n"
    assert third.wait(30) == 0
    second.kill()
    second.wait()


def test_run_writes_a_new_notebook_and_its_records_and_overwrites_nothing(small: Path) -> None:
    out = small / "out" / "name.ipynb"
    parameters = {"SCALE": "smoke", "DEVICE": "cpu", "SEED": 5}
    committed = read.notebook_path(small, "part/name").read_bytes()
    notebook_tool.run("part/name", out, parameters, small)
    records = json.loads(out.with_suffix(".json").read_text())
    assert [(record["id"], record["scale"], record["seeds"]) for record in records] == [("a:b", "smoke", [5])]
    assert read.notebook_path(small, "part/name").read_bytes() == committed
    with pytest.raises(ValueError, match="exists already"):
        notebook_tool.run("part/name", out, parameters, small)


def test_a_failed_check_does_not_end_a_reader_s_run(small: Path) -> None:
    path = read.notebook_path(small, "part/name")
    path.write_text(path.read_text().replace("measured=[0.25]", "measured=[1.25]"))
    out = small / "a folder" / "name.ipynb"
    (record,) = notebook_tool.run("part/name", out, {"SCALE": "book", "DEVICE": "cpu", "SEED": 0}, small)
    assert record["verdict"] == "not reproduced" and "computed verdict" in record["unexpected"]
    assert "ld-unexpected" in out.read_text()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"SEED": -1}, ValueError, "seed = -1; allowed: an integer >= 0"),
        ({"SCALE": "huge"}, ValueError, "scale = 'huge'; allowed: smoke, book, paper"),
        ({"DEVICE": "tpu"}, ValueError, "device = 'tpu'"),
        ({"PART": "2/5"}, ValueError, "PART = '2/5'; allowed: none, since part/name is one piece"),
        ({}, PapermillExecutionError, "ZeroDivisionError"),
    ],
)
def test_a_run_that_fails_leaves_nothing(
    change: dict[str, object], error: type[Exception], message: str, small: Path
) -> None:
    path = read.notebook_path(small, "part/name")
    path.write_text(path.read_text().replace('"pass"', '"1 / 0"').replace("\\npass", "\\n1 / 0"))
    out = small / "out" / "name.ipynb"
    with pytest.raises(error, match=re.escape(message)):
        notebook_tool.run("part/name", out, {"SCALE": "smoke", "DEVICE": "cpu", "SEED": 0} | change, small)
    assert not out.parent.exists()


def test_the_name_of_a_run_says_what_it_was() -> None:
    parameters: dict[str, object] = {"SCALE": "smoke", "SEED": 3}
    assert notebook_tool.default_out("part/name", parameters) == Path("out/part/name-smoke-seed3.ipynb")
    parameters["PART"] = "2/5"
    assert notebook_tool.default_out("part/name", parameters).name == "name-smoke-seed3-part2of5.ipynb"


def edit(root: Path, change: dict[int, str], new: list[nbformat.NotebookNode] = []) -> None:  # noqa: B006
    path = read.notebook_path(root, "part/name")
    notebook = nbformat.read(path, as_version=4)
    for index, source in change.items():
        notebook.cells[index].source = source
    notebook.cells[1:1], notebook.cells[-1:] = new[:1], [notebook.cells[-1], *new[1:]]
    nbformat.write(notebook, path)


def test_what_was_edited_in_a_notebook_is_not_lost_and_can_be_pulled(small: Path) -> None:
    path, script = read.notebook_path(small, "part/name"), small / "chapters" / "part" / "name.py"
    before = script.read_text()
    assert chapter_tool.stale(small) == [] and pull.pull("part/name", small) == 0
    edit(
        small,
        {0: "# A small chapter\n\nwith a line more", -1: "total = 3"},
        [
            nbformat.v4.new_markdown_cell("New text"),
            nbformat.v4.new_code_cell("x = 1", metadata={"tags": ["a"]}),
        ],
    )
    assert chapter_tool.stale(small) == [
        "chapters/part/name.ipynb was edited by hand: make pull CHAPTER=part/name"
    ]
    edited = path.read_bytes()
    with pytest.raises(
        ValueError, match=r"(?s)4 cells edited by hand.*make pull CHAPTER=part/name.*New text"
    ):
        chapter_tool.execute("part/name", small)
    assert path.read_bytes() == edited
    assert pull.pull("part/name", small) == 4
    after = script.read_text()
    assert after.startswith(before[: before.index("# %%")]) and '# %% tags=["parameters"]' in after
    chapter_tool.execute("part/name", small)
    sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
    assert sources[:2] == ["# A small chapter\n\nwith a line more", "New text"]
    assert sources[-2:] == ["total = 3", "x = 1"] and chapter_tool.stale(small) == []


def test_an_edit_on_both_sides_is_refused_and_may_be_dropped(small: Path) -> None:
    edit(small, {-1: "total = 3"})
    write_script(small, "0.125")
    with pytest.raises(ValueError, match="edited in the notebook and in the .py"):
        pull.pull("part/name", small)
    chapter_tool.execute("part/name", small, overwrite=True)
    assert chapter_tool.stale(small) == []
    write_script(small, "0.5")
    assert "is newer than its notebook, which the page shows" in chapter_tool.stale(small)[0]


def test_a_home_that_cannot_be_written_to_is_replaced(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    fixed = chapter_tool.settings()
    assert Path(fixed["HOME"]).is_dir() and fixed["PYTHONWARNINGS"] == ""
    path = read.notebook_path(small, "part/name")
    path.unlink()
    chapter_tool.execute("part/name", small)
    assert path.exists()


def test_another_copy_s_library_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"learning_dynamics = .*; allowed: .*lib; remove .venv, then `make setup`"
    ):
        chapter_tool.own_library(tmp_path)
    chapter_tool.own_library()


def test_a_copied_or_moved_environment_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    """By every command, also in a folder with a space in its name; the folder that it was made in goes on."""
    folder = tmp_path / "a copy"
    (folder / ".venv").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    ready = folder / ".venv/ready"

    def make(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["make", *words], cwd=folder, capture_output=True, text=True, check=False)

    ready.write_text("/somewhere/else/.venv\n")
    for target in ("book", "chapter", "run", "test"):
        done = make(target)
        assert done.returncode != 0 and "remove .venv, then `make setup`" in done.stderr, target
        assert f"made as /somewhere/else/.venv; allowed: {folder.resolve()}/.venv" in done.stderr
    for own in (f"{folder.resolve()}/.venv\n", ""):
        ready.write_text(own)
        assert make("help").returncode == 0


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
GIVEN = re.findall(r"(?m)^GIVEN := (.*)$", MAKEFILE)[0].split()


@pytest.mark.parametrize(
    "target", ["chapter", "pull", "run", "repository", "versions", "seeds", "bench", "gpu", "serve", "test"]
)
def test_a_make_variable_is_no_command(target: str, tmp_path: Path) -> None:
    """Neither for the shell nor for make, whichever of them is given."""
    marks = [tmp_path / name for name in "abcde"]
    shell, make = f"touch {marks[3]}", f"shell touch {marks[4]}"
    attack = f'a; touch {marks[0]}; `touch {marks[1]}` "; touch {marks[2]}; $({shell}) $({make})'
    done = subprocess.run(
        ["make", "-o", ".venv/ready", "-o", "book", target, f"BIN={Path(sys.executable).parent}"]
        + [f"{name}={attack}" for name in GIVEN],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0 and re.search("allowed|invalid int value", done.stderr + done.stdout)
    assert not any(mark.exists() for mark in marks)


def test_recipes_read_what_is_given_from_the_environment() -> None:
    """Where make itself would put a value into a recipe, the shell would run it."""
    named = re.findall(r"\[(.*?)\]|(?<=: )(\w+)=", "\n".join(re.findall("## (.*)", MAKEFILE)))
    offered = {word for pair in named for part in pair for word in re.findall(r"[A-Z]+(?==|$)", part)}
    recipes = re.sub(r"\$\(if \$\(\w+\),", "", "\n".join(re.findall(r"(?m)^\t.*$", MAKEFILE)))
    assert offered <= set(GIVEN) and len(offered) >= 10
    assert [name for name in GIVEN if f"$({name})" in recipes] == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["chapter.py", "no/chapter"], "CHAPTER = 'no/chapter'; allowed:"),
        (["chapter.py"], "name a chapter"),
        (["notebook.py", "no/chapter"], "CHAPTER = 'no/chapter'; allowed: "),
        (["notebook.py", "", "--scale", "huge"], "CHAPTER = ''; allowed: "),
        (["suite.py", "everything"], "part = everything; allowed: style"),
        (["repository.py", "somewhere"], "URL = 'somewhere'; allowed: https://host/owner/name"),
        (["compare.py", "nowhere"], "usage"),
    ],
)
def test_a_bad_argument_is_named(command: list[str], message: str) -> None:
    result = subprocess.run(
        [sys.executable, *command], cwd=ROOT / "tools", capture_output=True, text=True, check=False
    )
    assert result.returncode != 0
    assert message in result.stderr and "Traceback" not in result.stderr


def nbval(small: Path, records: Path) -> tuple[bool, list[str]]:
    path = read.notebook_path(small, "part/name")
    passed = subprocess.run(
        [
            *(
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "--nbval",
                "--nbval-current-env",
                "-p",
                "no:cacheprovider",
            ),
            *("--nbval-sanitize-with", str(ROOT / "tests" / "nbval" / "sanitize.cfg"), "-c", os.devnull),
            *("--rootdir", str(small), str(path)),
        ],
        env=os.environ | {"LEARNING_DYNAMICS_RECORDS": str(records)},
        capture_output=True,
        check=False,
    )
    return passed.returncode == 0, compare.compare("part/name", records, small)


def test_nbval_passes_on_true_outputs_and_stale_or_edited_ones_are_found(small: Path, tmp_path: Path) -> None:
    path = read.notebook_path(small, "part/name")
    true = path.read_text()
    assert nbval(small, tmp_path / "r0") == (True, [])
    path.write_text(true.replace('"worst": 0.25', '"worst": 0.26'))
    passed, lines = nbval(small, tmp_path / "r1")
    assert passed and "0.26 in the notebook and 0.25 recomputed" in lines[0]
    path.write_text(true.replace("[holds]", "[reproduced]"))
    assert nbval(small, tmp_path / "r2")[0] is False
    path.write_text(true.replace("measured=[0.25]", "measured=[0.5]"))
    assert nbval(small, tmp_path / "r3")[1]


def test_a_notebook_under_another_setting_is_compared_in_texts_and_numbers(small: Path) -> None:
    path = read.notebook_path(small, "part/name")
    true = path.read_text()
    assert versions.outcome("part/name", "oldest", root=small).differences == []
    path.write_text(true.replace('"worst": 0.25', '"worst": 0.26').replace("[holds]", "[reproduced]"))
    first, *others = versions.outcome("part/name", "oldest", root=small).differences
    assert (
        first.startswith("part/name: nbval: FAILED")
        and "0.26 in the notebook and 0.25 recomputed" in others[0]
    )


def test_the_suite_reports_a_failing_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(suite, "PARTS", {"good": lambda: True, "bad": lambda: False})
    monkeypatch.setattr(sys, "argv", ["suite.py"])
    assert suite.main() == 1
    out = capsys.readouterr().out
    assert out.rstrip().endswith("1 passed, 1 failed") and "FAILED" in out


def test_the_suite_ends_with_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    test = tmp_path / "test_it.py"
    test.write_text("def test_right(): pass\ndef test_wrong(): assert 0\n")
    words = (sys.executable, "-c", "for k in range(99): print(k)\nraise SystemExit('out of paper')")
    parts = {
        "a": lambda: suite.pytest(str(test), "-p", "no:cacheprovider"),
        "b": lambda: suite.call(*words),
        "c": lambda: suite.call(sys.executable, "-c", "print('ERROR in a text')"),
    }
    monkeypatch.setattr(suite, "PARTS", parts)
    monkeypatch.setattr(sys, "argv", ["suite.py"])
    assert suite.main() == 1
    _, end = capsys.readouterr().out.split("=== time per part")
    assert "::test_wrong" in end and "::test_right" not in end and "ERROR in a text" not in end
    assert end.endswith("\n95\n96\n97\n98\nout of paper\n1 passed, 2 failed\n")
    monkeypatch.setattr(suite, "PARTS", {"c": parts["c"]})
    assert suite.main() == 0
    assert capsys.readouterr().out.endswith(" s\n1 passed, 0 failed\n")


def test_an_old_python_is_told_what_is_needed() -> None:
    source = (ROOT / "tools" / "check_python.py").read_text()
    code = f"import sys; sys.version_info = (3, 9, 1); exec({source!r})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("This book needs Python 3.11, 3.12 or 3.13; this is 3.9.1.")


def test_kept_results_made_again_are_compared(tmp_path: Path) -> None:
    experiment = command.experiments()["learning_dynamics.experiments.value_learning.sweep"]
    words = "chain explicit --best --offsets 0.0 --seeds 1 --part 1/4"
    (planned,) = experiment.plans(words.split())
    name, old = f"{planned.chapter}/{planned.name}", tmp_path / "book" / "results"
    assert kept.compare(planned, tmp_path / "new", tmp_path) == f"{name}: not made again"
    assert experiment.main([*words.split(), "--out", str(old), "--dirty"]) == 0
    shutil.copytree(old, tmp_path / "new")
    assert re.match(
        rf"{name}: \d+ entries agree to 0.0001", kept.compare(planned, tmp_path / "new", tmp_path)
    )
    true = results.load(planned.chapter, planned.name, folder=old)
    made = {"command": planned.command, "seeds": [0], "device": "cpu", "wall_time": 0.1, "rtol": 1e-4}
    for changed, message in (
        ({**true.arrays, "norm": true["norm"] * 1.01}, "norm differs"),
        ({name: true[name] for name in ("norm", "ones")}, "arrays"),
        ({**true.arrays, "more": true["norm"]}, "arrays"),
    ):
        results.keep(planned.chapter, planned.name, changed, **made, folder=tmp_path / "new", overwrite=True)
        line = kept.compare(planned, tmp_path / "new", tmp_path)
        assert line.startswith(f"DIFFERS {name}: ") and message in line
    (missing,) = experiment.plans(["chain", "implicit"])
    shutil.copytree(tmp_path / "new", tmp_path / "more")
    others = "chain explicit --actions 4 --best --offsets 0.0 --seeds 1 --part 1/4".split()
    assert experiment.main([*others, "--out", str(tmp_path / "more"), "--dirty"]) == 0
    (fresh,) = experiment.plans(others)
    assert "none is kept yet" in kept.compare(fresh, tmp_path / "more", tmp_path)
    assert "not made again" in kept.compare(missing, tmp_path / "more", tmp_path)


def git(*arguments: str | Path, cwd: Path) -> str:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    return subprocess.run(
        ["git", *identity, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=True
    ).stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The working tree as a repository of its own, all of it committed."""
    if not (ROOT / ".git").exists():
        pytest.skip("no repository: a ZIP does not say what is committed")
    folder = tmp_path_factory.mktemp("clone") / "book"
    listed = git("ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git("init", "-q", "-b", "main", cwd=folder)
    git("add", "-A", cwd=folder)
    git("commit", "-q", "-m", "all", cwd=folder)
    return folder


def test_the_address_changes_everywhere_without_executing(clone: Path) -> None:
    old = preamble.address(clone)
    new = "/".join(
        ["https://github.com", "another-owner", "another-name"]
    )  # not a literal: this file is rewritten too
    before = {path: path.read_text() for path in (clone / "chapters").glob("*/*.ipynb")}
    changed = repository.change(new, clone)
    assert {"_config.yml", "CITATION.cff", "README.md", "book/index.md"} <= set(changed)
    assert git("grep", "-l", "-F", new, cwd=clone)
    site = re.sub(r"https://github.com/([^/]+)/", r"https://\1.github.io/", old)
    for gone in (old, site):
        left = subprocess.run(
            ["git", "grep", "-l", "-F", gone], cwd=clone, capture_output=True, text=True, check=False
        )
        assert left.stdout == ""
    for path, text in before.items():
        assert path.read_text() == text.replace(old, new)
        script = path.with_suffix(".py").read_text()
        preamble.fill(path.with_suffix(".py"), clone)
        assert path.with_suffix(".py").read_text() == script
    repository.change(old, clone)
    assert git("status", "--porcelain", cwd=clone) == ""


def test_the_address_changes_in_a_zip_too(tmp_path: Path) -> None:
    for name in ("_config.yml", "README.md", ".venv/lib/a.py", "book/_build/html/a.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(
            "repository:\n  url: https://github.com/someone/book\n", encoding="utf-8"
        )
    assert repository.change("https://github.com/other/book", tmp_path) == ["README.md", "_config.yml"]


def test_no_command_needs_what_windows_lacks() -> None:
    """`fcntl` is asked for only where its absence is caught."""
    for folder in ("lib", "tools", "tests"):
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            caught = {id(node) for each in ast.walk(tree) if isinstance(each, ast.Try) for node in each.body}
            for node in ast.walk(tree):
                if isinstance(node, ast.Import) and any(name.name == "fcntl" for name in node.names):
                    assert id(node) in caught, path


STARTUP = "import google.colab\n"
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.read(sys.argv[1], as_version=4)
for cell in notebook.cells:
    if "parameters" in cell.metadata.get("tags", []):
        cell.source = cell.source.replace('SCALE = "book"', 'SCALE = "smoke"')
NotebookClient(notebook, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


def installed_in(python: Path) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json;"
        "print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
    )
    return json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_a_chapter_runs_from_an_empty_folder_in_an_environment_like_colabs(
    clone: Path, tmp_path: Path
) -> None:
    """Torch and the scientific stack are there, `google.colab` is imported, the library is not."""
    repository.change(f"file://{clone}", clone)
    git("commit", "-q", "-a", "-m", "address", cwd=clone)
    environment = tmp_path / "colab"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    python = environment / "bin" / "python"
    site = next((environment / "lib").glob("python*/site-packages"))
    for installed in Path(nbformat.__file__).parents[1].iterdir():
        if "learning_dynamics" not in installed.name and not (site / installed.name).exists():
            (site / installed.name).symlink_to(installed)
    (site / "google" / "colab").mkdir(parents=True)
    (site / "google" / "colab" / "__init__.py").touch()
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-colab.py").write_text(STARTUP)
    folder = tmp_path / "empty"
    folder.mkdir()
    settings = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    settings |= {"IPYTHONDIR": str(tmp_path / "ipython"), "OMP_NUM_THREADS": "1"}

    absent = subprocess.run([python, "-c", "import learning_dynamics"], cwd=folder, env=settings, check=False)
    assert absent.returncode != 0
    before = installed_in(python)
    source = read.notebook_path(clone, "implicit_bias/minimum_norm")
    subprocess.run(
        [python, "-c", textwrap.dedent(EXECUTE), source, folder / "done.ipynb"],
        cwd=folder,
        env=settings,
        check=True,
    )
    after = installed_in(python)
    assert {name: version for name, version in after.items() if name != "learning-dynamics"} == {
        name: version for name, version in before.items() if name != "learning-dynamics"
    }
    where = subprocess.run(
        [python, "-c", "import learning_dynamics; print(learning_dynamics.__file__)"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=settings,
        check=True,
    ).stdout
    assert str(environment) in where
    done = read.notebook_records(folder / "done.ipynb")
    assert {record["scale"] for record in done} == {"smoke"}
    assert "<style>" in (folder / "done.ipynb").read_text()
