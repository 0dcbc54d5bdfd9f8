"""Signatures of runs: others' tools verify ours, we verify theirs, and what does not hold is told."""

from __future__ import annotations

import base64
import getpass
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from nn.model import Model
from parallel_sgd.record.files import MANIFEST
from parallel_sgd.record.keys import SigningKey
from parallel_sgd.record.run import RunManifest, sha256_of
from parallel_sgd.record.signing import PUBLIC_KEY, SIGNATURE
from tests.statements import covers

from .runs import folder_of, psgd, train

Capture = pytest.CaptureFixture[str]
PHRASE = b"open sesame"


def write_keys(place: Path, name: str, key: object = None, phrase: bytes | None = None) -> tuple[Path, Path]:
    """A private key and its public part as files."""
    made = ec.generate_private_key(ec.SECP256R1()) if key is None else key
    assert isinstance(made, (ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey))
    hidden = serialization.BestAvailableEncryption(phrase) if phrase else serialization.NoEncryption()
    private, public = place / f"{name}.key", place / f"{name}.pub"
    private.write_bytes(made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, hidden))
    public.write_bytes(
        made.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return private, public


def model_signing(*arguments: object) -> tuple[int, str]:
    """The library's own command."""
    command = [sys.executable, "-m", "model_signing", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of(train(directory=tmp_path_factory.mktemp("finished"), checkpoint_every="epoch"))


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "mine"))


@pytest.fixture
def signed(run: Path, tmp_path: Path, capsys: Capture) -> Path:
    """A run that the owner of `me.key` has signed."""
    key, _ = write_keys(tmp_path, "me")
    assert psgd(capsys, "sign", run, "--key", key)[0] == 0
    return run


def signature_found(capsys: Capture, run: Path, *arguments: object) -> tuple[int, dict[str, object]]:
    code, out, _ = psgd(capsys, "verify", run, "--json", *arguments)
    return code, json.loads(out)


def covered(run: Path) -> set[str]:
    payload = json.loads((run / SIGNATURE).read_text())["dsseEnvelope"]["payload"]
    return {each["name"] for each in json.loads(base64.b64decode(payload))["predicate"]["resources"]}


@covers("RUN-5")
def test_a_run_is_signed_for_everybody_and_the_key_is_told(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """All that the manifest names is signed, the library's command verifies it, and `verify` tells it apart from equal bits."""
    key, public = write_keys(tmp_path, "me")
    _, other = write_keys(tmp_path, "other")
    fingerprint = sha256_of(public)

    code, out, _ = psgd(capsys, "verify", run)
    assert code == 0 and "all 4 variables equal" in out and "Nobody has signed the run" in out
    code, found = signature_found(capsys, run, "--signer", public)
    assert (code, found["equal"], found["signature"]["state"]) == (1, None, "none")  # type: ignore[index]

    code, out, _ = psgd(capsys, "sign", run, "--key", key)
    assert (code, out) == (0, f"Signed by the key with SHA-256 {fingerprint}: {run / 'model.sig'}\n")
    assert covered(run) == {*RunManifest.read(run).files, MANIFEST, PUBLIC_KEY}
    verifying = ("verify", "key", run, "--signature", run / "model.sig", "--public_key")
    assert model_signing(*verifying, public) == (0, "Verification succeeded\n")
    assert model_signing(*verifying, other)[0] == 1

    code, out, _ = psgd(capsys, "verify", run)
    lines = out.splitlines()
    assert (
        code == 0
        and "all 4 variables equal" in lines[0]
        and lines[-1].startswith(f"Signed by the key with SHA-256 {fingerprint}")
    )
    code, found = signature_found(capsys, run, "--signer", public)
    assert (code, found["equal"]) == (0, True)
    assert found["signature"] == {
        "state": "good",
        "key": fingerprint,
        "said": f"Signed by the key with SHA-256 {fingerprint} (me.pub).",
    }
    code, found = signature_found(capsys, run, "--signer", other)
    assert (code, found["equal"], found["signature"]["state"]) == (1, None, "bad")  # type: ignore[index]
    assert fingerprint in str(found) and sha256_of(other) in str(found)


@pytest.mark.long
@covers("RUN-5")
def test_what_comes_later_breaks_no_signature(signed: Path, tmp_path: Path, capsys: Capture) -> None:
    public = tmp_path / "me.pub"
    before = (signed / "report.html").read_bytes()
    assert psgd(capsys, "report", signed)[0] == 0
    (signed / "report.html").write_bytes(before + b"<!-- another page -->")
    command = ("verify", "key", signed, "--signature", signed / SIGNATURE, "--public_key", public)
    assert model_signing(*command)[0] == 0
    shutil.rmtree(next(signed.glob("Node-*/checkpoints")))
    (signed / "latest").symlink_to(signed.parent)
    (signed / ".lock").touch()
    assert model_signing(*command, "--ignore_unsigned_files")[0] == 0
    assert signature_found(capsys, signed, "--signer", public)[1]["signature"]["state"] == "good"  # type: ignore[index]


@pytest.mark.long
@covers("RUN-5")
@pytest.mark.parametrize("ignored", [(), ("--ignore-paths", "report.html")])
def test_a_signature_of_the_librarys_own_command_is_taken(
    run: Path, tmp_path: Path, ignored: tuple[str, ...], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run)
    key, public = write_keys(tmp_path, "me")
    assert model_signing("sign", "key", run, "--signature", run / SIGNATURE, "--private_key", key, *ignored)[0] == 0
    code, found = signature_found(capsys, run)
    assert (code, found["equal"], found["signature"]["state"]) == (0, True, "unchecked")  # type: ignore[index]
    assert "--signer" in str(found)
    code, found = signature_found(capsys, run, "--signer", public)
    assert (code, found["equal"], found["signature"]["state"]) == (0, True, "good")  # type: ignore[index]


@pytest.mark.long
@covers("RUN-5")
@pytest.mark.processes
def test_a_job_signs_its_run(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the option of `parallel()`, and by `--sign` of `psgd submit` and `psgd run`."""
    key, public = write_keys(tmp_path, "me")
    result = train(directory=tmp_path, sign=key)
    folder = folder_of(result)
    assert result.signature == result.folder / SIGNATURE and "sign =" not in (folder / "job.toml").read_text()  # type: ignore[operator]
    assert str(key) not in (folder / "outcome.json").read_text() + (folder / "report.html").read_text()
    monkeypatch.chdir(tmp_path)
    code, out, err = psgd(capsys, "run", folder, "--sign", key, "--json")
    assert code == 0 and json.loads(out)["signature"] == "runs/P-SGD-2/model.sig", err
    assert signature_found(capsys, Path("runs/P-SGD-2"), "--signer", public)[1]["signature"]["state"] == "good"  # type: ignore[index]
    (Model.load(folder / "start.model")).save("start.model")
    data = "SimData:kind=classification,samples=120,features=6,classes=3"
    submitted = ("submit", "-m", "start.model", "--dataset", data, "--transform", "none", "--epochs", 1, "--local", 1)
    code, out, err = psgd(capsys, *submitted, "--sign", key, "--json", "--quiet")
    assert code == 0 and json.loads(out)["signature"] == "runs/start-1/model.sig", err
    assert (
        model_signing("verify", "key", "runs/start-1", "--signature", "runs/start-1/model.sig", "--public_key", public)[0] == 0
    )


def test_a_run_that_cannot_be_signed_keeps_its_result(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    key = SigningKey.read(write_keys(tmp_path, "me")[0], "key")
    key.path.unlink()
    result = train(directory=tmp_path, sign=key)
    assert result["Loss"] > 0 and result.signature is None and "could not be signed; 'psgd sign' does it later" in caplog.text


def _replace_model(run: Path) -> None:
    next(run.glob("*/MODEL-*")).write_bytes(b"another")


def _resign_elsewhere(run: Path) -> None:
    manifest = json.loads((run / MANIFEST).read_text())
    manifest["job"] = "another"
    (run / MANIFEST).write_text(json.dumps(manifest))


def _cover_less(run: Path) -> None:
    manifest = json.loads((run / MANIFEST).read_text())
    (run / "more.txt").write_text("more")
    manifest["files"]["more.txt"] = sha256_of(run / "more.txt")
    (run / MANIFEST).write_text(json.dumps(manifest))


def _edit(change: Callable[[dict[str, object]], object]) -> Callable[[Path], None]:
    def edit(run: Path) -> None:
        bundle = json.loads((run / SIGNATURE).read_text())
        change(bundle)
        (run / SIGNATURE).write_text(json.dumps(bundle))

    return edit


def _forge(bundle: dict[str, object]) -> None:
    """Say of another file that it was signed, with its hash."""
    envelope = bundle["dsseEnvelope"]
    assert isinstance(envelope, dict)
    text = base64.b64decode(envelope["payload"]).decode()
    envelope["payload"] = base64.b64encode(text.replace('"mine"', '"yours"').encode()).decode()


def _name_a_device(bundle: dict[str, object]) -> None:
    envelope = bundle["dsseEnvelope"]
    assert isinstance(envelope, dict)
    payload = json.loads(base64.b64decode(envelope["payload"]))
    payload["predicate"]["resources"].append({"name": "../../../dev/zero", "algorithm": "sha256", "digest": "00" * 32})
    envelope["payload"] = base64.b64encode(json.dumps(payload).encode()).decode()


def _link(run: Path) -> None:
    shutil.move(run / SIGNATURE, run.parent / SIGNATURE)
    (run / SIGNATURE).symlink_to(run.parent / SIGNATURE)


def _pipe(run: Path) -> None:
    (run / SIGNATURE).unlink()
    os.mkfifo(run / SIGNATURE)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_replace_model, "model.sig, by the key with SHA-256"),
        (_resign_elsewhere, "does not hold: Signature mismatch"),
        (_cover_less, "does not cover more.txt"),
        (lambda run: (run / SIGNATURE).write_text((run / SIGNATURE).read_text()[:700]), "is no signature that can be read"),
        (lambda run: (run / SIGNATURE).write_text(""), "is no signature that can be read"),
        (lambda run: (run / SIGNATURE).write_text("[" * 100_000), "nested too deeply"),
        (lambda run: (run / SIGNATURE).write_text("[1]"), "is no Sigstore bundle"),
        (lambda run: (run / SIGNATURE).write_bytes(b"\xff\xfe"), "is no signature that can be read"),
        (_edit(_forge), "does not hold: what it says was not written with this key"),
        (_edit(_name_a_device), "is no file below the folder of the run"),
        (_edit(lambda bundle: bundle.update(mediaType="text/plain")), "does not hold"),
        (_edit(lambda bundle: bundle.update(dsseEnvelope={})), "is no Sigstore bundle"),
        (_edit(lambda bundle: bundle.update(verificationMaterial={"certificate": {}})), "by a certificate or an identity"),
        (_link, "is no regular file of the run"),
        (_pipe, "is no regular file of the run"),
    ],
)
def test_a_signature_that_does_not_hold_is_told(
    signed: Path, tmp_path: Path, spoil: Callable[[Path], None], said: str, capsys: Capture
) -> None:
    """Also where the public key is given; then the code says that it is not signed as it must be."""
    spoil(signed)
    code, out, err = psgd(capsys, "verify", signed, "--signer", tmp_path / "me.pub")
    assert code == 1 and said in out and err == "", out
    code, found = signature_found(capsys, signed)
    state = "unchecked" if "certificate" in said else "bad"
    assert found["signature"]["state"] == state and code == (0 if state == "unchecked" else 1)  # type: ignore[index]


def test_another_key_beside_the_signature_is_told(signed: Path, tmp_path: Path, capsys: Capture) -> None:
    """One that gives the run of another out for his own must sign it again, and then it is his key that is told."""
    thief, public = write_keys(tmp_path, "thief")
    shutil.copy(public, signed / PUBLIC_KEY)
    code, found = signature_found(capsys, signed)
    assert (code, found["signature"]["state"]) == (1, "bad")  # type: ignore[index]
    assert psgd(capsys, "sign", signed, "--key", thief)[0] == 0
    assert signature_found(capsys, signed)[1]["signature"]["key"] == sha256_of(public)  # type: ignore[index]
    assert signature_found(capsys, signed, "--signer", tmp_path / "me.pub")[0] == 1


@pytest.mark.long
def test_keys_that_do_not_do_are_refused(run: Path, tmp_path: Path, capsys: Capture) -> None:
    """With one sentence; by `sign`, by a job before it starts, and by `--signer`."""
    good, public = write_keys(tmp_path, "good")
    curve, curve_public = write_keys(tmp_path, "curve", ec.generate_private_key(ec.SECP256K1()))
    edwards, _ = write_keys(tmp_path, "edwards", ed25519.Ed25519PrivateKey.generate())
    hidden, _ = write_keys(tmp_path, "hidden", phrase=PHRASE)
    junk, pipe = tmp_path / "junk.key", tmp_path / "pipe.key"
    junk.write_bytes(b"\x00\xff")
    os.mkfifo(pipe)
    wanted = "must be a private key, an elliptic-curve key on P-256, P-384 or P-521 as PEM"
    for key, said in (
        (tmp_path / "none.key", "must be a key that can be read, got"),
        (tmp_path, "must be"),
        (junk, "must be"),
        (pipe, "must be"),
        (public, f"{wanted}, got {public}: this is a public key"),
        (curve, "got one of another kind"),
        (edwards, "got one of another kind"),
        (hidden, "needs a terminal that can be asked for the passphrase"),
    ):
        code, out, err = psgd(capsys, "sign", run, "--key", key)
        assert (code, out, err.count("\n")) == (2, "", 1) and said in err and "--key" in err, err
        code, out, err = psgd(capsys, "run", run, "--sign", key)
        assert (code, out, err.count("\n")) == (2, "", 1) and said in err and "--sign" in err, err
    for key, said in ((good, "this is a private key"), (curve_public, "another kind"), (tmp_path / "none", "can be read")):
        code, out, err = psgd(capsys, "verify", run, "--signer", key)
        assert (code, out, err.count("\n")) == (2, "", 1) and said in err and "--signer" in err, err
    with pytest.raises(TypeError, match="'sign' must be the path of a private key, got 3"):
        train(sign=3)
    assert not (run / SIGNATURE).exists()


def test_a_passphrase_is_asked_for(run: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, public = write_keys(tmp_path, "hidden", phrase=PHRASE)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", lambda _: "wrong")
    code, _, err = psgd(capsys, "sign", run, "--key", hidden)
    assert code == 2 and "this is not the passphrase of" in err
    monkeypatch.setattr(getpass, "getpass", lambda _: PHRASE.decode())
    assert psgd(capsys, "sign", run, "--key", hidden)[0] == 0
    assert signature_found(capsys, run, "--signer", public)[0] == 0


def test_what_is_no_finished_run_is_not_signed(run: Path, tmp_path: Path, capsys: Capture) -> None:
    key, _ = write_keys(tmp_path, "me")
    code, _, err = psgd(capsys, "sign", tmp_path, "--key", key)
    assert code == 2 and "is no folder of a run: it has neither job.toml nor manifest.json" in err
    _replace_model(run)
    code, _, err = psgd(capsys, "sign", run, "--key", key)
    assert code == 2 and "cannot be signed: Node-0-Retrieve/MODEL-P-SGD-N(0).model is not what its manifest says" in err
    next(run.glob("*/MODEL-*")).unlink()
    code, _, err = psgd(capsys, "sign", run, "--key", key)
    assert code == 2 and "is no regular file of the run" in err and err.count("\n") == 1
    assert not (run / SIGNATURE).exists()


def test_without_the_extra_one_sentence_says_so(
    signed: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "model_signing", None)
    monkeypatch.delitem(sys.modules, "parallel_sgd.record.openssf", raising=False)
    monkeypatch.delattr("parallel_sgd.record.openssf", raising=False)
    remedy = "needs the library model-signing, which is not installed: pip install 'model-signing<2' pyOpenSSL"
    key, public = tmp_path / "me.key", tmp_path / "me.pub"
    for arguments in (("sign", signed, "--key", key), ("run", signed, "--sign", key), ("verify", signed, "--signer", public)):
        code, out, err = psgd(capsys, *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1) and remedy in err, err
    code, found = signature_found(capsys, signed)
    assert (code, found["equal"], found["signature"]["state"]) == (0, True, "unchecked") and remedy in str(found)  # type: ignore[index]
