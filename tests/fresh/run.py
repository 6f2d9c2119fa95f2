"""The project on a bare Debian, as a new user meets it: `make test-fresh`.

    python tests/fresh/run.py [--suite NAME] [--folder DIR] [TARGET ...]

Makes a Debian of its smallest kind in a folder, with Python, venv, make and git and nothing else,
and a user without rights. That user clones the last commit, installs it and makes TARGET (demo and
test). Prints wall times and sizes. Needs root and debootstrap; uses the standard library alone.

Mirrors, indexes and certificates are the host's: apt's mirror, pip's configuration with the folders
that it names, and how names are looked up.
"""

import argparse
import ast
import configparser
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("debootstrap", "unshare", "setpriv", "chroot", "git")
PACKAGES = ("python3", "python3-venv", "make", "git")
HOME = "/home/somebody"
#: What the user's environment has of the host's.
KEPT = ("http_proxy", "https_proxy", "no_proxy", "HTTPS_PROXY", "NO_PROXY", "OMP_NUM_THREADS")
#: Waits until its input ends, which is when the caller ends in whatever way; removes the folder.
#: All mounts belong to processes that end with the caller, so it meets none.
REMOVE = """\
cat > /dev/null
for second in $(seq 60); do rm -rf --one-file-system -- "$1" && exit 0; sleep 1; done; exit 1"""


def missing() -> str:
    """Why no Debian can be made here: a line, or nothing."""
    if os.geteuid() != 0:
        return "a fresh Debian needs root (debootstrap, chroot): sudo make test-fresh"
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return (
            f"no {', '.join(absent)}: apt-get update && apt-get install -y "
            "--no-install-recommends debootstrap util-linux git"
        )
    mounts = ["unshare", "--mount", "--pid", "--fork", "true"]
    if subprocess.run(mounts, capture_output=True).returncode:
        return "no right to mount (of a container that has none): run it on the machine itself"
    return ""


def pip_settings(listed: str) -> configparser.RawConfigParser:
    """What `pip config list` prints (its files and PIP_ variables) as one file of pip's."""
    settings = configparser.RawConfigParser()
    lines = [re.fullmatch(r"(:env:|[\w-]+)\.([\w-]+)=(.*)", line) for line in listed.splitlines()]
    # Variables override files.
    for line in sorted(filter(None, lines), key=lambda line: line[1] == ":env:"):
        section = "global" if line[1] == ":env:" else line[1]
        if not settings.has_section(section):
            settings.add_section(section)
        settings.set(section, line[2], ast.literal_eval(line[3]))
    return settings


def local_paths(settings: configparser.RawConfigParser) -> list[Path]:
    """Files and folders of the host that pip's settings name."""
    found = set()
    for section in settings.sections():
        for word in " ".join(settings[section].values()).split():
            # The pages of an index on disk name packages beside the index.
            path = Path(word[7:]).parent if word.startswith("file://") else Path(word)
            if path.is_absolute() and path != Path("/") and path.exists():
                found.add(path)
    return sorted(found)


def mirrors(suite: str) -> list[str]:
    """Where the host's apt takes that suite from, if it does; debootstrap knows another place."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {suite}"]
    result = subprocess.run(asked, capture_output=True, text=True)
    return sorted(set(result.stdout.split()))[:1]


class Machine:
    """A Debian in a folder. Every command has mounts of its own and ends with this process."""

    def __init__(self, folder: Path, suite: str):
        self.folder, self.suite, self.root = folder, suite, folder / "debian"
        asked = [sys.executable, "-m", "pip", "config", "list"]
        self._pip = pip_settings(subprocess.run(asked, capture_output=True, text=True).stdout)

    def _run(self, what: str, script: str) -> None:
        """Run a shell script of root's; raises `RuntimeError` with `what` if it fails."""
        own = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork"]
        command = [*own, "--kill-child", "sh", "-euc", script]
        status = subprocess.run(command, stdin=subprocess.DEVNULL).returncode
        if status:
            raise RuntimeError(f"{what}: exit status {status}")

    def make(self) -> None:
        """Debian, its user, the settings of the host, and the project as a bundle."""
        make = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", self.suite]
        log = shlex.quote(f"{self.folder}/debootstrap.log")
        words = shlex.join([*make, str(self.root), *mirrors(self.suite)])
        # debootstrap reads /proc for what it has mounted, and must see its own.
        script = f"mount -t proc proc /proc; {words} > {log} 2>&1 || {{ tail {log} >&2; exit 1; }}"
        self._run("debootstrap", script)
        shutil.rmtree(self.root / "var/cache/apt/archives", ignore_errors=True)
        for name in ("resolv.conf", "hosts"):
            shutil.copy(f"/etc/{name}", self.root / "etc" / name)
        text = io.StringIO()
        self._pip.write(text)
        (self.root / "etc/pip.conf").write_text(text.getvalue())
        for path in local_paths(self._pip):
            here = self.root / path.relative_to("/")
            here.parent.mkdir(parents=True, exist_ok=True)
            here.mkdir(exist_ok=True) if path.is_dir() else here.touch()
        root = shlex.quote(str(self.root))
        self._run("useradd", f"chroot {root} useradd --create-home --home-dir {HOME} somebody")
        bundle = ["git", "-C", str(ROOT), "bundle", "create", "--quiet"]
        subprocess.run([*bundle, f"{self.root}/project.bundle", "HEAD"], check=True)
        (self.root / "project.bundle").chmod(0o644)
        self.user(f"git clone --quiet /project.bundle {HOME}/graphdp")

    def user(self, command: str, folder: str = HOME) -> float:
        """A shell command of the user's; its wall time in seconds. Raises `RuntimeError`."""
        root = shlex.quote(str(self.root))
        mounts = [f"mount -t proc proc {root}/proc", f"mount -t tmpfs tmpfs {root}/dev/shm"]
        for path in local_paths(self._pip):
            here = shlex.quote(f"{self.root}{path}")
            mounts.append(f"mount --bind {shlex.quote(str(path))} {here}")
            mounts.append(f"mount -o remount,bind,ro {here}")
        plain = {"HOME": HOME, "USER": "somebody", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
        plain |= {name: os.environ[name] for name in KEPT if name in os.environ}
        words = ["env", "-i", *(f"{name}={value}" for name, value in plain.items())]
        inner = shlex.join([*words, "sh", "-euc", f"cd {folder}; {command}"])
        began = time.monotonic()
        self._run(command, "; ".join([*mounts, f"exec chroot --userspec=somebody {root} {inner}"]))
        return time.monotonic() - began

    def megabytes(self, path: str) -> int:
        """Disk that a folder takes, in MB; 0 where it is not."""
        result = subprocess.run(
            ["du", "-sk", f"{self.root}/{path}"], capture_output=True, text=True
        )
        return round(int((result.stdout or "0").split()[0]) * 1024 / 1e6)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("targets", nargs="*", default=["demo", "test"], help="of make")
    parser.add_argument("--suite", default="bookworm", help="which Debian (trixie: Python 3.13)")
    parser.add_argument("--folder", type=Path, help="where it goes: 2 GB with torch for CPUs")
    given = parser.parse_args()
    if why := missing():
        print(f"error: {why}", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="graphdp-fresh-", dir=given.folder)).resolve()
    janitor = subprocess.Popen(
        ["sh", "-c", REMOVE, "sh", str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        for line in check(Machine(folder, given.suite), given.targets):
            print(f"fresh: {line}", flush=True)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    finally:
        janitor.stdin.close()
        janitor.wait()
    return 0


def check(machine: Machine, targets: list[str]):
    """Do all of it; yields a line for each step."""
    changes = ["git", "-C", str(ROOT), "status", "--porcelain"]
    if subprocess.run(changes, capture_output=True, text=True).stdout:
        yield "what is not committed is not part of it"
    began = time.monotonic()
    machine.make()
    seconds = time.monotonic() - began
    yield f"Debian {machine.suite}: {seconds:.0f} s, {machine.megabytes('.')} MB"
    project = f"{HOME}/graphdp"
    machine.user("python3 --version", project)
    for target in ("install", *targets):
        seconds = machine.user(f"make {shlex.quote(target)}", project)
        sizes = [
            f"{name} {machine.megabytes(f'{project}/{name}')} MB" for name in (".venv", "results")
        ]
        yield f"make {target}: {seconds:.0f} s; {', '.join(sizes)}"


if __name__ == "__main__":
    sys.exit(main())
