"""Where a session's processes run, how they are started there, and what encrypts their links.

A setting names the hosts (the shuffler's first, then the parties') and the command that is put
before a program to start it on one. The program is this Python with this library, at the same
paths there: hosts share a file system, as those of a cluster do. Its words have no character that
a shell would take apart, since ssh gives them to one and srun does not.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from string import Formatter
from typing import Any

import graphdp
from graphdp.errors import GraphDPError

#: In place of hosts: the nodes of this job's Slurm allocation, one after the other.
ALLOCATION = "allocation"
#: Where the training job listens if nothing is said.
HERE = "127.0.0.1"
_HOST = re.compile(r"[0-9A-Za-z:][0-9A-Za-z.:_%-]*")


def fault(
    hosts: str | None, launch: str | None, parties: int, listen: str | None, tls: str | None
) -> str:
    """What is wrong with a setting's places, wherever it runs: a line with its fix; or nothing."""
    return _fault_of_words(hosts, launch, parties) or _fault_of_addresses(hosts, listen, tls)


def _fault_of_words(hosts: str | None, launch: str | None, parties: int) -> str:
    named = (hosts or "").split()
    for one in named:
        if not _HOST.fullmatch(one):
            return f"hosts: {one!r} is not a host; give names or addresses, with spaces between"
    if hosts is not None and named != [ALLOCATION] and len(named) != parties + 1:
        return (
            f"hosts names {len(named)}; {parties} parties and the shuffler need {parties + 1}, the "
            "shuffler's first, with spaces between"
        )
    if launch is None:
        return "hosts needs launch, such as launch: ssh {host}" if hosts is not None else ""
    return _fault_of_launch(hosts, launch)


def _fault_of_launch(hosts: str | None, launch: str) -> str:
    try:
        fields = [part[1:] for part in Formatter().parse(launch) if part[1] is not None]
        words = shlex.split(launch)
    except ValueError as error:
        return f"launch: {str(error).lower()}; give a command such as ssh {{host}}"
    if not words:
        return "launch is empty; give a command such as ssh {host}"
    for name, form, conversion in fields:
        if (name, form, conversion) != ("host", "", None):
            return f"launch: {{{name}}} is not known; only {{host}} is filled in"
    if hosts is not None and not fields:
        return "launch does not say on which host; give {host}, as in launch: ssh {host}"
    return "launch names {host}; give hosts as well" if fields and hosts is None else ""


def _fault_of_addresses(hosts: str | None, listen: str | None, tls: str | None) -> str:
    named = (hosts or "").split()
    if named == [ALLOCATION]:  # its nodes are known to its job alone, and none is a loopback
        if tls is None:
            return _in_clear("hosts", "an allocation's nodes")
        return _fault_of_reach(listen, []) if listen else ""
    host = listen or HERE
    for name, one in (("listen", host), *(("hosts", one) for one in named)):
        if tls is None and not _is_loopback(one):
            return _in_clear(name, one)
    return _fault_of_reach(host, named)


def _in_clear(name: str, whom: str) -> str:
    return f"{name}: shares sent to {whom} in clear add up to the rows; give tls"


def command(launch: str, host: str, module: str) -> list[str]:
    """The words that start a module on a host; without launch, here.

    Raises `GraphDPError` if a path of this installation has characters that a shell reads.
    """
    if not launch:
        return [sys.executable, "-m", module]
    library = Path(graphdp.__file__).resolve().parents[1]
    # -P: a folder of the host's in which it happens to start has no say in what is imported.
    program = ["env", f"PYTHONPATH={library}", sys.executable, "-P", "-m", module]
    for word in program:
        if shlex.quote(word) != word:
            raise GraphDPError(
                f"launch: a shell would take {word!r} apart; install graphdp in another folder"
            )
    return [word.format(host=host) for word in shlex.split(launch)] + program


def links(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Of a setting: where processes run, listen and how they start, as `session.Session` takes it.

    Raises `GraphDPError` for links that others could read (all shares of a pair go over them), and
    for addresses and programs that cannot be what is meant.
    """
    host, launch = setting.get("listen"), setting.get("launch", "")
    hosts = setting.get("hosts", "").split()
    if hosts == [ALLOCATION]:
        nodes = _nodes()
        hosts = [nodes[i % len(nodes)] for i in range(setting["parties"] + 1)]
        host = host or os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    host = host or HERE
    if why := _fault_of_addresses(" ".join(hosts), host, setting.get("tls")):
        raise GraphDPError(why)
    check_launch(launch)
    return {"host": host, "tls": certificates(setting), "hosts": hosts, "launch": launch}


def check_launch(launch: str) -> None:
    """Whether there is the program here that starts others. Raises `GraphDPError`."""
    program = shlex.split(launch)[0] if launch else "env"
    if shutil.which(program) is None:
        raise GraphDPError(f"launch: there is no program {program} here; install or correct it")


def _fault_of_reach(host: str, hosts: list[str]) -> str:
    """Of addresses at which who runs elsewhere finds nobody."""
    listening = {"listen": host} | ({"hosts": hosts[0]} if hosts else {})
    far = [one for one in (host, *hosts) if not _is_loopback(one)]
    for name, one in listening.items():
        if one in ("0.0.0.0", "::"):
            return f"{name}: {one} is no address to connect to; give a machine's own"
        if far and hosts and _is_loopback(one):
            whose = "the shuffler's" if name == "hosts" else "this machine's"
            return f"{name}: {far[0]} does not reach {one}; give {whose} address on their network"
    return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False  # a name


def certificates(setting: Mapping[str, Any]) -> dict[str, str] | None:
    """The files of encrypted links, if they are asked for. Raises `GraphDPError` without them."""
    if "tls" not in setting:
        return None
    names = ("certificate", "key", "authority")
    folder = Path(setting["tls"]).absolute()  # processes start in folders of their own
    found = {name: str(folder / f"{name}.pem") for name in names}
    for path in found.values():
        if not Path(path).is_file():
            raise GraphDPError(f"tls: there is no {path}; put certificate, key and authority there")
    return found


def _nodes() -> list[str]:
    """The nodes of this job's allocation. Raises `GraphDPError` outside of one."""
    job = os.environ.get("SLURM_JOB_ID")
    if not job:
        raise GraphDPError(
            f"hosts: {ALLOCATION} is of a Slurm job, and this is none; submit it, or name the hosts"
        )

    def said(*words: str) -> list[str]:
        done = subprocess.run(words, check=True, capture_output=True, text=True, timeout=60)
        return done.stdout.split()

    try:
        # Not SLURM_JOB_NODELIST: within a step that may name the step's nodes alone.
        listed = said("squeue", "--noheader", f"--jobs={job}", "--format=%N")
        return said("scontrol", "show", "hostnames", *listed)
    except (OSError, subprocess.SubprocessError) as error:
        raise GraphDPError(f"hosts: the nodes of Slurm job {job} are not known ({error})") from None
