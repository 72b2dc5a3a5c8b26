"""`tileiras-tune` without a GPU: real processes, whose kernels run, hang, crash or are wrong."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")

from tileiras.runtime.isolated import ArrayFile, Job, KernelProcess  # noqa: E402
from tileiras.tune.command import run  # noqa: E402
from tileiras.tune.trials import Commands  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ROOT / "tests" / "kernels"

FILE = """
def reference(a, b, out, n):
    out[:] = a + b

TUNE = {
    "source": lambda point: "",
    "space": {"tile": [64, 128, 256], "way": ["x", "y"]},
    "arguments": {
        "a": ("float32", 100), "b": ("float32", 100), "out": ("float32", 100), "n": 100
    },
    "grid": lambda point: point["tile"],
    "reference": reference,
}
"""
NAMES = [f"tile{tile}_way{way}" for tile in (64, 128, 256) for way in "xy"]


class Place:
    """A folder with a file to tune and a plan of what kernels do."""

    def __init__(self, folder: Path):
        self.folder, self.file, self.plan = folder, folder / "kernel.py", folder / "plan.json"
        self.file.write_text(FILE)
        self.plans()

    def plans(self, **kernels: Any) -> None:
        """Sets what happens to kernels: `tile64_wayx="hang"`; milliseconds if nothing happens."""
        places = ((name, place) for place, name in enumerate(NAMES) if name not in kernels)
        times = {name: 1.0 + place / 10 for name, place in places}
        self.plan.write_text(json.dumps({**kernels, **times}))

    @property
    def commands(self) -> Commands:
        """Programs that follow the plan."""
        plan = str(self.plan)
        return Commands(
            (sys.executable, str(KERNELS / "quick_maker.py"), plan),
            (sys.executable, str(KERNELS / "fake_launcher.py"), plan),
        )

    def tune(self, *more: str) -> int:
        """The command; its exit code."""
        words = [str(self.file), f"--cache={self.folder / 'cache'}", "--timeout=5", "-j2", *more]
        return run([*words, f"--json={self.folder / 'out.json'}"], self.commands)

    def data(self) -> dict[str, Any]:
        """What the last run wrote as JSON."""
        return json.loads((self.folder / "out.json").read_text())

    def kinds(self) -> dict[str, str]:
        """How each point failed; empty if it did not."""
        found = self.data()["results"]
        return {f"tile{r['point']['tile']}_way{r['point']['way']}": r["failure"] for r in found}

    def made(self) -> list[str]:
        """The points that were made, in order; forgets them."""
        path = Path(f"{self.plan}.made")
        names = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return names

    def launched(self) -> list[str]:
        """The kernels of all launches so far; forgets them."""
        path = Path(f"{self.plan}.log")
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line.split()[1] for line in lines if line.startswith("launch")]

    def processes(self) -> int:
        """How many launched kernels so far; forgets them."""
        path = Path(f"{self.plan}.log")
        lines = set(path.read_text().splitlines())
        path.unlink()
        return len([line for line in lines if line.startswith("process")])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_fastest_point_is_found_and_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.plans(tile256_wayy=0.5)
    assert place.tune() == 0
    text = capsys.readouterr().out
    assert "kernel.py on a GPU in Python (sm_90)" in text
    assert "tile=256 way=y     0.5000 ms (0.5000 to 0.5000)  best\n" in text
    assert "1.0000 ms (1.0000 to 1.0000)  defaults\n" in text
    assert "gain      2.000 times as fast as the defaults, by turns: 1.0000 ms, 0.5000 ms" in text
    assert "tried     6 of 6 points, 0 failed, 0 known from earlier; every point was tried" in text
    data = place.data()
    assert data["best"] == {"tile": 256, "way": "y"} and data["gain"] == 2.0
    assert [one["registers"] for one in data["results"]] == [7] * 6
    assert not list(Path("/tmp").glob(f"tileiras-tune-{os.getpid()}-*"))


def test_lucky_point_is_no_better_when_it_is_compared(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was fast once and is slower beside the defaults is not the best."""
    place.plans(tile256_wayy=[0.5, 1.0625])
    assert place.tune() == 0
    text = capsys.readouterr().out
    assert "best      tile=64 way=x\n" in text
    assert "gain      none: tile=256 way=y is no better than the defaults, by turns: 1.0" in text
    data = place.data()
    assert data["best"] == {"tile": 64, "way": "x"} and data["gain"] == 1.0
    assert data["compared"] == {"tile": 256, "way": "y"} and data["compared_ms"][1][0] == 1.0625


@pytest.mark.parametrize(("what", "message"), [("crash", "SIGSEGV"), ("wrong", "are wrong")])
def test_point_that_fails_when_it_is_compared_is_not_the_best(
    place: Place, what: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.plans(tile256_wayy=[0.5, what])
    assert place.tune() == 0
    text = capsys.readouterr().out
    assert "gain      none: tile=256 way=y failed when it was compared: " in text
    assert message in text and place.data()["best"] == {"tile": 64, "way": "x"}


def test_one_process_launches_until_a_kernel_fails(place: Place) -> None:
    """Its context and arrays are made once; a kernel that fails costs a new one."""
    assert place.tune("--cache=") == 0
    assert place.processes() == 1
    place.plans(tile64_wayy="crash", tile128_wayx="break", tile128_wayy="wrong")
    assert place.tune("--cache=") == 0
    assert place.processes() == 3


def test_candidate_that_fails_costs_itself_only(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever it does to its process, to the GPU's context, or to memory."""
    bad = {
        "tile64_wayy": "hang",
        "tile128_wayx": "crash",
        "tile128_wayy": "break",
        "tile256_wayx": "wrong",
    }
    place.plans(**bad, tile256_wayy=0.5)
    start = time.monotonic()
    assert place.tune("--timeout=3") == 0
    assert time.monotonic() - start < 60
    assert place.kinds() == {
        "tile64_wayx": "",
        "tile64_wayy": "hang",
        "tile128_wayx": "crash",
        "tile128_wayy": "error",
        "tile256_wayx": "wrong",
        "tile256_wayy": "",
    }
    text = capsys.readouterr().out
    assert "hangs: it did not end within 3 seconds" in text
    assert "ends its process: its process was ended by SIGSEGV" in text
    assert "fails: cuCtxSynchronize failed: CUDA_ERROR_716" in text
    assert "wrong results: 100 of 100 elements of 'out' are wrong" in text
    assert "best      tile=256 way=y" in text


def test_times_of_a_wrong_kernel_do_not_count(place: Place) -> None:
    """It is timed while its results are looked at."""
    place.plans(tile128_wayx="wrong")
    assert place.tune() == 0
    assert place.kinds()["tile128_wayx"] == "wrong"
    times = {tuple(one["point"].values()): one["times_ms"] for one in place.data()["results"]}
    assert times[128, "x"] == [] and times[128, "y"] != []


def test_hang_in_a_later_launch_is_a_hang(place: Place) -> None:
    place.plans(tile64_wayy="hang later")
    assert place.tune("--timeout=3") == 0
    assert place.kinds()["tile64_wayy"] == "hang"


def test_making_that_fails_costs_the_candidate(place: Place) -> None:
    place.plans(
        **{
            "make tile64_wayy": "hang",
            "make tile128_wayx": "crash",
            "make tile128_wayy": "error: too many registers",
        }
    )
    assert place.tune("--compile-timeout=5") == 0
    kinds = place.kinds()
    assert [name for name, kind in kinds.items() if kind == "make"] == NAMES[1:4]
    messages = [one["message"] for one in place.data()["results"] if one["failure"]]
    assert sorted(messages) == [
        "error: too many registers",
        "it did not end within 5 seconds",
        "its process was ended by SIGKILL",
    ]


def test_slow_kernel_is_given_up_after_a_few_launches(place: Place) -> None:
    place.plans(tile64_wayx=1.0, tile64_wayy=2.0, tile128_wayx=1.1)
    assert place.tune("--repeats=15") == 0
    counts = {r["median_ms"]: len(r["times_ms"]) for r in place.data()["results"]}
    assert counts == {1.0: 15, 1.1: 15, 2.0: 3, 1.3: 3, 1.4: 3, 1.5: 3}


def test_second_run_knows_everything(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.plans(tile128_wayx="crash")
    assert place.tune() == 0
    first = place.data()
    place.made()
    assert place.tune() == 0
    second = place.data()
    assert sorted(set(place.made())) == []
    assert second["known"] == 6 and second["results"] == first["results"]
    assert "6 known from earlier" in capsys.readouterr().out


def test_run_that_was_killed_is_gone_on_with(place: Place) -> None:
    """After SIGKILL: what it had found is not tried again, what it was at is.

    The process that launches ends with it, even in a kernel that hangs.
    """
    place.plans(tile128_wayx="hang")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tileiras.tune.command import run\n"
        "from tileiras.tune.trials import Commands\n"
        "words, maker, launcher = map(eval, sys.argv[2:5])\n"
        "run(words, Commands(maker, launcher))\n"
    )
    words = [str(place.file), f"--cache={place.folder / 'cache'}", "--timeout=300", "-j1"]
    commands = place.commands
    arguments = [str(ROOT), repr(words), repr(commands.maker), repr(commands.launcher)]
    left = place.folder / "left"  # nobody removes what a process had that is killed so
    left.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(left)},
    )
    log = Path(f"{place.plan}.log")
    deadline = time.monotonic() + 60
    while "launch tile128_wayx" not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    hanging = int(re.findall(r"^process (\d+)$", log.read_text(), re.MULTILINE)[-1])
    watched = os.pidfd_open(hanging)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert select.select([watched], [], [], 20)[0], "the process that launches is still there"
    os.close(watched)
    place.made()
    place.plans()
    assert place.tune() == 0
    data = place.data()
    assert data["known"] >= 1 and len(data["results"]) == 6
    assert "tile64_wayx" not in place.made() and place.kinds()["tile128_wayx"] == ""


def test_what_a_result_depends_on_makes_it_unknown(place: Place) -> None:
    """The user's file, a module beside it, the target."""
    (place.folder / "beside.py").write_text("TILE = 64\n")
    place.file.write_text("import beside\n" + FILE)
    assert place.tune("--most=1") == 0 and place.data()["known"] == 0
    assert place.tune("--most=1") == 0 and place.data()["known"] == 1
    (place.folder / "beside.py").write_text("TILE = 65\n")
    assert place.tune("--most=1") == 0 and place.data()["known"] == 0
    place.file.write_text(place.file.read_text() + "\n")
    assert place.tune("--most=1") == 0 and place.data()["known"] == 0
    assert place.tune("--most=1", "--gpu-name=sm_80") == 0 and place.data()["known"] == 0


def test_failed_points_are_tried_again_on_request(place: Place) -> None:
    place.plans(tile128_wayx="crash")
    assert place.tune() == 0
    place.plans()
    assert place.tune() == 0 and place.kinds()["tile128_wayx"] == "crash"
    assert place.tune("--retry") == 0 and place.kinds()["tile128_wayx"] == ""
    assert place.data()["known"] == 5
    assert place.tune("--fresh") == 0 and place.data()["known"] == 0


def test_defaults_run_again_where_they_tell_what_is_expected(place: Place) -> None:
    """Without a reference; a candidate that is new must not be compared with nothing."""
    place.file.write_text(FILE.replace('"reference": reference', '"constants": {}'))
    assert place.tune("--most=1") == 0
    place.plans(tile64_wayy="wrong")
    assert place.tune("--most=2") == 0
    data = place.data()
    assert data["known"] == 0 and data["results"][1]["failure"] == "wrong"


def test_search_stops_at_its_limits(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.tune("--most=2") == 0 and len(place.data()["results"]) == 2
    assert "; 2 points were tried" in capsys.readouterr().out
    assert place.tune("--patience=1") == 0 and len(place.data()["results"]) == 2
    assert "; 1 points in a row were no better" in capsys.readouterr().out
    assert place.tune("--seconds=0.01", "--cache=") == 0 and len(place.data()["results"]) == 1
    assert "; 0.01 seconds are over" in capsys.readouterr().out


def test_nothing_that_runs_is_an_error(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.plans(**dict.fromkeys(NAMES, "break"))
    assert place.tune() == 1
    text = capsys.readouterr().out
    assert "6 failed" in text and "best" not in text and "gain" not in text


def test_machine_without_a_gpu_is_told(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.plan.write_text('{"no GPU": true}')
    assert place.tune() == 2
    assert "error: no GPU: cuInit failed: CUDA_ERROR_100" in capsys.readouterr().err
    assert place.made() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("TUNE =", "TUME ="), "has no TUNE: a dictionary that says what to try"),
        (("TUNE =", "import no_such_module\nTUNE ="), "cannot be imported: No module named 'no_s"),
        (("TUNE =", "import cuda.tiles\nTUNE ="), "needs cuTile Python: install cuda-tile"),
        (("TUNE =", "1 / 0\nTUNE ="), "ZeroDivisionError: division by zero"),
        (("TUNE =", "import time; time.sleep(99)\nTUNE ="), "it did not end within 4 seconds"),
        (("TUNE =", "import os; os.abort()\nTUNE ="), "its process was ended by SIGABRT"),
        (('"float32", 100', '"float33", 100'), "has the type 'float33', expected one such as"),
        (('("float32", 100)', '"float32"'), "argument 'a' is 'float32', expected (dtype, extents"),
        (('"float32", 100', '"float32", 0'), "argument 'a' has the extents (0,), expected positi"),
        (('point["tile"]', 'point["tiles"]'), "KeyError: 'tiles'"),
        (('point["tile"]', "0"), "the grid of tile=64 way=x is 0, expected up to three positive"),
        (("out[:] = a + b", "out = a + b"), "the reference changes no array, expected results"),
        (("out[:] = a + b", "out[:] = a[:3]"), "ValueError: could not broadcast"),
    ],
)
def test_mistakes_in_the_file_are_told(
    place: Place, change: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    place.file.write_text(FILE.replace(*change))
    assert place.tune("--compile-timeout=4") == 1
    assert message in capsys.readouterr().err and place.launched() == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no input file provided"),
        (["/no/such.py"], "unable to read input file '/no/such.py': No such file or directory"),
        (["k.py", "--jobs=0"], "--jobs is '0', expected a whole number from 1"),
        (["k.py", "--most=x"], "--most is 'x', expected a whole number from 1"),
        (["k.py", "--seconds=-1"], "--seconds is '-1', expected seconds from 0"),
        (["k.py", "--patince=3"], "did you mean '--patience'?"),
    ],
)
def test_mistakes_on_the_command_line_are_told(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 1
    assert message in capsys.readouterr().err


def test_type_that_the_kernel_does_not_take_fails_the_points(place: Place) -> None:
    place.file.write_text(FILE.replace('"n": 100', '"n": 1.5'))
    assert place.tune() == 1
    messages = {one["message"] for one in place.data()["results"]}
    assert any("is a float, expected a number for 'i32'" in text for text in messages), messages


def test_user_code_that_prints_does_not_disturb(place: Place) -> None:
    place.file.write_text("print('hello')\n" + FILE)
    assert place.tune("--most=1") == 0


def test_no_progress_is_shown_outside_of_terminals(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    assert place.tune("--most=1") == 0
    assert capfd.readouterr().err == ""


def test_progress_is_shown_on_a_terminal(place: Place) -> None:
    """A real one: a pseudo-terminal."""
    import pty

    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from tileiras.tune.command import run\n"
        "from tileiras.tune.trials import Commands\n"
        "words, maker, launcher = map(eval, sys.argv[2:5])\n"
        "sys.exit(run(words, Commands(maker, launcher)))\n"
    )
    words = [str(place.file), "--cache=", "-j1", "--most=2"]
    commands = place.commands
    for more, shown in (([], True), (["--quiet"], False)):
        ours, theirs = pty.openpty()
        arguments = [str(ROOT), repr(words + more), repr(commands.maker), repr(commands.launcher)]
        done = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stderr=theirs,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        )
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 4096):
                text += piece
        except OSError:  # the other side is closed
            pass
        assert done.wait() == 0
        assert (b"/2" in text and b"tile=64" in text) == shown, text


def kernel_on_two_arrays(place: Place) -> Job:
    """The launcher's kernel, which adds two arrays into a third."""
    arguments: list[ArrayFile | int | float] = []
    for number in range(3):
        path = place.folder / f"array{number}"
        np.arange(100, dtype="float32").tofile(path)
        arguments.append(ArrayFile(str(path)))
    cubin = place.folder / "k.cubin"
    cubin.write_bytes(b"\x7fELFsm_90")
    types = ("ptr<f32>", "ptr<f32>", "ptr<f32>", "i32")
    return Job(str(cubin), NAMES[0], (1, 1, 1), (1, 1, 1), types, (*arguments, 100))


def test_only_arrays_that_changed_are_written(place: Place) -> None:
    """Those that are as before are told to be in their own files, which stay."""
    job = kernel_on_two_arrays(place)
    with KernelProcess(str(place.folder), place.commands.launcher) as process:
        found = process.launch(job, str(place.folder), 20)
    inputs = [one.path for one in job.arguments if isinstance(one, ArrayFile)]
    assert found[0] == inputs[0] and found[1] == inputs[1]
    assert found[2] == str(place.folder / "result2")
    assert not (place.folder / "result0").exists() and (place.folder / "result2").exists()
    assert all(os.path.exists(path) for path in inputs)
