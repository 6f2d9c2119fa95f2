"""Parties that ssh starts on other hosts, each with an sshd of its own."""

import os
import shutil
import signal
import subprocess
from contextlib import ExitStack

import numpy as np
import pytest

import hosts_fixture
from hosts_fixture import Network, Running, seconds_until
from test_parties_hosts import ONE_LINE, same, spread

reason = hosts_fixture.missing()
if not reason and not all(map(shutil.which, ("ssh", "sshd", "ssh-keygen"))):
    reason = "no ssh and sshd: apt-get install openssh-client openssh-server"
pytestmark = pytest.mark.skipif(bool(reason), reason=reason)

#: Whose shells say something of their own on both outputs.
SERVER = """\
ListenAddress {host}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
StrictModes no
UsePAM no
PidFile none
Banner {folder}/banner
ForceCommand echo Welcome; printf 'no end of line> '; eval "$SSH_ORIGINAL_COMMAND"
"""
CLIENT = """\
Host *
User {user}
IdentityFile {folder}/user
IdentitiesOnly yes
BatchMode yes
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
"""


@pytest.fixture
def network(tmp_path):
    """Five hosts; on all but the first an sshd listens."""
    folder = tmp_path / "ssh"
    folder.mkdir()
    for key in ("host", "user"):
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(made, check=True)
    (folder / "banner").write_text("All that is done here is written down.\n")
    user = os.environ.get("USER", "root")
    (folder / "client").write_text(CLIENT.format(folder=folder, user=user))
    with Network(5) as made, ExitStack() as daemons:
        for host in made.addresses[1:]:
            (folder / host).write_text(SERVER.format(folder=folder, host=host))
            # /run/sshd has to be there; this one is seen by that sshd alone.
            own = "mount -t tmpfs none /run && mkdir /run/sshd && exec $(command -v sshd) -D -e -f"
            daemon = subprocess.Popen(
                [*made.on(host), "sh", "-c", f"{own} {folder / host}"],
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            daemons.callback(daemon.wait)
            daemons.callback(daemon.terminate)
        for host in made.addresses[1:]:
            seconds_until(lambda host=host: listens(made, host), 10)
        yield made


def listens(network, host):
    own = f"import socket; socket.create_connection(({host!r}, 22), 1)"
    return not subprocess.run(
        [*network.on(network.addresses[0]), "python3", "-c", own], capture_output=True
    ).returncode


def run(network, folder, **changes):
    given = spread(network, folder) | {"launch": f"ssh -F {folder / 'ssh/client'} {{host}}"}
    return Running(folder, network.on(network.addresses[0]), **(given | changes))


@pytest.mark.slow
def test_programs_that_ssh_starts_release_what_one_process_does(network, tmp_path):
    with run(network, tmp_path) as running:
        assert [len(network.programs(host)) for host in network.addresses] == [0, 1, 1, 1, 1]
        for _ in range(3):
            running.round(answer=False)
        code, said, _ = running.end()
        assert code == 0, said
    assert same(np.load(running.found).values()) and not network.programs()


@pytest.mark.slow
def test_a_killed_session_leaves_nothing_where_ssh_started_it(network, tmp_path):
    with run(network, tmp_path) as running:
        running.round()
        running.kill()
        assert seconds_until(lambda: not network.programs()) < 10


@pytest.mark.slow
@pytest.mark.parametrize("what", ["party", "ssh"])
def test_a_party_or_its_ssh_that_is_killed_is_named(network, tmp_path, what):
    with run(network, tmp_path) as running:
        running.round()
        if what == "party":
            network.programs(network.addresses[3])[0].kill()
        else:
            os.kill(running.started["party 1"], signal.SIGKILL)
            seconds_until(lambda: not network.programs(network.addresses[3]), 10)
        running.round(answer=False)
        code, said, seconds = running.end()
    assert code == 1 and ONE_LINE.fullmatch(said) and "party 1 died (exit" in said
    assert seconds < 10 and not running.found.exists()
    seconds_until(lambda: not network.programs(), 10)


@pytest.mark.slow
def test_a_host_that_is_cut_off_ends_its_party_itself(network, tmp_path):
    """No signal, and no end of its input, reaches it."""
    with run(network, tmp_path, timeout=60.0) as running:
        running.round()
        network.cut(network.addresses[3])
        running.round(answer=False)
        code, said, seconds = running.end()
    assert code == 1 and ONE_LINE.fullmatch(said) and "party 1 is cut off" in said
    assert seconds < 25 and not running.found.exists()
    assert seconds_until(lambda: not network.programs(), 20) < 15


@pytest.mark.slow
def test_a_host_that_refuses_the_key_is_named_at_once(network, tmp_path):
    (tmp_path / "ssh/user.pub").write_text("")
    with run(network, tmp_path) as running:
        code, said, seconds = running.end()
    assert code == 1 and "the shuffler ended before it listened (exit status 255: " in said
    assert "Permission denied" in said and said.endswith("; check hosts and launch\n")
    assert seconds < 10
