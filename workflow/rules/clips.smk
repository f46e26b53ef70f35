kind_options = (
    []
    if plan.kind in ("audio", "crops")
    else [f"--kind-options {shlex.quote(json.dumps(plan.content['kind_options']))}"]
)


rule prepare_clips:
    """Do once what all shards of a source need, such as getting a list; fail early where something is missing."""
    input:
        inputs=plan.source["inputs"],
    output:
        prepared=directory(f"{CLIPS}/prepared"),
    log:
        f"{LOGS}/prepare_clips.log",
    conda:
        env(plan.source["env"])
    params:
        version=prepare_version("prepare_clips", sources=plan.source["name"]),
        source=plan.source["name"],
        options=json.dumps(plan.source["choice"]),
        seconds=plan.source["clip_seconds"],
        shards=plan.source["shards"],
        store=f"{CLIPS}/store",
        plan=plan.path,
        call=plan.call_path,
    shell:
        "python -m scripts.prepare.prepare_clips --source {params.source} --options {params.options:q}"
        " --clip-seconds {params.seconds} --shards {params.shards} --store {params.store:q}"
        " --plan {params.plan:q} --call $(cat {params.call:q}) --out {output.prepared:q} 2>&1 | tee {log:q}"


rule fetch_clips:
    """Bring one shard of raw clips in their original encoding, and a ledger row for each."""
    input:
        inputs=plan.source["inputs"],
        prepared=plan.source["prepared"],
    output:
        ledger=f"{CLIPS}/ledger-{{shard}}.csv",
    log:
        f"{LOGS}/fetch_clips/{{shard}}.log",
    benchmark:
        f"{LOGS}/fetch_clips/{{shard}}.tsv"
    conda:
        env(plan.source["env"])
    resources:
        downloads=plan.source["downloads"],
    params:
        source=plan.source["name"],
        options=json.dumps(plan.source["choice"]),
        seconds=plan.source["clip_seconds"],
        of_kind=kind_options,
        shards=plan.source["shards"],
        store=f"{CLIPS}/store",
        version=prepare_version("fetch_clips", sources=plan.source["name"]),
        prepared=[f"--prepared {path}" for path in plan.source["prepared"]],
        ended_early=lambda wildcards: plan.ended_early(wildcards.shard),  # has it grown, it runs again
        plan=plan.path,
        call=plan.call_path,
    shell:
        "python -m scripts.prepare.fetch_clips --source {params.source} --options {params.options:q}"
        " --clip-seconds {params.seconds} --shard {wildcards.shard} --shards {params.shards}"
        " --store {params.store:q} {params.of_kind} {params.prepared}"
        " --plan {params.plan:q} --call $(cat {params.call:q}) --ledger {output.ledger:q} 2>&1 | tee {log:q}"


rule count_clips:
    """Say of how many clips what became; stop where there are too few to go on with."""
    input:
        ledgers=expand(f"{CLIPS}/ledger-{{shard}}.csv", shard=plan.shard_names),
    output:
        counts=f"{CLIPS}/clips.json",
    log:
        f"{LOGS}/count_clips.log",
    conda:
        env("loaders")
    params:
        version=prepare_version("count_clips"),
        folder=subpath(output.counts, parent=True),
        shards=plan.source["shards"],
        min_clips=plan.source["min_clips"],
    shell:
        "python -m scripts.prepare.count_clips --ledgers {params.folder:q} --shards {params.shards}"
        " --min-clips {params.min_clips} --out {output.counts:q} 2>&1 | tee {log:q}"
