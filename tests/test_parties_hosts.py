"""Parties that a command starts, here or on other hosts: the same sums, failures, nothing left."""

import json
import re
import shutil
import stat
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest

import graphdp
import hosts_fixture
from graphdp.errors import GraphDPError
from graphdp.parties import places
from graphdp.parties.memory import InMemory
from graphdp.workflow import preflight
from hosts_fixture import Network, Running, seconds_until
from project_fixture import ROOT, SNAKEMAKE, Project
from test_parties import (
    NOISE,
    ROUNDS,
    USERS,
    certificate,
    expected_bytes,
    pairs,
    released,
    rows_of,
    session,
)

#: What a session says that failed in the second round.
ONE_LINE = re.compile(r"refused: round 2 of features: .*\n")
HOSTS = ["127.0.0.1"] * 4
SETTING = {"transport": "tcp", "parties": 3}
#: What ssh and srun may do and the programs have to bear: they say something of their own, without
#: an end of line as well, and pass no signal on.
LAUNCHER = """\
#!/bin/sh
trap '' TERM INT HUP
echo "Welcome to $1"; echo "banner of $1" >&2; printf 'no end of line> '
shift
"$@"
status=$?
echo "launcher: the program ended with $status" >&2
exit $status
"""


def program(folder, text, name="launcher"):
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def gone(processes):
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


@cache
def in_memory():
    return released(InMemory(*pairs(), USERS, 3, NOISE))


def same(found):
    return all((a == b).all() for a, b in zip(found, in_memory(), strict=True))


# --- started by a command on this machine ---------------------------------------------------------


@pytest.fixture
def launched(tmp_path):
    return {"hosts": HOSTS, "launch": f"{program(tmp_path, LAUNCHER)} {{host}}"}


def test_programs_that_a_command_starts_release_what_one_process_does(launched, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nowhere")  # as where ssh passes no environment on
    over_tcp = session(**launched)
    assert same(released(over_tcp))
    assert over_tcp.traffic == expected_bytes()


@pytest.mark.slow
def test_a_killed_session_leaves_no_process_though_no_signal_is_passed_on(tmp_path, launched):
    with Running(tmp_path, **launched) as running:
        assert len(running.family) == 8  # four programs, and what started them
        running.round()
        running.kill()
        seconds_until(lambda: gone(running.family), 10)
    assert not running.found.exists()


@pytest.mark.slow
def test_a_session_that_fails_leaves_no_process_though_no_signal_is_passed_on(tmp_path, launched):
    with Running(tmp_path, timeout=5.0, **launched) as running:
        running.round()
        psutil.Process(running.started["party 1"]).children()[0].kill()
        running.round(answer=False)
        code, said, seconds = running.end()
        assert code == 1 and ONE_LINE.fullmatch(said) and seconds < 20
        assert "party 1 died (exit status 137: launcher: the program ended with 137)" in said
        assert not running.found.exists()
        seconds_until(lambda: gone(running.family), 10)


def test_a_command_that_fails_is_named_at_once(tmp_path):
    refused = "#!/bin/sh\ncase $* in *party*) echo 'Permission denied (publickey).' >&2; exit 255;;"
    launch = program(tmp_path, f'{refused} esac\nexec "$@"\n')
    with pytest.raises(GraphDPError) as error, session(launch=launch):
        pass
    assert "ended before all were connected; party 0 died (exit status 255: Permission" in str(
        error.value
    )


@pytest.mark.parametrize(
    ("launch", "hosts", "why"),
    [
        ("true", (), r"exit status 0"),
        ("cat", (), r"exit status 1: .*cat .*"),
        ("{unknown} {{host}}", HOSTS, r"exit status 255: ssh: Could not resolve hostname .*"),
        (
            "env",
            ["192.0.2.1", *HOSTS[1:]],
            r"exit status 1: shuffler cannot listen at 192\.0\.2\..*",
        ),
    ],
)
def test_a_shuffler_that_ends_before_it_listens_is_told_from_one_that_is_late(
    tmp_path, launch, hosts, why
):
    text = '#!/bin/sh\necho "ssh: Could not resolve hostname $1" >&2; exit 255\n'
    launch = launch.format(unknown=program(tmp_path, text))
    message = rf"the shuffler ended before it listened \({why}\); check hosts and launch"
    with pytest.raises(GraphDPError) as error, session(launch=launch, hosts=hosts):
        pass
    assert re.fullmatch(message, str(error.value))


@pytest.mark.slow
def test_a_shuffler_that_does_not_listen_in_time_is_named_with_that_time(tmp_path):
    launch = program(tmp_path, "#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(GraphDPError) as error, session(launch=launch, start_timeout=1.0):
        pass
    assert str(error.value) == ("the shuffler did not listen within 1 s; check hosts and launch")


def test_what_a_command_leaves_behind_holds_nothing_up(tmp_path):
    """A connection that stays open for the next call, say, with the output of this one."""
    left = program(tmp_path, '#!/bin/sh\nsleep 60 &\nexec "$@"\n')
    began = time.monotonic()
    assert same(released(session(launch=left)))
    assert time.monotonic() - began < 15


@pytest.mark.slow
def test_a_stopped_program_ends_with_what_started_it(tmp_path):
    """Which is a shell that waits for it."""
    shell = program(tmp_path, '#!/bin/sh\n"$@"\nexit $?\n')
    stopped = session(launch=shell, patience=3.0)
    left = []

    def rounds():
        with stopped:
            stopped.add_up(ROUNDS[0], rows_of(ROUNDS[0]))
            left.extend(psutil.Process(stopped.processes["party 1"]).children())
            left[0].suspend()
            left.append(time.monotonic())
            stopped.add_up(ROUNDS[1], rows_of(ROUNDS[1]))

    with pytest.raises(GraphDPError, match="party 1 does not answer"):
        rounds()
    child, began = left
    assert time.monotonic() - began < 30
    seconds_until(lambda: gone([child]), 10)


@pytest.mark.slow
def test_a_command_that_says_what_is_not_to_be_read_is_one_line(tmp_path):
    """A line without an end, longer than one that is read."""
    launch = program(tmp_path, "#!/bin/sh\nhead -c 200000 /dev/zero\nexec sleep 60\n")
    with pytest.raises(GraphDPError) as error, session(launch=launch):
        pass
    assert str(error.value) == "what shuffler says on its output is not to be read"


def test_a_command_that_closes_the_input_is_told_so(tmp_path):
    launch = program(tmp_path, '#!/bin/sh\nexec "$@" < /dev/null\n')
    with pytest.raises(GraphDPError, match="launch has to pass it on"), session(launch=launch):
        pass


def test_another_version_on_a_host_is_refused(tmp_path):
    """Else its sums, or its noise, would be other than what the row speaks of."""
    library = Path(graphdp.__file__).parent
    shutil.copytree(library, tmp_path / "old/graphdp", ignore=shutil.ignore_patterns("__pycache__"))
    party = tmp_path / "old/graphdp/parties/party.py"
    there = f'shift 2; exec env PYTHONPATH={tmp_path / "old"} "$@"'  # as if that were its path
    launch = program(tmp_path, f"#!/bin/sh\n{there}\n")
    assert same(released(session(launch=launch)))
    party.write_text(party.read_text().replace("total += noise", "total += 0 * noise"))
    with pytest.raises(GraphDPError, match="is of another version than what started it: install"):
        session(launch=launch).__enter__()


@pytest.mark.parametrize("module", ["party", "shuffler"])
def test_a_program_ends_with_its_input_before_it_is_told_anything(module):
    done = subprocess.run(
        [sys.executable, "-m", f"graphdp.parties.{module}"],
        input="", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_who_listens_shows_a_certificate_of_its_address(tmp_path):
    tls = certificate(tmp_path, ["127.0.0.2"])
    with pytest.raises(GraphDPError) as error, session(tls=tls):
        pass
    assert "shows a wrong certificate: IP address mismatch" in str(error.value)
    assert same(released(session(tls=tls, host="127.0.0.2")))


def test_an_address_of_another_machine_cannot_be_listened_at():
    with pytest.raises(GraphDPError, match=r"server cannot listen at 192\.0\.2\.1"):
        session(host="192.0.2.1").__enter__()


# --- what is refused before anything starts -------------------------------------------------------


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"listen": "0.0.0.0"}, "listen: shares sent to 0.0.0.0 in clear add up .*; give tls"),
        ({"hosts": "127.0.0.1 10.0.0.2 a b"}, "hosts: shares sent to 10.0.0.2 in clear"),
        ({"hosts": "localhost.example a b c"}, "hosts: shares sent to localhost.example in clear"),
        ({"tls": "", "listen": "0.0.0.0"}, "listen: 0.0.0.0 is no address to connect to"),
        ({"tls": "", "hosts": "a b c d"}, "listen: a does not reach 127.0.0.1; give this m"),
        ({"tls": "", "listen": "a", "hosts": "::1 a a a"}, "hosts: a does not reach ::1; give the"),
        ({"launch": "no-such-program -x"}, "launch: there is no program no-such-program here"),
        ({"hosts": "allocation"}, "hosts: allocation is of a Slurm job, and this is none"),
    ],
)  # fmt: skip
def test_addresses_and_programs_that_cannot_be_meant(setting, message, tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    if "tls" in setting:
        certificate(tmp_path)
        setting = setting | {"tls": str(tmp_path)}
    with pytest.raises(GraphDPError, match=message):
        places.links(SETTING | setting)


def test_certificates_and_a_program_that_are_not_there_are_noticed_before_the_first_job(
    tmp_path, monkeypatch
):
    """The program where jobs run on this machine alone: it may be on theirs."""
    monkeypatch.chdir(ROOT)
    certificate(tmp_path)

    def check(local, **entry):
        preflight.check_links(preflight.prepare(study(**entry)).study, local)

    for local in (True, False):
        check(local)  # without processes no links
        check(local, transport="tcp", tls=str(tmp_path), launch="env")
        with pytest.raises(GraphDPError, match=r"config: dpa: tls: there is no \S+/nowhere/cert"):
            check(local, transport="tcp", tls="nowhere")
    check(False, transport="tcp", launch="no-such-program")
    with pytest.raises(GraphDPError, match="config: dpa: launch: there is no program no-such-prog"):
        check(True, transport="tcp", launch="no-such-program")


@pytest.mark.slow
def test_a_study_whose_parties_cannot_be_started_downloads_nothing(tmp_path):
    project = Project(tmp_path, study(transport="tcp", launch="no-such-program"))
    run = project.snakemake("rows", check=False)
    assert run.returncode != 0 and "launch: there is no program no-such-program" in run.stderr
    assert not (tmp_path / "results/data").exists() and not (tmp_path / "results/tiny").exists()


def test_the_nodes_of_an_allocation_take_turns(tmp_path, monkeypatch):
    program(tmp_path, "#!/bin/sh\n[ \"$2\" = --jobs=7 ] && echo 'n[1-2]'\n", "squeue")
    program(tmp_path, '#!/bin/sh\n[ "$3" = "n[1-2]" ] && echo n1 && echo n2\n', "scontrol")
    certificate(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    for name, value in {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}.items():
        monkeypatch.setenv(name, value)
    found = places.links(SETTING | {"hosts": "allocation", "tls": str(tmp_path), "launch": "env"})
    assert (found["host"], found["hosts"]) == ("n1", ["n1", "n2", "n1", "n2"])


def test_a_path_that_a_shell_would_take_apart_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/my python")
    with pytest.raises(GraphDPError, match="take '/my python' apart; install graphdp in another"):
        places.command("ssh {host}", "a", "graphdp.parties.party")


# --- on hosts of their own ------------------------------------------------------------------------

reason = hosts_fixture.missing()
on_hosts = pytest.mark.skipif(bool(reason), reason=reason)


@pytest.fixture
def network():
    with Network(5) as made:
        yield made


def spread(network, folder, named=None):
    """Of a session on the network's hosts: the first is its own, the second the shuffler's."""
    own, *hosts = network.addresses
    tls = certificate(folder, named or [own, hosts[0]])
    return {"host": own, "hosts": hosts, "launch": network.launch, "tls": tls}


def run(network, folder, **changes):
    return Running(folder, network.on(network.addresses[0]), **spread(network, folder), **changes)


@pytest.mark.slow
@on_hosts
def test_hosts_release_what_one_process_does_bit_for_bit(network, tmp_path):
    with run(network, tmp_path) as running:
        for host in network.addresses:
            assert len(network.processes(host)) == 1
        for _ in range(3):
            running.round(answer=False)
        code, said, _ = running.end()
        assert code == 0, said
    assert same(np.load(running.found).values()) and not network.processes()


@pytest.mark.slow
@on_hosts
@pytest.mark.parametrize(("named", "who"), [(0, "shuffler"), (1, "server")])
def test_a_certificate_of_another_host_is_refused(network, tmp_path, named, who):
    """Of server and shuffler the certificate names one alone."""
    changes = spread(network, tmp_path, [network.addresses[named], network.addresses[4]])
    with Running(tmp_path, network.on(network.addresses[0]), **changes) as running:
        code, said, seconds = running.end()
    assert code == 1 and f"{who} at 10.213.77." in said and "shows a wrong certificate" in said
    assert seconds < 10 and not network.processes() and not running.found.exists()


@pytest.mark.slow
@on_hosts
def test_a_party_that_is_killed_on_its_host_ends_the_session(network, tmp_path):
    with run(network, tmp_path) as running:
        running.round()
        network.processes(network.addresses[3])[0].kill()
        running.round(answer=False)
        code, said, seconds = running.end()
    assert code == 1 and ONE_LINE.fullmatch(said) and "party 1 died (exit" in said
    assert seconds < 10 and not network.processes() and not running.found.exists()


@pytest.mark.slow
@on_hosts
@pytest.mark.parametrize(
    ("host", "who"), [(3, "party 1"), pytest.param(1, "shuffler", marks=pytest.mark.slow)]
)
def test_a_host_that_is_cut_off_ends_the_session(network, tmp_path, host, who):
    """Long before the links' time is up, though nobody says good-bye."""
    with run(network, tmp_path, timeout=60.0) as running:
        running.round()
        network.cut(network.addresses[host])
        running.round(answer=False)
        code, said, seconds = running.end()
    assert code == 1 and ONE_LINE.fullmatch(said) and f"{who} is cut off" in said
    assert seconds < 25 and not network.processes() and not running.found.exists()


@pytest.mark.slow
@on_hosts
def test_a_session_that_is_killed_leaves_nothing_on_any_host(network, tmp_path):
    with run(network, tmp_path) as running:
        running.round()
        running.kill()
        assert seconds_until(lambda: not network.processes()) < 10
    assert not running.found.exists()


def study(**how):
    """A small one of DPA-GNN whose rounds take seconds; how: where its parties run."""
    entry = {"method": "dpa", "level": "node", "epsilon": 4, "feature_layers": 200,
             "label_layers": 1, "epochs": 2}  # fmt: skip
    return {
        "study": "tiny", "datasets": ["mine"], "seeds": 1, "device": "cpu",
        "definitions": {"mine": {"base": "csbm", "parameters": {"n": 400, "f": 16, "d": 8}}},
        "experiments": {"accuracy": [entry | how]}, "tables": ["accuracy"], "figures": [],
    }  # fmt: skip


#: Of a setting, what says where its rounds are made: no number of a row depends on it.
PLACES = ("transport", "tls", "listen", "hosts", "launch")


def rows(project):
    """Its rows, but for what they took, where parties ran and what is installed."""
    found = pd.read_csv(project.folder / "results/tiny/rows.csv")
    settings = map(json.loads, found["hyperparameters"])
    found["hyperparameters"] = [
        {name: value for name, value in one.items() if name not in PLACES} for one in settings
    ]
    own = ["cpu_seconds", "wall_seconds", "peak_rss_mb", "device", "git_commit", "versions"]
    return found.drop(columns=own)


def same_rows(project, folder):
    """Whether its one row is to the last bit that of a run of the same study without parties, which
    nothing disturbs."""
    folder.mkdir()
    alone = Project(folder, study(transport="memory"))
    alone.snakemake("rows")
    found = rows(project)
    assert len(found) == 1 and found["test_accuracy"].notna().all()
    pd.testing.assert_frame_equal(found, rows(alone), check_exact=True)


def parties_of(run):
    """The parties of a run, once all three are connected to both the server and the shuffler."""

    def links(process):
        return sum(one.status == "ESTABLISHED" for one in process.net_connections("tcp"))

    found = []
    with suppress(psutil.Error):
        for process in psutil.Process(run.pid).children(recursive=True):
            if process.cmdline()[-1:] == ["graphdp.parties.party"] and links(process) == 2:
                found.append(process)
    return found if len(found) == 3 else []


def fails(project, disturb, message, most):
    """`disturb` one of the parties of a study's only job, after some of its rounds, all of it on
    this machine, so that it needs no root: the run fails within so many seconds, says `message`,
    writes no row and leaves no process."""
    log = project.folder / "said"
    with log.open("w") as said:
        run = subprocess.Popen(
            project.command("rows"), cwd=project.folder, env=project.environment,
            stdout=said, stderr=said,
        )  # fmt: skip
        seconds_until(lambda: run.poll() is not None or parties_of(run), 180)
        found = parties_of(run)
        assert found, log.read_text()
        time.sleep(0.3)  # some of its rounds
        family = psutil.Process(run.pid).children(recursive=True)
        programs = [one for one in family if " graphdp.parties." in " ".join(one.cmdline())]
        assert len(programs) == 4  # the shuffler as well
        began = time.monotonic()
        disturb(found[0])
        assert run.wait(60) != 0
    assert time.monotonic() - began < most
    assert re.search(message, log.read_text()), log.read_text()
    seconds_until(lambda: gone(family), 5)
    assert not list(project.folder.glob("results/tiny/fit/**/*.csv"))
    assert not (project.folder / "results/tiny/rows.csv").exists()


@pytest.mark.slow
def test_a_party_that_is_killed_fails_the_job_of_a_study_and_the_next_run_makes_it(tmp_path):
    """As if nothing had happened."""
    (tmp_path / "project").mkdir()
    project = Project(tmp_path / "project", study(transport="tcp"))
    message = r"round \d+ of features: .*party [012] died \(exit status -9\)"
    fails(project, psutil.Process.kill, message, 20)
    project.snakemake("rows")
    same_rows(project, tmp_path / "alone")


@pytest.mark.slow
def test_a_party_that_is_stopped_fails_the_job_of_a_study(tmp_path):
    """It is asked within 3 s whether it is there, has 10 to answer, and 3 to end before it is
    killed: that works on a stopped one as well."""
    (tmp_path / "project").mkdir()
    project = Project(tmp_path / "project", study(transport="tcp"))
    message = r"round \d+ of features: party [012] does not answer\n"
    fails(project, psutil.Process.suspend, message, 45)


@on_hosts
@pytest.mark.slow
def test_a_study_whose_parties_run_on_hosts(network, tmp_path):
    """A killed party fails the job, which says so and writes no row; the next run makes it."""
    changes = spread(network, tmp_path)
    (tmp_path / "far").mkdir()
    project = Project(tmp_path / "far", study(
        transport="tcp", tls=str(tmp_path), listen=changes["host"],
        hosts=" ".join(changes["hosts"]), launch=network.launch,
    ))  # fmt: skip
    command = [*network.on(changes["host"]), *SNAKEMAKE, "rows", "--configfile", "study.yaml"]
    with (tmp_path / "said").open("w") as said:
        run = subprocess.Popen(
            command, cwd=project.folder, env=project.environment, stdout=said, stderr=said
        )
        host = network.addresses[3]  # after some rounds
        seconds_until(lambda: run.poll() or network.received(host) > 1 << 20, 120)
        network.programs(host)[0].kill()
        assert run.wait(60) != 0
    log = (tmp_path / "said").read_text()
    assert re.search(r"round \d+ of features: .*party 1 died \(exit status -9\)", log), log
    assert not network.programs() and not list(project.folder.glob("results/tiny/fit/**/*.csv"))
    assert not (project.folder / "results/tiny/rows.csv").exists()
    project.run(*command)
    assert not network.programs()
    same_rows(project, tmp_path / "here")
