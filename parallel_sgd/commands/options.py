"""The options of `job_submit.py`."""

from __future__ import annotations

import argparse

from network import VERSION
from rpc.option_parser import OptionParser
from rpc.recovery import POLICIES

from ..checkpoint.schedule import AUTO
from .output import program_name


def make_parser() -> argparse.ArgumentParser:
    """All of them, in the groups in which `--help` shows them."""
    parser = OptionParser(
        prog=program_name(),
        usage="%(prog)s -m FILE [options]\n"
        "       %(prog)s --jobs | --attach [JOB] | --stop JOB | --retrieve [JOB] | --post-mortem JOB [options]",
        description="Train a saved model on several workers, or look after a job that was left alone.",
        epilog="Exit codes: 0 done, 1 the job failed, 2 wrong argument, 3 not started, 4 a node cannot be reached, "
        "5 done, but without a node that was lost, 130 interrupted. "
        "Example: %(prog)s -m dnn.model --local 2 --dataset digits --epochs 5",
    )
    parser.add_argument("-m", "--model", metavar="FILE", help="a model file, from nn.model.Model.save()")
    nodes = parser.add_argument_group("nodes")
    nodes.add_argument(
        "-n",
        "--worker-count",
        type=int,
        metavar="N",
        help="number of workers (default: 1; to look after a job, all of the file)",
    )
    nodes.add_argument("--workers", default="worker.json", metavar="FILE", help="node file (default: worker.json)")
    nodes.add_argument("--local", type=int, metavar="N", help="start N workers on this machine for this job")
    nodes.add_argument(
        "--launch",
        metavar="LAUNCHER",
        help="start the workers, or wait for those that a scheduler starts: local:N, ssh:HOST,HOST, slurm[:DIR], mpi:DIR, "
        "kubernetes:SERVICE, dask:ADDRESS",
    )
    nodes.add_argument("--ps", action="store_true", help="use a parameter server too")
    nodes.add_argument("--key-file", metavar="FILE", help="the cluster's key (default: in your configuration directory)")
    nodes.add_argument(
        "--wait", type=float, default=0.0, metavar="SECONDS", help="wait this long for busy workers (default: 0)"
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--dataset",
        default="mnist",
        metavar="NAME[:KEY=VALUE,..]",
        help="digits, mnist, cifar10, .., csv:path=houses.csv,label=price, npz:path=.., or module:Class, file.py:Class, with "
        "arguments too (default: mnist)",
    )
    data.add_argument(
        "--transform",
        default="shuffle,imagecls",
        metavar="NAME[:KEY=VALUE,..],..",
        help="applied in order, such as shuffle,imagecls:flatten=false,channels=true, or none (default: shuffle,imagecls)",
    )
    data.add_argument(
        "--no-shuffle",
        action="store_true",
        help="deal the samples in the same order in every epoch (default: a new one in each)",
    )
    training = parser.add_argument_group("training")
    training.add_argument("--epochs", type=int, default=10, help="default: 10")
    training.add_argument("--batch-size", type=int, default=64, help="samples of one block (default: 64)")
    training.add_argument(
        "--class-weight", metavar="CLASS=WEIGHT,..", help="multiplies the losses of the samples of a class (default: 1 each)"
    )
    training.add_argument("--redundancy", type=int, default=1, help="workers that compute each block (default: 1)")
    training.add_argument(
        "--block-assignment", default="iid", help="iid, duplicate, cyclic, fixed:BLOCKS, or module.Class (default: iid)"
    )
    training.add_argument(
        "--psgd",
        "--sync-type",
        default="ssgd",
        metavar="TYPE",
        help="how workers wait for each other: ssgd, asgd, stale:BATCHES, or module.Class (default: ssgd)",
    )
    training.add_argument("--ssgd-timeout", type=float, default=10000, metavar="MS", help="default: 10000")
    training.add_argument("--optimizer", "--op-type", default="psgd", help="what is exchanged (default: psgd, raw gradients)")
    training.add_argument("--gradient-descent", default="adam", metavar="RULE", help="default: adam")
    training.add_argument("--learn-rate", type=float, help="first parameter of the rule (default: the rule's)")
    training.add_argument(
        "--gd-params", default="", metavar="A,B", help="further parameters of the rule, after the learning rate"
    )
    training.add_argument("--seed", type=int, default=0, help="of every random draw (default: 0)")
    training.add_argument("--codec", help="what is sent, to whom, how it is merged: plain, or module.Class, file.py:Class")
    training.add_argument("--server-codec", metavar="CODEC", help="likewise, on the parameter server")
    training.add_argument(
        "--codec-params",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="for the codecs, which say what they read; repeatable",
    )
    training.add_argument("--network-bandwidth", type=float, default=1048576, metavar="BYTES_PER_S", help="default: 1048576")
    training.add_argument("--blas-threads", default="1", help="per worker, or auto (default: 1)")
    faults = parser.add_argument_group("faults")
    faults.add_argument(
        "--on-failure", choices=POLICIES, help="what follows when a node dies (default: fail, or redundant where that works)"
    )
    faults.add_argument(
        "--stall-timeout", type=float, metavar="SECONDS", help="a node that takes longer for a batch is stuck (default: adapts)"
    )
    faults.add_argument(
        "--min-workers", type=int, metavar="N", help="with --on-failure shrink: fewest to go on with (default: 1)"
    )
    faults.add_argument("--max-restarts", type=int, default=3, help="restarts after which the job fails (default: 3)")
    faults.add_argument(
        "--checkpoint-every",
        default=AUTO,
        metavar="WHEN",
        help="epoch, a number of batches, seconds as in 30s, or off (default: epoch where --on-failure starts again and with "
        "--local, else off)",
    )
    faults.add_argument(
        "--commit-every",
        type=int,
        default=1,
        metavar="BATCHES",
        help="how often a worker whose state no other has copies it, to go on from when all start again (default: 1)",
    )
    faults.add_argument("--max-workers", type=int, metavar="N", help="with --discovery: most that the job may grow to")
    faults.add_argument(
        "--discovery",
        metavar="FILE",
        help="a script that prints 'host[:port] [slots=n]' lines, a worker.json "
        "or a folder of --rendezvous to watch, or the word launcher for what --launch finds",
    )
    faults.add_argument("--fault", default="", metavar="PLAN", help="what shall go wrong, as 'kill 1@e1.b3; +500ms 0>1'")
    faults.add_argument(
        "--resume",
        metavar="last|JOB|PATH",
        help="go on, up to --epochs: the newest run here, an ended job, or the path of a run or a checkpoint",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--title", default="P-SGD", help="part of the names of the result files (default: P-SGD)")
    output.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    shown = output.add_mutually_exclusive_group()
    shown.add_argument("-q", "--quiet", action="store_true", help="show warnings and errors only, and no progress")
    shown.add_argument("-v", "--verbose", action="store_true", help="show all there is to say (verbose=2 of parallel())")
    tasks = output.add_mutually_exclusive_group()  # else all but one would be passed over in silence
    tasks.add_argument("--jobs", action="store_true", help="list which jobs run where")
    tasks.add_argument(
        "--attach",
        nargs="?",
        const="",
        metavar="JOB",
        help="show the progress of a job again (default: newest), fetch its files",
    )
    tasks.add_argument("--stop", type=_job_id, metavar="JOB", help="stop a job for good")
    tasks.add_argument("--retrieve", nargs="?", const="", metavar="JOB", help="fetch logs and files of a job (default: newest)")
    tasks.add_argument(
        "--post-mortem",
        nargs="?",
        const="",
        metavar="JOB",
        help="collect what all workers know of a job that failed into post-mortem-JOB.zip; without JOB: of the one that is "
        "submitted, should it fail",
    )
    parser.add_argument("--version", action="version", version=VERSION)
    return parser


def _job_id(text: str) -> str:
    """An empty one, as of a shell variable that is not set, would mean any job."""
    if not text:
        raise argparse.ArgumentTypeError("must be a job's id, as --jobs shows it, got ''")
    return text
