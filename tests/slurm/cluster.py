"""A real Slurm of one node, in a folder of its own: nothing of it stands in /etc.

Needs root, and Debian's packages slurm-wlm and munge. GPUs are twins of /dev/null; memory is held
down by cgroups (v1 or v2).
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil

_PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "munged", "munge")
_CONF = """\
ClusterName=graphdp
SlurmctldHost={host}
SlurmctldPort={ctld_port}
SlurmdPort={slurmd_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
MpiDefault=none
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SchedulerParameters=sched_interval=2,bf_interval=5
KillWait=2
MinJobAge=3600
GresTypes=gpu
NodeName={host} CPUs={cpus} RealMemory={memory} Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""
_CGROUPS = """\
CgroupPlugin={version}
CgroupMountpoint=/sys/fs/cgroup
ConstrainRAMSpace=yes
ConstrainSwapSpace=no
ConstrainCores=no
ConstrainDevices=no
"""


def missing() -> str:
    """Why no Slurm can be started here: a line, or nothing."""
    absent = [name for name in _PROGRAMS if shutil.which(name) is None]
    if absent:
        return (
            f"no {', '.join(absent)}: apt-get update && apt-get install -y --no-install-recommends "
            "slurm-wlm munge"
        )
    return "" if os.geteuid() == 0 else "a Slurm of one node needs root"


class Cluster:
    """A Slurm that runs from `start` to `stop`.

    folder: where its state, keys and logs go. `environment`: what clients need in theirs.
    `node`: its name.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.node = socket.gethostname().partition(".")[0]
        self._daemons: dict[str, subprocess.Popen] = {}
        programs = folder / "bin"
        self.environment = os.environ | {
            "SLURM_CONF": str(folder / "slurm.conf"),
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        }
        for name in ("bin", "munge", "state", "spool"):
            (folder / name).mkdir(parents=True)
        # The executor takes SLURM_CONF from the environment of the srun in its jobs.
        srun = programs / "srun"
        srun.write_text(
            f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n'
        )
        srun.chmod(0o755)
        self._configure()

    def _configure(self) -> None:
        host, (ctld, slurmd) = self.node, _free_ports(2)
        megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
        text = _CONF.format(
            host=host, folder=self.folder, ctld_port=ctld, slurmd_port=slurmd,
            cpus=os.cpu_count(), memory=megabytes - 1000,
        )  # fmt: skip
        (self.folder / "slurm.conf").write_text(text)
        # A twin of /dev/null plays the GPU.
        gpu = self.folder / "gpu0"
        subprocess.run(["mknod", "-m", "666", str(gpu), "c", "1", "3"], check=True)
        (self.folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu File={gpu}\n")
        version = "cgroup/v1" if Path("/sys/fs/cgroup/memory").is_dir() else "cgroup/v2"
        (self.folder / "cgroup.conf").write_text(_CGROUPS.format(version=version))
        key = self.folder / "munge/munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)

    def start(self) -> None:
        """Start the daemons; raises `RuntimeError` with their logs if that fails."""
        munge = self.folder / "munge"
        self._daemon(
            "munged", "--foreground", "--force", f"--key-file={munge}/munge.key",
            f"--socket={munge}/socket", f"--pid-file={munge}/pid", f"--log-file={munge}/log",
            f"--seed-file={munge}/seed",
        )  # fmt: skip
        self._daemon("slurmctld", "-D", "-c")
        self.start_node("idle")

    def start_node(self, *states: str) -> None:
        """Start slurmd and wait until its node is in one of the states; raises as `start`."""
        # Not -c, which kills the jobs that are at work there.
        self._daemon("slurmd", "-D")
        for _ in range(60):
            if self.ask("sinfo", "--noheader", "--format=%T", check=False).strip() in states:
                return
            time.sleep(1)
        logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
        raise RuntimeError(f"Slurm's node does not get ready:\n{logs}")

    def kill_node(self, jobs: list[int]) -> None:
        """SIGKILL to slurmd, and to all processes of the jobs, as where a node loses power."""
        self._daemons["slurmd"].kill()
        self._daemons["slurmd"].wait()
        for number in jobs:
            for process in _processes_of(number):
                process.kill()

    def _daemon(self, *command: str) -> None:
        log = (self.folder / f"{command[0]}.out").open("a")
        self._daemons[command[0]] = subprocess.Popen(
            command, env=self.environment, stdout=log, stderr=log
        )

    def stop(self) -> None:
        """Cancel what runs and stop the daemons."""
        self.ask("scancel", "--me", check=False)
        for _ in range(30):
            if not self.ask("squeue", "--noheader", check=False):
                break
            time.sleep(1)
        for daemon in reversed(self._daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
        for path in sorted(Path("/sys/fs/cgroup").glob("*/slurm*/**"), reverse=True):
            if path.is_dir():
                subprocess.run(["rmdir", str(path)], capture_output=True)

    def ask(self, *command: str, check: bool = True) -> str:
        """What a client says."""
        result = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60
        )
        if check and result.returncode:
            raise RuntimeError(f"{command}: {result.stderr}")
        return result.stdout

    def jobs(self) -> dict[int, tuple[str, str]]:
        """Id -> (state, comment, which names rule or group) of all jobs so far."""
        lines = self.ask("squeue", "--states=all", "--noheader", "--format=%A|%T|%k").splitlines()
        found = (line.split("|", 2) for line in lines)
        return {int(number): (state, comment) for number, state, comment in found}


def _processes_of(job: int) -> list[psutil.Process]:
    """The steps of a job, which Slurm names `slurmstepd: [7.batch]`, and all that they started."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if words.startswith(f"slurmstepd: [{job}."):
            found += [process, *process.children(recursive=True)]
    return found


def _free_ports(number: int) -> list[int]:
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
