"""Hosts for parties: network namespaces with addresses of their own, and a session on them."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

SCRIPT = Path(__file__).with_name("parties_session.py")


class Network:
    """Namespaces as hosts, joined by a bridge in one more: no frame of theirs leaves these.

    addresses: of the hosts. `launch`: what starts a program on one, by its address.
    """

    def __init__(self, number: int):
        self._tag = f"graphdp-{os.getpid()}-{secrets.token_hex(3)}"
        self.addresses = [f"10.213.77.{one + 1}" for one in range(number)]
        self.launch = f"ip netns exec {self._tag}-{{host}}"

    def __enter__(self) -> "Network":
        try:
            self._make("switch")
            self.ip("switch", "link", "add", "bridge", "type", "bridge")
            self.ip("switch", "link", "set", "bridge", "up")
            for one in self.addresses:
                self._make(one)
                self.ip(
                    "switch", "link", "add", self._port(one), "type", "veth",
                    "peer", "name", "eth0", "netns", self._name(one),
                )  # fmt: skip
                self.ip("switch", "link", "set", self._port(one), "master", "bridge", "up")
                self.ip(one, "address", "add", f"{one}/24", "dev", "eth0")
                self.ip(one, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        for one in ("switch", *self.addresses):
            for process in self.processes(one):
                with suppress(psutil.Error):
                    process.kill()
            subprocess.run(["ip", "netns", "delete", self._name(one)], capture_output=True)

    def _name(self, host: str) -> str:
        return f"{self._tag}-{host}"

    def _port(self, host: str) -> str:
        return f"port{host.rpartition('.')[2]}"

    def _make(self, host: str) -> None:
        subprocess.run(
            ["ip", "netns", "add", self._name(host)], check=True, capture_output=True, text=True
        )
        self.ip(host, "link", "set", "lo", "up")

    def ip(self, host: str, *words: str) -> str:
        """What `ip` says in a host's namespace."""
        return subprocess.run(
            ["ip", "-netns", self._name(host), *words], check=True, capture_output=True, text=True
        ).stdout

    def cut(self, host: str) -> None:
        """Take a host's cable out of the switch."""
        self.ip("switch", "link", "set", self._port(host), "down")

    def received(self, host: str) -> int:
        """Bytes that a host got so far."""
        (found,) = json.loads(self.ip(host, "-json", "-stats", "link", "show", "eth0"))
        return found["stats64"]["rx"]["bytes"]

    def processes(self, *hosts: str) -> list[psutil.Process]:
        """What runs on hosts; on all of them if none is named."""
        found = []
        for host in hosts or self.addresses:
            said = subprocess.run(
                ["ip", "netns", "pids", self._name(host)], capture_output=True, text=True
            ).stdout
            for pid in map(int, said.split()):
                with suppress(psutil.Error):
                    found.append(psutil.Process(pid))
        return found

    def programs(self, *hosts: str) -> list[psutil.Process]:
        """The parties and the shuffler that run on hosts; on all if none is named."""
        found = []
        for process in self.processes(*hosts):
            with suppress(psutil.Error):
                name, words = process.name(), process.cmdline()
                # One that ends just now has no words.
                if name.startswith("python") and "".join(words[-1:]).startswith("graphdp.parties."):
                    found.append(process)
        return found

    def on(self, host: str) -> list[str]:
        """The words before a program that is started on a host."""
        return self.launch.format(host=host).split()


@cache
def missing() -> str:
    """Why there can be no such hosts here, or nothing."""
    if os.geteuid() != 0:
        return "hosts as network namespaces need root"
    if shutil.which("ip") is None:
        return "no ip: apt-get install iproute2"
    try:
        with Network(1) as network:
            subprocess.run([*network.on(network.addresses[0]), "true"], check=True)
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {(error.stderr or '').strip()}"
    return ""


class Running:
    """`parties_session` at work, after all are connected. before: words that are put before it."""

    def __init__(self, folder: Path, before: Sequence[str] = (), **changes: Any):
        self.found = folder / "found.npz"
        self._process = subprocess.Popen(
            [*before, sys.executable, str(SCRIPT), str(self.found), json.dumps(changes)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        #: Name -> id of what was started for it.
        self.started = self._said()
        self.family = psutil.Process(self._process.pid).children(recursive=True)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *error: Any) -> None:
        self._process.kill()
        self._process.communicate()

    def _said(self) -> dict[str, int]:
        return json.loads(self._process.stdout.readline() or "{}")

    def round(self, answer: bool = True) -> None:
        """Make a round; answer: wait until it is made."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        if answer:
            self._said()

    def kill(self) -> None:
        """SIGKILL to the session."""
        self._process.kill()
        self._process.wait()

    def end(self, timeout: float = 60.0) -> tuple[int, str, float]:
        """(exit code, what it said, seconds until then)."""
        began = time.monotonic()
        _, said = self._process.communicate(timeout=timeout)
        return self._process.returncode, said, time.monotonic() - began


def seconds_until(happened: Any, most: float = 30.0) -> float:
    """How long something takes to happen."""
    began = time.monotonic()
    while not happened():
        assert time.monotonic() - began < most, f"not within {most:g} s"
        time.sleep(0.05)
    return time.monotonic() - began
