"""Downloads: hashes decide, nothing half-written stays, and no test leaves this machine."""

import errno
import hashlib
import http.server
import re
import runpy
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from graphdp import io, ledger
from graphdp.data.content import content_hashes
from graphdp.data.datasets import DatasetSpec, FileSpec
from graphdp.data.download import download
from graphdp.data.graph import Graph
from graphdp.data.placed import check_placed, check_unchanged, verify
from graphdp.data.raw_files import MANIFEST, RECORD, digests, mismatch
from graphdp.errors import GraphDPError

pytestmark = pytest.mark.usefixtures("only_loopback")

CONTENT = b"the right bytes\n" * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
GIT_SHA1 = hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()


def dataset(**file) -> DatasetSpec:
    return DatasetSpec(
        name="toy", title="Toy", loader="arrays", files=(FileSpec(name="data.bin", **file),)
    )


@pytest.fixture
def server():
    """An HTTP server on 127.0.0.1 that answers with `server.answers[i]` to the i-th request.

    An answer is (status, body, announced length); the last one repeats.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            served = self.server.answers[min(self.server.hits, len(self.server.answers) - 1)]
            self.server.hits += 1
            status, body, length = served
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.hits = 0
        running.url = f"http://127.0.0.1:{running.server_port}/data.bin"
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


GOOD = (200, CONTENT, len(CONTENT))
DOWN = (503, b"", 0)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_digests_are_those_of_sha256sum_and_git(tmp_path):
    path = tmp_path / "hello"
    path.write_bytes(b"hello\n")
    size, sha256, git_sha1 = digests(path)
    assert size == 6
    assert sha256 == "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
    assert git_sha1 == "ce013625030ba8dba906f756967f9e9ca394464a"


@pytest.mark.parametrize("known", [{"sha256": SHA256}, {"git_sha1": GIT_SHA1}])
def test_network_retries_after_a_failure(server, tmp_path, known):
    server.answers = [DOWN, GOOD]
    manifest = download(dataset(url=server.url, **known), tmp_path, backoff=0.01)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert server.hits == 2
    (file,) = manifest["files"]
    assert file["verified"] == next(iter(known))
    assert (file["sha256"], file["git_sha1"], file["size"]) == (SHA256, GIT_SHA1, len(CONTENT))
    assert names(tmp_path) == ["data.bin"]


def test_retries_are_bounded_and_counted(server, tmp_path):
    server.answers = [DOWN]
    with pytest.raises(GraphDPError, match=r"attempt 3: HTTP 503"):
        download(dataset(url=server.url, sha256=SHA256), tmp_path, retries=2, backoff=0.01)
    assert server.hits == 3
    assert names(tmp_path) == []


def test_a_page_that_is_not_there_is_not_asked_for_again(server, tmp_path):
    server.answers = [(404, b"", 0)]
    with pytest.raises(GraphDPError, match="HTTP 404"):
        download(dataset(url=server.url, sha256=SHA256), tmp_path, backoff=0.01)
    assert server.hits == 1


def test_truncated_answer_is_retried_and_leaves_nothing(server, tmp_path):
    server.answers = [(200, CONTENT[:100], len(CONTENT)), GOOD]
    download(dataset(url=server.url), tmp_path, backoff=0.01)
    assert server.hits == 2
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_full_disk_is_not_taken_for_a_bad_source(server, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("graphdp.data.download.shutil.copyfileobj", full)
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror/data.bin").write_bytes(CONTENT)
    server.answers = [GOOD]
    spec = dataset(url=server.url, sha256=SHA256)
    for mirror in (tmp_path / "mirror", None):
        (tmp_path / "raw").mkdir(exist_ok=True)
        monkeypatch.setattr("graphdp.data.download._chunks", full)
        with pytest.raises(OSError, match="No space left"):
            download(spec, tmp_path / "raw", mirror=mirror, backoff=0.01)
        assert names(tmp_path / "raw") == []


def test_wrong_bytes_never_get_the_final_name(server, tmp_path):
    wrong = b"x" * len(CONTENT)
    server.answers = [(200, wrong, len(wrong))]
    with pytest.raises(GraphDPError) as error:
        download(dataset(url=server.url, sha256=SHA256), tmp_path / "raw", backoff=0.01)
    message = str(error.value)
    for part in ("'toy'", "data.bin", server.url, SHA256, hashlib.sha256(wrong).hexdigest()):
        assert part in message
    assert str(tmp_path / "raw") in message and "MIRROR=" in message
    assert "\n" not in message
    assert server.hits == 1, "the same wrong bytes would come again"
    assert names(tmp_path / "raw") == []


def test_size_alone_is_checked_too(server, tmp_path):
    server.answers = [GOOD]
    with pytest.raises(GraphDPError, match=rf"found {len(CONTENT)} bytes, expected 5"):
        download(dataset(url=server.url, size=5), tmp_path)


def test_file_url(tmp_path):
    source = tmp_path / "elsewhere.bin"
    source.write_bytes(CONTENT)
    download(dataset(url=source.as_uri(), sha256=SHA256), tmp_path / "raw")
    assert (tmp_path / "raw" / "data.bin").read_bytes() == CONTENT


def test_file_in_place_needs_nothing_else(tmp_path):
    (tmp_path / "data.bin").write_bytes(CONTENT)
    before = (tmp_path / "data.bin").stat().st_mtime_ns
    spec = dataset(url="http://127.0.0.1:9/unreachable", sha256=SHA256)
    manifest = download(spec, tmp_path, offline=True)
    assert manifest["files"][0]["sha256"] == SHA256
    assert (tmp_path / "data.bin").stat().st_mtime_ns == before


def test_a_file_that_is_not_accepted_gets_no_place(server, tmp_path):
    """Nor is anything of it written down. From a mirror, and from the network."""
    mirror, folder, seen = tmp_path / "mirror", tmp_path / "raw", []
    mirror.mkdir()
    (mirror / "data.bin").write_bytes(CONTENT)
    server.answers = [GOOD]

    def refuse(sha256):
        seen.append(sha256)
        raise GraphDPError("it was released")

    for spec, place in ((dataset(), mirror), (dataset(url=server.url), None)):
        with pytest.raises(GraphDPError, match="it was released"):
            download(spec, folder, place, accept=refuse)
        assert names(folder) == []
    assert seen == [SHA256] * 2
    download(dataset(), folder, mirror, accept=seen.append)
    assert seen == [SHA256] * 3 and (folder / "data.bin").read_bytes() == CONTENT


def test_damaged_file_in_place_is_replaced_from_the_mirror(tmp_path):
    raw, mirror = tmp_path / "raw", tmp_path / "mirror" / "deep" / "down"
    raw.mkdir()
    mirror.mkdir(parents=True)
    (raw / "data.bin").write_bytes(CONTENT[:-1] + b"?")
    (mirror / "data.bin").write_bytes(CONTENT)
    download(dataset(sha256=SHA256), raw, mirror=tmp_path / "mirror")
    assert (raw / "data.bin").read_bytes() == CONTENT


def test_mirror_by_name_and_hash(tmp_path):
    """Two files of one name: the hash decides. A renamed file of the right size is found too."""
    mirror = tmp_path / "mirror"
    for folder, content in (("a", b"other"), ("b", CONTENT)):
        (mirror / folder).mkdir(parents=True)
        (mirror / folder / "data.bin").write_bytes(content)
    download(dataset(git_sha1=GIT_SHA1), tmp_path / "one", mirror=mirror)
    assert (tmp_path / "one" / "data.bin").read_bytes() == CONTENT
    (mirror / "b" / "data.bin").rename(mirror / "b" / "renamed.bin")
    download(dataset(sha256=SHA256, size=len(CONTENT)), tmp_path / "two", mirror=mirror)
    assert (tmp_path / "two" / "data.bin").read_bytes() == CONTENT


def test_files_of_a_mirror_that_differ_need_a_hash(tmp_path):
    mirror, raw = tmp_path / "mirror", tmp_path / "raw"
    for folder in ("a", "b"):
        (mirror / folder).mkdir(parents=True)
        (mirror / folder / "data.bin").write_bytes(CONTENT)
    download(dataset(), tmp_path / "equal", mirror=mirror)
    (mirror / "b/data.bin").write_bytes(b"other")
    with pytest.raises(
        GraphDPError, match=r"dataset 'toy': .*/a/data.bin, .*/b/data.bin.*keep one"
    ):
        download(dataset(), raw, mirror=mirror)
    assert not list(raw.glob("data.bin*"))


def test_manifest_does_not_depend_on_where_the_file_came_from(server, tmp_path):
    server.answers = [GOOD]
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "data.bin").write_bytes(CONTENT)
    spec = dataset(url=server.url, sha256=SHA256)
    from_network = download(spec, tmp_path / "one")
    from_mirror = download(spec, tmp_path / "two", mirror=tmp_path / "mirror")
    in_place = download(spec, tmp_path / "two")
    assert from_network == from_mirror == in_place
    assert server.hits == 1


def test_mirror_with_only_a_wrong_file_falls_through_to_the_network(server, tmp_path):
    server.answers = [GOOD]
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "data.bin").write_bytes(b"wrong")
    download(dataset(url=server.url, sha256=SHA256), tmp_path / "raw", mirror=tmp_path / "mirror")
    assert (tmp_path / "raw" / "data.bin").read_bytes() == CONTENT


def test_unknown_hash_is_recorded_once_and_then_enforced(tmp_path):
    raw, mirror = tmp_path / "raw", tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "data.bin").write_bytes(CONTENT)
    manifest = download(dataset(), raw, mirror=mirror)
    assert manifest["files"][0]["verified"] == "first use"
    assert names(raw) == ["data.bin", RECORD]
    assert download(dataset(), raw) == manifest

    (raw / "data.bin").unlink()
    (mirror / "data.bin").write_bytes(b"changed upstream")
    with pytest.raises(GraphDPError, match=SHA256) as refused:
        download(dataset(), raw, mirror=mirror)
    assert names(raw) == [RECORD]
    # How to take the other file, if it is meant.
    assert f"its hash stands in {raw / RECORD}" in str(refused.value)
    (raw / RECORD).write_text('{"data.bin": "12')
    with pytest.raises(GraphDPError, match=f"{RECORD} is damaged .*: delete it"):
        download(dataset(), raw, mirror=mirror)


def test_a_file_that_changed_in_the_mirror_is_noticed(tmp_path):
    """One that is known by its name alone: its copy is there, and nothing would read it again."""
    raw, mirror = tmp_path / "raw" / "mine", tmp_path / "mirror"
    mirror.mkdir()
    file = mirror / "data.bin"
    file.write_bytes(CONTENT)
    check_unchanged(dataset(), raw, mirror)  # nothing was taken yet
    download(dataset(), raw, mirror=mirror)
    check_unchanged(dataset(), raw, mirror)
    file.write_bytes(b"corrected")
    with pytest.raises(GraphDPError, match=r"data.bin has changed\.") as refused:
        check_unchanged(dataset(), raw, mirror)
    assert f"delete {raw}" in str(refused.value) and "\n" not in str(refused.value)
    # Of what has a hash the copy is right, whatever the mirror has.
    check_unchanged(dataset(sha256=SHA256), raw, mirror)
    file.unlink()
    check_unchanged(dataset(), raw, mirror)
    file.symlink_to(tmp_path / "nowhere")
    check_unchanged(dataset(), raw, mirror)


def test_the_only_copy_of_a_file_is_kept_by_what_is_advised(tmp_path):
    """One that was supplied by hand is taken by its name: to take another one in its place nothing
    is deleted that no mirror has."""
    raw, mirror = tmp_path / "data" / "raw" / "mine", tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "data.bin").write_bytes(CONTENT)
    io.write_json(raw / MANIFEST, download(dataset(), raw, mirror=mirror))
    check_placed(dataset(), raw)
    (raw / "data.bin").write_bytes(b"corrected")
    with pytest.raises(GraphDPError, match=r"data.bin was altered since") as refused:
        check_placed(dataset(), raw)
    # Which has the first one still.
    with pytest.raises(GraphDPError, match=f"to have data.bin again, delete {raw / 'data.bin'}, "):
        check_placed(dataset(), raw, mirror)
    files = advised(refused, "if data.bin as now is meant")
    assert files == [raw / MANIFEST, raw / RECORD]
    for file in files:
        file.unlink()
    io.write_json(raw / MANIFEST, download(dataset(), raw))
    check_placed(dataset(), raw)
    assert (raw / "data.bin").read_bytes() == b"corrected"


def advised(refused, why):
    """The raw files that a line says to delete."""
    found = re.search(f"{why}[,:] delete (.*), (\\S*)/graphs/[a-z]*.npz and ", str(refused.value))
    assert "\n" not in str(refused.value)
    return [Path(one) for one in found[1].split(", ")]


def test_a_file_can_be_had_again_only_where_it_is_as_it_was(tmp_path):
    """And not by its name: else the only copy of what was supplied by hand would be deleted."""
    raw, mirror = tmp_path / "data" / "raw" / "mine", tmp_path / "mirror"
    mirror.mkdir()
    file = mirror / "data.bin"
    file.write_bytes(CONTENT)
    io.write_json(raw / MANIFEST, download(dataset(), raw, mirror=mirror))
    (raw / "data.bin").write_bytes(b"corrected")
    keeps = [raw / MANIFEST, raw / RECORD]

    def refusal(spec, mirror):
        with pytest.raises(GraphDPError, match="was altered since it was placed") as refused:
            check_placed(spec, raw, mirror)
        return refused

    file.write_bytes(b"another")
    assert advised(refusal(dataset(), mirror), "as now is meant") == keeps
    file.unlink()
    file.symlink_to(tmp_path / "nowhere")
    assert advised(refusal(dataset(), mirror), "as now is meant") == keeps
    (raw / "data.bin").write_bytes(CONTENT[::-1])  # the folder is its own mirror
    assert advised(refusal(dataset(), raw.parent), "as now is meant") == keeps
    # The registry names a new version, which is there: nothing is wrong with that file.
    known = dataset(sha256=io.sha256_file(raw / "data.bin"))
    assert advised(refusal(known, None), "as now is meant") == keeps
    with pytest.raises(GraphDPError, match="was altered since it was placed") as refused:
        check_placed(dataset(sha256=SHA256, url="http://there"), raw)
    assert advised(refused, "to have data.bin again") == [raw / "data.bin", raw / MANIFEST]


def test_all_files_that_were_altered_are_named(tmp_path):
    """Who takes one that is meant would take the other with it."""
    raw, mirror = tmp_path / "data" / "raw" / "mine", tmp_path / "mirror"
    files = [FileSpec(name=f"{name}.bin") for name in "abc"]
    spec = DatasetSpec(name="mine", title="Mine", loader="arrays", files=tuple(files))
    mirror.mkdir()
    for one in files:
        (mirror / one.name).write_bytes(CONTENT)
    io.write_json(raw / MANIFEST, download(spec, raw, mirror=mirror))
    (mirror / "b.bin").unlink()
    for name in ("a.bin", "b.bin"):
        (raw / name).write_bytes(b"other")
    line = f"{raw}/a.bin, {raw}/b.bin were altered since they were placed: "
    for check in (check_placed, verify):
        with pytest.raises(GraphDPError, match=re.escape(line)) as refused:
            check(spec, raw, mirror)
        gone = advised(refused, "to have a.bin again, and if b.bin as now is meant")
        assert gone == [raw / "a.bin", raw / MANIFEST, raw / RECORD]


def test_what_was_placed_is_known_by_manifest_or_record(tmp_path):
    """Either may be gone: a corrected file would be used by nobody and noticed by nobody."""
    raw, mirror = tmp_path / "data" / "raw" / "mine", tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "data.bin").write_bytes(CONTENT)
    placed = download(dataset(), raw, mirror=mirror)
    (raw / "data.bin").write_bytes(b"corrected")
    with pytest.raises(GraphDPError, match="altered") as refused:
        check_placed(dataset(), raw)
    assert advised(refused, "as now is meant") == [raw / RECORD]  # no manifest yet
    (raw / "data.bin").write_bytes(CONTENT)
    io.write_json(raw / MANIFEST, placed)
    (raw / RECORD).unlink()
    check_unchanged(dataset(), raw, mirror)
    (mirror / "data.bin").write_bytes(b"corrected")
    with pytest.raises(GraphDPError, match=r"data.bin has changed\."):
        check_unchanged(dataset(), raw, mirror)
    for damaged in (b"{", b'{"files": [{"name": 1, "size": 1, "sha256": "x"}]}',
                    b'{"files": [{"name": "a\\u0000", "size": 1, "sha256": "x"}]}'):  # fmt: skip
        (raw / MANIFEST).write_bytes(damaged)
        for check in (check_placed, verify, check_unchanged):
            with pytest.raises(GraphDPError, match="is damaged: delete ") as refused:
                check(dataset(), raw, mirror)
            assert advised(refused, "damaged") == [raw / MANIFEST]


def test_a_link_that_leads_to_another_file_is_noticed(tmp_path):
    raw = tmp_path / "data" / "raw" / "mine"
    raw.mkdir(parents=True)
    for name, content in (("old", CONTENT), ("new", CONTENT[::-1])):
        (tmp_path / name).write_bytes(content)
    (raw / "data.bin").symlink_to(tmp_path / "old")
    io.write_json(raw / MANIFEST, download(dataset(), raw))
    check_placed(dataset(), raw)
    time.sleep(0.02)  # than which clocks of files are finer
    (raw / "data.bin").unlink()
    (raw / "data.bin").symlink_to(tmp_path / "new")
    with pytest.raises(GraphDPError, match="was altered since it was placed"):
        check_placed(dataset(), raw)


def test_a_mirror_that_may_not_be_read_is_one_line(tmp_path, monkeypatch):
    raw, mirror = tmp_path / "data" / "raw" / "mine", tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "data.bin").write_bytes(CONTENT)
    io.write_json(raw / MANIFEST, download(dataset(), raw, mirror=mirror))

    def closed(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(io, "sha256_file", closed)
    with pytest.raises(GraphDPError, match=r"mirror/data.bin cannot be read \(Permission denied"):
        check_unchanged(dataset(), raw, mirror)


def test_a_graph_is_made_of_what_was_placed_alone(tmp_path):
    """Before it every file is read, also one that looks as it did, as of a disk that decays."""
    raw, mirror = tmp_path / "data" / "raw" / "mine", tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "data.bin").write_bytes(CONTENT)
    placed = download(dataset(), raw, mirror=mirror)
    verify_now = partial(verify, dataset(), raw, mirror)
    path = raw / "data.bin"
    path.write_bytes(CONTENT[:-1] + b"?")
    io.write_json(raw / MANIFEST, placed)
    check_placed(dataset(), raw, mirror)  # of the same size, and no newer
    with pytest.raises(GraphDPError, match=f"to have data.bin again, delete {path}, ") as refused:
        verify_now()
    assert "\n" not in str(refused.value)
    path.write_bytes(CONTENT)
    verify_now()
    path.unlink()
    with pytest.raises(GraphDPError, match=r"data.bin is missing: put it back, or delete "):
        verify_now()


def test_links_in_a_mirror_that_lead_nowhere_are_no_files(tmp_path):
    """As those of files that git-annex or DataLad did not fetch."""
    mirror = tmp_path / "mirror"
    mirror.mkdir()
    (mirror / "elsewhere").symlink_to(tmp_path / "nowhere")
    (mirror / "data.bin").symlink_to(tmp_path / "nowhere either")
    (mirror / "renamed.bin").write_bytes(CONTENT)
    known = dataset(sha256=SHA256, size=len(CONTENT))
    download(known, tmp_path / "raw", mirror=mirror)
    assert (tmp_path / "raw" / "data.bin").read_bytes() == CONTENT


def test_offline_never_opens_a_url(server, tmp_path):
    server.answers = [GOOD]
    with pytest.raises(GraphDPError, match="not tried: offline"):
        download(dataset(url=server.url, sha256=SHA256), tmp_path, offline=True)
    assert server.hits == 0


def test_file_without_url_explains_how_to_supply_it(registry, tmp_path):
    with pytest.raises(GraphDPError, match=r"WeNet is not public.*edge_index.*wenet\.npz") as error:
        download(registry.resolve("wenet"), tmp_path)
    assert "\n" not in str(error.value)


def test_empty_mirror_is_no_mirror(tmp_path, monkeypatch):
    """An unset config value must not turn the working folder into a mirror."""
    (tmp_path / "data.bin").write_bytes(CONTENT)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(GraphDPError, match="nothing found"):
        download(dataset(sha256=SHA256), tmp_path / "raw", mirror="")


def test_absent_mirror_folder_is_an_error(tmp_path):
    with pytest.raises(GraphDPError, match="does not exist"):
        download(dataset(), tmp_path, mirror=tmp_path / "nowhere")


def test_generated_dataset_needs_no_file(registry, tmp_path):
    assert download(registry.resolve("csbm"), tmp_path, offline=True) == {
        "dataset": "csbm",
        "files": [],
    }


@pytest.mark.real_data
def test_corrupted_real_file_is_refused(registry, mirror, tmp_path):
    spec = registry.resolve("reed98")
    (good,) = mirror.rglob("Reed98.mat")
    content = bytearray(good.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "Reed98.mat").write_bytes(content)
    with pytest.raises(GraphDPError, match=spec.files[0].sha256):
        download(spec, tmp_path / "raw", mirror=tmp_path / "mirror", offline=True)
    assert names(tmp_path / "raw") == []


def test_every_hash_and_the_size_of_a_file_are_compared():
    right = {"size": 5, "sha256": "a" * 64, "git_sha1": "b" * 40}
    known = FileSpec(name="f", **right)
    assert mismatch(known, *right.values()) is None
    for name, value, words in (
        ("size", 6, "found 6 bytes"), ("sha256", "c" * 64, "found sha256 c"),
        ("git_sha1", "d" * 40, "found git blob SHA-1 d"),
    ):  # fmt: skip
        assert mismatch(known, *(right | {name: value}).values()).startswith(words)
        alone = FileSpec(name="f", **{name: right[name]})
        assert mismatch(alone, *(right | {name: value}).values()).startswith(words)
        assert mismatch(alone, *right.values()) is None


SCRIPT = Path(__file__).parents[1] / "workflow/scripts/preprocess.py"


class Named(dict):
    """What Snakemake gives a script: values by name, of which the first has a number too."""

    __getattr__ = dict.__getitem__
    __iter__ = lambda self: iter(self.values())  # noqa: E731

    def __getitem__(self, name):
        return list(self.values())[name] if isinstance(name, int) else super().__getitem__(name)


def test_raw_files_that_were_altered_are_not_preprocessed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays = {"y": np.arange(6) % 2, "edge_index": np.array([[0, 1, 2], [3, 4, 5]])}
    Path("data/raw/mine").mkdir(parents=True)
    np.savez("data/raw/mine/mine.npz", x=np.eye(6), **arrays)
    size, sha256, _ = digests("data/raw/mine/mine.npz")
    files = [{"name": "mine.npz", "size": size, "sha256": sha256}]
    io.write_json("data/raw/mine/manifest.json", {"dataset": "mine", "files": files})
    spec = DatasetSpec(
        name="mine", title="Mine", loader="arrays", files=(FileSpec(name="mine.npz"),),
        parameters={"file": "mine.npz"},
    )  # fmt: skip
    asked = SimpleNamespace(
        input=Named(raw="data/raw/mine/manifest.json"),
        output=Named(graph="mine.npz", statistics="mine.json"),
        params=Named(spec=spec.model_dump_json()), log=["log.txt"],
        config={"release": "reproduction", "mirror": None},
    )  # fmt: skip
    runpy.run_path(str(SCRIPT), {"snakemake": asked})
    assert io.read_json("mine.json")["nodes"] == 6
    # Data that were released are not prepared for a reproduction, whatever their file.
    entry = {"dataset": "its", "noise": "x", "release": "s", "commit": "c", "made_with": {}}
    ledger.reserve(entry, {"edges": content_hashes(Graph.load("mine.npz"))["edges"]})
    Path("mine.npz").unlink()
    with pytest.raises(SystemExit, match="dataset 'mine' has the edges of a release in private/"):
        runpy.run_path(str(SCRIPT), {"snakemake": asked})
    assert not Path("mine.npz").exists()
    asked.config["release"] = "private"  # whose jobs ask the ledger for all of it
    runpy.run_path(str(SCRIPT), {"snakemake": asked})
    asked.config["release"] = "reproduction"
    np.savez("data/raw/mine/mine.npz", x=np.ones((6, 6)), **arrays)
    with pytest.raises(SystemExit, match=r"data/raw/mine/mine\.npz was altered since"):
        runpy.run_path(str(SCRIPT), {"snakemake": asked})
