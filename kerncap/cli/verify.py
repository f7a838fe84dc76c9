"""``kerncap verify``: check a kernel or a candidate."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli import WORDS
from kerncap.cli.number_types import COUNT_OR_NONE
from kerncap.cli.paths import PATH, REPRO
from kerncap.cli.replay_options import replay_options
from kerncap.cli.strict import strict_option
from kerncap.errors import UsageError
from kerncap.exit_status import exit_status
from kerncap.result_line import result_line


@click.command("verify")
@click.argument("repros", type=REPRO, nargs=-1, metavar="REPRO...")
@replay_options
@strict_option
@click.option(
    "--reference", type=PATH, metavar="FILE",
    help="Python file with reference(args), which returns {name: tensor} or changes tensors in place.",
)  # fmt: skip
@click.option(
    "--stages", metavar="NAMES",
    help="smoke, oracle, determinism, numerics, shapes, sanitizer, memory, timing, separated by commas; or "
    "all.  [default: smoke,oracle; sanitizer too for a Triton candidate]",
)  # fmt: skip
@click.option(
    "--hostile", is_flag=True,
    help="Treat the candidate as an attacker: all stages, its Python confined and away from the result.",
)  # fmt: skip
@click.option(
    "--prove", is_flag=True,
    help="Prove that a candidate (Triton or CUDA C++) equals the captured kernel over the reals, for all "
    "float values.",
)  # fmt: skip
@click.option(
    "--resident", is_flag=True,
    help=("Use a background process that stays for five minutes, so that the next verdict costs "
        "only its launches."),
)  # fmt: skip
@click.option("--progress", is_flag=True, help="Say on stderr which stage begins.")
@click.option("--stop", is_flag=True, help="End the background processes of --resident, and do nothing else.")
@click.option(
    "--launch", type=COUNT_OR_NONE, metavar="K",
    help="For a range: check launch K, or a candidate for it, on its captured memory.",
)  # fmt: skip
@click.option(
    "--intermediate", "intermediates", multiple=True, metavar="K.NAME",
    help="For a range with --candidate: nothing after the range reads launch K's argument NAME, so the "
    "candidate need not write it. Repeatable.",
)  # fmt: skip
@click.option(
    "--together", is_flag=True,
    help="Run all ranks of one launch at once, captured with --collective, on memory that they share.",
)  # fmt: skip
@click.option("--expect", type=click.Choice(["finite"]), help="Require every written value to be finite.")
@click.pass_context
def command(
    context: click.Context, /, repros: tuple[Path, ...], as_json: bool, stages: str | None, resident: bool,
    stop: bool, launch: int | None, intermediates: tuple[str, ...], progress: bool, together: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Check the kernel of REPRO, or a candidate for it, against the application's result.

    The launches of a range run in order, and the first that differs is named; --launch checks one of them.
    Several reproducers, or a folder of them, get one line each; with --together they are the ranks of one
    launch, and get one verdict.

    If that result can't be trusted (a NaN, a fault), --reference, --expect or the agreement of three
    replays decides. A candidate must also agree on a second run and on other values. --stages adds more:
    whether runs agree, how exact they are, other sizes and layouts, memory. Each stage says what it showed
    and what it did not. The last line is "Result: PASS ...", "Result: FAIL ..." or "Result: UNDECIDED ...";
    the exit status is 0, 1 or 5.
    """
    if stop:
        return _stop(repros)
    if not repros:
        raise click.UsageError("missing argument 'REPRO...'", context)
    pool = context.find_root().obj  # of the process that stays
    if resident and pool is None:
        from kerncap.cli.resident import client

        if (status := client.ask(context.meta[WORDS])) is not None:
            return status
    if together:
        if stages is not None or launch is not None or intermediates:
            raise UsageError(
                "--stages, --launch, --intermediate with --together: ranks are compared with what they did; "
                "leave them out"
            )
        return _together(repros, options, as_json)
    if stages is None and options["hostile"]:
        stages = "all"
    if progress:
        options["reached"] = _say
    from kerncap.replay import nursery

    with nursery.ahead() if pool is None else contextlib.nullcontext() as begun:  # while the rest is loaded
        from kerncap.format.folder import is_range

        if launch is not None or (len(repros) == 1 and is_range(repros[0])):
            if begun is not None:  # its context takes memory of the device
                begun.close()
            return _range(repros, launch, intermediates, options, stages, as_json, pool)
        if intermediates:
            raise UsageError("--intermediate: for a range of launches; leave it out")
        return _judged(repros, options, stages, as_json, pool, begun)


def _say(stage: str, number: int, count: int) -> None:
    from kerncap import log

    log.line(f"verify: {stage}, stage {number} of {count}")


def _judged(
    repros: tuple[Path, ...], options: dict[str, Any], stages: str | None, as_json: bool, pool: Any,
    begun: Any,
) -> int:  # fmt: skip
    """``pool``: that of the process that stays; without it ``begun`` is taken by one of this command."""
    from kerncap.api.verify import VerifyOptions, parse_stages, verify
    from kerncap.api.verify.corpus import reproducers_of, verify_all
    from kerncap.replay.pool import Pool
    from kerncap.report.verdict_text import render, render_one_of_many

    asked = VerifyOptions(**options, stages=parse_stages(stages))
    found = reproducers_of(repros)
    many = found != [*repros] or len(found) > 1
    with Pool(lasting=many, begun=begun) if pool is None else contextlib.nullcontext(pool) as shared:
        if not many:
            result = verify(found[0], asked, shared)
            click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
            return exit_status(result.answer)
        corpus = verify_all(
            found, asked, shared, lambda one: None if as_json else click.echo(render_one_of_many(one))
        )
    last = result_line(corpus.answer, corpus.summary)
    click.echo(json.dumps(corpus.as_dict(), indent=2) if as_json else last)
    return corpus.exit_status


def _together(repros: tuple[Path, ...], options: dict[str, Any], as_json: bool) -> int:
    from kerncap.api.verify import VerifyOptions
    from kerncap.api.verify.corpus import reproducers_of
    from kerncap.api.verify.together import verify_together
    from kerncap.report.verdict_text import render

    result = verify_together(reproducers_of(repros), VerifyOptions(**options))
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    return exit_status(result.answer)


def _range(
    repros: tuple[Path, ...], launch: int | None, intermediates: tuple[str, ...], options: dict[str, Any],
    stages: str | None, as_json: bool, pool: Any,
) -> int:  # fmt: skip
    from kerncap.api.range_candidate import verify_candidate
    from kerncap.api.range_replay import replay_range, verify_launch
    from kerncap.api.verify import VerifyOptions, parse_stages
    from kerncap.format.folder import is_range
    from kerncap.report import range_text, verdict_text

    asked = VerifyOptions(**options, stages=parse_stages(stages))
    if len(repros) != 1 or not is_range(repros[0]):
        raise UsageError("--launch: for one range of launches; leave it out")
    if intermediates and (launch is not None or asked.candidate is None):
        raise UsageError("--intermediate is for a range with --candidate; leave it out")
    if launch is not None:
        result = verify_launch(repros[0], launch, asked, pool)
        click.echo(json.dumps(result.as_dict(), indent=2) if as_json else verdict_text.render(result))
        return exit_status(result.answer)
    with_candidate = asked.candidate is not None
    for given, option in (
        (asked.reference, "--reference"), (stages and not with_candidate, "--stages"),
        (asked.hostile and not with_candidate, "--hostile"), (asked.prove and not with_candidate, "--prove"),
        (asked.expect, "--expect"),
    ):  # fmt: skip
        if given:
            raise UsageError(f"{option} is for one launch of a range: name it with --launch K")
    if with_candidate:
        result = verify_candidate(repros[0], asked, intermediates, pool)
        click.echo(json.dumps(result.as_dict(), indent=2) if as_json else verdict_text.render(result))
        return exit_status(result.answer)
    of_range = replay_range(repros[0], asked, pool=pool)
    click.echo(json.dumps(of_range.as_dict(), indent=2) if as_json else range_text.render(of_range))
    return exit_status(of_range.answer)


def _stop(repros: tuple[Path, ...]) -> int:
    from kerncap.cli.resident import client

    if repros:
        raise click.UsageError("--stop takes no reproducer")
    ended = client.stop()
    click.echo(
        f"ended: process {', '.join(map(str, ended))}" if ended else "no process of --resident is running"
    )
    return 0
